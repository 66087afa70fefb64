import type { Role } from './person.ts'

/** Types shared by the pages of the operator area and their routes. */

export type OperatorOrganisation = {
  id: string
  name: string
  created_at: string
  balance_usd: number
  /** Booked in the current UTC month. */
  month_spend_usd: number
  members: number
  /** Number of keys that are not revoked. */
  keys: number
  suspended: boolean
}

/** Since when an organisation or a person is suspended, and why; null = not suspended. */
export type Suspension = { at: string; reason: string } | null

/** GET /dashboard/api/operator/organisations */
export type OrganisationsPage = { data: OperatorOrganisation[]; has_more: boolean; last_id: string | null }

export type ProvisioningKey = {
  id: string
  prefix: string
  last4: string
  created_at: string
  revoked_at: string | null
}

export type CreditMethod = 'grant' | 'card' | 'ach'

export type Credit = {
  id: string
  kind: 'deposit' | 'adjustment'
  /** Negative for debits and returned payments. */
  amount_usd: number
  method: string | null
  /** The reason of an adjustment. */
  note: string | null
  /** Until then it counts towards the balance but is not available. */
  available_at: string | null
  created_at: string
}

/** GET …/organisations/{organisation}; also the response of POST …/credits and …/adjustments. */
export type OrganisationDetail = OperatorOrganisation & {
  available_usd: number
  reserved_usd: number
  held_usd: number
  held_release_at: string | null
  suspension: Suspension
  people: { id: string; name: string; email: string; role: Role }[]
  provisioning_keys: ProvisioningKey[]
  /** The latest deposits and adjustments. */
  credits: Credit[]
}

/** POST …/organisations/{organisation}/provisioning-keys: `secret` is shown only once. */
export type NewProvisioningKey = { id: string; prefix: string; last4: string; secret: string }

export type OperatorPerson = {
  id: string
  name: string
  email: string
  email_verified: boolean
  operator: boolean
  created_at: string
  suspension: Suspension
  organisations: { id: string; name: string; role: Role }[]
}

/** GET /dashboard/api/operator/people */
export type PeoplePage = { data: OperatorPerson[]; has_more: boolean; last_id: string | null }
