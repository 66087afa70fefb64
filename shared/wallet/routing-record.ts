/** One model at a provider that a decision considered; money is nano-dollars. */
export type Candidate = {
  model: string
  provider: string | null
  score: number | null
  /** The catalog's quality for the class of the request's task. */
  quality: number | null
  /** What feedback added to it; absent in older records. */
  learned?: number
  estimatedCostNano: number | null
  latencyMs: number | null
  excluded: string | null
}

/** One call to a provider: its status, or its fault. */
export type RoutedAttempt = {
  provider: string
  model: string
  status: number | null
  fault: string | null
  durationMs: number
  /** When it began, in milliseconds after the run, of jobs after their creation; absent in older records. */
  startedMs?: number
  /** How long the gateway waited before it, and why; absent = not at all. */
  pause?: Pause
  /** What the provider answered, without anything that looks like a credential. */
  message?: string
}

/**
 * A wait before a call: a backoff after a failure, the cooldown of a provider, or the limit of concurrent delayed work.
 */
export type Pause = { ms: number; reason: 'backoff' | 'cooldown' | 'concurrency' }

/**
 * The routing details of a request in the log: the reason and the candidates (automatic routing only), the first attempts (only
 * when one failed), the batch that it is a line of, and what the response cache did for it (keys with the cache only).
 */
export type RoutingRecord = {
  reason?: string
  candidates?: readonly Candidate[]
  attempts?: readonly RoutedAttempt[]
  batch?: string
  guardrails?: GuardRecord
  /** `stored`: kept for equal requests; `miss`: not, as it was not whole or too large; `bypass`: the cache was not asked. */
  cache?: 'stored' | 'miss' | 'bypass'
}

/** What guardrails did with the texts of one side; absent members: nothing. */
type GuardedSide = {
  /** How many values were masked. */
  masked?: number
  webhook?: 'allowed' | 'replaced' | 'failed_open' | 'failed_closed' | 'blocked'
  /** The detector that blocked it. */
  blocked?: string
}
/** The sides of a request that guardrails checked. */
export type GuardRecord = { input?: GuardedSide; output?: GuardedSide }

/** Maximum candidates and attempts that are logged. */
export const maxCandidates = 8
export const maxAttempts = 10
