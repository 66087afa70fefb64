import { GatewayError } from '../base/errors.ts'
import { type IdPrefix, newId } from '../base/ids.ts'
import { ShutdownError } from '../base/shutdown.ts'
import { elapsedMs, type MonotonicMs } from '../base/time.ts'
import type { Heartbeat } from '../io/keep-alive.ts'
import { isOutage, storeUnavailable } from '../io/outage.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import type { Mode, Policy } from '../keys/policy.ts'
import type { Target } from '../providers/contract.ts'
import { ProviderError } from '../providers/provider-error.ts'
import type { Route } from '../providers/upstreams.ts'
import { listedNano } from '../routing/pricing.ts'
import { recordRun } from '../traces/calls.ts'
import type { AdmissionGate, Reservation } from '../wallet/admission.ts'
import type { UsageEvent, UsageSignals } from '../wallet/usage-event.ts'
import type { CallMonitor } from './call-monitor.ts'
import { timeoutReached } from './caller-timeouts.ts'
import type { EngineServices } from './engine-services.ts'
import { ClientGone, type FailedAttempt, failureOf, internalError } from './failures.ts'
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
  usageEvent,
} from './report.ts'
import type { HeldSettlement, ResponseWriter } from './response-writer.ts'

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
  /** Its date. */
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
  /** Request fields that the current call omits. */
  protected dropped: readonly string[] = []
  /** The request fields that were changed to what the provider accepts. */
  protected adjusted: readonly string[] = []
  /** Whether the current call omits reasoning state. */
  protected reasoningDropped = false
  /** Whether the current call has cache marks of the gateway. */
  protected cacheMarked = false
  /** The types that a file of the current call was converted from and to. */
  protected converted: string | null = null
  /** Aborts the run with a GatewayError while its client is still connected. */
  protected readonly abortController = new AbortController()
  /** The provider's own name of the model in the current call; null until the provider reports it. */
  protected upstreamModel: string | null = null
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
    const { id, dropped, adjusted, reasoningDropped, cacheMarked, converted, upstreamModel } = this
    const sent = { dropped, adjusted, reasoningDropped, cacheMarked, converted, upstreamModel }
    return answerHeaders({ id, target, mode, reservation, attempts, test, ...sent })
  }

  /** Converts an error to its public form. `brokenRoute`: the route of a response that failed after it had started. */
  protected toPublicError(error: unknown, brokenRoute?: Route): GatewayError {
    if (error instanceof ProviderError)
      return failureOf(
        brokenRoute ? [...this.failedAttempts, { target: brokenRoute.target, error }] : this.failedAttempts,
        error,
        brokenRoute !== undefined,
      )
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
    this.upstreamModel = upstreamModel
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
    const target = this.failedAttempts.at(-1)?.target ?? plan.targets[0]!
    if (!this.#opened) {
      Object.assign(failure.headers, this.headers(target, plan, reservation, this.failedAttempts.length))
      throw failure
    }
    this.client.write(eventOf(failure, target), 'utf8')
    this.client.end()
    return report
  }

  /** Settles the reservation with the outcome of the run. */
  protected settle(reservation: Reservation, plan: RoutingPlan, outcome: RunOutcome): Report {
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
      dropped: this.dropped,
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
    if (this.client.hold) this.client.hold(this.#heldSettlement(reservation, costNano, tokens, event))
    else this.services.admission.settle(reservation, costNano, tokens, event)
    return reportOf(run, outcome)
  }

  #heldSettlement(reservation: Reservation, costNano: number, tokens: number, event: UsageEvent): HeldSettlement {
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
    if (this.client.hold) this.client.hold({ event: null, settle: release, release })
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
