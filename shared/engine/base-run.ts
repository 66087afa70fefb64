import { GatewayError } from '../base/errors.ts'
import { type IdPrefix, newId } from '../base/ids.ts'
import { ShutdownError } from '../base/shutdown.ts'
import { elapsedMs, type MonotonicMs, monthOf } from '../base/time.ts'
import type { Heartbeat } from '../io/keep-alive.ts'
import { isOutage, storeUnavailable } from '../io/outage.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import type { Mode, Policy } from '../keys/policy.ts'
import type { Platform } from '../platform.ts'
import type { Target } from '../providers/contract.ts'
import { type FailureReason, ProviderError } from '../providers/provider-error.ts'
import type { Route } from '../providers/upstreams.ts'
import { listedNano } from '../routing/pricing.ts'
import { firstChunkAttributes } from '../traces/attributes.ts'
import { recordRun, startCall } from '../traces/calls.ts'
import type { Span, Trace } from '../traces/trace.ts'
import type { AdmissionGate, Reservation } from '../wallet/admission.ts'
import type { BillingContext, MaxCost } from '../wallet/reservation.ts'
import type { Pause } from '../wallet/routing-record.ts'
import type { UsageEvent, UsageSignals } from '../wallet/usage-event.ts'
import { timeoutParam, timeoutReached } from './caller-timeouts.ts'
import { CutCalls, isCutByCaller } from './cut-calls.ts'
import type { EngineServices } from './engine-services.ts'
import {
  ClientGone,
  type FailedAttempt,
  failureOf,
  internalError,
  isAccountFault,
  isKeyFault,
  remedyOf,
} from './failures.ts'
import {
  answerHeaders,
  type Explanation,
  factsOf,
  failureOutcome,
  type Report,
  type RequestLabels,
  type RunOutcome,
  reportOf,
  routingRecord,
  type SentCall,
  sentAsRequested,
  usageEvent,
} from './report.ts'
import type { DeferredSettlement, ResponseWriter } from './response-writer.ts'

/** The services that a run depends on. */
export type RunServices = Omit<EngineServices, 'admission'> & { admission: AdmissionGate }

/** The targets of a run in order of attempt, and optionally the reason for the choice and what its answer says about it. */
export type RoutingPlan = {
  mode: Mode
  targets: readonly Target[]
  signals?: UsageSignals | undefined
} & Partial<Explanation>

/** The fields of a run that its usage event records. */
type RunInfo = {
  kind: string
  requestId: string
  stream: boolean
  body: object
  session?: string | null
  labels?: RequestLabels | null
}

/** Shared base of all runs: failed attempts, response headers, public errors and settlement. */
export abstract class BaseRun<S extends RunServices = RunServices> {
  protected readonly services: S
  protected readonly client: ResponseWriter
  protected readonly id: string
  /** When it started, by the wall clock, for the log. */
  protected readonly startedMs: number
  /** When it began, to measure how long it takes. */
  protected readonly beganMs: MonotonicMs
  protected readonly failedAttempts: FailedAttempt[] = []
  protected policy: Policy
  /** Parts per million that are charged beyond the provider's price. */
  protected readonly marginPpm: bigint
  protected firstByteMs: MonotonicMs | null = null
  /** Monitor of the current call, or of the last one between calls. */
  protected monitor: CallMonitor | null = null
  /** What the response says about the current call, or about the last one between calls. */
  protected sent: SentCall = { ...sentAsRequested }
  /** Aborts the run with a GatewayError while its client is still connected. */
  protected readonly abortController = new AbortController()
  /** Calls that its caller's own first-token timeout ended; null = none. */
  protected cuts: CutCalls | null = null
  /** The content type of a stream that has no server-sent events. */
  protected streamType: string | null = null
  #opened = false
  readonly #info: RunInfo

  constructor(
    services: S,
    client: ResponseWriter,
    idPrefix: IdPrefix,
    policy: Policy,
    info: RunInfo,
    marginPpm = services.config.marginPpm,
  ) {
    this.services = services
    this.client = client
    this.id = newId(idPrefix)
    this.startedMs = services.clock.now()
    this.beganMs = services.monotonic.now()
    this.policy = policy
    this.marginPpm = marginPpm
    this.#info = info
  }

  /** Runs work and aborts it if the process shuts down first. */
  protected abortOnRestart<T>(work: () => Promise<T>): Promise<T> {
    return this.services.shutdown.run(() => this.abortController.abort(new ShutdownError()), work)
  }

  /** Does work that ends with a 504 when the caller's own time is up, counted from the beginning of the run. */
  protected async withinTimeout<T>(totalMs: number | undefined, work: () => Promise<T>): Promise<T> {
    if (totalMs === undefined) return work()
    const leftMs = Math.max(0, totalMs - elapsedMs(this.beganMs, this.services.monotonic.now()))
    const timer = setTimeout(() => this.abortController.abort(timeoutReached(totalMs)), leftMs)
    try {
      return await work()
    } finally {
      clearTimeout(timer)
    }
  }

  /** The headers of a response; `attempts` includes the attempt that produced it. */
  protected headers(
    target: Target,
    { mode }: RoutingPlan,
    reservation: Reservation,
    attempts: number,
  ): Record<string, string> {
    const test = this.policy.environment === 'test'
    return answerHeaders({ id: this.id, target, mode, reservation, attempts, test }, this.sent)
  }

  /** Converts an error to its public form. `brokenRoute`: the route of a response that failed after it had started. */
  protected toPublicError(error: unknown, brokenRoute?: Route): GatewayError {
    if (error instanceof ProviderError) {
      const failure = failureOf(
        brokenRoute ? [...this.failedAttempts, { target: brokenRoute.target, error }] : this.failedAttempts,
        error,
        brokenRoute !== undefined,
      )
      return this.cuts?.endedWith(error) ? failure.withParam(timeoutParam) : failure
    }
    if (error instanceof GatewayError) return error
    if (isOutage(error)) return storeUnavailable(error)
    this.services.log.error({ err: error }, 'run failed')
    return internalError(error)
  }

  /** Sends the head of a streamed response, once. `upstreamModel`: the provider's own name of the model, if known. */
  protected openStream(
    target: Target,
    plan: RoutingPlan,
    reservation: Reservation,
    upstreamModel: string | null = null,
  ): void {
    if (this.#opened) return
    this.#opened = true
    this.sent.upstreamModel = upstreamModel
    const headers = this.headers(target, plan, reservation, this.failedAttempts.length + 1)
    if (this.streamType !== null) headers['content-type'] = this.streamType
    this.client.open(headers)
  }

  /** Creates the keep-alive entry of a stream, which writes `frame` while its provider sends nothing. */
  protected createHeartbeat(plan: RoutingPlan, reservation: Reservation, frame = ': keep-alive\n\n'): Heartbeat {
    const keepAlive = () => {
      this.openStream(this.monitor?.route.target ?? plan.targets[0]!, plan, reservation)
      this.client.write(frame, 'latin1')
    }
    return { ticks: 0, keepAlive }
  }

  /** Serves a stream with keep-alives, for as long as its key remains valid. */
  protected async serveStream<T>(heartbeat: Heartbeat, key: ResolvedKey, serve: () => Promise<T>): Promise<T> {
    const { keepAlive, keyWatch } = this.services
    const unwatch = keepAlive.monitor(heartbeat)
    const serveWatched = (signal: AbortSignal) => {
      signal.addEventListener('abort', () => this.abortController.abort(signal.reason), { once: true })
      return serve()
    }
    try {
      return await this.abortOnRestart(() => keyWatch.runWatched(key, serveWatched))
    } finally {
      unwatch()
    }
  }

  /**
   * Settles a run without an answer. Throws the error, unless the client disconnected or keep-alives have opened the
   * stream: then the error is written to the stream as the event returned by `eventOf`. `outcome`: usage to be charged
   * nevertheless.
   */
  protected settleFailure(
    error: unknown,
    plan: RoutingPlan,
    reservation: Reservation,
    eventOf: (failure: GatewayError, target: Target) => string,
    outcome: RunOutcome = { ...noOutcome, ...clientLeft },
  ): Report {
    if (error instanceof ClientGone) return this.settle(reservation, plan, outcome)
    const failure = this.toPublicError(error)
    const report = this.settle(reservation, plan, { ...outcome, ...failureOutcome(failure) })
    const target = outcome.target ?? this.failedAttempts.at(-1)?.target ?? plan.targets[0]!
    if (!this.#opened) {
      const attempts = this.failedAttempts.length + (outcome.target ? 1 : 0)
      Object.assign(failure.headers, this.headers(target, plan, reservation, attempts))
      throw failure
    }
    this.client.write(eventOf(failure, target), 'utf8')
    this.client.end()
    return report
  }

  /** Records the estimated outcome of a call that the caller's own first-token timeout ended. */
  protected recordCut(error: unknown, outcome: RunOutcome, key: ResolvedKey, reservation: Reservation): void {
    this.cuts ??= new CutCalls(this.services, key, reservation)
    this.cuts.add(error, outcome)
  }

  /** Settles the reservation with the outcome of the run, and with what calls cost that were cut. */
  protected settle(reservation: Reservation, plan: RoutingPlan, ended: RunOutcome): Report {
    const outcome = this.cuts?.addTo(ended) ?? ended
    if (this.cuts) reservation.extraNano = (reservation.extraNano ?? 0) + this.cuts.reservedNano
    const { mode, targets } = plan
    const target = outcome.target ?? this.failedAttempts.at(-1)?.target ?? null
    const { kind, requestId, stream, body, session = null, labels = null } = this.#info
    const { ownMs = null } = this.client
    // Before the duration is read: the calls end within it.
    const routing = routingRecord(plan, this.failedAttempts, outcome, this.monitor, this.beganMs)
    const run = {
      id: this.id,
      kind,
      requestId,
      stream,
      policy: this.policy,
      mode,
      model: target?.model.id ?? targets[0]!.model.id,
      provider: target?.provider.name ?? null,
      attempts: this.failedAttempts.length + (outcome.target ? 1 : 0),
      startedMs: this.startedMs,
      firstByteMs: this.firstByteMs === null ? null : elapsedMs(this.beganMs, this.firstByteMs),
      durationMs: elapsedMs(this.beganMs, this.services.monotonic.now()),
      marginPpm: this.marginPpm,
      credentialId: this.monitor?.route.credential?.id ?? null,
      signals: plan.signals,
      facts: factsOf(body, session, labels),
      overheadMs: ownMs === null ? null : Math.round(ownMs),
      dropped: this.sent.dropped,
      routing,
    }
    const { usage, costNano } = outcome
    const tokens = usage.prompt_tokens + usage.completion_tokens
    if (usage.unpriced)
      this.services.log.warn(
        { run: this.id, provider: run.provider, unpriced: usage.unpriced },
        'a provider did work that has no price here',
      )
    const stated = usage.provider_cost_nano
    if (stated && outcome.target && this.policy.environment === 'live')
      this.services.statedCosts.record(outcome.target, listedNano(outcome.target.deployment, usage), stated)
    const event = usageEvent(run, reservation, outcome)
    if (this.client.trace) recordRun(this.client.trace, event, outcome.target !== null)
    if (this.client.defer) this.client.defer(this.#settlementOf(reservation, costNano, tokens, event))
    else this.services.admission.settle(reservation, costNano, tokens, event)
    this.cuts?.release(extra => this.release(extra))
    return reportOf(run, outcome)
  }

  #settlementOf(reservation: Reservation, costNano: number, tokens: number, event: UsageEvent): DeferredSettlement {
    const { admission } = this.services
    return {
      event,
      settle: () => admission.settle(reservation, costNano, tokens, event),
      release: () => admission.release(reservation),
    }
  }

  /** Releases an additional reservation of the run, but not before the run is settled. */
  protected release(extra: Reservation): void {
    const release = () => this.services.admission.release(extra)
    if (this.client.defer) this.client.defer({ event: null, settle: release, release })
    else release()
  }
}

/** Appears in the log only, since the client has disconnected (499). */
export const clientClosed = 'client_closed_request'

/** The outcome of a run whose client disconnected. */
export const clientLeft = { status: 499, errorCode: clientClosed } as const

/** The outcome of a run that produced nothing. */
export const noOutcome = {
  target: null,
  usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
  costNano: 0,
  upstreamId: null,
  finishReason: null,
} as const

/** Answers with fewer tokens are ignored in throughput figures. */
const minTokens = { streamed: 8, buffered: 128 }

type MonitorServices = Pick<Platform, 'health' | 'monotonic' | 'log' | 'metrics'>
/** How a call ended; `cancelled`: by the gateway or its client, before the provider had answered. */
type CallOutcome = 'ok' | 'cancelled' | FailureReason

/** `trace`: the trace that the call belongs to; `pause`: the wait before it; `probes`: whether it is a half-open circuit's probe. */
type CallContext = { trace?: Trace | null | undefined; pause?: Pause | null; probes?: boolean }

/** Observes one call and reports its result to the health figures and the metrics. Sandbox calls are not reported. */
export class CallMonitor {
  readonly route: Route
  firstByteMs: MonotonicMs | null = null
  readonly #services: MonitorServices
  readonly startedMs: MonotonicMs
  readonly pause: Pause | null
  readonly #probes: boolean
  #outcome: CallOutcome = 'ok'
  /** Whether the client has already received part of the answer. */
  #hasDelivered = false
  readonly #span: Span | null

  constructor(services: MonitorServices, route: Route, context: CallContext = {}) {
    const { trace = null, pause = null, probes = false } = context
    this.route = route
    this.#services = services
    this.pause = pause
    this.#probes = probes
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
    if (reason === 'model_fault') this.#releaseProbe()
    if (!credential || reason === 'model_fault') return
    const isWasted = reason === 'timeout' || !this.#hasDelivered
    const { id, origin } = credential
    health.recordFailure(target, error, isWasted ? this.elapsedMs : 0, { id, origin, alone, probes: this.#probes })
  }

  /** Records a call that says nothing about the provider: the client disconnected, or the request was invalid. */
  recordAbandonment(): void {
    this.#outcome = 'cancelled'
    this.#releaseProbe()
  }

  /** Releases the half-open probe if this call acquired it: another probe may be under way. */
  #releaseProbe(): void {
    if (this.#probes && this.route.credential) this.#services.health.releaseProbe(this.route.target)
  }

  /** Counts the call in the metrics, once it is over. `error`: what it failed with, unless its answer had started. */
  end(error: unknown = null): void {
    const { metrics } = this.#services
    const { target, credential } = this.route
    const isFailure = error instanceof ProviderError && !isCutByCaller(this, error)
    if (error) this.#outcome = isFailure ? error.reason : 'cancelled'
    this.#span?.end(this.#outcome === 'ok' ? null : this.#outcome)
    // An organisation's own key that is refused says nothing about the provider.
    if (!metrics || !credential || (target.own && isKeyFault(this.#outcome))) return
    metrics.recordCall(target, this.#outcome, this.#outcome === 'ok' ? this.elapsedMs : null)
  }
}

type AdmissionServices = Pick<RunServices, 'policies'> & { admission: Pick<AdmissionGate, 'admit'> }

/**
 * What is admitted. `startedMs`: when it began, if its row in the request log says so; that decides the month in which it is
 * charged, so that usage, caps and the ledger agree. Absent: now.
 */
type Admissible = { id: string; startedMs?: number }

/**
 * Admits a request under its key's current policy: `choose` returns what the request does and its maximum cost, which
 * is reserved under its id. `billing` may change the limits that the request counts against. Throws what
 * `Policies.decide` and the admission throw: 401, 402, 403, 429, 503.
 */
export function admitRequest<T extends { maxCost: MaxCost }>(
  { policies, admission }: AdmissionServices,
  key: ResolvedKey,
  { id, startedMs }: Admissible,
  choose: (policy: Policy) => T,
  billing: (context: BillingContext) => BillingContext = context => context,
): Promise<T & { reservation: Reservation }> {
  const month = startedMs === undefined ? '' : monthOf(startedMs)
  return policies.decide<T & { reservation: Reservation }>(key, async (policy, readToken) => {
    const chosen = choose(policy)
    const reservation = await admission.admit(billing(policy), readToken, id, chosen.maxCost, month)
    return 'stale' in reservation ? reservation : { ...chosen, reservation }
  })
}
