import type { Clock } from '../../base/time.ts'
import { withDeadline } from '../../io/retry.ts'
import { ProviderError } from '../provider-error.ts'
import { redactCredentials } from '../redact-credentials.ts'
import { fixedMessages } from '../toolkit/refusal.ts'
import type { Identity } from './identity.ts'

/** A token of a cloud's identity service, and when it expires. */
export type Token = { text: string; expiresAtMs: number }

/** A token is replaced this long before it expires: after the five minutes from which the clouds' libraries fetch another one. */
const refreshAheadMs = 4 * 60_000
/** A token that expires sooner is not sent: the request takes time, and the clocks may differ. */
const marginMs = 30_000
/** After a failure the identity service is not asked again for this long. */
const retryMs = 5_000
/** The clouds' libraries have no time-out of their own for everything they try. */
const maxFetchMs = 20_000
const maxTimerMs = 2 ** 31 - 1

/**
 * An identity that sends bearer tokens. A token is kept until shortly before its end and replaced ahead of it, by one request at a
 * time; while that fails, the token stays in use as long as it is valid.
 */
export class TokenIdentity implements Identity {
  readonly #fetch: () => Promise<Token>
  readonly #clock: Clock
  #token: Token | null = null
  #fetching: Promise<Token> | null = null
  #failure: { error: ProviderError; untilMs: number } | null = null
  #timer: NodeJS.Timeout | null = null
  #isClosed = false

  /** `fetch` rejects with any error; one with a `status` below 500 counts as a refusal. */
  constructor(fetch: () => Promise<Token>, clock: Clock) {
    this.#fetch = fetch
    this.#clock = clock
  }

  get secret(): string {
    return this.#token?.text ?? ''
  }

  async authorize(): Promise<Record<string, string>> {
    const leftMs = this.#leftMs()
    if (leftMs <= refreshAheadMs) {
      const fetched = this.#refresh()
      if (leftMs <= marginMs) await fetched
      else fetched.catch(() => {}) // The token is still valid.
    }
    return { authorization: `Bearer ${this.secret}` }
  }

  recordRefusal(): void {
    this.#token = null
  }

  close(): void {
    this.#isClosed = true
    if (this.#timer) clearTimeout(this.#timer)
  }

  #leftMs(): number {
    return this.#token ? this.#token.expiresAtMs - this.#clock.now() : 0
  }

  #refresh(): Promise<Token> {
    const failure = this.#failure
    if (failure && this.#clock.now() < failure.untilMs) return Promise.reject(failure.error)
    this.#fetching ??= this.#replace().finally(() => {
      this.#fetching = null
    })
    return this.#fetching
  }

  async #replace(): Promise<Token> {
    try {
      this.#token = await withDeadline(this.#fetch(), maxFetchMs)
      this.#failure = null
      this.#schedule(Math.max(this.#leftMs() - refreshAheadMs, retryMs))
      return this.#token
    } catch (thrown) {
      const error = toProviderError(thrown)
      this.#failure = { error, untilMs: this.#clock.now() + retryMs }
      // Without a token, the next request asks again.
      if (this.#token && this.#leftMs() > 0) this.#schedule(retryMs)
      throw error
    }
  }

  #schedule(delayMs: number): void {
    if (this.#timer) clearTimeout(this.#timer)
    if (this.#isClosed) return
    this.#timer = setTimeout(() => void this.#refresh().catch(() => {}), Math.min(delayMs, maxTimerMs))
    this.#timer.unref()
  }
}

/**
 * A failure to get a token, as a failure of the provider that the request never reached. What the identity service says is the
 * cause, without anything like a credential: callers are not told.
 */
function toProviderError(thrown: unknown): ProviderError {
  const { message, status } = readFailure(thrown)
  const isRefused = status !== null && status < 500 && status !== 429
  const cause = new Error(`no token for the provider: ${redactCredentials(message)}`)
  const options = { unsent: true, cause, ...(status !== null && { status }) }
  return isRefused
    ? new ProviderError('auth', fixedMessages.auth!, options)
    : new ProviderError('overloaded', 'The provider’s identity service did not answer.', options)
}

/** The message and the HTTP status of an error of the clouds' libraries. */
function readFailure(thrown: unknown): { message: string; status: number | null } {
  const error = thrown as { message?: unknown; status?: unknown; statusCode?: unknown; response?: { status?: unknown } }
  const status = [error.status, error.statusCode, error.response?.status].find(Number.isInteger)
  return { message: String(error.message ?? thrown), status: (status as number | undefined) ?? null }
}
