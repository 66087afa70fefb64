import { GatewayError } from '../base/errors.ts'
import { canReason, reasonsBesideLimit } from '../catalog/traits.ts'
import { authorise } from '../keys/policy.ts'
import type { ChatRequest } from '../kinds/chat.ts'
import type { DirectKind } from '../kinds/index.ts'
import { type Call, ProviderError, type Target } from '../providers/contract.ts'
import type { Ticket } from '../wallet/admission.ts'
import { mostCandidates } from '../wallet/routing-record.ts'
import { spenderOf } from '../wallet/spender.ts'
import { abandonedUsage, broughtBy } from './abandoned.ts'
import { type Attempt, ClientGone, isStopped, streamAnswer, wholeAnswer } from './attempt.ts'
import { BaseRun, left, nothing, type RunServices, type Way } from './base-run.ts'
import { type Bill, bill } from './bill.ts'
import type { Client } from './client.ts'
import { failover } from './failover.ts'
import { maxSilence } from './first-token.ts'
import type { Silent } from './keep-alive.ts'
import { measureRequest } from './measure.ts'
import { fetchMedia, noMedia } from './media.ts'
import { rehearsal } from './options.ts'
import { idPrefix, type Order } from './order.ts'
import { boundOf, chargeNano, marginOf, maxPicoPerOutputToken } from './pricing.ts'
import { errorEvent, type Relay, type Shape } from './relay.ts'
import { relayFor } from './relays.ts'
import { decimal, type Ended, type Report } from './report.ts'
import { type Decision, type Home, route, wishOf, worldOf } from './router.ts'
import { sessionKey } from './sessions.ts'
import { reserveBeside, Stretches } from './stretches.ts'
import type { Watch } from './watch.ts'
import { billWhole } from './whole.ts'
import { type Received, wholeText } from './whole-text.ts'

/**
 * Runs one request from admission to settlement: decides, reserves, tries providers until one answers, relays, charges.
 * Throws the GatewayError to answer with when nothing was written to the client yet; once a stream has begun, a failure is
 * written into it. Whatever happens, the reservation is resolved exactly once.
 */
export async function run<K extends DirectKind>(
  services: RunServices,
  order: Order<K>,
  client: Client,
): Promise<Report> {
  const run = new Run(services, order, client)
  return run.start()
}

class Run<K extends DirectKind> extends BaseRun {
  #order: Order<K>
  readonly #marginPpm: bigint
  #session: string | null = null
  /** When the provider under way had the request; null = it has none. */
  #sentMs: number | null = null
  /** What a call came to that was stopped before its client got anything. */
  #stopped: Bill | undefined
  #stretches: Stretches | null = null

  constructor(services: RunServices, order: Order<K>, client: Client) {
    super(services, client, idPrefix[order.kind], order.known.policy, order)
    this.#order = order
    this.#marginPpm = marginOf(services.config, order.kind, order.bulk?.discountPpm ?? 0n)
  }

  async start(): Promise<Report> {
    const { kind, features } = this.#order
    if (kind === 'chat' && (features.inputs.audio || features.inputs.file)) await this.#measure()
    const home = this.#order.session === null ? null : await this.#recall(this.#order.session)
    const { decision, ticket } = await this.#admit(home)
    try {
      const bill = await this.#serve(decision, home, ticket)
      return this.settle(ticket, decision, bill)
    } catch (error) {
      const eventOf = (failure: GatewayError, target: Target) => errorEvent(this.#shape(target), failure.body.error)
      return this.unanswered(error, decision, ticket, eventOf, this.#stopped)
    } finally {
      this.#stretches?.release()
    }
  }

  protected override settle(ticket: Ticket, way: Way, ended: Ended): Report {
    ticket.extraNano = (ticket.extraNano ?? 0) + (this.#stretches?.reservedNano ?? 0)
    return super.settle(ticket, way, ended)
  }

  /** Measures what a live request holds beside text, unless it would be refused anyway. */
  async #measure(): Promise<void> {
    const { services } = this
    const { kind, body, features, scope, known } = this.#order
    if (this.policy.environment === 'test') return
    const world = worldOf(services, this.#marginPpm)
    await services.policies.decide(known, ({ policy }) => {
      authorise(policy, scope, services.clock.now())
      return route(world, { policy, kind, request: body, features }, 0)
    })
    const measured = await measureRequest(services, body as ChatRequest, features, this.policy.organisationId)
    // Measuring takes its time: what was just read of the key no longer is.
    known.fresh = ''
    if (measured !== body) this.#order = { ...this.#order, body: measured as typeof body, raw: null }
  }

  /** Where a session was served before. */
  #recall(session: string): Promise<Home | null> {
    this.#session = sessionKey(this.policy, session, this.#order.body)
    return this.services.sessions.recall(this.#session)
  }

  async #admit(home: Home | null): Promise<{ decision: Decision; ticket: Ticket }> {
    const services = this.services
    const { kind, body, features, scope, known } = this.#order
    const world = worldOf(services, this.#marginPpm)
    // Why a model that was named is asked needs no telling.
    const told = wishOf(services.catalog, body.model, kind).auto ? mostCandidates : 0
    const admitted = await services.policies.decide(known, async ({ policy, fresh }) => {
      authorise(policy, scope, services.clock.now())
      const decision = route(world, { policy, kind, request: body, features, home }, told)
      const bound = boundOf(decision.targets, features, this.#marginPpm)
      const ticket = await services.admission.admit(spenderOf(policy), fresh, this.id, bound)
      return 'stale' in ticket ? ticket : { decision, ticket }
    })
    this.policy = known.policy
    return admitted
  }

  #serve(decision: Decision, home: Home | null, ticket: Ticket): Promise<Bill> {
    const { bulk, features, stream } = this.#order
    const { targets, overflow } = decision
    const { startedMs, client, tried, services } = this
    const { signal } = this.stopping
    const live = this.policy.environment === 'live'
    const maxSilenceMs = maxSilence(services.config.upstream, features, stream)
    const search = { targets, overflow, live, home, startedMs, client, tried, bulk, signal, maxSilenceMs }
    const silent = stream ? this.silent(decision, ticket) : null
    const serve = () => failover(services, search, watch => this.#attempt(watch, decision, ticket, silent))
    return silent ? this.#serveStream(silent, serve) : this.unlessRestarted(serve)
  }

  /** Serves with signs of life to the client, for as long as its key may go on. */
  async #serveStream(silent: Silent, serve: () => Promise<Bill>): Promise<Bill> {
    const { keepAlive, keyWatch } = this.services
    const unwatch = keepAlive.watch(silent)
    const watched = (ended: AbortSignal) => {
      ended.addEventListener('abort', () => this.stopping.abort(ended.reason), { once: true })
      return serve()
    }
    try {
      return await this.unlessRestarted(() => keyWatch.during(this.#order.known, watched))
    } finally {
      unwatch()
    }
  }

  async #attempt(watch: Watch, decision: Decision, ticket: Ticket, silent: Silent | null): Promise<Bill> {
    const { kind, body, raw, stream } = this.#order
    const { upstreams, sessions, admission } = this.services
    const { target, credential } = watch.route
    this.call = watch
    this.upstreamModel = null
    const { environment } = this.policy
    // The sandbox can express everything; the provider it stands for may not.
    const rehearsed = environment === 'test' ? rehearsal(upstreams, kind, target, body) : null
    if (rehearsed instanceof GatewayError) throw rehearsed
    const served = upstreams.adapter(kind, target, environment, body)!
    const maxTokens = ticket.clamped ? ticket.outputTokens : null
    const media = served.adapter.remoteMedia ? await fetchMedia(this.services, served.adapter, body) : noMedia
    const call: Call<K> = { target, body, raw, maxTokens, media }
    const requests = served.adapter.requests?.(call) ?? [served.adapter.request(call)]
    this.dropped = rehearsed ?? requests[0]!.dropped ?? []
    this.#sentMs = null
    const attempt: Attempt<K> = {
      ...{ upstreams, route: watch.route, ...served, call, requests, client: this.client },
      departures: this.services.departures,
      reasons: canReason(target.deployment),
      readOnMs: environment === 'live' ? this.services.config.readOnMs : 0,
      signal: this.stopping.signal,
      onSent: () => void (this.#sentMs ??= this.services.clock.now()),
    }
    if (environment === 'live' && reasonsBesideLimit(target)) this.#stretch(target, ticket)
    if (admission.asked) await admission.asked(target)
    const bill = await (silent
      ? this.#stream(attempt, watch, decision, ticket, silent)
      : this.#whole(attempt, watch, decision, ticket))
    this.firstByteMs = watch.firstByteMs
    if (bill.errorCode) return bill
    watch.succeeded(bill.usage.completion_tokens, { streamed: stream })
    if (this.#session) {
      const home = { model: target.model.id, provider: target.provider.name, credentialId: credential?.id ?? null }
      sessions.remember(this.#session, home)
    }
    return bill
  }

  async #whole(attempt: Attempt<K>, watch: Watch, decision: Decision, ticket: Ticket): Promise<Bill> {
    const { adapter, call } = attempt
    let received: Received
    try {
      received = await wholeAnswer(attempt, () => watch.began({ streamed: false }))
    } catch (error) {
      if (error instanceof ClientGone) return this.#abandoned(attempt, watch, ticket, null)
      throw await this.#unlessStopped(attempt, error, ticket, null)
    }
    const whole = { kind: this.#order.kind, adapter, call, json: received.json, id: this.id }
    const { billed, shown, upstreamModel } = await billWhole(whole, this.#billing)
    this.upstreamModel = upstreamModel
    const headers = this.headers(call.target, decision, ticket, this.tried.length + 1)
    headers['x-gateway-cost-usd'] = decimal(billed.costNano)
    this.client.answer(headers, wholeText(shown, received))
    return this.client.gone ? { ...billed, ...left } : billed
  }

  async #stream(attempt: Attempt<K>, watch: Watch, decision: Decision, ticket: Ticket, silent: Silent): Promise<Bill> {
    const { call, adapter } = attempt
    const { target } = call
    const { features, includeUsage } = this.#order
    const relay = relayFor(attempt, this.#shape(target), { choices: features.choices, includeUsage })
    const open = () => this.open(target, decision, ticket, relay.upstreamModel)
    const onFirstByte = () => watch.began({ streamed: true })
    const { answered, error } = await streamAnswer(attempt, relay, silent, open, onFirstByte)
    if (error instanceof ClientGone) return this.#abandoned(attempt, watch, ticket, relay)
    if (error && !answered) throw await this.#unlessStopped(attempt, error, ticket, relay)
    const { kind, body } = this.#order
    const upstreamId = adapter.native ? relay.upstreamId : null
    const billing = { target, ...this.#billing }
    const billed = isStopped(attempt, error)
      ? await this.#estimate(attempt, ticket, relay)
      : await bill(billing, { kind, body, relay, broken: error !== null, upstreamId })
    if (this.client.gone) {
      watch.abandoned()
      return { ...billed, ...left }
    }
    if (error) return { ...billed, ...this.#brokenOff(watch, relay, error) }
    open()
    this.client.write(relay.ending({ usage: billed.shownUsage, provider: target.provider.name }), relay.encoding)
    this.client.end()
    return billed
  }

  /** Reserves, while a call runs, for reasoning that its limit does not bound. */
  #stretch(target: Target, ticket: Ticket): void {
    const { services } = this
    const { known, scope, features } = this.#order
    this.#stretches?.release()
    this.#stretches = new Stretches({
      picoPerToken: maxPicoPerOutputToken(target, features, this.#marginPpm),
      nowMs: () => services.clock.now(),
      reserve: (nano, number) =>
        reserveBeside(services, known, scope, `${ticket.id}.${this.tried.length}.${number}`, nano),
      release: extra => this.release(extra),
      end: error => this.stopping.abort(error),
    })
  }

  /** The bill of a call that was cut because its client had left. */
  async #abandoned(attempt: Attempt<K>, watch: Watch, ticket: Ticket, relay: Relay | null): Promise<Bill> {
    watch.abandoned()
    return { ...(await this.#estimate(attempt, ticket, relay)), ...left }
  }

  /** The error of a call; what the call used is noted where it was stopped by us. */
  async #unlessStopped(attempt: Attempt<K>, error: unknown, ticket: Ticket, relay: Relay | null): Promise<unknown> {
    if (isStopped(attempt, error)) this.#stopped = await this.#estimate(attempt, ticket, relay)
    return error
  }

  /** What a call that was cut is taken to have used. */
  async #estimate({ call: { target }, reasons }: Attempt<K>, ticket: Ticket, relay: Relay | null): Promise<Bill> {
    const { clock, upstreams } = this.services
    const { kind, body, features } = this.#order
    const free = this.policy.environment === 'test' || this.client.leaving === 'unbilled'
    if (free || this.#sentMs === null) return { ...nothing, ...left, target, shownUsage: nothing.usage }
    const usage = await abandonedUsage({
      ...{ kind, body, features, target },
      elapsedMs: clock.now() - this.#sentMs,
      tokensPerSecond: upstreams.figures(target).tokensPerSecond,
      maxOutputTokens: ticket.outputTokens * features.choices,
      ...(await broughtBy(relay)),
      hidesOutput: relay === null || reasons,
    })
    const costNano = chargeNano(target.deployment, usage, this.#marginPpm)
    return { ...nothing, ...left, target, usage, shownUsage: { ...usage, cost: costNano / 1e9 }, costNano }
  }

  /** Ends a stream whose provider failed in the middle. */
  #brokenOff(watch: Watch, relay: Relay, error: Error): Pick<Bill, 'status' | 'errorCode' | 'finishReason'> {
    if (error instanceof ProviderError) watch.failed(error)
    else watch.abandoned()
    const failure = this.publicFailure(error, watch.route)
    this.client.write(relay.failing(failure.body.error), relay.encoding)
    this.client.end()
    return { status: failure.status, errorCode: failure.code, finishReason: 'error' }
  }

  #shape({ model }: Target): Shape {
    const object = this.#order.kind === 'completion' ? 'text_completion' : 'chat.completion.chunk'
    return { id: this.id, object, created: Math.floor(this.startedMs / 1000), model: model.id }
  }

  get #billing() {
    return { marginPpm: this.#marginPpm, free: this.policy.environment === 'test' }
  }
}
