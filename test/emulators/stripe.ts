import { randomBytes } from 'node:crypto'
import Stripe from 'stripe'
import { Emulator, json, type Recorded, type Reply } from './emulator.ts'

export const secretKey = 'sk_test_emulated'
export const webhookSecret = 'whsec_emulated'
/** Without a network: only its functions for signatures are used. */
const { webhooks } = new Stripe(secretKey)

type Metadata = Record<string, string>
export type Session = {
  id: string
  url: string
  amount: number
  currency: string
  metadata: Metadata
  paymentId: string
  form: URLSearchParams
}
type Payment = { id: string; amount: number; currency: string; metadata: Metadata }
type Method = 'card' | 'us_bank_account'
export type StripeEvent = { id: string; type: string; data: { object: Record<string, unknown> } }

const known =
  /^(mode|allowed_payment_method_types\[\d\]|payment_method_options\[us_bank_account\]\[verification_method\]|line_items\[0\]\[(quantity|price_data\]\[(currency|unit_amount|product_data\]\[name))\]|adaptive_pricing\[enabled\]|customer_email|client_reference_id|metadata\[\w+\]|payment_intent_data\[(description|metadata\]\[\w+)\]|success_url|cancel_url)$/
const amountField = 'line_items[0][price_data][unit_amount]'
const currencyField = 'line_items[0][price_data][currency]'

/** Emulates Stripe checkouts: sessions with payments, by id and by idempotency key; and signed events. */
export class StripeEmulator {
  readonly sessions = new Map<string, Session>()
  readonly #payments = new Map<string, Payment>()
  readonly #first = new Map<string, { body: string; answer: Reply }>()
  readonly #emulator: Emulator

  private constructor(emulator: Emulator) {
    this.#emulator = emulator
  }

  static async start(): Promise<StripeEmulator> {
    const emulator = await Emulator.start((request, response) => stripe.#answer(request)(request, response))
    const stripe: StripeEmulator = new StripeEmulator(emulator)
    return stripe
  }

  get url(): string {
    return this.#emulator.url
  }

  get requests(): Recorded[] {
    return this.#emulator.requests
  }

  /** The session of a top-up of ours. */
  sessionOf(topUpId: string): Session {
    return [...this.sessions.values()].find(({ metadata }) => metadata.top_up === topUpId)!
  }

  /** Answers the coming requests otherwise, one each. */
  next(...replies: Reply[]): void {
    this.#emulator.next(...replies)
  }

  /** The answer that a request gets, for a reply that does something before it. */
  reply(request: Recorded): Reply {
    return this.#answer(request)
  }

  async close(): Promise<void> {
    await this.#emulator.close()
  }

  /** `completed` by card is paid at once; a bank debit is not, until one of the `async_payment_…` events. */
  sessionEvent(
    { id, url, amount, currency, metadata, paymentId }: Session,
    step: 'completed' | 'async_payment_succeeded' | 'async_payment_failed' | 'expired',
    method: Method = 'us_bank_account',
    changed: Record<string, unknown> = {},
  ): StripeEvent {
    const paid = step === 'async_payment_succeeded' || (step === 'completed' && method === 'card')
    return event(`checkout.session.${step}`, {
      id,
      object: 'checkout.session',
      amount_total: amount,
      currency,
      client_reference_id: metadata.top_up ?? null,
      metadata,
      mode: 'payment',
      payment_intent: step === 'expired' ? null : paymentId,
      payment_status: paid ? 'paid' : 'unpaid',
      status: step === 'expired' ? 'expired' : 'complete',
      url,
      ...changed,
    })
  }

  refundEvent(
    type: 'created' | 'updated' | 'failed',
    paymentId: string,
    changed: Record<string, unknown>,
  ): StripeEvent {
    const refund = { id: 're_1', object: 'refund', currency: 'usd', status: 'succeeded', metadata: {} }
    return event(`refund.${type}`, { ...refund, payment_intent: paymentId, ...changed })
  }

  disputeEvent(
    type: 'created' | 'funds_withdrawn' | 'closed',
    paymentId: string,
    changed: Record<string, unknown>,
  ): StripeEvent {
    const dispute = { id: 'du_1', object: 'dispute', currency: 'usd', status: 'needs_response', metadata: {} }
    return event(`charge.dispute.${type}`, { ...dispute, payment_intent: paymentId, ...changed })
  }

  #answer(request: Recorded): Reply {
    if (request.headers.authorization !== `Bearer ${secretKey}`)
      return refusal(401, { type: 'invalid_request_error', message: 'Invalid API Key provided' })
    const [, , kind, , id] = /^\/v1\/(checkout\/)?(sessions|payment_intents)(\/(\w+))?$/.exec(request.path) ?? []
    if (request.method === 'POST' && kind === 'sessions' && !id) return this.#once(request)
    const found = kind === 'sessions' ? this.sessions.get(id!) : this.#payments.get(id!)
    if (request.method !== 'GET' || !found)
      return refusal(404, {
        type: 'invalid_request_error',
        code: 'resource_missing',
        message: `No such ${kind}: '${id}'`,
      })
    return json(200, 'form' in found ? presented(found as Session) : { object: 'payment_intent', ...found })
  }

  /** Replays the first response to an idempotency key; rejects a different request with the same key. */
  #once(request: Recorded): Reply {
    const key = String(request.headers['idempotency-key'])
    const body = request.raw.toString()
    const first = this.#first.get(key)
    if (first && first.body !== body)
      return refusal(400, { type: 'idempotency_error', message: 'Keys for idempotent requests can only be used once.' })
    const answer = first?.answer ?? this.#create(new URLSearchParams(body))
    this.#first.set(key, { body, answer })
    return answer
  }

  #create(form: URLSearchParams): Reply {
    const strange = [...form.keys()].find(field => !known.test(field))
    if (strange)
      return refusal(400, {
        type: 'invalid_request_error',
        code: 'parameter_unknown',
        param: strange,
        message: strange,
      })
    const amount = Number(form.get(amountField))
    if (form.get('mode') !== 'payment' || !Number.isInteger(amount) || amount < 50)
      return refusal(400, { type: 'invalid_request_error', param: amountField, message: 'Invalid integer' })
    const currency = form.get(currencyField)!
    const payment = { id: newId('pi'), amount, currency, metadata: metadataOf(form, 'payment_intent_data[metadata]') }
    const id = newId('cs_test')
    const session: Session = {
      id,
      url: `${this.url}/pay/${id}`,
      amount,
      currency,
      metadata: metadataOf(form, 'metadata'),
      paymentId: payment.id,
      form,
    }
    this.#payments.set(payment.id, payment)
    this.sessions.set(id, session)
    return json(200, presented(session))
  }
}

function presented({ id, url, amount, currency, metadata }: Session) {
  const object = 'checkout.session'
  return { id, object, url, amount_total: amount, currency, metadata, status: 'open', payment_status: 'unpaid' }
}

function refusal(status: number, error: object): Reply {
  return json(status, { error })
}

function metadataOf(form: URLSearchParams, field: string): Metadata {
  const own = [...form].filter(([name]) => name.startsWith(`${field}[`))
  return Object.fromEntries(own.map(([name, value]) => [name.slice(field.length + 1, -1), value]))
}

function newId(prefix: string): string {
  return `${prefix}_${randomBytes(12).toString('hex')}`
}

/** An event around an object. */
export function event(type: string, object: Record<string, unknown>): StripeEvent {
  const envelope = { id: newId('evt'), object: 'event', api_version: Stripe.API_VERSION, livemode: false }
  return { ...envelope, type, data: { object } }
}

/** The header that Stripe signs a payload with. */
export function signature(payload: string, atMs: number, secret = webhookSecret): string {
  return webhooks.generateTestHeaderString({ payload, secret, timestamp: Math.floor(atMs / 1000) })
}
