import Stripe from 'stripe'
import { Emulator, json, type Recorded, type Reply } from './emulator.ts'
import {
  type CardBehaviour,
  metadataOf,
  newId,
  type Payment,
  presentCard,
  presentPayment,
  StripeCards,
} from './stripe-cards.ts'

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
/** A page at which a card is saved for a customer; `cardId` once it is. */
export type CardPage = { id: string; url: string; customer: string; metadata: Metadata; cardId: string | null }
type Method = 'card' | 'us_bank_account'
export type StripeEvent = { id: string; type: string; data: { object: Record<string, unknown> } }

const known =
  /^(mode|allowed_payment_method_types\[\d\]|payment_method_options\[us_bank_account\]\[verification_method\]|line_items\[0\]\[(quantity|price_data\]\[(currency|unit_amount|product_data\]\[name))\]|adaptive_pricing\[enabled\]|customer_email|client_reference_id|metadata\[\w+\]|payment_intent_data\[(description|metadata\]\[\w+)\]|success_url|cancel_url)$/
const knownOfCardPages =
  /^(mode|currency|customer|allowed_payment_method_types\[\d\]|metadata\[\w+\]|setup_intent_data\[metadata\]\[\w+\]|success_url|cancel_url)$/
const amountField = 'line_items[0][price_data][unit_amount]'
const currencyField = 'line_items[0][price_data][currency]'

/** Emulates Stripe: checkouts, saved cards and their charges, by id and by idempotency key; and signed events. */
export class StripeEmulator {
  readonly sessions = new Map<string, Session>()
  readonly cardPages = new Map<string, CardPage>()
  readonly cards: StripeCards
  /** Answers a request otherwise where it returns a reply: for faults that are no matter of the next requests only. */
  intercept: ((request: Recorded) => Reply | null) | null = null
  readonly #payments = new Map<string, Payment>()
  readonly #first = new Map<string, { body: string; answer: Reply }>()
  readonly #emulator: Emulator

  private constructor(emulator: Emulator, now: () => number) {
    this.#emulator = emulator
    this.cards = new StripeCards(this.#payments, refusal, now)
  }

  static async start(now = Date.now): Promise<StripeEmulator> {
    const emulator = await Emulator.start((request, response) =>
      (stripe.intercept?.(request) ?? stripe.#answer(request))(request, response),
    )
    const stripe: StripeEmulator = new StripeEmulator(emulator, now)
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

  /** What a person does at the latest page of an organisation: saves a card. Returns the event that Stripe sends. */
  saveCard(organisationId: string, behaviour: CardBehaviour, last4?: string): StripeEvent {
    const page = [...this.cardPages.values()].findLast(({ metadata }) => metadata.card_of === organisationId)!
    page.cardId = this.cards.save(page.customer, behaviour, last4).id
    return event('checkout.session.completed', this.#presentPage(page, false))
  }

  /** What Stripe tells of a charge as it is now. */
  chargeEvent(type: 'succeeded' | 'payment_failed' | 'requires_action' | 'canceled', paymentId: string): StripeEvent {
    return event(`payment_intent.${type}`, structuredClone(presentPayment(this.#payments.get(paymentId)!)))
  }

  /** A charge that was open, as it ends. */
  endCharge(paymentId: string, status: 'succeeded' | 'requires_payment_method' | 'canceled'): void {
    const payment = this.#payments.get(paymentId)!
    payment.status = status
    payment.amount_received = status === 'succeeded' ? payment.amount : 0
  }

  /** What Stripe does with idempotency keys after 24 hours at the earliest. */
  forgetKeys(): void {
    this.#first.clear()
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
    const [, , kind, , id, , action] =
      /^\/v1\/(checkout\/)?(sessions|payment_intents|payment_methods|customers)(\/(\w+)(\/(\w+))?)?$/.exec(
        request.path,
      ) ?? []
    if (request.method === 'POST' && (!id || action))
      return this.#once(request, form => this.#write(form, kind, id, action))
    if (request.method === 'GET' && kind === 'payment_intents' && !id) return this.cards.list(request.query)
    const page = kind === 'sessions' ? this.cardPages.get(id!) : undefined
    if (request.method === 'GET' && page) {
      const isExpanded = request.query.get('expand[0]') === 'setup_intent.payment_method'
      return json(200, this.#presentPage(page, isExpanded))
    }
    const found = kind === 'sessions' ? this.sessions.get(id!) : this.#payments.get(id!)
    if (request.method !== 'GET' || !found)
      return refusal(404, {
        type: 'invalid_request_error',
        code: 'resource_missing',
        message: `No such ${kind}: '${id}'`,
      })
    return json(200, 'form' in found ? presented(found as Session) : presentPayment(found as Payment))
  }

  #write(form: URLSearchParams, kind?: string, id?: string, action?: string): Reply {
    if (kind === 'sessions' && !id) return form.get('mode') === 'setup' ? this.#createPage(form) : this.#create(form)
    if (kind === 'customers' && !id) return this.cards.createCustomer(form)
    if (kind === 'payment_intents' && !id) return this.cards.charge(form)
    if (kind === 'payment_intents' && action === 'cancel') return this.cards.cancel(id!)
    if (kind === 'payment_methods' && action === 'detach') return this.cards.detach(id!)
    return refusal(404, { type: 'invalid_request_error', message: 'Unrecognized request URL' })
  }

  /** Replays the first response to an idempotency key; rejects a different request with the same key. */
  #once(request: Recorded, write: (form: URLSearchParams) => Reply): Reply {
    const key = request.headers['idempotency-key'] as string | undefined
    const body = request.raw.toString()
    if (key === undefined) return write(new URLSearchParams(body))
    const whole = `${request.path}?${body}`
    const first = this.#first.get(key)
    if (first && first.body !== whole)
      return refusal(400, { type: 'idempotency_error', message: 'Keys for idempotent requests can only be used once.' })
    const answer = first?.answer ?? write(new URLSearchParams(body))
    this.#first.set(key, { body: whole, answer })
    return answer
  }

  #createPage(form: URLSearchParams): Reply {
    const strange = [...form.keys()].find(field => !knownOfCardPages.test(field))
    if (strange) return refusal(400, { type: 'invalid_request_error', code: 'parameter_unknown', param: strange })
    if (!form.has('currency') && !form.has('allowed_payment_method_types[0]'))
      return refusal(400, { type: 'invalid_request_error', code: 'parameter_missing', param: 'currency' })
    const customer = form.get('customer')
    const refused = this.cards.refuseCustomer(customer)
    if (refused) return refused
    const id = newId('cs_test')
    const page = { id, url: `${this.url}/setup/${id}`, customer: customer!, metadata: metadataOf(form, 'metadata') }
    this.cardPages.set(id, { ...page, cardId: null })
    return json(200, this.#presentPage(this.cardPages.get(id)!, false))
  }

  #presentPage({ id, url, customer, metadata, cardId }: CardPage, isExpanded: boolean): Record<string, unknown> {
    const card = cardId === null ? null : this.cards.cards.get(cardId)!
    const intent = { id: `seti_${id}`, object: 'setup_intent', payment_method: card && presentCard(card) }
    return {
      id,
      object: 'checkout.session',
      mode: 'setup',
      url,
      customer,
      metadata,
      currency: 'usd',
      amount_total: null,
      payment_intent: null,
      payment_status: 'no_payment_required',
      status: card ? 'complete' : 'open',
      setup_intent: isExpanded ? intent : intent.id,
    }
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

/** An event around an object. */
export function event(type: string, object: Record<string, unknown>): StripeEvent {
  const envelope = { id: newId('evt'), object: 'event', api_version: Stripe.API_VERSION, livemode: false }
  return { ...envelope, type, data: { object } }
}

/** The header that Stripe signs a payload with. */
export function signature(payload: string, atMs: number, secret = webhookSecret): string {
  return webhooks.generateTestHeaderString({ payload, secret, timestamp: Math.floor(atMs / 1000) })
}
