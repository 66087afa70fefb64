/** Facts from a response's headers and its end. */
export type Facts = {
  generationId: string | null
  /** Whether a test key was used. */
  isSandbox: boolean
  model: string | null
  provider: string | null
  /** Null if the response does not state it; then it is read from the request log. */
  costUsd: number | null
  durationMs: number
  tokens?: { prompt: number; completion: number } | undefined
}

/** Reads the facts in a response's headers. */
export function factsOf({ headers }: Response, startedMs: number): Facts {
  const cost = headers.get('x-gateway-cost-usd')
  return {
    generationId: headers.get('x-generation-id'),
    isSandbox: headers.get('x-sandbox') === 'true',
    model: headers.get('x-gateway-model'),
    provider: headers.get('x-gateway-provider'),
    costUsd: cost === null ? null : Number(cost),
    durationMs: performance.now() - startedMs,
  }
}
