import type { Role } from './person.ts'

/** What the pages of the operator area and their routes tell each other. */

export type OperatorOrganisation = {
  id: string
  name: string
  created_at: string
  balance_usd: number
  /** Booked in the present UTC month. */
  month_spend_usd: number
  members: number
  /** Keys that are not revoked. */
  keys: number
}

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
  amount_usd: number
  method: string | null
  /** Until then it counts but cannot be spent. */
  available_at: string | null
  created_at: string
}

/** GET …/organisations/{organisation}; POST …/credits answers with it, too. */
export type OrganisationDetail = OperatorOrganisation & {
  available_usd: number
  reserved_usd: number
  held_usd: number
  held_release_at: string | null
  people: { id: string; name: string; email: string; role: Role }[]
  provisioning_keys: ProvisioningKey[]
  /** The latest deposits. */
  credits: Credit[]
}

/** POST …/organisations/{organisation}/provisioning-keys: `secret` appears this once. */
export type NewProvisioningKey = { id: string; prefix: string; last4: string; secret: string }

export type OperatorPerson = {
  id: string
  name: string
  email: string
  email_verified: boolean
  operator: boolean
  created_at: string
  organisations: { id: string; name: string; role: Role }[]
}

/** GET /dashboard/api/operator/people */
export type PeoplePage = { data: OperatorPerson[]; has_more: boolean; last_id: string | null }

/** A model at a provider that is called, or must not be called now. */
export type Deployment = {
  model: string
  circuit: 'closed' | 'open' | 'half_open'
  /** For how long it is left alone. */
  rest_ms: number
  /** Calls of the last minutes; older ones count for less. */
  calls: number
  failed_calls: number
  first_byte_ms: number | null
  tokens_per_second: number | null
}

export type ProviderHealth = {
  name: string
  protocol: string
  /** `degraded`: some of what it serves rests or is being tried again; `resting`: nothing of what was called lately is called now. */
  state: 'not_configured' | 'available' | 'degraded' | 'resting'
  /** How many API keys it is called with, and how many of them must rest. */
  credentials: number
  resting_credentials: number
  models: number
  calls: number
  failed_calls: number
  /** Those with something to say. */
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
  /** Usage on its way into the ledger. */
  ledger: { waiting: number; oldest_at: string | null; refused: number }
  /** Processes that reserve money, by when they last said that they live. */
  instances: { id: string; seen_at: string }[]
  jobs: { queued: number; in_progress: number }
  batches: number
}
