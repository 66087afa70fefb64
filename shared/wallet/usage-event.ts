/** One finished request as it travels on the `usage` stream from Redis to Postgres. Money is nano-dollars. */
export type UsageEvent = {
  id: string
  at: number
  org: string
  key: string
  month: string
  environment: 'live' | 'test'
  requestId: string
  upstreamId: string | null
  kind: string
  model: string
  provider: string | null
  mode: string | null
  status: number
  errorCode: string | null
  finishReason: string | null
  streamed: boolean
  attempts: number
  promptTokens: number
  completionTokens: number
  cachedTokens: number
  reasoningTokens: number
  estimated: boolean
  cost: number
  /** The key's cap when the request was admitted; null = none. */
  cap: number | null
  firstByteMs: number | null
  durationMs: number
}
