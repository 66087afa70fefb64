/** One model at a provider that a decision considered; money is nano-dollars. */
export type Candidate = {
  model: string
  provider: string | null
  score: number | null
  quality: number | null
  estimatedCostNano: number | null
  latencyMs: number | null
  excluded: string | null
}

/** One call to a provider: what it answered with, or what was wrong. */
export type RoutedAttempt = {
  provider: string
  model: string
  status: number | null
  fault: string | null
  durationMs: number
}

/**
 * What the request log tells of a request beside its figures, where there is anything to tell: why it went where it went
 * (choices of ours only), who was tried (where somebody failed; the first ones), and the batch whose line it was.
 */
export type RoutingRecord = {
  reason?: string
  candidates?: readonly Candidate[]
  attempts?: readonly RoutedAttempt[]
  batch?: string
}

/** Of the candidates and of the calls no more than these are kept. */
export const mostCandidates = 8
export const mostAttempts = 10
