import { elapsedMs, type MonotonicMs } from '../base/time.ts'
import type { Platform } from '../platform.ts'
import { type FailureReason, ProviderError } from '../providers/provider-error.ts'
import type { Route } from '../providers/upstreams.ts'
import { firstChunkAttributes } from '../traces/attributes.ts'
import { startCall } from '../traces/calls.ts'
import type { Span, Trace } from '../traces/trace.ts'
import type { Pause } from '../wallet/routing-record.ts'
import { type CallTiming, isAccountFault, isKeyFault } from './failures.ts'

/** Answers with fewer tokens are ignored in throughput figures. */
const minTokens = { streamed: 8, buffered: 128 }

type MonitorServices = Pick<Platform, 'health' | 'monotonic' | 'log' | 'metrics'>
/** How a call ended; `cancelled`: by the gateway or its client, before the provider had answered. */
type CallOutcome = 'ok' | 'cancelled' | FailureReason

/** `trace`: the trace that the call belongs to; `pause`: the wait before it. */
type CallContext = { trace?: Trace | null | undefined; pause?: Pause | null }

/** Observes one call and reports its result to the health figures and the metrics. Sandbox calls are not reported. */
export class CallMonitor {
  readonly route: Route
  firstByteMs: MonotonicMs | null = null
  readonly #services: MonitorServices
  readonly startedMs: MonotonicMs
  readonly pause: Pause | null
  #outcome: CallOutcome = 'ok'
  /** Whether the client has already received part of the answer. */
  #hasDelivered = false
  readonly #span: Span | null

  constructor(services: MonitorServices, route: Route, { trace = null, pause = null }: CallContext = {}) {
    this.route = route
    this.#services = services
    this.pause = pause
    this.startedMs = services.monotonic.now()
    this.#span = trace && startCall(trace, route)
  }

  get elapsedMs(): number {
    return elapsedMs(this.startedMs, this.#services.monotonic.now())
  }

  /** Records the first byte of the answer. Only streamed answers yield a time to first byte. */
  recordFirstByte({ streamed }: { streamed: boolean }): void {
    const { health, monotonic, metrics } = this.#services
    this.firstByteMs = monotonic.now()
    this.#hasDelivered = streamed
    const waitedMs = elapsedMs(this.startedMs, this.firstByteMs)
    if (streamed) this.#span?.set(firstChunkAttributes(waitedMs))
    // What waits for free capacity says nothing about the speed of other requests.
    if (!streamed || !this.route.credential || this.route.target.tier === 'flex') return
    health.recordFirstByte(this.route.target, waitedMs, this.route.credential.id)
    metrics?.recordFirstChunk(this.route.target, waitedMs)
  }

  /** Records a complete answer of `tokens` tokens. */
  recordSuccess(tokens: number, { streamed }: { streamed: boolean }): void {
    const { health, monotonic } = this.#services
    const { target, credential } = this.route
    if (!credential) return
    const enough = target.tier !== 'flex' && tokens >= (streamed ? minTokens.streamed : minTokens.buffered)
    const fromMs = (streamed ? this.firstByteMs : null) ?? this.startedMs
    health.recordSuccess(
      target,
      enough ? (tokens * 1_000) / Math.max(1, elapsedMs(fromMs, monotonic.now())) : null,
      credential.id,
    )
  }

  /** Records and logs a provider failure. Rejected credentials of ours are logged as errors, which raise an alert. */
  recordFailure(error: ProviderError): void {
    const { health, log } = this.#services
    const { target, credential, alone } = this.route
    const { reason, status, cause: err } = error
    this.#outcome = reason
    const fields = { provider: target.provider.name, model: target.model.id, key: credential?.id, reason, status, err }
    if (isAccountFault(reason) && !target.own)
      log.error(
        { ...fields, keyOrigin: credential?.origin, remedy: remedyOf(reason, credential?.origin) },
        'the provider refuses our API key',
      )
    else log.warn(fields, 'attempt failed')
    // Nothing is wrong with a provider whose model wrote something unusable.
    if (credential && reason === 'model_fault') health.releaseProbe(target)
    if (!credential || reason === 'model_fault') return
    const isWasted = reason === 'timeout' || !this.#hasDelivered
    const { id, origin } = credential
    health.recordFailure(target, error, isWasted ? this.elapsedMs : 0, { id, origin, alone })
  }

  /** Records a call that says nothing about the provider: the client disconnected, or the request was invalid. */
  recordAbandonment(): void {
    this.#outcome = 'cancelled'
    if (this.route.credential) this.#services.health.releaseProbe(this.route.target)
  }

  /** Counts the call in the metrics, once it is over. `error`: what it failed with, unless its answer had started. */
  end(error: unknown = null): void {
    const { metrics } = this.#services
    const { target, credential } = this.route
    if (error) this.#outcome = error instanceof ProviderError ? error.reason : 'cancelled'
    this.#span?.end(this.#outcome === 'ok' ? null : this.#outcome)
    // An organisation's own key that is refused says nothing about the provider.
    if (!metrics || !credential || (target.own && isKeyFault(this.#outcome))) return
    metrics.recordCall(target, this.#outcome, this.#outcome === 'ok' ? this.elapsedMs : null)
  }
}

/** What the operator can do about a refused key or account. */
function remedyOf(reason: FailureReason, origin = 'the API key'): string {
  return reason === 'auth'
    ? `correct ${origin} and restart; \`operator doctor\` tests all keys`
    : `add credit or raise the limits of the account of ${origin} at the provider`
}

/** When a call began, and the wait before it. */
export function timingOf({ startedMs, pause }: CallMonitor): CallTiming {
  return { startedMs, pause }
}
