import { GatewayError } from '../base/errors.ts'
import { statedTierOf } from '../base/service-tier.ts'
import type { MonotonicMs } from '../base/time.ts'
import { canReason } from '../catalog/traits.ts'
import {
  admitRequest,
  BaseRun,
  type CallMonitor,
  clientLeft,
  type RoutingPlan,
  type RunServices,
} from '../engine/base-run.ts'
import { isCutByCaller } from '../engine/cut-calls.ts'
import { failover, withoutSecret } from '../engine/failover.ts'
import { ClientGone, timingOf } from '../engine/failures.ts'
import { type Bill, failureOutcome, formatUsd, type Report, type RunOutcome } from '../engine/report.ts'
import type { ResponseWriter } from '../engine/response-writer.ts'
import type { Heartbeat } from '../io/keep-alive.ts'
import { isSameGuard } from '../keys/guardrails.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { ResponsesObject } from '../kinds/responses-answer.ts'
import type { Call, Protocol, Target } from '../providers/contract.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { asksForRepair } from '../providers/toolkit/request-fields.ts'
import type { Route } from '../providers/upstreams.ts'
import { asksForFormat, hasMeasuredInput } from '../routing/features.ts'
import { listedRequest } from '../routing/listed-request.ts'
import { dryRunRequest, snapshotOf } from '../routing/options.ts'
import { coversCall, isExtensible, marginOf, maxCostOfRun, ownSearches, withoutServedTier } from '../routing/pricing.ts'
import { choosesModel, type Decision, route } from '../routing/router.ts'
import type { Reservation } from '../wallet/admission.ts'
import { billAborted, unbilled } from './abandoned-usage.ts'
import {
  type Attempt,
  firstTokenTimeout,
  isStopped,
  type PreparedCall,
  type ReceivedAnswer,
  readOnTime,
  receiveAnswer,
  serializeAnswer,
} from './attempt.ts'
import { bill } from './bill.ts'
import type { Billing, ChatFormat } from './chat-format.ts'
import { chatFormats } from './chat-formats.ts'
import { withLeadingItem } from './leading-item.ts'
import { measureIfAllowed } from './measure-request.ts'
import { noMedia, RemoteFiles } from './remote-files.ts'
import { openReservationExtensions, type ReservationExtensions } from './reservation-extensions.ts'
import { restateFailure } from './restate-failure.ts'
import { type ChatRunInput, GuardrailsChanged, type Serve } from './run-input.ts'
import { hasUnusableCalls, signalsOf } from './signals.ts'
import { type FoundSession, findStickyTarget, isStateRefusal, reasoningOf } from './sticky-target.ts'
import { streamAnswer, streamInfoOf, writeEnding, writeFailure } from './stream-answer.ts'
import type { AnswerRelay } from './stream-relay.ts'
import type { StructuredAnswers } from './structured-answers.ts'

/**
 * Runs one request from admission to settlement: routes, reserves, calls providers until one answers, relays, charges.
 * Throws a GatewayError if nothing was written to the client yet; once a stream has started, a failure is written into
 * it. The reservation is resolved exactly once in every case. `serve`: how it is run within the guardrails of its key.
 */
export async function run<K extends DirectKind>(
  services: RunServices,
  input: ChatRunInput<K>,
  client: ResponseWriter,
  serve: Serve<K> = runUnguarded,
): Promise<Report> {
  const { guardrails, key } = input
  if (guardrails) return runUnguarded(services, input, client)
  try {
    if (key.policy.guardrails === null) return await serve(services, input, client)
  } catch (error) {
    if (!(error instanceof GuardrailsChanged)) throw error
  }
  const { runGuarded } = await import('./guarded-run.ts')
  return runGuarded(services, input, client, serve)
}

function runUnguarded<K extends DirectKind>(
  services: RunServices,
  input: ChatRunInput<K>,
  client: ResponseWriter,
): Promise<Report> {
  const format: ChatFormat<K> = chatFormats[input.kind]
  const prepared = format.prepare?.(services, input, client, run)
  if (prepared) return prepared.then(whole => new Run(services, whole, client).start())
  return new Run(services, input, client).start()
}

/** What was chosen and reserved for a run. */
type Admitted = { decision: Decision; reservation: Reservation }

/** A call to a provider, with what it belongs to. */
type RunAttempt<K extends DirectKind> = Attempt<K> & Admitted & { monitor: CallMonitor }

class Run<K extends DirectKind> extends BaseRun {
  readonly #format: ChatFormat<K>
  #input: ChatRunInput<K>
  /** The terms by which the current call is billed. */
  readonly #billing: Omit<Billing, 'target'>
  #session: FoundSession = { sticky: null, sessionKey: null, marksCache: false }
  /** When the current provider received the request; null = not yet. */
  #sentMs: MonotonicMs | null = null
  /** The bill of a call that was stopped before its client received anything. */
  #stopped: Bill | undefined
  /** Holds its answers to the format that it asks for; null until one is. */
  #structuredAnswers: StructuredAnswers | null = null
  #extensions: ReservationExtensions | null = null
  #openFiles: RemoteFiles | null = null
  /** Whether the current call has reasoning state. */
  #isStateSent = false

  constructor(services: RunServices, input: ChatRunInput<K>, client: ResponseWriter) {
    const format: ChatFormat<K> = chatFormats[input.kind]
    const marginPpm = marginOf(services.config, input.kind, input.bulk?.discountPpm ?? 0n)
    super(services, client, format.idPrefix, input.key.policy, input, marginPpm)
    if (client.trace) client.trace.operation = format.operation
    this.#format = format
    this.#input = input
    this.#billing = { marginPpm, features: input.features, free: this.policy.environment === 'test' }
  }

  async start(): Promise<Report> {
    try {
      if (this.policy.environment === 'live' && hasMeasuredInput(this.#input.features))
        this.#input = await measureIfAllowed(this.services, this.#format, this.#input, this.marginPpm, this.#files)
      const found = findStickyTarget(this.services, this.policy, this.#input)
      this.#session = found instanceof Promise ? await found : found
      const admitted = await this.#admit()
      const { decision, reservation } = admitted
      try {
        const bill = await this.#serve(admitted)
        return this.settle(reservation, decision, bill)
      } catch (error) {
        const eventOf = (failure: GatewayError, target: Target) =>
          this.#format.failureEvent(streamInfoOf(this.#input, target, this.id, this.startedMs), failure)
        return this.settleFailure(error, decision, reservation, eventOf, this.#chargedOf(error))
      } finally {
        this.#extensions?.release()
      }
    } catch (error) {
      throw error instanceof GatewayError ? this.toPublicError(error) : error
    } finally {
      this.#openFiles?.release()
    }
  }

  /** The bill of a run that failed with an error, if its caller pays for what it got; undefined: nothing is charged. */
  #chargedOf(error: unknown): Bill | undefined {
    const paid = this.#stopped ? null : this.#structuredAnswers?.paidAfter(error)
    if (!paid) return this.#stopped
    if (this.failedAttempts.at(-1)?.error === paid.error) this.failedAttempts.pop()
    return error instanceof ClientGone ? { ...paid.bill, ...clientLeft } : paid.bill
  }

  get #files(): RemoteFiles {
    return (this.#openFiles ??= new RemoteFiles(this.services, this.policy.organisationId))
  }

  /** Chooses the targets and reserves the maximum cost at them, under the key's current policy. */
  async #admit(): Promise<Admitted> {
    const { services, id, startedMs } = this
    const { kind, body, features, key, session, guardrails = null } = this.#input
    const { sticky } = this.#session
    const inputs = snapshotOf(services, this.marginPpm)
    // A named model needs no explanation.
    const explain = choosesModel(services.catalog, body.model, kind) ? 'log' : 'no'
    const admitted = await admitRequest(services, key, { id, startedMs }, policy => {
      if (policy.guardrails !== guardrails && !isSameGuard(policy.guardrails, guardrails)) throw new GuardrailsChanged()
      const learned = explain === 'log' ? services.learnedQualities.of(policy) : null
      const query = { policy, kind, request: body, features, sticky, learned, seed: session ?? id, session }
      const decision = route(inputs, query, explain)
      return { decision, maxCost: maxCostOfRun(services, policy, this.#input, decision.targets, this.marginPpm) }
    })
    this.policy = key.policy
    return admitted
  }

  /** Calls the targets in order until one answers its client. */
  #serve(admitted: Admitted): Promise<Bill> {
    const { decision, reservation } = admitted
    const { bulk, features, stream, timeouts } = this.#input
    const { beganMs, client, failedAttempts, services } = this
    const options = {
      targets: decision.targets,
      overflow: decision.overflow,
      live: this.policy.environment === 'live',
      sticky: this.#session.sticky,
      beganMs,
      client,
      failedAttempts,
      bulk,
      signal: this.abortController.signal,
      maxSilenceMs: firstTokenTimeout(services.config.upstream, features, stream),
      maxFirstTokenMs: timeouts?.firstTokenMs,
    }
    const other = stream ? this.#format.streamOf?.(this.#input.body) : null
    if (other) this.streamType = other.contentType
    const { keepAliveFrame } = other ?? this.#format
    const heartbeat = stream ? this.createHeartbeat(decision, reservation, keepAliveFrame) : null
    const call = (monitor: CallMonitor) => this.#callWithState(monitor, admitted, heartbeat)
    const serve = () => this.withinTimeout(timeouts?.totalMs, () => failover(services, options, call))
    return heartbeat ? this.serveStream(heartbeat, this.#input.key, serve) : this.abortOnRestart(serve)
  }

  /**
   * Makes a call, and makes it once more without reasoning state if the provider refuses the state in it: the client would
   * otherwise repeat the refused history at every turn.
   */
  async #callWithState(monitor: CallMonitor, admitted: Admitted, heartbeat: Heartbeat | null): Promise<Bill> {
    try {
      return await this.#call(monitor, admitted, heartbeat)
    } catch (thrown) {
      const error = withoutSecret(thrown, monitor.route)
      if (!this.#isStateSent || !isStateRefusal(error)) throw thrown
      const timing = timingOf(monitor)
      this.failedAttempts.push({ target: monitor.route.target, error, durationMs: monitor.elapsedMs, ...timing })
      return this.#call(monitor, admitted, heartbeat, true)
    }
  }

  /** Makes one call to a provider: translates the request, sends it, answers the client. `refused`: its reasoning state was. */
  async #call(monitor: CallMonitor, admitted: Admitted, heartbeat: Heartbeat | null, refused = false): Promise<Bill> {
    const { services, policy } = this
    const { target, credential } = monitor.route
    await this.cuts?.reserve()
    this.monitor = monitor
    this.sent.upstreamModel = null
    const prepared = await this.#prepare(monitor.route, admitted.reservation, refused)
    this.#sentMs = null
    this.#billing.statedTier = undefined
    if (policy.environment === 'live') this.#openExtensions(target, admitted.reservation)
    const attempt: RunAttempt<K> = {
      ...admitted,
      monitor,
      input: this.#input,
      upstreams: services.upstreams,
      route: monitor.route,
      ...prepared,
      client: this.client,
      disconnectedCalls: services.disconnectedCalls,
      reasons: canReason(target.deployment),
      searches: ownSearches(target, this.#input.features) ?? 0,
      readOnMs: policy.environment === 'live' ? readOnTime(services.config, this.#input.features) : 0,
      signal: this.abortController.signal,
      onSent: () => void (this.#sentMs ??= services.monotonic.now()),
      onHeaders: this.#tierReader(target, prepared.protocol),
      extensions: this.#extensions,
    }
    if (services.admission.recordCall) await services.admission.recordCall(target)
    const bill = await (heartbeat ? this.#stream(attempt, heartbeat) : this.#fetch(attempt))
    this.firstByteMs = monitor.firstByteMs
    if (bill.errorCode) return bill
    const { completion_tokens: tokens } = bill.usage
    const { features, stream } = this.#input
    monitor.recordSuccess(tokens, { streamed: stream })
    // The next answer is likely to be as long.
    if (isExtensible(this.#input))
      services.outputHistory.record(policy.keyId, target.model.id, tokens / features.choices)
    const { sessionKey } = this.#session
    if (sessionKey) {
      const sticky = { model: target.model.id, provider: target.provider.name, credentialId: credential?.id ?? null }
      services.stickySessions.remember(sessionKey, sticky)
    }
    return bill
  }

  /**
   * Translates the request for the target of a route, with the files and the reasoning state that it needs. Throws a
   * GatewayError 400 naming the field that the target cannot express, and what fetching a file throws.
   */
  async #prepare(route: Route, reservation: Reservation, refused: boolean): Promise<PreparedCall<K>> {
    const { target, credential } = route
    const { services, policy } = this
    const { environment } = policy
    const { kind, forwarded, features } = this.#input
    const listed = features.unlisted ? listedRequest(this.#input, features) : this.#input
    const body = this.#format.complete?.(listed.body) ?? listed.body
    this.#format.noteUnknown?.(this.#input.body, forwarded)
    // The sandbox supports everything; the emulated provider may not.
    const dryRun = environment === 'test' ? dryRunRequest(services.upstreams, kind, target, body) : null
    if (dryRun instanceof GatewayError) throw dryRun
    const { adapter, protocol } = services.upstreams.adapter(kind, target, environment, body)!
    const urls = adapter.remoteMedia?.(body, target) ?? []
    const media = urls.length > 0 ? await this.#files.media(urls) : noMedia
    const reasoning = reasoningOf(services, policy, { kind, credential, refused })
    const maxTokens = reservation.clamped ? reservation.outputTokens : null
    const call: Call<K> = {
      target,
      body,
      raw: body === listed.body ? listed.raw : null,
      // What is reserved may allow more than this model, of several, takes.
      maxTokens: maxTokens && Math.min(maxTokens, target.model.max_output_tokens ?? maxTokens),
      media,
      ...(reasoning instanceof Promise ? await reasoning : reasoning),
      marksCache: this.#session.marksCache && environment === 'live',
      ...(forwarded && { forwarded }),
      passesUnknown: services.config.passUnknownFields,
    }
    const requests = adapter.requests?.(call) ?? [adapter.request(call)]
    const { dropped = [], adjusted = [], structuredBy } = dryRun ?? requests[0]!
    const { reasoningDropped = false, reasoningSent = false, cacheMarked = false } = requests[0]!
    const unsent = withoutServedTier(dropped, target)
    this.#isStateSent = reasoningSent
    const omitted = 'dropped' in listed ? [...new Set([...listed.dropped, ...unsent])] : unsent
    const structured = asksForFormat(features) ? [structuredBy ?? 'native'] : []
    this.sent = { ...this.sent, dropped: omitted, adjusted, structured, reasoningDropped, cacheMarked }
    return { adapter, protocol, call, requests }
  }

  /** Reads the service tier from the headers of an answer; absent where it is not asked for, or not there. */
  #tierReader({ tier }: Target, { tierHeader }: Protocol): Attempt<K>['onHeaders'] {
    if (!tier || !tierHeader) return undefined
    return headers => void (this.#billing.statedTier = statedTierOf(headers[tierHeader]))
  }

  /** Reserves in increments while a call runs that can cost more than its reservation. */
  #openExtensions(target: Target, reservation: Reservation): void {
    this.#extensions?.release()
    this.#extensions = null
    if (coversCall(reservation, target, this.#input.features)) return
    this.#extensions = openReservationExtensions(this.services, this.#input, target, this.marginPpm, {
      reservation,
      id: `${reservation.id}.${this.failedAttempts.length}`,
      release: extra => this.release(extra),
      end: error => this.abortController.abort(error),
    })
  }

  /** Answers with a complete answer. */
  async #fetch(attempt: RunAttempt<K>): Promise<Bill> {
    const { adapter, call, monitor, decision, reservation } = attempt
    let received: ReceivedAnswer
    try {
      received = await receiveAnswer(attempt, () => monitor.recordFirstByte({ streamed: false }))
    } catch (error) {
      if (error instanceof ClientGone) return this.#billAbandoned(attempt, null)
      throw await this.#recordStopped(attempt, error, null)
    }
    const providerAnswer = { adapter, call, json: received.json, id: this.id }
    const { billed: uncovered, shown, upstreamModel } = await this.#format.billAnswer(providerAnswer, this.#billing)
    const billed = await this.#cover(uncovered)
    const costNano = billed.costNano + (this.cuts?.costNano ?? 0)
    if (this.cuts) uncovered.shownUsage.cost = costNano / 1e9
    this.sent.upstreamModel = upstreamModel
    if (decision.reason) billed.unusableCalls = hasUnusableCalls(billed, shown)
    const formatted = asksForFormat(this.#input.features) ? await this.#enforceFormat(shown, billed) : shown
    const headers = this.headers(call.target, decision, reservation, this.failedAttempts.length + 1)
    headers['x-gateway-cost-usd'] = formatUsd(costNano)
    const { storage, leading, present = (response: object) => response } = this.#input
    const isStored = storage && (!this.client.gone || this.client.defer)
    const whole = leading ? withLeadingItem(formatted as ResponsesObject, leading) : (formatted as ResponsesObject)
    const answer = isStored ? await storage.store({ ...whole, id: this.id, ...storage.fields }) : present(whole)
    this.client.answer(headers, serializeAnswer(answer, received))
    return this.client.gone ? { ...billed, ...clientLeft } : billed
  }

  /** Holds a whole answer to the format that the request asks for, where its caller wants it, or the model has no such format. */
  async #enforceFormat(shown: object, bill: Bill): Promise<object> {
    const { kind, body, structuredCheck } = this.#input
    const isEmulated = this.sent.structured[0] !== 'native'
    const check = structuredCheck ?? (isEmulated || asksForRepair(body as object) ? 'repair' : null)
    if (!check || this.policy.environment === 'test') return shown
    const { StructuredAnswers } = await import('./structured-answers.ts')
    this.#structuredAnswers ??= new StructuredAnswers(this.policy, kind, body, error => this.toPublicError(error))
    const formatted = await this.#structuredAnswers.enforce(shown, check, bill)
    this.sent.structured = [...this.sent.structured, ...formatted.marks]
    return formatted.shown
  }

  /** Answers with a stream. */
  async #stream(attempt: RunAttempt<K>, heartbeat: Heartbeat): Promise<Bill> {
    const { adapter, monitor, decision, reservation } = attempt
    const { target, body } = attempt.call
    const format = this.#format
    const relay = format.createRelay(attempt, streamInfoOf(this.#input, target, this.id, this.startedMs))
    const open = () => this.openStream(target, decision, reservation, relay.upstreamModel)
    const onFirstByte = () => monitor.recordFirstByte({ streamed: true })
    const { answered, error } = await streamAnswer(attempt, { relay, heartbeat, open, onFirstByte })
    if (error instanceof ClientGone) return this.#billAbandoned(attempt, relay)
    if (error && !answered) throw await this.#recordStopped(attempt, error, relay)
    const upstreamId = adapter.native ? relay.upstreamId : null
    const billed = isStopped(attempt, error)
      ? await this.#estimate(attempt, relay)
      : await this.#cover(
          await bill({ target, ...this.#billing }, { format, body, relay, broken: error !== null, upstreamId }),
        )
    if (this.client.gone) {
      monitor.recordAbandonment()
      return { ...billed, ...clientLeft }
    }
    if (error) return { ...billed, ...(await this.#endBroken(monitor, relay, withoutSecret(error, monitor.route))) }
    open()
    const ending = { usage: (this.cuts?.addTo(billed) ?? billed).shownUsage, provider: target.provider.name }
    await writeEnding(this.client, relay, ending, this.#input.storage)
    return billed
  }

  /** Ends a stream whose provider failed in the middle. */
  async #endBroken(monitor: CallMonitor, relay: AnswerRelay, error: unknown): Promise<Partial<Bill>> {
    if (error instanceof ProviderError) monitor.recordFailure(error)
    else monitor.recordAbandonment()
    const failure = this.toPublicError(error, monitor.route)
    await writeFailure(this.client, relay, failure, this.#input.storage)
    return { ...failureOutcome(failure), finishReason: 'error' }
  }

  /** The bill of a call, whose cost is reserved. */
  #cover(bill: Bill): Bill | Promise<Bill> {
    return this.#extensions?.cover(bill) ?? bill
  }

  /** The bill of a call that was aborted because its client disconnected. */
  async #billAbandoned(attempt: RunAttempt<K>, relay: AnswerRelay | null): Promise<Bill> {
    attempt.monitor.recordAbandonment()
    return { ...(await this.#estimate(attempt, relay)), ...clientLeft }
  }

  /** Records the usage of a call that was ended on behalf of its caller; returns its error. */
  async #recordStopped(attempt: RunAttempt<K>, error: unknown, relay: AnswerRelay | null): Promise<unknown> {
    if (isStopped(attempt, error)) this.#stopped = await this.#estimate(attempt, relay)
    else if (isCutByCaller(attempt.monitor, error))
      this.recordCut(error, await this.#estimate(attempt, relay), this.#input.key, attempt.reservation)
    return error
  }

  /** The estimated bill of an aborted call. */
  async #estimate(attempt: RunAttempt<K>, relay: AnswerRelay | null): Promise<Bill> {
    const { target } = attempt.call
    const free = this.policy.environment === 'test' || this.client.leaving === 'unbilled'
    if (free || this.#sentMs === null) return unbilled(target)
    const call = { ...attempt, target, ...this.#billing, sentMs: this.#sentMs, relay }
    return this.#cover(await billAborted(this.services, this.#format, this.#input, call))
  }

  protected override settle(reservation: Reservation, plan: RoutingPlan, outcome: RunOutcome): Report {
    reservation.extraNano = (reservation.extraNano ?? 0) + (this.#extensions?.reservedNano ?? 0)
    const signals = plan.reason ? signalsOf(this.services.config, this.policy, this.#input, outcome) : null
    return super.settle(reservation, signals ? { ...plan, signals } : plan, outcome)
  }

  protected override toPublicError(error: unknown, brokenRoute?: Route): GatewayError {
    const known = { format: this.#format, failed: this.failedAttempts, catalog: this.services.catalog }
    return restateFailure(super.toPublicError(error, brokenRoute), { ...this.#input, ...known })
  }
}
