import type { Stripe } from 'stripe'
import type { Config } from '../base/config.ts'
import { GatewayError } from '../base/errors.ts'
import { topUpField } from './facts.ts'

export type StripeSettings = NonNullable<Config['stripe']>
type Event = { type: string; data: { object: unknown } }
export type Checkout = {
  topUpId: string
  organisationId: string
  amountCents: number
  /** Whose payment it is; they get the receipt. */
  email: string
  successUrl: string
  cancelUrl: string
}

const timeoutMs = 20_000
const mostRetries = 2
/** An event that was signed longer ago is refused: it may be a recording. */
const toleranceS = 300

/** The payment provider. Its library is loaded at the first use: most processes never need it. */
export class StripeApi {
  readonly #settings: StripeSettings
  #opened: Promise<Stripe> | null = null

  constructor(settings: StripeSettings) {
    this.#settings = settings
  }

  /** Makes the page where a top-up is paid, once per top-up. Throws 502 when Stripe does not take it. */
  async createCheckout(checkout: Checkout): Promise<{ id: string; url: string }> {
    const { topUpId, organisationId, amountCents, email, successUrl, cancelUrl } = checkout
    const metadata = { [topUpField]: topUpId, organisation: organisationId }
    const stripe = await this.#stripe()
    const session = await stripe.checkout.sessions
      .create(
        {
          mode: 'payment',
          allowed_payment_method_types: ['card', 'us_bank_account'],
          // With micro-deposits, Stripe reports a debit that begins days later or never, and its hold would end before.
          payment_method_options: { us_bank_account: { verification_method: 'instant' } },
          line_items: [
            {
              quantity: 1,
              price_data: { currency: 'usd', unit_amount: amountCents, product_data: { name: 'Prepaid credits' } },
            },
          ],
          // Paid in dollars and nothing else, so that refunds and disputes come in dollars too.
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
      .catch(unreachable)
    if (!session.url)
      throw new GatewayError('upstream_invalid_response', 'The payment provider gave no page to pay at.')
    return { id: session.id, url: session.url }
  }

  /** The event of a webhook. Throws 400 where its signature does not hold or is old. */
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

  /** The top-up that a payment is for; null where it is none of ours. Throws 502 when Stripe cannot be asked. */
  async topUpOf(paymentId: string): Promise<string | null> {
    const stripe = await this.#stripe()
    const payment = await stripe.paymentIntents.retrieve(paymentId).catch((cause: { statusCode?: number }) => {
      return cause.statusCode === 404 ? null : unreachable(cause)
    })
    return payment?.metadata[topUpField] ?? null
  }

  #stripe(): Promise<Stripe> {
    this.#opened ??= open(this.#settings)
    return this.#opened
  }
}

async function open({ secretKey, baseUrl }: StripeSettings): Promise<Stripe> {
  const { Stripe } = await import('stripe')
  const address = baseUrl === null ? null : new URL(baseUrl)
  return new Stripe(secretKey, {
    timeout: timeoutMs,
    maxNetworkRetries: mostRetries,
    telemetry: false,
    ...(address && {
      host: address.hostname,
      port: address.port || (address.protocol === 'https:' ? 443 : 80),
      protocol: address.protocol === 'https:' ? 'https' : 'http',
    }),
  })
}

function unreachable(cause: unknown): never {
  throw new GatewayError('upstream_error', 'The payment provider does not answer as it should. Try again shortly.', {
    cause,
  })
}
