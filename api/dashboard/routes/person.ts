import { GatewayError } from '../../../shared/base/errors.ts'
import type { Platform } from '../../../shared/platform.ts'
import type { Person } from '../../auth/accounts.ts'
import { hasSecondFactor } from '../../auth/second-factor-rule.ts'
import { endpoint } from '../../endpoint.ts'
import type { Me, MeAnswer, OutboxItem, PublicSettings, Role } from '../wire/person.ts'

const maxInvitations = 20

const me = endpoint({
  method: 'get',
  path: '/dashboard/api/me',
  tag: 'Dashboard',
  summary: 'Retrieve the signed-in person and their memberships',
  // Without a session 200 as well: browsers write every 401 to the console, also those that a first visit expects.
  access: 'visitor',
  answers: { 200: { description: 'The person; null without a session.' } },
  async handle({ services, person: visitor }): Promise<MeAnswer> {
    const person: Person | undefined = visitor
    return { person: person ? await describe(services, person) : null }
  },
})

async function describe({ db, clock }: Platform, person: Person): Promise<Me> {
  const pending = { email: person.email, status: 'pending', expiresAt: { gt: new Date(clock.now()) } }
  const [memberships, invitations] = await Promise.all([
    db.membership.findMany({
      where: { userId: person.id },
      include: {
        organisation: { select: { name: true, requireTwoFactor: true, suspendedAt: true, suspensionReason: true } },
      },
      orderBy: { createdAt: 'asc' },
    }),
    person.emailVerified
      ? db.invitation.findMany({
          where: pending,
          include: { organisation: { select: { name: true } } },
          take: maxInvitations,
        })
      : [],
  ])
  return {
    id: person.id,
    name: person.name,
    email: person.email,
    email_verified: person.emailVerified,
    operator: person.operator,
    two_factor: person.twoFactorEnabled,
    has_second_factor: await hasSecondFactor(db, person),
    has_password: (await db.account.count({ where: { userId: person.id, providerId: 'credential' } })) > 0,
    organisations: memberships.map(({ organisationId, organisation, role }) => ({
      id: organisationId,
      name: organisation.name,
      role: role as Role,
      require_two_factor: organisation.requireTwoFactor,
      suspended: organisation.suspendedAt !== null,
      ...(organisation.suspensionReason !== null && { suspension_reason: organisation.suspensionReason }),
    })),
    invitations: invitations.map(({ id, organisation, role, expiresAt }) => ({
      id,
      organisation_name: organisation.name,
      role,
      expires_at: expiresAt.toISOString(),
    })),
  }
}

const settings = endpoint({
  method: 'get',
  path: '/dashboard/api/settings',
  tag: 'Dashboard',
  summary: 'Retrieve the settings of the sign-in page',
  access: 'public',
  answers: { 200: { description: 'The settings for visitors.' } },
  handle({ services: { config } }): PublicSettings {
    const { signUp, oidc, email, stripe, supportContact } = config
    return {
      sign_up: signUp,
      oidc: oidc?.name ?? null,
      outbox: email.outbox && email.smtpUrl === null,
      payments: stripe !== null,
      contact: supportContact,
    }
  },
})

const outbox = endpoint({
  method: 'get',
  path: '/dashboard/api/outbox',
  tag: 'Dashboard',
  summary: 'List emails in the development outbox',
  access: 'public',
  answers: { 200: { description: 'The latest, newest first.' } },
  errors: ['not_found'],
  async handle({ services: { mailer } }): Promise<{ data: OutboxItem[] }> {
    const mails = await mailer.outbox()
    if (!mails) throw new GatewayError('not_found', 'The outbox is not enabled.')
    const data = mails.map(({ to, subject, text, link, sentAt }) => ({
      to,
      subject,
      text,
      link: link ?? null,
      sent_at: sentAt,
    }))
    return { data }
  },
})

export const personRoutes = [me, settings, outbox]
