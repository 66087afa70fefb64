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

/** A model at a provider, with its circuit breaker state. */
export type Deployment = {
  model: string
  circuit: 'closed' | 'open' | 'half_open'
  /** Remaining cooldown. */
  cooldown_ms: number
  /** Calls of the last minutes; older calls weigh less. */
  calls: number
  failed_calls: number
  first_byte_ms: number | null
  tokens_per_second: number | null
}

export type ProviderHealth = {
  name: string
  protocol: string
  /** `degraded`: some recently called models are in cooldown or half-open; `in_cooldown`: all of them are in cooldown. */
  state: 'not_configured' | 'available' | 'degraded' | 'in_cooldown'
  /** Number of its API keys, and how many of them are in cooldown. */
  credentials: number
  credentials_in_cooldown: number
  models: number
  calls: number
  failed_calls: number
  /** Models with recent calls or a cooldown. */
  deployments: Deployment[]
}

/** GET /dashboard/api/operator/providers */
export type ProvidersAnswer = { data: ProviderHealth[] }

export type QueueState = {
  name: string
  waiting: number
  active: number
  delayed: number
  failed: number
  paused: boolean
  workers: number
}

/** GET /dashboard/api/operator/system */
export type SystemAnswer = {
  queues: QueueState[]
  /** Usage events not yet in the ledger. */
  ledger: { waiting: number; oldest_at: string | null; refused: number }
  /** Processes that hold reservations, by their last heartbeat. */
  instances: { id: string; seen_at: string }[]
  jobs: { queued: number; in_progress: number }
  batches: number
}
