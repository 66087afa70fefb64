import type { GatewayError } from '../base/errors.ts'
import type { Known } from '../keys/policies.ts'
import { authorise, type Scope } from '../keys/policy.ts'
import type { Features } from '../kinds/features.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import { type Call, ProviderError, type Target } from '../providers/contract.ts'
import type { Ticket } from '../wallet/admission.ts'
import { mostCandidates } from '../wallet/routing-record.ts'
import { spenderOf } from '../wallet/spender.ts'
import { type Attempt, ClientGone, streamAnswer, wholeAnswer } from './attempt.ts'
import { BaseRun, clientClosed, type RunServices } from './base-run.ts'
import { type Bill, bill } from './bill.ts'
import type { Client } from './client.ts'
import { type Bulk, failover } from './failover.ts'
import type { Silent } from './keep-alive.ts'
import { fetchMedia, noMedia } from './media.ts'
import { refusalOf } from './options.ts'
import { boundOf, marginOf } from './pricing.ts'
import { errorEvent, type Relay, type Shape } from './relay.ts'
import { relayFor } from './relays.ts'
import { decimal, type Report } from './report.ts'
import { type Decision, type Home, route, wishOf, worldOf } from './router.ts'
import { sessionKey } from './sessions.ts'
import type { Watch } from './watch.ts'
import { billWhole } from './whole.ts'

/** One request for an answer, already validated. */
export type Order<K extends DirectKind> = {
  kind: K
  known: Known
  scope: Scope
  body: DirectKinds[K]['request']
  raw: Buffer | null
  features: Features
  requestId: string
  /** What the caller names the conversation; its requests stay where they were served. */
  session: string | null
  stream: boolean
  includeUsage: boolean
  /** Of delayed work, which nobody waits for; null when somebody does. */
  bulk: Bulk | null
}

/** How the ids of answers begin. */
export const idPrefix = { chat: 'chatcmpl', completion: 'cmpl', embedding: 'emb' } as const

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
  readonly #order: Order<K>
  readonly #marginPpm: bigint
  #session: string | null = null

  constructor(services: RunServices, order: Order<K>, client: Client) {
    super(services, client, idPrefix[order.kind], order.known.policy, order)
    this.#order = order
    this.#marginPpm = marginOf(services.config, order.kind, order.bulk?.discountPpm ?? 0n)
  }

  async start(): Promise<Report> {
    const home = await this.#recall()
    const { decision, ticket } = await this.#admit(home)
    let bill: Bill
    try {
      bill = await this.#serve(decision, home, ticket)
    } catch (error) {
      const eventOf = (failure: GatewayError, target: Target) => errorEvent(this.#shape(target), failure.body.error)
      return this.unanswered(error, decision, ticket, eventOf)
    }
    return this.settle(ticket, decision, bill)
  }

  /** Where this session was served before, if it is one. */
  async #recall(): Promise<Home | null> {
    const { session, body } = this.#order
    if (session === null) return null
    this.#session = sessionKey(this.policy, session, body)
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

  async #serve(decision: Decision, home: Home | null, ticket: Ticket): Promise<Bill> {
    const { keepAlive } = this.services
    const { targets } = decision
    const live = this.policy.environment === 'live'
    const { bulk } = this.#order
    const search = { targets, live, home, startedMs: this.startedMs, client: this.client, tried: this.tried, bulk }
    const silent = this.silent(decision, ticket)
    if (this.#order.stream) keepAlive.watch(silent)
    try {
      return await failover(this.services, search, watch => this.#attempt(watch, decision, ticket, silent))
    } finally {
      keepAlive.unwatch(silent)
    }
  }

  async #attempt(watch: Watch, decision: Decision, ticket: Ticket, silent: Silent): Promise<Bill> {
    const { kind, body, raw, stream } = this.#order
    const { upstreams, sessions } = this.services
    const { route } = watch
    const { target, credential } = route
    this.call = watch
    const { environment } = this.policy
    if (environment === 'test') {
      // The sandbox can express everything; the provider it stands for may not.
      const refusal = refusalOf(upstreams, kind, target, body)
      if (refusal) throw refusal
    }
    const served = upstreams.adapter(kind, target, environment)!
    const maxTokens = ticket.clamped ? ticket.outputTokens : null
    const media = served.adapter.remoteMedia ? await fetchMedia(this.services, served.adapter, body) : noMedia
    const call: Call<K> = { target, body, raw, maxTokens, media }
    const attempt: Attempt<K> = { upstreams, route, ...served, call, client: this.client }
    const bill = await (stream
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
    const json = await wholeAnswer(attempt, () => watch.began({ streamed: false }))
    const { kind } = this.#order
    const { billed, shown } = await billWhole({ kind, adapter, call, json, id: this.id }, this.#billing(ticket))
    const headers = this.headers(call.target, decision, ticket, this.tried.length + 1)
    headers['x-gateway-cost-usd'] = decimal(billed.costNano)
    this.client.answer(headers, JSON.stringify(shown))
    return billed
  }

  async #stream(attempt: Attempt<K>, watch: Watch, decision: Decision, ticket: Ticket, silent: Silent): Promise<Bill> {
    const { call, adapter } = attempt
    const { target } = call
    const relay = relayFor(attempt, this.#shape(target), this.#order.features.choices)
    const open = () => this.open(target, decision, ticket)
    const onFirstByte = () => watch.began({ streamed: true })
    const { answered, error } = await this.services.keyWatch.during(this.#order.known, ended =>
      streamAnswer(attempt, relay, silent, open, onFirstByte, ended),
    )
    if (error && !answered) throw error
    const gone = error instanceof ClientGone || this.client.gone
    const { kind, body, includeUsage } = this.#order
    const upstreamId = adapter.native ? relay.upstreamId : null
    const broken = error !== null || gone
    const billing = { target, ...this.#billing(ticket) }
    const billed = await bill(billing, { kind, body, relay, broken, upstreamId })
    if (gone) {
      watch.abandoned()
      return { ...billed, status: 499, errorCode: clientClosed }
    }
    if (error) return { ...billed, ...this.#brokenOff(watch, relay, error) }
    open()
    this.client.write(
      relay.ending({ usage: billed.shownUsage, provider: target.provider.name, includeUsage }),
      relay.encoding,
    )
    this.client.end()
    return billed
  }

  /** Ends a stream whose provider failed in the middle, or whose key was revoked. */
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

  #billing(ticket: Ticket) {
    return { ticket, marginPpm: this.#marginPpm, free: this.policy.environment === 'test' }
  }
}
