import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import type { Stripe } from 'stripe'
import type { Config } from '../base/config.ts'
import { GatewayError } from '../base/errors.ts'
import { nodeAgentOptions, type Proxies } from '../base/proxies.ts'
import { automaticField, type ChargeFact, cardField, chargeFact, topUpField } from './facts.ts'

type StripeSettings = NonNullable<Config['stripe']> & { proxies: Proxies }
type Event = { type: string; data: { object: unknown } }
type Checkout = {
  topUpId: string
  organisationId: string
  amountCents: number
  /** The payer, who gets the receipt. */
  email: string
  successUrl: string
  cancelUrl: string
}

/** A page at which a person saves a card for an organisation. */
type CardPage = { organisationId: string; customerId: string; successUrl: string; cancelUrl: string }
/** `expires`: "2027-03". */
type SavedCard = { paymentMethodId: string; brand: string; last4: string; expires: string }
/** A charge of a saved card. A repetition must be equal, as it has the same idempotency key. */
export type Charge = {
  topUpId: string
  organisationId: string
  customerId: string
  paymentMethodId: string
  amountCents: number
}

const timeoutMs = 20_000
const maxRetries = 2
/** Maximum age of an event's signature, against replay attacks. */
const toleranceS = 300

/** The Stripe client. The library is loaded on first use, because most processes never need it. */
export class StripeApi {
  readonly #settings: StripeSettings
  #client: Promise<Stripe> | null = null

  constructor(settings: StripeSettings) {
    this.#settings = settings
  }

  /** Creates the checkout page of a top-up; idempotent per top-up. Throws 502 when Stripe fails or refuses. */
  async createCheckout(checkout: Checkout): Promise<{ id: string; url: string }> {
    const { topUpId, organisationId, amountCents, email, successUrl, cancelUrl } = checkout
    const metadata = { [topUpField]: topUpId, organisation: organisationId }
    const stripe = await this.#stripe()
    const session = await stripe.checkout.sessions
      .create(
        {
          mode: 'payment',
          allowed_payment_method_types: ['card', 'us_bank_account'],
          // With micro-deposits, Stripe reports a debit that starts days later or never, after its hold has ended.
          payment_method_options: { us_bank_account: { verification_method: 'instant' } },
          line_items: [
            {
              quantity: 1,
              price_data: { currency: 'usd', unit_amount: amountCents, product_data: { name: 'Prepaid credits' } },
            },
          ],
          // Payment in US dollars only, so that refunds and disputes are in US dollars too.
          adaptive_pricing: { enabled: false },
          customer_email: email,
          client_reference_id: topUpId,
          metadata,
          payment_intent_data: { metadata, description: 'Prepaid credits' },
          success_url: successUrl,
          cancel_url: cancelUrl,
        },
        { idempotencyKey: topUpId },
      )
      .catch(throwUpstreamError)
    if (!session.url)
      throw new GatewayError('upstream_invalid_response', 'The payment provider gave no page to pay at.')
    return { id: session.id, url: session.url }
  }

  /** Creates the customer whose cards are charged. Throws 502 when Stripe fails. */
  async createCustomer(organisationId: string, name: string): Promise<string> {
    const stripe = await this.#stripe()
    const customer = await stripe.customers
      .create({ name, metadata: { organisation: organisationId } })
      .catch(throwUpstreamError)
    return customer.id
  }

  /**
   * Creates a page at which a card is saved for charges without its holder
   * (https://docs.stripe.com/payments/save-and-reuse). Null if Stripe has no such customer any more. Throws 502 when Stripe fails.
   */
  async createCardPage({ organisationId, customerId, ...urls }: CardPage): Promise<{ id: string; url: string } | null> {
    const stripe = await this.#stripe()
    const metadata = { [cardField]: organisationId }
    const session = await stripe.checkout.sessions
      .create({
        mode: 'setup',
        currency: 'usd',
        allowed_payment_method_types: ['card'],
        customer: customerId,
        metadata,
        setup_intent_data: { metadata },
        success_url: urls.successUrl,
        cancel_url: urls.cancelUrl,
      })
      .catch((cause: { code?: string; param?: string }) =>
        cause.code === 'resource_missing' && cause.param === 'customer' ? null : throwUpstreamError(cause),
      )
    if (session && !session.url)
      throw new GatewayError('upstream_invalid_response', 'The payment provider gave no page to save a card at.')
    return session && { id: session.id, url: session.url! }
  }

  /** The card that was saved at a page; `open` while none is, null if none will be. Throws 502 when Stripe fails. */
  async findSavedCard(sessionId: string): Promise<SavedCard | 'open' | null> {
    const stripe = await this.#stripe()
    const session = await stripe.checkout.sessions
      .retrieve(sessionId, { expand: ['setup_intent.payment_method'] })
      .catch(nullIfMissing)
    if (session?.status === 'open') return 'open'
    const intent = session?.setup_intent
    const method = intent && typeof intent === 'object' ? intent.payment_method : null
    if (!method || typeof method !== 'object' || !method.card) return null
    const { brand, last4, exp_month: month, exp_year: year } = method.card
    return { paymentMethodId: method.id, brand, last4, expires: `${year}-${String(month).padStart(2, '0')}` }
  }

  /** Makes a saved card unusable. Throws 502 when Stripe fails; an unknown one is done already. */
  async forgetCard(paymentMethodId: string): Promise<void> {
    const stripe = await this.#stripe()
    await stripe.paymentMethods.detach(paymentMethodId).catch((cause: { type?: string }) => {
      if (cause.type !== 'StripeInvalidRequestError') throwUpstreamError(cause)
    })
  }

  /**
   * Charges a saved card without its holder; idempotent per top-up. Null while the outcome is open. Throws 502 when it is unknown
   * whether Stripe charged: only a card that was declined and a request that Stripe refused are known not to.
   */
  async charge(charge: Charge): Promise<ChargeFact | null> {
    const { topUpId, organisationId, customerId, paymentMethodId, amountCents } = charge
    const stripe = await this.#stripe()
    try {
      const payment = await stripe.paymentIntents.create(
        {
          amount: amountCents,
          currency: 'usd',
          customer: customerId,
          payment_method: paymentMethodId,
          allowed_payment_method_types: ['card'],
          off_session: true,
          confirm: true,
          description: 'Prepaid credits',
          metadata: { [topUpField]: topUpId, [automaticField]: 'true', organisation: organisationId },
        },
        { idempotencyKey: topUpId },
      )
      return chargeFact(payment)
    } catch (cause) {
      const {
        type,
        statusCode,
        code,
        payment_intent: payment,
      } = cause as InstanceType<typeof Stripe.errors.StripeError>
      if (type === 'StripeCardError' && payment) return chargeFact(payment)
      // 409: a request with the same key is still running.
      const isRefused = type === 'StripeInvalidRequestError' && (statusCode === 400 || statusCode === 404)
      if (type !== 'StripeCardError' && !isRefused) throwUpstreamError(cause)
      const failure = { code: code ?? 'refused', isFinal: true }
      return { what: 'charge_failed', topUpId, paymentId: null, amountCents, currency: 'usd', failure }
    }
  }

  /**
   * Finds the charge of a top-up by what Stripe has of its customer, so also after the idempotency key was forgotten; `missing` if
   * there is none, null while it is open. Throws 502 when Stripe fails.
   */
  async findCharge({ topUpId, customerId }: Charge, since: Date): Promise<ChargeFact | 'missing' | null> {
    const stripe = await this.#stripe()
    const created = { gte: Math.floor(since.getTime() / 1000) }
    try {
      for await (const payment of stripe.paymentIntents.list({ customer: customerId, created, limit: 100 }))
        if (payment.metadata[topUpField] === topUpId) return chargeFact(payment)
    } catch (cause) {
      if ((cause as { code?: string }).code !== 'resource_missing') throwUpstreamError(cause)
    }
    return 'missing'
  }

  /** Cancels a payment that failed, so that it cannot be completed later. Throws 502 when Stripe fails or it is over. */
  async cancelCharge(paymentId: string): Promise<void> {
    const stripe = await this.#stripe()
    await stripe.paymentIntents.cancel(paymentId).catch(throwUpstreamError)
  }

  /** Verifies and parses a webhook event. Throws 400 when its signature is invalid or too old. */
  async readEvent(raw: Buffer, signature: string, nowMs: number): Promise<Event> {
    const { webhooks } = await this.#stripe()
    const { webhookSecret } = this.#settings
    try {
      return webhooks.constructEvent(raw, signature, webhookSecret, toleranceS, undefined, nowMs) as Event
    } catch (cause) {
      throw new GatewayError('invalid_request', 'The `stripe-signature` of this event does not hold, or is too old.', {
        param: 'stripe-signature',
        cause,
      })
    }
  }

  /** Finds the top-up id of a payment in Stripe; null when it has none. Throws 502 when Stripe fails. */
  async findTopUpId(paymentId: string): Promise<string | null> {
    const stripe = await this.#stripe()
    const payment = await stripe.paymentIntents.retrieve(paymentId).catch(nullIfMissing)
    return payment?.metadata[topUpField] ?? null
  }

  #stripe(): Promise<Stripe> {
    this.#client ??= createClient(this.#settings)
    return this.#client
  }
}

async function createClient({ secretKey, baseUrl, proxies }: StripeSettings): Promise<Stripe> {
  const { Stripe } = await import('stripe')
  const url = baseUrl === null ? null : new URL(baseUrl)
  return new Stripe(secretKey, {
    timeout: timeoutMs,
    maxNetworkRetries: maxRetries,
    telemetry: false,
    httpAgent: new (url?.protocol === 'http:' ? HttpAgent : HttpsAgent)(nodeAgentOptions(proxies)),
    ...(url && {
      host: url.hostname,
      port: url.port || (url.protocol === 'https:' ? 443 : 80),
      protocol: url.protocol === 'https:' ? 'https' : 'http',
    }),
  })
}

function nullIfMissing(cause: { statusCode?: number }): null {
  return cause.statusCode === 404 ? null : throwUpstreamError(cause)
}

function throwUpstreamError(cause: unknown): never {
  throw new GatewayError('upstream_error', 'The payment provider does not answer as it should. Try again shortly.', {
    cause,
  })
}
