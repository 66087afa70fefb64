import type { Mailer } from '../../shared/io/mail.ts'

type Person = { email: string; name: string }
type Invited = {
  id: string
  email: string
  role: string
  organization: { name: string }
  inviter: { user: { name: string; email: string } }
}

/** The emails of accounts; each holds one address of the dashboard. */
export function emails(mailer: Mailer, publicUrl: string) {
  const page = (path: string, token?: string) =>
    `${publicUrl}/dashboard/${path}${token === undefined ? '' : `?token=${encodeURIComponent(token)}`}`
  return {
    // To an address that anybody may have typed in, with no word of theirs.
    verification: ({ email }: Pick<Person, 'email'>, token: string) =>
      mailer.post({
        to: email,
        subject: 'Confirm your email address',
        text: `Hello,\n\nConfirm that this address is yours. API keys can be created afterwards. The link holds for 24 hours.\n\nIf you did not sign up, ignore this email.`,
        link: { label: 'Confirm the address', url: page('verify-email', token) },
      }),
    passwordReset: ({ email, name }: Person, token: string) =>
      mailer.post({
        to: email,
        subject: 'Choose a new password',
        text: `Hello ${name},\n\nSomebody asked for a new password for your account. The link holds for one hour and works once.\n\nIf it was not you, ignore this email: your password stays as it is.`,
        link: { label: 'Choose a new password', url: page('reset-password', token) },
      }),
    emailChange: ({ email, name }: Person, newEmail: string, token: string) =>
      mailer.post({
        to: email,
        subject: 'Change of your email address',
        text: `Hello ${name},\n\nSomebody asked to change the address of your account to ${newEmail}. If it was you, allow it; the new address is asked next.\n\nIf it was not you, ignore this email and change your password.`,
        link: { label: 'Allow the change', url: page('verify-email', token) },
      }),
    invitation: ({ id, email, role, organization, inviter }: Invited) =>
      mailer.post({
        to: email,
        subject: `Join ${organization.name} on Headgate`,
        text: `${inviter.user.name} (${inviter.user.email}) invites you to ${organization.name} as ${role}. The invitation holds for seven days; sign in or sign up with this address to accept it.`,
        link: { label: 'See the invitation', url: page(`invitations/${id}`) },
      }),
  }
}
