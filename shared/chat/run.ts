import { GatewayError } from '../base/errors.ts'
import type { MonotonicMs } from '../base/time.ts'
import { canReason } from '../catalog/traits.ts'
import { admitRequest } from '../engine/admit-request.ts'
import { BaseRun, clientLeft, type RoutingPlan, type RunServices } from '../engine/base-run.ts'
import type { CallMonitor } from '../engine/call-monitor.ts'
import { failover, withoutSecret } from '../engine/failover.ts'
import { ClientGone } from '../engine/failures.ts'
import { type Bill, failureOutcome, formatUsd, type Report, type RunOutcome } from '../engine/report.ts'
import type { ResponseWriter } from '../engine/response-writer.ts'
import type { Heartbeat } from '../io/keep-alive.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Target } from '../providers/contract.ts'
import { ProviderError } from '../providers/provider-error.ts'
import type { Route } from '../providers/upstreams.ts'
import { parseModelSelector, snapshotOf } from '../routing/options.ts'
import { marginOf } from '../routing/pricing.ts'
import { type Decision, route } from '../routing/router.ts'
import type { Reservation } from '../wallet/admission.ts'
import { billAborted, readOnTime, unbilled } from './abandoned-bill.ts'
import { type Attempt, isStopped, receiveAnswer, streamAnswer } from './attempt.ts'
import { type Billing, bill } from './bill.ts'
import { billAnswer } from './complete-answer.ts'
import { firstTokenTimeout } from './first-token.ts'
import { maxCostOfRun, recordOutput } from './max-cost.ts'
import { measureIfAllowed, needsMeasuring } from './measure-request.ts'
import { prepareCall } from './prepare-call.ts'
import { withoutRefusedState } from './refused-state.ts'
import { restateFailure } from './restate-failure.ts'
import { type ChatRunInput, idPrefix } from './run-input.ts'
import { type ReceivedAnswer, serializeAnswer } from './serialize-answer.ts'
import { hasUnusableCalls, signalsOf } from './signals.ts'
import { type FoundSession, findStickyTarget } from './sticky-target.ts'
import { storeAnswer, storeStreamed } from './store-response.ts'
import { createRelay, failureEvent, keepAliveFrames, type StreamInfo, streamInfo } from './stream-formats.ts'
import type { AnswerRelay } from './stream-relay.ts'
import { openStretches, type Stretches } from './stretches.ts'

/**
 * Runs one request from admission to settlement: routes, reserves, calls providers until one answers, relays, charges.
 * Throws a GatewayError if nothing was written to the client yet; once a stream has started, a failure is written into
 * it. The reservation is resolved exactly once in every case.
 */
export function run<K extends DirectKind>(
  services: RunServices,
  input: ChatRunInput<K>,
  client: ResponseWriter,
): Promise<Report> {
  return new Run(services, input, client).start()
}

/** A call to a provider, with the decision and the reservation that it belongs to. */
type RunAttempt<K extends DirectKind> = Attempt<K> & {
  monitor: CallMonitor
  decision: Decision
  reservation: Reservation
}

class Run<K extends DirectKind> extends BaseRun {
  #input: ChatRunInput<K>
  readonly #billing: Omit<Billing, 'target'>
  #session: FoundSession = { sticky: null, sessionKey: null, marksCache: false }
  /** When the current provider received the request; null = not yet. */
  #sentMs: MonotonicMs | null = null
  /** The bill of a call that was stopped before its client received anything. */
  #stopped: Bill | undefined
  #stretches: Stretches | null = null
  /** Whether the current call has reasoning state. */
  #isStateSent = false

  constructor(services: RunServices, input: ChatRunInput<K>, client: ResponseWriter) {
    const marginPpm = marginOf(services.config, input.kind, input.bulk?.discountPpm ?? 0n)
    super(services, client, idPrefix[input.kind], input.key.policy, input, marginPpm)
    this.#input = input
    this.#billing = { marginPpm, features: input.features, free: this.policy.environment === 'test' }
  }

  async start(): Promise<Report> {
    try {
      const { services, policy } = this
      if (needsMeasuring(this.#input)) this.#input = await measureIfAllowed(services, this.#input, this.marginPpm)
      const found = findStickyTarget(services, policy, this.#input)
      this.#session = found instanceof Promise ? await found : found
      const { decision, reservation } = await this.#admit()
      try {
        const bill = await this.#serve(decision, reservation)
        return this.settle(reservation, decision, bill)
      } catch (error) {
        const eventOf = (failure: GatewayError, target: Target) => failureEvent(this.#info(target), failure)
        return this.settleFailure(error, decision, reservation, eventOf, this.#stopped)
      } finally {
        this.#stretches?.release()
      }
    } catch (error) {
      throw error instanceof GatewayError ? this.toPublicError(error) : error
    }
  }

  protected override settle(reservation: Reservation, plan: RoutingPlan, outcome: RunOutcome): Report {
    reservation.extraNano = (reservation.extraNano ?? 0) + (this.#stretches?.reservedNano ?? 0)
    const signals = plan.reason ? signalsOf(this.services.config, this.policy, this.#input, outcome) : null
    return super.settle(reservation, signals ? { ...plan, signals } : plan, outcome)
  }

  async #admit(): Promise<{ decision: Decision; reservation: Reservation }> {
    const { services, id, startedMs } = this
    const { kind, body, features, key } = this.#input
    const { sticky } = this.#session
    const world = snapshotOf(services, this.marginPpm)
    // A named model needs no explanation.
    const explain = parseModelSelector(services.catalog, body.model, kind).auto ? 'log' : 'no'
    const admitted = await admitRequest(services, key, { id, startedMs }, policy => {
      const learned = explain === 'log' ? services.learnedQualities.of(policy) : null
      const decision = route(world, { policy, kind, request: body, features, sticky, learned }, explain)
      return { decision, maxCost: maxCostOfRun(services, policy, this.#input, decision.targets, this.marginPpm) }
    })
    this.policy = key.policy
    return admitted
  }

  #serve(decision: Decision, reservation: Reservation): Promise<Bill> {
    const { kind, bulk, features, stream } = this.#input
    const { targets, overflow } = decision
    const { beganMs, client, failedAttempts, services } = this
    const { sticky } = this.#session
    const live = this.policy.environment === 'live'
    const maxSilenceMs = firstTokenTimeout(services.config.upstream, features, stream)
    const { signal } = this.abortController
    const options = { targets, overflow, live, sticky, beganMs, client, failedAttempts, bulk, signal, maxSilenceMs }
    const heartbeat = stream ? this.createHeartbeat(decision, reservation, keepAliveFrames[kind]) : null
    const call = (monitor: CallMonitor) =>
      withoutRefusedState({ monitor, failedAttempts, isSent: () => this.#isStateSent }, isRefused =>
        this.#attempt(monitor, decision, reservation, heartbeat, isRefused),
      )
    const serve = () => failover(services, options, call)
    return heartbeat ? this.serveStream(heartbeat, this.#input.key, serve) : this.abortOnRestart(serve)
  }

  async #attempt(
    monitor: CallMonitor,
    decision: Decision,
    reservation: Reservation,
    heartbeat: Heartbeat | null,
    isStateRefused: boolean,
  ): Promise<Bill> {
    const { services, policy } = this
    const { target, credential } = monitor.route
    this.monitor = monitor
    this.upstreamModel = null
    const maxTokens = reservation.clamped ? reservation.outputTokens : null
    const { sessionKey, marksCache } = this.#session
    const info = { policy, input: this.#input, marksCache, route: monitor.route, maxTokens, isStateRefused }
    const { dialect, call, requests, dropped, adjusted } = await prepareCall(services, info)
    ;[this.dropped, this.adjusted] = [dropped, adjusted]
    const { reasoningDropped = false, reasoningSent = false, cacheMarked = false } = requests[0]!
    ;[this.reasoningDropped, this.#isStateSent, this.cacheMarked] = [reasoningDropped, reasoningSent, cacheMarked]
    this.#sentMs = null
    if (policy.environment === 'live') this.#openStretches(target, reservation)
    const attempt: RunAttempt<K> = {
      ...{ monitor, decision, reservation },
      upstreams: services.upstreams,
      route: monitor.route,
      adapter: dialect.adapter,
      protocol: dialect.protocol,
      call,
      requests,
      client: this.client,
      departures: services.disconnectedCalls,
      reasons: canReason(target.deployment),
      readOnMs: policy.environment === 'live' ? readOnTime(services.config, this.#input.features) : 0,
      signal: this.abortController.signal,
      onSent: () => void (this.#sentMs ??= services.monotonic.now()),
      stretches: this.#stretches,
    }
    if (services.admission.recordCall) await services.admission.recordCall(target)
    const bill = await (heartbeat ? this.#stream(attempt, heartbeat) : this.#fetch(attempt))
    this.firstByteMs = monitor.firstByteMs
    if (bill.errorCode) return bill
    monitor.recordSuccess(bill.usage.completion_tokens, { streamed: this.#input.stream })
    recordOutput(services, policy, this.#input, bill)
    if (sessionKey) {
      const sticky = { model: target.model.id, provider: target.provider.name, credentialId: credential?.id ?? null }
      services.stickySessions.remember(sessionKey, sticky)
    }
    return bill
  }

  async #fetch(attempt: RunAttempt<K>): Promise<Bill> {
    const { adapter, call, monitor, decision, reservation } = attempt
    let received: ReceivedAnswer
    try {
      received = await receiveAnswer(attempt, () => monitor.recordFirstByte({ streamed: false }))
    } catch (error) {
      if (error instanceof ClientGone) return this.#billAbandoned(attempt, null)
      throw await this.#noteStopped(attempt, error, null)
    }
    const providerAnswer = { kind: this.#input.kind, adapter, call, json: received.json, id: this.id }
    const { billed: uncovered, shown, upstreamModel } = await billAnswer(providerAnswer, this.#billing)
    const billed = await this.#cover(uncovered)
    this.upstreamModel = upstreamModel
    if (decision.reason) billed.unusableCalls = hasUnusableCalls(billed, shown)
    const headers = this.headers(call.target, decision, reservation, this.failedAttempts.length + 1)
    headers['x-gateway-cost-usd'] = formatUsd(billed.costNano)
    const { storage } = this.#input
    const answer =
      storage && (!this.client.gone || this.client.hold) ? await storeAnswer(storage, this.id, shown) : shown
    this.client.answer(headers, serializeAnswer(answer, received))
    return this.client.gone ? { ...billed, ...clientLeft } : billed
  }

  async #stream(attempt: RunAttempt<K>, heartbeat: Heartbeat): Promise<Bill> {
    const { call, adapter, monitor, decision, reservation } = attempt
    const { target } = call
    const { kind, body, storage } = this.#input
    const relay = createRelay(attempt, this.#info(target))
    const open = () => this.openStream(target, decision, reservation, relay.upstreamModel)
    const onFirstByte = () => monitor.recordFirstByte({ streamed: true })
    const { answered, error } = await streamAnswer(attempt, relay, heartbeat, open, onFirstByte)
    if (error instanceof ClientGone) return this.#billAbandoned(attempt, relay)
    if (error && !answered) throw await this.#noteStopped(attempt, error, relay)
    const upstreamId = adapter.native ? relay.upstreamId : null
    const billed = isStopped(attempt, error)
      ? await this.#estimate(attempt, relay)
      : await this.#cover(
          await bill({ target, ...this.#billing }, { kind, body, relay, broken: error !== null, upstreamId }),
        )
    if (this.client.gone) {
      monitor.recordAbandonment()
      return { ...billed, ...clientLeft }
    }
    if (error) return { ...billed, ...(await this.#endBroken(monitor, relay, withoutSecret(error, monitor.route))) }
    open()
    const ending = { usage: billed.shownUsage, provider: target.provider.name }
    const stored = storage && (await storeStreamed(storage, relay))
    this.client.write(relay.formatEnding({ ...ending, ...stored }), relay.encoding)
    this.client.end()
    return billed
  }

  /** Reserves in increments while a call runs that can cost more than its reservation. */
  #openStretches(target: Target, reservation: Reservation): void {
    this.#stretches?.release()
    this.#stretches = openStretches(this.services, this.#input, target, this.marginPpm, {
      reservation,
      id: `${reservation.id}.${this.failedAttempts.length}`,
      release: extra => this.release(extra),
      end: error => this.abortController.abort(error),
    })
  }

  /** The bill of a call that was aborted because its client disconnected. */
  async #billAbandoned(attempt: RunAttempt<K>, relay: AnswerRelay | null): Promise<Bill> {
    attempt.monitor.recordAbandonment()
    return { ...(await this.#estimate(attempt, relay)), ...clientLeft }
  }

  /** Records the usage of a call that the gateway stopped; returns its error. */
  async #noteStopped(attempt: RunAttempt<K>, error: unknown, relay: AnswerRelay | null): Promise<unknown> {
    if (isStopped(attempt, error)) this.#stopped = await this.#estimate(attempt, relay)
    return error
  }

  /** The estimated bill of an aborted call. */
  async #estimate(attempt: RunAttempt<K>, relay: AnswerRelay | null): Promise<Bill> {
    const { reservation, reasons } = attempt
    const { target } = attempt.call
    const free = this.policy.environment === 'test' || this.client.leaving === 'unbilled'
    if (free || this.#sentMs === null) return unbilled(target)
    const call = { target, reservation, marginPpm: this.marginPpm, sentMs: this.#sentMs, reasons, relay }
    return this.#cover(await billAborted(this.services, this.#input, call))
  }

  /** The bill of a call, whose cost is reserved. */
  #cover(bill: Bill): Bill | Promise<Bill> {
    return this.#stretches?.cover(bill) ?? bill
  }

  /** Ends a stream whose provider failed in the middle. */
  async #endBroken(monitor: CallMonitor, relay: AnswerRelay, error: unknown): Promise<Partial<Bill>> {
    if (error instanceof ProviderError) monitor.recordFailure(error)
    else monitor.recordAbandonment()
    const failure = this.toPublicError(error, monitor.route)
    const { storage } = this.#input
    const stored = storage && (await storeStreamed(storage, relay, failure))
    this.client.write(relay.formatFailure(failure, stored?.response), relay.encoding)
    this.client.end()
    return { ...failureOutcome(failure), finishReason: 'error' }
  }

  #info({ model }: Target): StreamInfo {
    return streamInfo(this.#input, { id: this.id, created: Math.floor(this.startedMs / 1000), model: model.id })
  }

  protected override toPublicError(error: unknown, brokenRoute?: Route): GatewayError {
    const failure = super.toPublicError(error, brokenRoute)
    return restateFailure(failure, this.#input, this.failedAttempts, this.services.catalog)
  }
}
