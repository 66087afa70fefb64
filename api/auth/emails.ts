import { quoteName } from '../../shared/base/quote-name.ts'
import type { Mailer } from '../../shared/io/mail.ts'

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
 * The emails of accounts. Each contains at most one URL, a dashboard page. The recipient may not know the person who
 * triggered the email, so other people's text appears only as quoted names.
 */
export function emails(mailer: Mailer, publicUrl: string) {
  const page = (path: string, token?: string) =>
    `${publicUrl}/dashboard/${path}${token === undefined ? '' : `?token=${encodeURIComponent(token)}`}`
  return {
    // The recipient address is unverified input: the email contains no user-supplied text.
    verification: ({ email }: Pick<Person, 'email'>, token: string) =>
      mailer.post({
        to: email,
        subject: 'Confirm your email address',
        text: `Hello,\n\nConfirm your email address to be able to create live keys, add credits and invite others. The link expires in 24 hours.\n\nIf you did not sign up, ignore this email.`,
        link: { label: 'Confirm address', url: page('verify-email', token) },
      }),
    passwordReset: ({ email }: Pick<Person, 'email'>, token: string) =>
      mailer.post({
        to: email,
        subject: 'Reset your password',
        text: `Hello,\n\nWe received a request to reset the password of your account. The link expires in one hour and works once.\n\nIf you did not request this, ignore this email: your password stays unchanged.`,
        link: { label: 'Reset password', url: page('reset-password', token) },
      }),
    emailChange: ({ email }: Pick<Person, 'email'>, newEmail: string, token: string) =>
      mailer.post({
        to: email,
        subject: 'Change of your email address',
        text: `Hello,\n\nWe received a request to change the email address of your account to ${newEmail}. If you requested this, approve it; we then send a confirmation to the new address.\n\nIf you did not request this, ignore this email and change your password.`,
        link: { label: 'Approve the change', url: page('verify-email', token) },
      }),
    passwordChanged: ({ email }: Pick<Person, 'email'>) =>
      mailer.post({
        to: email,
        subject: 'The password of your account changed',
        text: `Hello,\n\nThe password of your account was changed. Earlier links to replace it no longer work.\n\nIf this was not you, replace the password now by a link that is sent to this address.`,
        link: { label: 'Replace the password', url: page('forgot-password') },
      }),
    secondFactorChanged: ({ email }: Pick<Person, 'email'>, what: string) =>
      mailer.post({
        to: email,
        subject: 'Two-factor sign-in of your account changed',
        text: `Hello,\n\n${what}.\n\nIf this was not you, change your password now and review two-factor sign-in and passkeys on your account page.`,
        link: { label: 'Open your account', url: page('account') },
      }),
    invitation: ({ id, email, role, organization, inviter }: Invited) =>
      mailer.post({
        to: email,
        subject: `Invitation to the organisation ${quoteName(organization.name)} on Headgate`,
        text: `Hello,\n\n${inviter.user.email}, who uses the name ${quoteName(inviter.user.name)}, invites you to the organisation ${quoteName(organization.name)} on Headgate as ${roleNames[role] ?? 'a member'}. Both names were chosen by the sender.\n\nThe invitation expires in seven days. Sign in or sign up with this email address to accept it. If you do not know the sender, ignore this email.`,
        link: { label: 'View the invitation', url: page(`invitations/${id}`) },
      }),
  }
}
