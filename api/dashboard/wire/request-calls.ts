/** A provider call: its response status, or the error. */
export type RequestCall = {
  provider: string
  model: string
  status: number | null
  fault: string | null
  duration_ms: number
  /** Milliseconds after the request began; null if unknown. */
  started_ms: number | null
  /** How long the gateway waited before it, and why; null = not at all. */
  pause: { ms: number; reason: 'backoff' | 'cooldown' | 'concurrency' } | null
  /** What the provider answered; null if it said nothing, or nothing that may be shown. */
  message: string | null
}
