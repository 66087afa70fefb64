import type { Mailer } from '../../shared/io/mail.ts'
import { quoted } from './names.ts'

type Person = { email: string; name: string }
type Invited = {
  id: string
  email: string
  role: string
  organization: { name: string }
  inviter: { user: { name: string; email: string } }
}

const roleNames: Record<string, string> = { member: 'a member', admin: 'an admin', owner: 'an owner' }

/**
 * The emails of accounts; each holds at most one address of the dashboard. Whoever gets one may be a stranger to whoever caused
 * it: the only words of others are quoted names.
 */
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
    passwordReset: ({ email }: Pick<Person, 'email'>, token: string) =>
      mailer.post({
        to: email,
        subject: 'Choose a new password',
        text: `Hello,\n\nSomebody asked for a new password for your account. The link holds for one hour and works once.\n\nIf it was not you, ignore this email: your password stays as it is.`,
        link: { label: 'Choose a new password', url: page('reset-password', token) },
      }),
    emailChange: ({ email }: Pick<Person, 'email'>, newEmail: string, token: string) =>
      mailer.post({
        to: email,
        subject: 'Change of your email address',
        text: `Hello,\n\nSomebody asked to change the address of your account to ${newEmail}. If it was you, allow it; the new address is asked next.\n\nIf it was not you, ignore this email and change your password.`,
        link: { label: 'Allow the change', url: page('verify-email', token) },
      }),
    secondFactorChanged: ({ email }: Pick<Person, 'email'>, what: string) =>
      mailer.post({
        to: email,
        subject: 'Two-factor sign-in of your account changed',
        text: `Hello,\n\n${what}.\n\nIf it was not you, change your password now and look at two-factor sign-in and passkeys on your account page.`,
        link: { label: 'See your account', url: page('account') },
      }),
    invitation: ({ id, email, role, organization, inviter }: Invited) =>
      mailer.post({
        to: email,
        subject: `Invitation to the organisation ${quoted(organization.name)} on Headgate`,
        text: `Hello,\n\n${inviter.user.email}, who goes by the name ${quoted(inviter.user.name)}, invites you to the organisation ${quoted(organization.name)} on Headgate as ${roleNames[role] ?? 'a member'}. The names are their own choice.\n\nThe invitation holds for seven days; sign in or sign up with this address to accept it. If you do not know them, ignore this email.`,
        link: { label: 'See the invitation', url: page(`invitations/${id}`) },
      }),
  }
}
