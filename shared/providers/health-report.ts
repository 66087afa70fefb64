import type { Redis } from '../io/redis.ts'
import { sharedTag } from '../io/redis-shards.ts'
import { errorsKey, healthKey, healthTag } from './health-records.ts'

/**
 * The last failure of a deployment or API key, until the next one. It outlives the health record, so that a provider that
 * failed before its traffic stopped does not look healthy.
 */
export type LastError = {
  atMs: number
  /** Since when every call failed. */
  sinceMs: number
  /** Failures since the last success. */
  failures: number
  /** When a call succeeded again; null = not since. */
  recoveredMs: number | null
  reason: string
  status: number | null
  message: string
  /** The id of the API key that was used. */
  key: string
}

/** What all processes know about a deployment, or one of a provider's API keys (`model` null: for all its models). */
export type ReportedHealth = {
  provider: string
  model: string | null
  key: string | null
  circuit: 'closed' | 'open' | 'half_open'
  /** When the circuit opened last; null = not within the last minutes. */
  openedMs: number | null
  /** How long it is not called, by its circuit or because the provider requested a pause. */
  cooldownMs: number
  lastError: LastError | null
}

type Stored = { open_until?: number; rest_until?: number; opened_at?: number }
type StoredError = {
  at: number
  since: number
  failures: number
  recovered_at?: number
  reason: string
  status?: number
  message: string
  key: string
}

/** Reads the health of every deployment and API key that has a record or ever failed. Times are those of Redis. */
export async function readHealth(redis: Redis): Promise<{ nowMs: number; reports: ReportedHealth[] }> {
  const tag = sharedTag(redis, healthTag)
  const [[seconds, micros], records, errors] = await Promise.all([
    redis.time(),
    redis.hgetall(tag + healthKey),
    redis.hgetall(tag + errorsKey),
  ])
  const nowMs = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000)
  const ids = new Set([...Object.keys(records), ...Object.keys(errors)])
  return { nowMs, reports: Array.from(ids, id => reportOf(id, records[id], errors[id], nowMs)) }
}

function reportOf(id: string, record: string | undefined, error: string | undefined, nowMs: number): ReportedHealth {
  const [provider = '', model = '', key] = id.split('|')
  const { open_until: openUntil = 0, rest_until: restUntil = 0, opened_at: openedAt = 0 } = parse<Stored>(record)
  return {
    provider,
    model: model === '*' ? null : model,
    key: key ?? null,
    circuit: openUntil === 0 ? 'closed' : openUntil > nowMs ? 'open' : 'half_open',
    openedMs: openedAt || null,
    cooldownMs: Math.max(0, openUntil - nowMs, restUntil - nowMs),
    lastError: error === undefined ? null : errorOf(parse<StoredError>(error)),
  }
}

function parse<T extends object>(text: string | undefined): Partial<T> & T {
  return (text === undefined ? {} : JSON.parse(text)) as T
}

function errorOf(error: StoredError): LastError {
  const { at, since, failures, recovered_at: recovered, reason, status, message, key } = error
  return {
    atMs: at,
    sinceMs: since,
    failures,
    recoveredMs: recovered || null,
    reason,
    status: status || null,
    message,
    key,
  }
}
