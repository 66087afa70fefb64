import { newId } from '../base/ids.ts'
import type { Platform } from '../platform.ts'
import { storable } from '../wallet/storable-json.ts'

const incidentKinds = [
  /** The circuit of a deployment is not closed. */
  'circuit',
  /** A provider refuses an API key, or its account has no money left. */
  'key',
  /** A quarter of the requests at a provider failed, and at least five, within five minutes. */
  'failing',
  /** An operator paused a provider. */
  'paused',
  /** A process has stopped sending heartbeats. */
  'instance',
  /** No worker was running. */
  'no_worker',
  /** Tasks of housekeeping are overdue. */
  'housekeeping',
  /** Unbooked usage events have reached half of their limit. */
  'backlog',
  /** PostgreSQL refused usage events. */
  'refused_events',
  /** Requests for a model at a provider cost more than was reserved for them. */
  'reservations',
  /** The latest attempts at a webhook endpoint of an organisation all failed. */
  'webhook',
  /** The operator's own export of logs fails, or is paused because it did. */
  'log_export',
] as const
export type IncidentKind = (typeof incidentKinds)[number]

/** Something that is wrong now. */
export type Condition = {
  kind: IncidentKind
  /** What it is about: only one incident of a kind is open for each. */
  subject: string
  provider?: string
  model?: string
  /** The latest error. */
  message: string | null
  /** When it began; absent = now. */
  sinceMs?: number
}

type Deps = Pick<Platform, 'db' | 'clock'>

/** Maximum conditions that are recorded at once: an outage of everything is one incident for each deployment. */
const maxConditions = 500

/**
 * Brings the incidents of some kinds up to date with what is wrong now: opens those that are new, and closes those that are over.
 * Idempotent, and safe on several processes.
 */
export async function reconcileIncidents(
  { db, clock }: Deps,
  kinds: readonly IncidentKind[],
  conditions: readonly Condition[],
): Promise<void> {
  const nowMs = clock.now()
  const rows = conditions
    .slice(0, maxConditions)
    .map(({ sinceMs = nowMs, provider, model, message, ...condition }) => ({
      ...condition,
      id: newId('inc'),
      provider: provider ?? null,
      model: model ?? null,
      message: message && storable('message', message),
      at: Math.min(sinceMs, nowMs),
    }))
  const json = JSON.stringify(rows)
  const now = new Date(nowMs)
  await db.$transaction([
    db.$executeRaw`
      INSERT INTO incidents (id, kind, subject, provider, model, message, opened_at, seen_at)
      SELECT id, kind, subject, provider, model, message, to_timestamp(at / 1000.0), ${now}
      FROM jsonb_to_recordset(${json}::jsonb)
        AS c(id text, kind text, subject text, provider text, model text, message text, at float8)
      ON CONFLICT (kind, subject) WHERE closed_at IS NULL
      DO UPDATE SET seen_at = excluded.seen_at, message = coalesce(excluded.message, incidents.message)`,
    db.$executeRaw`
      UPDATE incidents i SET closed_at = ${now} WHERE closed_at IS NULL AND kind = ANY(${[...kinds]})
        AND NOT EXISTS (
          SELECT 1 FROM jsonb_to_recordset(${json}::jsonb) AS c(kind text, subject text)
          WHERE c.kind = i.kind AND c.subject = i.subject)`,
  ])
}

/** Records something that is over already. */
export async function recordPast({ db }: Deps, condition: Condition, fromMs: number, toMs: number): Promise<void> {
  const { kind, subject, message } = condition
  const [openedAt, closedAt] = [new Date(fromMs), new Date(toMs)]
  const data = { id: newId('inc'), kind, subject, message, openedAt, seenAt: closedAt, closedAt }
  await db.incident.create({ data })
}
