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
  | 'log_export'

/** What is told as one: the faults of a provider, or of the service, at one time. */
export type Incident = {
  id: string
  /** In plain words. */
  title: string
  kinds: IncidentKind[]
  provider: string | null
  /** At most 20. */
  models: string[]
  /** The latest error. */
  message: string | null
  opened_at: string
  /** Null while it lasts. */
  closed_at: string | null
}

/** One fault of an incident: a model that is not called, a refused key. */
export type IncidentRecord = {
  id: string
  kind: IncidentKind
  /** The process of an `instance`, the ids of organisation and endpoint of a `webhook`, with a bar between; otherwise of no use. */
  subject: string
  model: string | null
  message: string | null
  opened_at: string
  closed_at: string | null
}

/** Who had failed requests; the largest first. */
export type Affected = {
  organisations: AffectedRow[]
  keys: (AffectedRow & { organisation_id: string; last4: string })[]
  /** All requests that failed. */
  failed: number
}
/** `share`: of all failed requests. */
export type AffectedRow = { id: string; name: string; requests: number; failed: number; share: number }

export type NotificationChannel = 'email' | 'webhook' | 'slack'

/** A message to operators. */
export type IncidentMessage = {
  id: string
  incident_id: string | null
  event: 'opened' | 'resolved' | 'test'
  channel: NotificationChannel
  target: string
  status: 'pending' | 'delivered' | 'failed' | 'skipped'
  attempts: number
  /** The last error, or why it was not sent. */
  error: string | null
  created_at: string
  ended_at: string | null
  /** When a pending message is sent again; null for others. */
  next_attempt_at: string | null
}

/** GET /dashboard/api/operator/incidents/{id} */
export type IncidentDetail = Incident & {
  records: IncidentRecord[]
  /** Null for an incident without a provider. */
  affected: Affected | null
  messages: IncidentMessage[]
}

/** GET, POST …/notifications/secret; `previous_valid_until`: until when the previous secret signs as well. */
export type NotificationsSecret = { secret: string; previous_valid_until: string | null }

/** GET /dashboard/api/operator/notifications */
export type NotificationsAnswer = {
  settings: {
    email_operators: boolean
    emails: string[]
    webhook_url: string | null
    slack_end: string | null
    quiet_from: string | null
    quiet_to: string | null
    time_zone: string
    topics: ('providers' | 'service' | 'reservations' | 'webhooks')[]
  }
  /** The addresses that emails go to now. */
  recipients: string[]
  /** Whether emails can be sent: SMTP_URL is set. */
  has_mail_server: boolean
  /** The latest. */
  messages: IncidentMessage[]
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
  /** The oldest of those. */
  first_incident: { id: string; title: string; opened_at: string } | null
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

/** One of a provider's API keys, by an id that does not reveal it. `label`: its position among them and its last characters. */
export type ProviderKey = {
  id: string
  label: string
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
  /** `until` null = until an operator resumes it. */
  pause: { by: string; at: string; reason: string | null; until: string | null } | null
  /** The models that no other provider serves now: at most 50, and how many there are. Of one provider only. */
  only_provider_of: string[]
  only_provider_count: number
  keys: ProviderKey[]
  /** Keys that were added at run time are used in place of those of the environment. */
  added_keys: AddedKey[]
  /** Whether keys can be added: not for a server, which has its own, nor for a cloud without regions. */
  takes_keys: boolean
  models: number
  deployments: Deployment[]
  last_error: (LastError & { model: string | null }) | null
  day: ProviderDay | null
}

/** An API key of a provider that was added at run time; `last4` is empty for a short one. */
export type AddedKey = { id: string; last4: string; added_at: string }

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

/** GET /dashboard/api/operator/find. `path`: its page below /dashboard. */
export type FindAnswer = { data: { kind: string; label: string; note: string | null; path: string }[] }
