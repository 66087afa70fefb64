import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Known } from '../keys/policies.ts'
import { authorise, type Policy, type Scope } from '../keys/policy.ts'
import type { Features } from '../kinds/features.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import { type Call, ProviderError, type Target } from '../providers/contract.ts'
import type { Services } from '../services.ts'
import type { Spender, Ticket } from '../wallet/admission.ts'
import { type Attempt, ClientGone, streamAnswer, wholeAnswer } from './attempt.ts'
import { type Bill, bill } from './bill.ts'
import type { Client } from './client.ts'
import { failureOf, internalError, isFleeting, isRequestFault, type Tried } from './failures.ts'
import { fetchMedia, noMedia } from './media.ts'
import { boundOf } from './pricing.ts'
import { errorEvent, type Relay, relayFor, type Shape } from './relay.ts'
import { answerHeaders, decimal, type Ended, type Report, reportOf, usageEvent } from './report.ts'
import { type Decision, refusalOf, route } from './router.ts'

/** One request for an answer while the caller waits, already validated. */
export type Order<K extends DirectKind> = {
  kind: K
  known: Known
  scope: Scope
  body: DirectKinds[K]['request']
  raw: Buffer | null
  features: Features
  requestId: string
  stream: boolean
  includeUsage: boolean
}

const idPrefix = { chat: 'chatcmpl', completion: 'cmpl', embedding: 'emb' } as const

/**
 * Runs one request from admission to settlement: decides, reserves, tries providers until one answers, relays, charges.
 * Throws the GatewayError to answer with when nothing was written to the client yet; once a stream has begun, a failure is
 * written into it. Whatever happens, the reservation is resolved exactly once.
 */
export async function run<K extends DirectKind>(services: Services, order: Order<K>, client: Client): Promise<Report> {
  const run = new Run(services, order, client)
  return run.start()
}

/** The part of a policy that the admission works with. */
export function spenderOf(policy: Policy): Spender {
  const { hash, version, keyId, organisationId, expiresAtMs, rpmLimit, tpmLimit, capNano, environment } = policy
  return {
    hash,
    version,
    keyId,
    organisationId,
    expiresAtMs,
    rpmLimit,
    tpmLimit,
    capNano,
    spendsMoney: environment === 'live',
  }
}

class Run<K extends DirectKind> {
  readonly #services: Services
  readonly #order: Order<K>
  readonly #client: Client
  readonly #startedMs: number
  readonly #marginPpm: bigint
  readonly #id: string
  readonly #tried: Tried[] = []
  #policy: Policy
  #firstByteMs: number | null = null
  #opened = false

  constructor(services: Services, order: Order<K>, client: Client) {
    this.#services = services
    this.#order = order
    this.#client = client
    this.#startedMs = services.clock.now()
    this.#marginPpm = order.kind === 'embedding' ? services.config.embeddingsSurchargePpm : services.config.marginPpm
    this.#id = newId(idPrefix[order.kind])
    this.#policy = order.known.policy
  }

  async start(): Promise<Report> {
    const { decision, ticket } = await this.#admit()
    let bill: Bill
    try {
      bill = await this.#serve(decision, ticket)
    } catch (error) {
      return this.#failed(error, decision, ticket)
    }
    return this.#settle(ticket, decision, bill)
  }

  async #admit(): Promise<{ decision: Decision; ticket: Ticket }> {
    const services = this.#services
    const { kind, body, features, scope, known } = this.#order
    const world = { ...services, marginPpm: this.#marginPpm }
    const admitted = await services.policies.decide(known, async ({ policy, fresh }) => {
      authorise(policy, scope, services.clock.now())
      const decision = route(world, policy, kind, body, features)
      const bound = boundOf(decision.targets, features, this.#marginPpm)
      const ticket = await services.admission.admit(spenderOf(policy), fresh, this.#id, bound)
      return 'stale' in ticket ? ticket : { decision, ticket }
    })
    this.#policy = known.policy
    return admitted
  }

  /** Tries the targets in turn until one answers or breaks off. Throws what the last one failed with. */
  async #serve(decision: Decision, ticket: Ticket): Promise<Bill> {
    const targets = [...decision.targets]
    let failure: ProviderError | null = null
    let refusal: GatewayError | null = null
    for (let target = targets.shift(); target; target = targets.shift()) {
      if (this.#client.gone) throw new ClientGone('the client went away')
      try {
        return await this.#attempt(target, decision, ticket)
      } catch (error) {
        if (error instanceof GatewayError && error.code === 'unsupported_capability') {
          refusal ??= error // Another provider of the model may speak a dialect that can express it.
          continue
        }
        if (!(error instanceof ProviderError)) throw error
        failure = error
        this.#tried.push({ target, error })
        if (isRequestFault(error)) throw error
        this.#noteFailure(target, error)
        // One broken connection should not fail a request that nobody else can serve.
        if (decision.targets.length === 1 && this.#tried.length === 1 && isFleeting(error)) targets.push(target)
      }
    }
    throw failure ?? refusal ?? new Error('no target was tried')
  }

  async #attempt(target: Target, decision: Decision, ticket: Ticket): Promise<Bill> {
    const { kind, body, raw, stream } = this.#order
    const { upstreams, health, clock } = this.#services
    const { environment } = this.#policy
    const startedMs = clock.now()
    if (environment === 'test') {
      // The sandbox can express everything; the provider it stands for may not.
      const refusal = refusalOf(upstreams, kind, target, body)
      if (refusal) throw refusal
    }
    const served = upstreams.adapter(kind, target, environment)!
    const maxTokens = ticket.clamped ? ticket.outputTokens : null
    const media = served.adapter.remoteMedia ? await fetchMedia(this.#services, served.adapter, body) : noMedia
    const call: Call<K> = { target, body, raw, maxTokens, media }
    const attempt: Attempt<K> = { upstreams, environment, ...served, call, client: this.#client }
    const bill = await (stream ? this.#stream(attempt, decision, ticket) : this.#whole(attempt, decision, ticket))
    if (environment === 'live' && !bill.errorCode)
      health.succeeded(target.provider.name, target.model.id, (this.#firstByteMs ?? startedMs) - startedMs)
    return bill
  }

  #noteFailure({ provider, model }: Target, error: ProviderError): void {
    const { health, log } = this.#services
    const { reason, status, cause } = error
    if (this.#policy.environment === 'live' && !isRequestFault(error)) health.failed(provider.name, model.id, error)
    log.warn({ provider: provider.name, model: model.id, reason, status, err: cause }, 'attempt failed')
  }

  async #whole(attempt: Attempt<K>, decision: Decision, ticket: Ticket): Promise<Bill> {
    const { adapter, call } = attempt
    const json = await wholeAnswer(attempt, this.#noteFirstByte)
    const answer = adapter.answer(json, call) as Answerish
    const upstreamId = answer.id ?? null
    const { kind, body } = this.#order
    const billed = await bill(this.#billing(call.target, ticket), { kind, body, answer, upstreamId })
    const { model: _model, usage: _usage, ...rest } = answer
    const shown = {
      ...rest,
      ...(!adapter.native && 'id' in answer && { id: this.#id }),
      model: adapter.native ? answer.model : call.target.model.id,
      provider: call.target.provider.name,
      usage: billed.shownUsage,
    }
    const headers = this.#headers(call.target, decision, ticket, this.#tried.length + 1)
    headers['x-gateway-cost-usd'] = decimal(billed.costNano)
    this.#client.answer(headers, JSON.stringify(shown))
    return { ...billed, target: call.target }
  }

  async #stream(attempt: Attempt<K>, decision: Decision, ticket: Ticket): Promise<Bill> {
    const { call, adapter } = attempt
    const { target } = call
    const relay = relayFor(attempt, this.#shape(target), this.#order.features.choices)
    const open = () => this.#open(target, decision, ticket)
    const { answered, error } = await streamAnswer(attempt, relay, this.#services.keepAlive, open, this.#noteFirstByte)
    if (error && !answered) throw error
    const gone = error instanceof ClientGone || this.#client.gone
    const { kind, body, includeUsage } = this.#order
    const upstreamId = adapter.native ? relay.upstreamId : null
    const broken = error !== null || gone
    const billed = await bill(this.#billing(target, ticket), { kind, body, relay, broken, upstreamId })
    if (gone) return { ...billed, status: 499, errorCode: clientClosed }
    if (error) return { ...billed, ...this.#brokenOff(target, relay, error) }
    open()
    this.#client.write(
      relay.ending({ usage: billed.shownUsage, provider: target.provider.name, includeUsage }),
      relay.encoding,
    )
    this.#client.end()
    return billed
  }

  #open(target: Target, decision: Decision, ticket: Ticket): void {
    if (this.#opened) return
    this.#opened = true
    this.#client.open(this.#headers(target, decision, ticket, this.#tried.length + 1))
  }

  /** Ends a stream whose provider failed in the middle. */
  #brokenOff(target: Target, relay: Relay, error: Error): Pick<Bill, 'status' | 'errorCode' | 'finishReason'> {
    const tried = error instanceof ProviderError ? [...this.#tried, { target, error }] : this.#tried
    if (error instanceof ProviderError) this.#noteFailure(target, error)
    const failure = this.#publicFailure(error, tried)
    this.#client.write(relay.failing(failure.body.error), relay.encoding)
    this.#client.end()
    return { status: failure.status, errorCode: failure.code, finishReason: 'error' }
  }

  /** Nobody answered: the error goes into a stream that keep-alives have opened, else to whoever writes the response. */
  #failed(error: unknown, decision: Decision, ticket: Ticket): Report {
    if (error instanceof ClientGone) {
      return this.#settle(ticket, decision, { ...nothing, status: 499, errorCode: clientClosed })
    }
    const failure = this.#publicFailure(error, this.#tried)
    const report = this.#settle(ticket, decision, { ...nothing, status: failure.status, errorCode: failure.code })
    const target = this.#tried.at(-1)?.target ?? decision.targets[0]!
    if (!this.#opened) {
      Object.assign(failure.headers, this.#headers(target, decision, ticket, this.#tried.length))
      throw failure
    }
    this.#client.write(errorEvent(this.#shape(target), failure.body.error), 'utf8')
    this.#client.end()
    return report
  }

  #shape({ model }: Target): Shape {
    const object = this.#order.kind === 'completion' ? 'text_completion' : 'chat.completion.chunk'
    return { id: this.#id, object, created: Math.floor(this.#startedMs / 1000), model: model.id }
  }

  readonly #noteFirstByte = () => {
    this.#firstByteMs = this.#services.clock.now()
  }

  #billing(target: Target, ticket: Ticket) {
    return { target, ticket, marginPpm: this.#marginPpm, free: this.#policy.environment === 'test' }
  }

  #headers(target: Target, decision: Decision, ticket: Ticket, attempts: number): Record<string, string> {
    const test = this.#policy.environment === 'test'
    return answerHeaders({ id: this.#id, target, mode: decision.mode, ticket, attempts, test })
  }

  #publicFailure(error: unknown, tried: readonly Tried[]): GatewayError {
    if (error instanceof ProviderError) return failureOf(tried, error)
    if (error instanceof GatewayError) return error
    this.#services.log.error({ err: error }, 'run failed')
    return internalError(error)
  }

  #settle(ticket: Ticket, { mode, targets }: Decision, ended: Ended): Report {
    const target = ended.target ?? this.#tried.at(-1)?.target ?? null
    const run = {
      ...this.#order,
      id: this.#id,
      policy: this.#policy,
      mode,
      model: target?.model.id ?? targets[0]!.model.id,
      provider: target?.provider.name ?? null,
      attempts: this.#tried.length + (ended.target ? 1 : 0),
      startedMs: this.#startedMs,
      firstByteMs: this.#firstByteMs === null ? null : this.#firstByteMs - this.#startedMs,
      durationMs: this.#services.clock.now() - this.#startedMs,
    }
    const { usage, costNano } = ended
    const tokens = usage.prompt_tokens + usage.completion_tokens
    this.#services.admission.settle(ticket, costNano, tokens, usageEvent(run, ticket, ended))
    return reportOf(run, ended)
  }
}

type Answerish = { id?: string; model: string; usage?: unknown; choices?: unknown; data?: unknown }

/** In the log only: nobody is there to read it (contract §2, 499). */
const clientClosed = 'client_closed_request'

const nothing = {
  target: null,
  usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
  costNano: 0,
  upstreamId: null,
  finishReason: null,
} as const
