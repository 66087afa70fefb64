import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Known } from '../keys/policies.ts'
import { assertUsable } from '../keys/policies.ts'
import { allowsScope, type Policy, type Scope } from '../keys/policy.ts'
import type { Features } from '../kinds/features.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import { type Call, ProviderError, type Target } from '../providers/contract.ts'
import type { Services } from '../services.ts'
import { rateHeaders, type Spender, type Ticket } from '../wallet/admission.ts'
import { type Attempt, ClientGone, streamAnswer, wholeAnswer } from './attempt.ts'
import { type Bill, bill } from './bill.ts'
import type { Client } from './client.ts'
import { failureOf, isRequestFault, type Tried } from './failures.ts'
import { fetchMedia } from './media.ts'
import { boundOf } from './pricing.ts'
import { PassingRelay, type Piece, type Relay, TranslatingRelay } from './relay.ts'
import { type Decision, route } from './router.ts'

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

/** What the request log tells of a finished run. */
export type Report = {
  generationId: string
  model: string | null
  provider: string | null
  mode: string | null
  attempts: number
  status: number
  errorCode: string | null
  costNano: number
}

/**
 * Runs one request from admission to settlement: decides, reserves, tries providers until one answers, relays, charges.
 * Throws the GatewayError to answer with when nothing was written to the client yet; once a stream has begun, a failure is
 * written into it. Whatever happens, the reservation is resolved exactly once.
 */
export async function run<K extends DirectKind>(services: Services, order: Order<K>, client: Client): Promise<Report> {
  const run = new Run(services, order, client)
  return run.start()
}

/** Asserts what a policy must allow before a request is even looked at. Throws 401 or 403. */
export function authorise(policy: Policy, scope: Scope, nowMs: number): void {
  assertUsable(policy, nowMs)
  if (!allowsScope(policy, scope)) {
    throw new GatewayError(
      'insufficient_scope',
      `This key’s scopes do not allow this route (it needs ${scope === '*' ? '`*`' : `\`${scope}\` or \`*\``}).`,
    )
  }
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
      if (error instanceof ClientGone)
        return this.#settle(ticket, decision, { ...nothing, status: 499, errorCode: clientClosed })
      const failure = this.#failure(error)
      this.#settle(ticket, decision, { ...nothing, status: failure.status, errorCode: failure.code })
      failure.headers['x-gateway-attempts'] ??= String(this.#tried.length)
      throw failure
    }
    return this.#settle(ticket, decision, bill)
  }

  async #admit(): Promise<{ decision: Decision; ticket: Ticket }> {
    const services = this.#services
    const { kind, body, features, scope } = this.#order
    let known = this.#order.known
    for (let round = 0; round < 3; round++) {
      authorise(known.policy, scope, services.clock.now())
      this.#policy = known.policy
      const world = { ...services, marginPpm: this.#marginPpm }
      const decision = route(world, known.policy, kind, body as never, features)
      const bound = boundOf(decision.targets, features, this.#marginPpm)
      const admitted = await services.admission.admit(spenderOf(known.policy), known.fresh, this.#id, bound)
      if (!('stale' in admitted)) return { decision, ticket: admitted }
      known = await services.policies.read(known.policy.hash, admitted.stale)
    }
    throw new GatewayError('service_unavailable', 'This key is changing right now. Try again.', {
      headers: { 'retry-after': '1' },
    })
  }

  async #serve(decision: Decision, ticket: Ticket): Promise<Bill> {
    let last: Error | null = null
    for (const target of withRetry(decision.targets)) {
      if (this.#client.gone) throw new ClientGone('the client went away')
      const startedMs = this.#services.clock.now()
      try {
        const bill = await this.#attempt(target, decision, ticket)
        if (this.#policy.environment === 'live' && !bill.errorCode) {
          this.#services.health.succeeded(
            target.provider.name,
            target.model.id,
            (this.#firstByteMs ?? startedMs) - startedMs,
          )
        }
        return bill
      } catch (error) {
        last = error as Error
        if (!(error instanceof ProviderError)) throw error
        this.#tried.push({ target, error })
        if (isRequestFault(error)) throw error
        if (this.#policy.environment === 'live')
          this.#services.health.failed(target.provider.name, target.model.id, error)
        this.#services.log.warn(
          {
            provider: target.provider.name,
            model: target.model.id,
            reason: error.reason,
            status: error.status,
            err: error.cause,
          },
          'attempt failed',
        )
      }
    }
    throw last ?? new ProviderError('connection', 'no provider was tried')
  }

  async #attempt(target: Target, decision: Decision, ticket: Ticket): Promise<Bill> {
    const { kind, body, raw, stream } = this.#order
    const environment = this.#policy.environment
    const served = this.#services.upstreams.adapter(kind, target, environment)!
    const call: Call<K> = {
      target,
      body,
      raw,
      maxTokens: ticket.clamped ? ticket.outputTokens : null,
      media: await fetchMedia(this.#services, served.adapter, body),
    }
    const attempt: Attempt<K> = {
      upstreams: this.#services.upstreams,
      environment,
      ...served,
      call,
      client: this.#client,
    }
    return stream ? this.#stream(attempt, decision, ticket) : this.#whole(attempt, decision, ticket)
  }

  async #whole(attempt: Attempt<K>, decision: Decision, ticket: Ticket): Promise<Bill> {
    const { adapter, call } = attempt
    const json = await wholeAnswer(attempt, this.#noteFirstByte)
    const answer = adapter.answer(json, call) as Answerish
    const upstreamId = answer.id ?? null
    const billed = await bill(this.#billing(call.target, ticket), {
      kind: this.#order.kind,
      body: this.#order.body,
      answer,
      upstreamId,
    })
    const { model: _model, usage: _usage, ...rest } = answer
    const shown = {
      ...rest,
      ...(!adapter.native && 'id' in answer && { id: this.#id }),
      model: adapter.native ? answer.model : call.target.model.id,
      provider: call.target.provider.name,
      usage: billed.shownUsage,
    }
    this.#client.answer(
      { ...this.#headers(call.target, decision, ticket), 'x-gateway-cost-usd': decimal(billed.costNano) },
      JSON.stringify(shown),
    )
    return { ...billed, target: call.target }
  }

  async #stream(attempt: Attempt<K>, decision: Decision, ticket: Ticket): Promise<Bill> {
    const { call, adapter } = attempt
    const relay = this.#relay(attempt)
    const open = () => this.#client.open(this.#headers(call.target, decision, ticket))
    const { started, error } = await streamAnswer(attempt, relay, this.#services.keepAlive, open, this.#noteFirstByte)
    if (error && !started) throw error
    const gone = error instanceof ClientGone || this.#client.gone
    const failed = error !== null || gone
    const produced = relay.tally.produced || (relay.usage?.completion_tokens ?? 0) > 0
    const billed = await bill(this.#billing(call.target, ticket), {
      kind: this.#order.kind,
      body: this.#order.body,
      relay,
      upstreamId: adapter.native ? relay.upstreamId : null,
      produced: produced && !(failed && !relay.tally.produced),
    })
    if (failed) return { ...billed, target: call.target, ...this.#brokenOff(relay, error, gone) }
    this.#client.write(
      relay.ending({
        usage: billed.shownUsage,
        provider: call.target.provider.name,
        includeUsage: this.#order.includeUsage,
      }),
      relay.encoding,
    )
    this.#client.end()
    return { ...billed, target: call.target }
  }

  #brokenOff(relay: Relay, error: Error | null, gone: boolean): Pick<Bill, 'status' | 'errorCode' | 'finishReason'> {
    if (gone) return { status: 499, errorCode: clientClosed, finishReason: relay.finishReason }
    const failure = this.#failure(error)
    this.#client.write(relay.failing(failure.body.error), relay.encoding)
    this.#client.end()
    return { status: failure.status, errorCode: failure.code, finishReason: 'error' }
  }

  #relay({ adapter, call }: Attempt<K>): Relay {
    const provider = call.target.provider.name
    const decoder = adapter.stream!(call) as { push(event: { event: string; data: string }): Piece[]; done: boolean }
    return adapter.native
      ? new PassingRelay(provider, decoder, this.#order.features.choices)
      : new TranslatingRelay(provider, decoder, this.#id)
  }

  readonly #noteFirstByte = () => {
    this.#firstByteMs = this.#services.clock.now()
  }

  #billing(target: Target, ticket: Ticket) {
    return { target, ticket, marginPpm: this.#marginPpm, free: this.#policy.environment === 'test' }
  }

  #headers(target: Target, decision: Decision, ticket: Ticket): Record<string, string> {
    const headers: Record<string, string> = {
      'x-generation-id': this.#id,
      'x-gateway-model': target.model.id,
      'x-gateway-provider': target.provider.name,
      'x-gateway-mode': decision.mode,
      'x-gateway-attempts': String(this.#tried.length + 1),
    }
    if (ticket.clamped) headers['x-gateway-max-tokens-clamped'] = String(ticket.outputTokens)
    if (this.#policy.environment === 'test') headers['x-sandbox'] = 'true'
    return Object.assign(headers, rateHeaders(ticket.rates))
  }

  #failure(error: unknown): GatewayError {
    if (error instanceof ProviderError) return failureOf(this.#tried.length > 0 ? this.#tried : [], error)
    if (error instanceof GatewayError) return error
    this.#services.log.error({ err: error }, 'run failed')
    return new GatewayError(
      'internal_error',
      'Something went wrong on our side. Quote the request id when you report it.',
      { cause: error },
    )
  }

  #settle(ticket: Ticket, decision: Decision, bill: Omit<Bill, 'shownUsage'>): Report {
    const { kind, requestId, stream } = this.#order
    const policy = this.#policy
    const now = this.#services.clock.now()
    const target = bill.target ?? this.#tried.at(-1)?.target ?? null
    const attempts = this.#tried.length + (bill.target ? 1 : 0)
    const { usage } = bill
    const model = target?.model.id ?? decision.targets[0]!.model.id
    this.#services.admission.settle(ticket, bill.costNano, usage.prompt_tokens + usage.completion_tokens, {
      id: this.#id,
      at: this.#startedMs,
      org: policy.organisationId,
      key: policy.keyId,
      month: ticket.month,
      environment: policy.environment,
      requestId,
      upstreamId: bill.upstreamId,
      kind,
      model,
      provider: target?.provider.name ?? null,
      mode: decision.mode,
      status: bill.status,
      errorCode: bill.errorCode,
      finishReason: bill.finishReason,
      streamed: stream,
      attempts,
      promptTokens: usage.prompt_tokens,
      completionTokens: usage.completion_tokens,
      cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
      reasoningTokens: usage.completion_tokens_details?.reasoning_tokens ?? 0,
      estimated: usage.estimated === true,
      cost: bill.costNano,
      cap: policy.capNano,
      firstByteMs: this.#firstByteMs === null ? null : this.#firstByteMs - this.#startedMs,
      durationMs: now - this.#startedMs,
    })
    return {
      generationId: this.#id,
      model,
      provider: target?.provider.name ?? null,
      mode: decision.mode,
      attempts,
      status: bill.status,
      errorCode: bill.errorCode,
      costNano: bill.costNano,
    }
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

/** A lone target gets a second try: one broken connection should not fail a request. */
function withRetry(targets: Target[]): Target[] {
  return targets.length === 1 ? [targets[0]!, targets[0]!] : targets
}

/** Nano-dollars as USD in plain decimals, never with an exponent. */
function decimal(nano: number): string {
  return (nano / 1e9).toFixed(9).replace(/\.?0+$/, '')
}
