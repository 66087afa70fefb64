import type { Periods, Sums, UsageGroup } from './usage.ts'

/** Types shared by the operator area's Home, Providers and Queues pages and their routes. */

/** Figures of all organisations. `known_cost_usd`: the part of the revenue (`cost_usd`) whose provider cost is known. */
export type ServiceSums = Sums & { provider_cost_usd: number; known_cost_usd: number }

/** GET /dashboard/api/operator/activity */
export type ServiceActivity = Periods & { values: (ServiceSums | null)[]; total: ServiceSums; before: ServiceSums }

/** GET /dashboard/api/operator/top-organisations */
export type TopOrganisations = { data: (UsageGroup & { requests: number; errors: number; cost_usd: number })[] }

export type IncidentKind =
  | 'circuit'
  | 'key'
  | 'failing'
  | 'paused'
  | 'instance'
  | 'no_worker'
  | 'housekeeping'
  | 'backlog'
  | 'refused_events'
  | 'reservations'
  | 'webhook'

export type Incident = {
  id: string
  kind: IncidentKind
  /** The process of an `instance`, the ids of organisation and endpoint of a `webhook`, with a bar between; otherwise of no use. */
  subject: string
  provider: string | null
  model: string | null
  message: string | null
  opened_at: string
  /** Null while it lasts. */
  closed_at: string | null
}

/** GET /dashboard/api/operator/incidents: those that last, then the others; newest first. */
export type IncidentsPage = { data: Incident[]; has_more: boolean; last_id: string | null }

/** Something that is wrong now, apart from incidents. */
export type SystemFault = 'no_worker' | 'migrations_pending'

/** GET /dashboard/api/operator/system */
export type SystemAnswer = {
  version: string
  /** Migrations of this version that the database lacks. */
  pending_migrations: string[]
  faults: SystemFault[]
  open_incidents: number
  /** Usage events not yet in the ledger. */
  ledger: { waiting: number; limit: number; oldest_at: string | null; refused: number }
  /** Processes that hold reservations, by their last heartbeat. */
  instances: { id: string; seen_at: string }[]
  workers: number
  jobs: { queued: number; in_progress: number; oldest_at: string | null }
  batches: number
  webhooks: { pending: number; oldest_at: string | null }
}

export type LastError = {
  at: string
  /** Since when every call failed, and how many; null = calls succeed again. */
  failing_since: string | null
  failures: number
  reason: string
  status: number | null
  message: string
}

/**
 * `recovering`: its circuit admits one probe, which the next request makes. `down`: it is not called, or every recent call failed.
 */
export type DeploymentState = 'healthy' | 'recovering' | 'cooldown' | 'down'

/** A model at a provider that has been called lately or failed. */
export type Deployment = {
  model: string
  state: DeploymentState
  circuit: 'closed' | 'open' | 'half_open'
  cooldown_ms: number
  first_byte_ms: number | null
  tokens_per_second: number | null
  last_error: LastError | null
}

/** One of a provider's API keys, by an id that does not reveal it. */
export type ProviderKey = {
  id: string
  state: 'accepted' | 'rate_limited' | 'refused'
  retry_in_ms: number
  last_error: LastError | null
}

export type ProviderState = 'not_configured' | 'paused' | 'down' | 'degraded' | 'recovering' | 'healthy'

/** The requests that ended at a provider within 24 hours, and the share of each hour's that did not fail. */
export type ProviderDay = {
  requests: number
  failed: number
  rate_limited: number
  success: (number | null)[]
  latency_p50_ms: number | null
  latency_p95_ms: number | null
}

export type Provider = {
  name: string
  protocol: string
  state: ProviderState
  pause: { by: string; at: string; reason: string | null } | null
  keys: ProviderKey[]
  models: number
  deployments: Deployment[]
  last_error: (LastError & { model: string | null }) | null
  day: ProviderDay | null
}

/** GET /dashboard/api/operator/providers, worst first */
export type ProvidersAnswer = { data: Provider[] }

/** POST …/providers/{provider}/test: what the provider answered to each API key. */
export type ProviderTest = {
  duration_ms: number
  data: { key: string; outcome: 'accepted' | 'failed' | 'unknown'; reason: string | null }[]
}

export type EntryState = 'failed' | 'delayed' | 'active' | 'waiting'

export type QueueState = Record<EntryState, number> & {
  name: string
  paused: boolean
  workers: number
  /** When the oldest waiting entry was added. */
  oldest_at: string | null
  /** Entries completed in each of the last minutes, the latest last. */
  completed: number[]
}

/** GET /dashboard/api/operator/queues */
export type QueuesAnswer = { data: QueueState[] }

export type QueueEntry = {
  id: string
  task: string
  /** The id of the job, batch or delivery; null for tasks without one. */
  of: string | null
  attempts: number
  /** Why its last attempt failed. */
  reason: string | null
  added_at: string
  /** When a delayed entry runs. */
  due_at: string | null
}

/** GET …/queues/{queue}/entries, oldest first */
export type QueueEntries = { data: QueueEntry[]; total: number }

/** POST …/queues/{queue}/retry and …/remove: entries that were changed, and those that could not be. */
export type EntriesChanged = { changed: number; skipped: number }

/** GET /dashboard/api/operator/unknown-names: what requests have that the gateway does not know, the latest first. */
export type UnknownNamesAnswer = { data: UnknownName[] }

export type UnknownName = {
  /** Fields and headers are not sent to providers; betas, and nested members and types, are. */
  kind: 'field' | 'header' | 'beta' | 'nested'
  name: string
  count: number
  first_at: string
  last_at: string
}
