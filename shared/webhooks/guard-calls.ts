import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { upToEntries } from '../base/lru-limit.ts'
import { type Clock, elapsedMs, type MonotonicClock, type MonotonicMs } from '../base/time.ts'
import type { Budgets } from '../io/byte-budget.ts'
import type { Database } from '../io/db.ts'
import { collect, timeoutsWithin } from '../io/http.ts'
import { PinnedPools } from '../io/pinned-pools.ts'
import { withDeadline } from '../io/retry.ts'
import { assertPublicUrl, type UrlPolicy, UrlRefused } from '../io/safe-url.ts'
import type { Sealer } from '../io/sealer.ts'
import type { GuardWebhook, Side } from '../keys/guardrails.ts'
import { getWebhookSecrets, newestFirst, signatureHeaders } from './secrets.ts'

/** A text that a guard is asked about. */
type GuardedTextEntry = { id: string; role: string; text: string }

/** What a guard is asked. */
export type GuardQuestion = {
  side: Side
  requestId: string
  kind: string
  model: string
  keyId: string
  organisationId: string
  texts: readonly GuardedTextEntry[]
}

/** What it answered; `replace` has the texts that change, by their id. */
type GuardVerdict =
  | { action: 'allow' }
  | { action: 'block'; reason: string | null }
  | { action: 'replace'; texts: ReadonlyMap<string, string> }

/** A guard that gave no valid answer. */
export class GuardFailed extends Error {
  override name = 'GuardFailed'
}

/** A guard that was not asked because of its caller's texts: another request may be answered. */
export class QuestionTooLarge extends GuardFailed {
  override name = 'QuestionTooLarge'
}

/** A guard that was not asked because its key has many calls of it under way: its caller chose how many. */
export class TooManyCalls extends GuardFailed {
  override name = 'TooManyCalls'
}

const connectTimeoutMs = 5_000
/** The texts of one question, and an answer to it. */
const maxQuestionBytes = 4 * 1024 * 1024
const maxAnswerBytes = 4 * 1024 * 1024
const maxReason = 300
/** Calls of an organisation that a process has under way, and those of one key: no key takes the guard from the others. */
const maxCalls = 256
const maxCallsOfKey = 128
/** After so many failures in a row a guard is not called for a while. */
const maxFailures = 5
const pauseMs = 5_000
/** A secret that was replaced signs for a day more, so a copy may be a minute old. */
const secretsTtlMs = 60_000
const maxOrganisations = 5_000
const maxStates = 5_000

const answer = z.discriminatedUnion('action', [
  z.object({ action: z.literal('allow') }),
  z.object({ action: z.literal('block'), reason: z.string().nullish() }),
  z.object({
    action: z.literal('replace'),
    texts: z.array(z.object({ id: z.string(), text: z.string() })).max(100_000),
  }),
])

/** An answer takes this many times its bytes: as it is received, as text, and as the texts in it. */
const copies = 4

type Deps = {
  db: Database
  sealer: Sealer
  clock: Clock
  monotonic: MonotonicClock
  urlPolicy: UrlPolicy
  budgets: Budgets
}
type State = { calls: number; failures: number; pausedAtMs: MonotonicMs | null }
type Secrets = { secrets: string[]; readMs: MonotonicMs }

/**
 * Asks the guards of organisations about texts: a request signed as webhooks are (docs/guardrails.md), to public addresses only,
 * without redirects. Time, bytes and calls are bounded; a guard that keeps failing is left alone for some seconds.
 */
export class GuardCalls {
  readonly #deps: Deps
  readonly #pools: PinnedPools
  /** Calls under way, by organisation. */
  readonly #calls = new Map<string, number>()
  /** By key and URL: whose texts or time limit make a guard fail does not pause it for other keys. */
  readonly #states = new LRUCache<string, State>(upToEntries(maxStates))
  readonly #secrets = new LRUCache<string, Secrets>(upToEntries(maxOrganisations))

  constructor(deps: Deps) {
    this.#deps = deps
    this.#pools = new PinnedPools(connectTimeoutMs, deps.urlPolicy.proxies)
  }

  /**
   * Asks a guard. Rejects with a GuardFailed without a valid answer in time, or when `signal` aborts; with a GatewayError, 429 or
   * 503, if the answers of guards take too much memory.
   */
  async ask(webhook: GuardWebhook, question: GuardQuestion, signal?: AbortSignal): Promise<GuardVerdict> {
    const { organisationId, keyId } = question
    const state = this.#stateOf(`${keyId} ${webhook.url}`)
    if (this.#isPaused(state)) throw new GuardFailed('it failed repeatedly and is not called for a few seconds')
    if (state.calls >= maxCallsOfKey) throw new TooManyCalls(`it has ${state.calls} calls of this key under way`)
    const calls = this.#calls.get(organisationId) ?? 0
    if (calls >= maxCalls) throw new GuardFailed(`it has ${calls} calls under way`)
    this.#calls.set(organisationId, calls + 1)
    state.calls++
    try {
      const verdict = await this.#call(webhook, question, signal)
      state.failures = 0
      return verdict
    } catch (error) {
      // The memory of this process is used up.
      if (error instanceof GatewayError && !(error instanceof UrlRefused)) throw error
      const isGuardsFault = !signal?.aborted && !(error instanceof QuestionTooLarge)
      if (isGuardsFault && ++state.failures >= maxFailures) state.pausedAtMs = this.#deps.monotonic.now()
      throw error instanceof GuardFailed ? error : new GuardFailed((error as Error).message, { cause: error })
    } finally {
      state.calls--
      this.#endCall(organisationId)
    }
  }

  #endCall(organisationId: string): void {
    const left = this.#calls.get(organisationId)! - 1
    if (left > 0) this.#calls.set(organisationId, left)
    else this.#calls.delete(organisationId)
  }

  async #call(webhook: GuardWebhook, question: GuardQuestion, signal?: AbortSignal): Promise<GuardVerdict> {
    const beganMs = this.#deps.monotonic.now()
    const body = bodyOf(question)
    if (Buffer.byteLength(body) > maxQuestionBytes)
      throw new QuestionTooLarge(`the texts have more than ${maxQuestionBytes} bytes`)
    const [secrets, checked] = await withDeadline(
      Promise.all([this.#secretsOf(question.organisationId), assertPublicUrl(webhook.url, this.#deps.urlPolicy)]),
      webhook.timeout_ms,
    )
    const leftMs = Math.max(1, webhook.timeout_ms - elapsedMs(beganMs, this.#deps.monotonic.now()))
    const { pathname, search } = checked.url
    const signed = signatureHeaders(secrets, newId('evt'), this.#deps.clock.now(), body)
    const headers = { 'content-type': 'application/json', 'user-agent': 'headgate', ...signed }
    const request = { method: 'POST', path: pathname + search, headers, body } as const
    // A short request can be answered with megabytes.
    const held = this.#deps.budgets.guardAnswers.open(question.organisationId)
    try {
      const hold = (bytes: number) => held.grow(bytes * copies)
      const options = { signal, hold }
      const { status, body: bytes } = await collect(
        this.#pools.get(checked),
        request,
        timeoutsWithin(leftMs),
        maxAnswerBytes,
        options,
      )
      if (status !== 200) throw new GuardFailed(`it answered with status ${status}`)
      return verdictOf(bytes, question)
    } finally {
      held.release()
    }
  }

  async #secretsOf(organisationId: string): Promise<string[]> {
    const { monotonic, clock } = this.#deps
    const known = this.#secrets.get(organisationId)
    if (known && elapsedMs(known.readMs, monotonic.now()) < secretsTtlMs) return known.secrets
    try {
      const secrets = newestFirst(await getWebhookSecrets(this.#deps, organisationId, clock.now()))
      this.#secrets.set(organisationId, { secrets, readMs: monotonic.now() })
      return secrets
    } catch (error) {
      // PostgreSQL may be away.
      if (known) return known.secrets
      throw error
    }
  }

  #stateOf(name: string): State {
    const known = this.#states.get(name)
    if (known) return known
    const state = { calls: 0, failures: 0, pausedAtMs: null }
    this.#states.set(name, state)
    return state
  }

  #isPaused(state: State): boolean {
    if (state.pausedAtMs === null) return false
    if (elapsedMs(state.pausedAtMs, this.#deps.monotonic.now()) < pauseMs) return true
    // One failure more pauses it again.
    state.pausedAtMs = null
    state.failures = maxFailures - 1
    return false
  }

  /** Closes the connections to guards. */
  close(): Promise<void> {
    return this.#pools.close()
  }
}

function bodyOf({ side, requestId, kind, model, keyId, texts }: GuardQuestion): string {
  return JSON.stringify({ type: `guardrail.${side}`, request_id: requestId, key: keyId, kind, model, texts })
}

function verdictOf(bytes: Buffer, { texts }: GuardQuestion): GuardVerdict {
  let json: unknown
  try {
    json = JSON.parse(bytes.toString())
  } catch {
    throw new GuardFailed('its answer is not JSON')
  }
  const { success, data } = answer.safeParse(json)
  if (!success) throw new GuardFailed('its answer has no valid `action`')
  if (data.action === 'allow') return data
  if (data.action === 'block') return { action: 'block', reason: cleanReason(data.reason) }
  const ids = new Set(texts.map(({ id }) => id))
  if (!data.texts.every(({ id }) => ids.has(id)))
    throw new GuardFailed('its answer replaces a text that it was not sent')
  return { action: 'replace', texts: new Map(data.texts.map(({ id, text }) => [id, text])) }
}

function cleanReason(reason: string | null | undefined): string | null {
  return (
    reason
      ?.toWellFormed()
      .replace(/\p{Cc}/gu, ' ')
      .slice(0, maxReason) || null
  )
}
