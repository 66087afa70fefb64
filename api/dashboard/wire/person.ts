/** Types shared by the dashboard's pages and its routes. */

import type { Role } from '../../../shared/base/roles.ts'

export type { Role }

export type OrganisationSummary = {
  id: string
  name: string
  role: Role
  /** Whether members who sign in with a password must have an authenticator app. */
  require_two_factor: boolean
  /** Whether an operator suspended it: its data can only be read. */
  suspended: boolean
  /** Why; absent while it is not suspended. */
  suspension_reason?: string
}

/** The answer of GET /dashboard/api/me; `person` is null without a session. */
export type MeAnswer = { person: Me | null }

export type Me = {
  id: string
  name: string
  email: string
  email_verified: boolean
  operator: boolean
  /** Whether an authenticator app is in use. */
  two_factor: boolean
  /** Whether that, or a sign-in method without a password, satisfies an organisation that requires two factors. */
  has_second_factor: boolean
  /** False for a person who only signs in through other providers. */
  has_password: boolean
  organisations: OrganisationSummary[]
  /** Pending invitations for the person's address. */
  invitations: { id: string; organisation_name: string; role: string; expires_at: string }[]
}

/** PATCH /dashboard/api/organisations/{organisation}/security */
export type SecurityAnswer = { data: { require_two_factor: boolean } }

/** GET /dashboard/api/settings, also for visitors. */
export type PublicSettings = {
  sign_up: 'open' | 'invitation'
  /** The name of the single sign-on provider, if configured. */
  oidc: string | null
  /** Whether emails can be read at /dashboard/outbox (development only). */
  outbox: boolean
  /** Whether credits can be bought by card and ACH. */
  payments: boolean
  /** An email address or URL of the operator; null if none is configured. */
  contact: string | null
}

/** GET /dashboard/api/outbox */
export type OutboxItem = {
  to: string
  subject: string
  text: string
  link: { label: string; url: string } | null
  sent_at: string
}
