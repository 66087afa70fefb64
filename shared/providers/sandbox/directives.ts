import { setTimeout as sleep } from 'node:timers/promises'
import { ProviderError } from '../provider-error.ts'
import { errorResponse, type SandboxResponse } from './chat/response.ts'

const maxWaitMs = 60_000
const failureMessage = 'The sandbox fails, as the input asks.'
const rateLimitMessage = 'The sandbox is rate limited, as the input asks.'
const retryAfterMs = 1_000

type Directive = { answer: SandboxResponse } | { waitMs: number } | null

/**
 * Parses the first directive of an input text: `sandbox:fail` returns a 500, `sandbox:rate_limit` a 429,
 * `sandbox:timeout` never responds, `sandbox:slow=<ms>` delays the response.
 */
export function parseDirective(text: string): Directive {
  const directive = findDirective(text)
  if (directive === null) return null
  const { word, waitMs } = directive
  if (word === 'fail') return { answer: errorResponse(500, failureMessage, { type: 'server_error', code: null }) }
  if (word === 'rate_limit') {
    const details = { type: 'requests', code: 'rate_limit_exceeded' }
    return { answer: errorResponse(429, rateLimitMessage, details, { 'retry-after': String(retryAfterMs / 1000) }) }
  }
  return { waitMs }
}

/** The first directive of a text, and its delay: infinite with `timeout`, at most a minute with `slow`. */
export function findDirective(
  text: string,
): { word: 'fail' | 'rate_limit' | 'timeout' | 'slow'; waitMs: number } | null {
  const [, word, delayMs] = /sandbox:(fail|rate_limit|timeout|slow=(\d{1,9}))\b/.exec(text) ?? []
  if (word === undefined) return null
  if (word === 'timeout') return { word, waitMs: Infinity }
  if (word === 'fail' || word === 'rate_limit') return { word, waitMs: 0 }
  return { word: 'slow', waitMs: Math.min(Number(delayMs), maxWaitMs) }
}

/** The provider errors that directives simulate. */
export const simulatedErrors = {
  fail: () => new ProviderError('server_error', failureMessage, { status: 500 }),
  rate_limit: () => new ProviderError('rate_limited', rateLimitMessage, { status: 429, retryAfterMs }),
}

/**
 * Executes the directive of a text. Throws the ProviderError that it requests, a timeout when the delay exceeds
 * `maxMs`, and an AbortError once `signal` is aborted.
 */
export async function executeDirective(text: string, maxMs: number, signal: AbortSignal): Promise<void> {
  const directive = findDirective(text)
  if (directive === null) return
  const { word, waitMs } = directive
  if (word === 'fail' || word === 'rate_limit') throw simulatedErrors[word]()
  await sleep(Math.min(waitMs, maxMs), undefined, { signal })
  if (waitMs > maxMs) throw new ProviderError('timeout', 'The sandbox does not answer, as the input asks.')
}
