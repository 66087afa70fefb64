/** Half-life of the counts, and the expiry of records without new observations. */
export const halfLifeMs = 60_000
export const forgetAfterMs = 600_000

/** The shared records, and the last failure of each deployment and API key: those outlive the records. */
export const healthKey = 'health'
export const errorsKey = 'health:errors'

/** Redis keys of the half-open probes under way. */
export const probePrefix = 'health:trial:'
/** The tag of all keys of health figures in a Redis Cluster. */
export const healthTag = 'health'

/** The shared record of one deployment or API key; times are Redis' (`HealthRecords.redisNowMs`). */
export type HealthRecord = {
  atMs: number
  openUntilMs: number
  pausedUntilMs: number
  successes: number
  failures: number
  firstByteMs: number
  tokensPerSecond: number
  /** While another process runs the half-open probe. */
  probedUntilMs: number
}

/** What this process observed since the last exchange. */
export type Observations = {
  successes: number
  failures: number
  /** Failures since the last success. */
  consecutiveFailures: number
  /** First bytes received. */
  firstBytes: number
  /** -1 = none. */
  firstByteMs: number
  /** -1 = none. */
  tokensPerSecond: number
  /** The cooldown of a failure. */
  cooldownMs: number
  /** The pause that the provider requested. */
  pauseMs: number
  /** The last failure, as JSON; '' = none. */
  error: string
}

export const emptyRecord: Omit<HealthRecord, 'atMs'> = {
  openUntilMs: 0,
  pausedUntilMs: 0,
  successes: 0,
  failures: 0,
  firstByteMs: -1,
  tokensPerSecond: -1,
  probedUntilMs: 0,
}

export const noObservations: Observations = {
  successes: 0,
  failures: 0,
  consecutiveFailures: 0,
  firstBytes: 0,
  firstByteMs: -1,
  tokensPerSecond: -1,
  cooldownMs: 0,
  pauseMs: 0,
  error: '',
}

export function mean(soFar: number, next: number, count: number): number {
  return soFar < 0 ? next : soFar + (next - soFar) / count
}

/** Whether Redis has dropped a record, after a time without observations, when no pause is in force. */
export function isForgotten({ atMs, pausedUntilMs }: HealthRecord, nowMs: number): boolean {
  return nowMs - atMs > forgetAfterMs && pausedUntilMs <= nowMs
}
