import { GatewayError } from '../base/errors.ts'

export type Window = { limit: number; remaining: number; resetMs: number }
export type RateFigures = { requests: Window | null; tokens: Window | null }
type Limits = { rpmLimit: number | null; tpmLimit: number | null }

/** The figures of a verdict of the admission script, which begin at `at`. */
export function rateFigures(spender: Limits, reply: readonly (string | number)[], at: number): RateFigures {
  const window = (limit: number | null, i: number) =>
    limit ? { limit, remaining: Number(reply[i]), resetMs: Number(reply[i + 1]) } : null
  return { requests: window(spender.rpmLimit, at), tokens: window(spender.tpmLimit, at + 2) }
}

/** The rate-limit headers of contract §1, as OpenAI writes them. */
export function rateHeaders({ requests, tokens }: RateFigures): Record<string, string> {
  const headers: Record<string, string> = {}
  if (requests) {
    headers['x-ratelimit-limit-requests'] = String(requests.limit)
    headers['x-ratelimit-remaining-requests'] = String(requests.remaining)
    headers['x-ratelimit-reset-requests'] = `${requests.resetMs / 1000}s`
  }
  if (tokens) {
    headers['x-ratelimit-limit-tokens'] = String(tokens.limit)
    headers['x-ratelimit-remaining-tokens'] = String(tokens.remaining)
    headers['x-ratelimit-reset-tokens'] = `${tokens.resetMs / 1000}s`
  }
  return headers
}

/** The refusal of a request that its key's limits do not allow now. */
export function rateLimited(spender: Limits, reply: readonly (string | number)[]): GatewayError {
  const what = reply[1] === 'requests' ? `${spender.rpmLimit} requests` : `${spender.tpmLimit} tokens`
  const retryAfter = Math.max(1, Math.ceil(Number(reply[2]) / 1000))
  return new GatewayError(
    'rate_limit_exceeded',
    `This key is limited to ${what} per minute. Retry in ${retryAfter} s.`,
    {
      headers: { 'retry-after': String(retryAfter), ...rateHeaders(rateFigures(spender, reply, 3)) },
    },
  )
}
