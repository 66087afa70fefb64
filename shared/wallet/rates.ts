import { GatewayError } from '../base/errors.ts'

export type RateWindow = { limit: number; remaining: number; resetMs: number }
export type RateFigures = { requests: RateWindow | null; tokens: RateWindow | null }
type Limits = { rpmLimit: number | null; tpmLimit: number | null }

/** The rate-limit figures in a reply of the admission script, starting at index `at`. */
export function rateFigures(limits: Limits, reply: readonly (string | number)[], at: number): RateFigures {
  const window = (limit: number | null, i: number) =>
    limit ? { limit, remaining: Number(reply[i]), resetMs: Number(reply[i + 1]) } : null
  return { requests: window(limits.rpmLimit, at), tokens: window(limits.tpmLimit, at + 2) }
}

/** The rate-limit headers, in OpenAI's format (docs/keys-and-limits.md). */
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

/** The 429 of a request that exceeds its key's rate limits, or those of the organisation's test keys together. */
export function rateLimited(
  limits: Limits & { shared?: { rpm: number | null; tpm: number | null } | null },
  reply: readonly (string | number)[],
): GatewayError {
  const { shared } = limits
  const [rpm, tpm] = reply[7] && shared ? [shared.rpm, shared.tpm] : [limits.rpmLimit, limits.tpmLimit]
  const limit = reply[1] === 'requests' ? `${rpm} requests` : `${tpm} tokens`
  const who = reply[7] ? 'All test keys of this organisation together are' : 'This key is'
  const retryAfter = Math.max(1, Math.ceil(Number(reply[2]) / 1000))
  return new GatewayError('rate_limit_exceeded', `${who} limited to ${limit} per minute. Retry in ${retryAfter} s.`, {
    headers: { 'retry-after': String(retryAfter), ...rateHeaders(rateFigures(limits, reply, 3)) },
  })
}
