import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import type { Stripe } from 'stripe'
import type { Config } from '../base/config.ts'
import { GatewayError } from '../base/errors.ts'
import { nodeAgentOptions, type Proxies } from '../base/proxies.ts'
import { topUpField } from './facts.ts'

export type StripeSettings = NonNullable<Config['stripe']> & { proxies: Proxies }
type Event = { type: string; data: { object: unknown } }
export type Checkout = {
  topUpId: string
  organisationId: string
  amountCents: number
  /** The payer, who gets the receipt. */
  email: string
  successUrl: string
  cancelUrl: string
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
    const payment = await stripe.paymentIntents.retrieve(paymentId).catch((cause: { statusCode?: number }) => {
      return cause.statusCode === 404 ? null : throwUpstreamError(cause)
    })
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

function throwUpstreamError(cause: unknown): never {
  throw new GatewayError('upstream_error', 'The payment provider does not answer as it should. Try again shortly.', {
    cause,
  })
}
