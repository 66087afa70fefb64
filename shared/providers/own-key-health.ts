import { LRUCache } from 'lru-cache'
import { upToEntries } from '../base/lru-limit.ts'
import { addMs, elapsedMs, longAgo, type MonotonicClock, type MonotonicMs } from '../base/time.ts'
import type { Target } from './contract.ts'
import { failuresToOpen, mean } from './health-records.ts'
import type { ProviderError } from './provider-error.ts'

type State = { untilMs: MonotonicMs; failures: number; calls: number; firstByteMs: number; refusal: string | null }

/** The figures of a target with own keys, in the form of `Figures`: its keys have the cooldowns. */
type OwnKeyFigures = {
  circuit: 'closed'
  cooldownMs: number
  failureRate: number
  firstByteMs: number | null
  tokensPerSecond: null
  ownKeyRefusal?: string
}

const maxStates = 20_000
/** How long a key that its provider refuses is not tried again. */
const refusedMs = 30_000
const cooldownLimitsMs = { min: 1_000, max: 60_000 }
const maxPauseMs = 3_600_000

/**
 * Health of organisations' own provider keys: each has its own pauses and its own circuit per model, apart from the figures of
 * the provider and from those of every other key, so that a bad key affects only who brought it. Each process learns it for
 * itself: a key that is replaced is usable at once.
 */
export class OwnKeyHealth {
  readonly #monotonic: MonotonicClock
  /** By key, for what its provider refuses as a whole, and by key and model. */
  readonly #states = new LRUCache<string, State>(upToEntries(maxStates))

  constructor(monotonic: MonotonicClock) {
    this.#monotonic = monotonic
  }

  /** The figures of a target apart from the pauses of its keys. `ownKeyRefusal`: set while every key was refused. */
  figures({ own, model }: Target): OwnKeyFigures {
    const ids = own!.connection.credentials.map(({ id }) => id)
    const firsts = ids.map(id => this.#states.get(ofModel(id, model.id))?.firstByteMs ?? -1).filter(ms => ms >= 0)
    const refusals = ids.map(id => (this.#restMs(id) > 0 ? this.#states.get(id)?.refusal : null))
    const figures: OwnKeyFigures = {
      circuit: 'closed',
      cooldownMs: 0,
      failureRate: 0,
      firstByteMs: firsts.length > 0 ? Math.min(...firsts) : null,
      tokensPerSecond: null,
    }
    if (refusals.every(refusal => refusal)) figures.ownKeyRefusal = refusals[0]!
    return figures
  }

  /** The remaining cooldown of a key for a model. */
  cooldownMs({ model }: Target, keyId: string): number {
    return Math.max(this.#restMs(keyId), this.#restMs(ofModel(keyId, model.id)))
  }

  /** Records an answer; `firstByteMs` after the call, if it was streamed. */
  recordSuccess({ model }: Target, keyId: string, firstByteMs: number | null = null): void {
    const state = this.#stateOf(ofModel(keyId, model.id))
    state.failures = 0
    if (firstByteMs === null) return
    state.calls++
    state.firstByteMs = mean(state.firstByteMs, firstByteMs, Math.min(state.calls, 10))
  }

  /** Records a call that failed by the fault of its key or its provider, after its caller waited `waitedMs`. */
  recordFailure(target: Target, { reason, retryAfterMs }: ProviderError, waitedMs: number, keyId: string): void {
    const pauseMs = retryAfterMs === null ? 0 : Math.min(retryAfterMs, maxPauseMs)
    if (reason === 'auth' || reason === 'quota') {
      const state = this.#stateOf(keyId)
      state.refusal = refusalOf(target, reason, keyId)
      this.#pause(state, Math.max(pauseMs, refusedMs))
      return
    }
    const state = this.#stateOf(ofModel(keyId, target.model.id))
    if (reason === 'rate_limited') {
      this.#pause(state, pauseMs || cooldownLimitsMs.min)
      return
    }
    if (reason === 'model_unavailable' && target.own!.connection.credentials.length > 1) {
      this.#pause(state, Math.max(pauseMs, refusedMs))
      return
    }
    state.failures++
    const openMs = Math.min(Math.max(waitedMs, cooldownLimitsMs.min), cooldownLimitsMs.max)
    this.#pause(state, Math.max(pauseMs, state.failures >= failuresToOpen ? openMs : 0))
  }

  /** Forgets what is known of a key, whose secret was replaced. */
  forget(keyId: string): void {
    for (const id of this.#states.keys()) if (id === keyId || id.startsWith(`${keyId}|`)) this.#states.delete(id)
  }

  #stateOf(id: string): State {
    let state = this.#states.get(id)
    if (!state) {
      state = { untilMs: longAgo, failures: 0, calls: 0, firstByteMs: -1, refusal: null }
      this.#states.set(id, state)
    }
    return state
  }

  #pause(state: State, ms: number): void {
    const untilMs = addMs(this.#monotonic.now(), ms)
    if (elapsedMs(state.untilMs, untilMs) > 0) state.untilMs = untilMs
  }

  #restMs(id: string): number {
    const state = this.#states.get(id)
    return state ? Math.max(0, elapsedMs(this.#monotonic.now(), state.untilMs)) : 0
  }
}

const ofModel = (keyId: string, model: string) => `${keyId}|${model}`

/** What to tell the organisation whose key a provider refused. */
export function refusalOf({ provider, own }: Target, reason: 'auth' | 'quota', keyId?: string): string {
  const { credentials } = own!.connection
  const key = credentials.find(({ id }) => id === keyId) ?? (credentials.length === 1 ? credentials[0] : undefined)
  const which = key ? `your organisation’s ${key.origin}` : 'your organisation’s own keys'
  return reason === 'auth'
    ? `${provider.name} refused ${which}: replace it, or correct its permissions at the provider.`
    : `${provider.name} refused ${which}: its account has no credit or quota left.`
}
