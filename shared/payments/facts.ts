import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'

/** A step in the payment of a checkout: `paid` at once by card, or the stages of an ACH debit, which takes days. */
export type PaymentStep = 'paid' | 'debit_started' | 'debit_succeeded' | 'debit_failed' | 'expired'
export type PaymentFact = {
  what: PaymentStep
  topUpId: string
  sessionId: string
  paymentId: string | null
  amountCents: number
  currency: string
}

/** A refund or a dispute of a payment; `undone` once it failed, was cancelled or was won. */
export type ReturnFact = {
  what: 'refund' | 'dispute'
  id: string
  paymentId: string
  amountCents: number
  currency: string
  undone: boolean
}

/** The end of a charge of a saved card. */
export type ChargeStep = 'charged' | 'charge_failed'
export type ChargeFact = {
  what: ChargeStep
  topUpId: string
  /** Null where Stripe refused the request without a payment. */
  paymentId: string | null
  amountCents: number
  currency: string
  failure: ChargeFailure | null
}
/** `code` is Stripe's; `isFinal`: trying again is of no use. */
type ChargeFailure = { code: string; isFinal: boolean }
export type TopUpFact = PaymentFact | ReturnFact | ChargeFact

/** A card was saved at a page that an organisation opened. */
type CardFact = { what: 'card_saved'; organisationId: string; sessionId: string }
type Fact = TopUpFact | CardFact

const cents = z.int().min(0)
const session = z.object({
  id: z.string().min(1),
  mode: z.string().nullish(),
  metadata: z.record(z.string(), z.string()).nullish(),
  payment_intent: z.string().nullish(),
  payment_status: z.string(),
  amount_total: cents.nullable(),
  currency: z.string().nullable(),
})
const refundOrDispute = z.object({
  id: z.string().min(1),
  payment_intent: z.string().nullish(),
  amount: cents,
  currency: z.string(),
  status: z.string().nullable(),
})

const charge = z.object({
  id: z.string().min(1),
  metadata: z.record(z.string(), z.string()).nullish(),
  amount: cents,
  amount_received: cents.nullish(),
  currency: z.string(),
  status: z.string(),
  last_payment_error: z
    .object({ code: z.string().nullish(), decline_code: z.string().nullish(), advice_code: z.string().nullish() })
    .nullish(),
})

/** The metadata field of checkouts and payments with the top-up's id. */
export const topUpField = 'top_up'
/** The metadata field that tells charges of saved cards from the payments of checkouts, which have sessions. */
export const automaticField = 'automatic'
/** The metadata field, with the organisation's id, of pages at which a card is saved. */
export const cardField = 'card_of'

/** The Stripe events that can change a top-up, or save a card. */
const handledEvents = [
  'checkout.session.completed',
  'checkout.session.async_payment_succeeded',
  'checkout.session.async_payment_failed',
  'checkout.session.expired',
  'payment_intent.succeeded',
  'payment_intent.payment_failed',
  'payment_intent.requires_action',
  'payment_intent.canceled',
  'refund.created',
  'refund.updated',
  'refund.failed',
  'charge.dispute.created',
  'charge.dispute.funds_withdrawn',
  'charge.dispute.closed',
] as const
type HandledEvent = (typeof handledEvents)[number]

/**
 * Extracts the payment fact from an event; null for irrelevant events and for checkouts without a top-up. Refunds and disputes of
 * other payments are recognised later, by their payment. Throws 400 when the event fails schema validation.
 */
export function factOf(event: { type: string; data: { object: unknown } }): Fact | null {
  const type = handledEvents.find(handled => handled === event.type)
  if (!type) return null
  const { object } = event.data
  if (type.startsWith('checkout.')) return sessionFact(type, parseObject(session, object))
  if (type.startsWith('payment_intent.')) return chargeFact(parseObject(charge, object))
  if (type.startsWith('refund.')) return refundFact(parseObject(refundOrDispute, object))
  return disputeFact(type, parseObject(refundOrDispute, object))
}

function parseObject<T extends z.ZodType>(schema: T, object: unknown): z.output<T> {
  const result = schema.safeParse(object)
  if (result.success) return result.data
  const field = ['data', 'object', ...(result.error.issues[0]?.path ?? [])].join('.')
  throw new GatewayError('invalid_request', `\`${field}\` is not what this event should have.`, { param: field })
}

/** The code of a payment that is refused until its payer authenticates. */
export const authenticationRequired = 'authentication_required'

/**
 * What a payment of a saved card says by its status; null while it is open, and for payments of checkouts. A card that must be
 * authenticated has `requires_payment_method` if the charge was off-session
 * (https://support.stripe.com/questions/manual-confirmation-for-off-session-payments-requiring-strong-customer-authentication-(sca)),
 * `requires_action` otherwise.
 */
export function chargeFact(payment: z.output<typeof charge>): ChargeFact | null {
  const { id, metadata, amount, amount_received, currency, status, last_payment_error: error } = payment
  const topUpId = metadata?.[topUpField]
  if (!topUpId || metadata?.[automaticField] !== 'true') return null
  const shared = { topUpId, paymentId: id, currency }
  if (status === 'succeeded')
    return { ...shared, what: 'charged', amountCents: amount_received ?? amount, failure: null }
  const failed = (code: string, isFinal: boolean): ChargeFact => {
    return { ...shared, what: 'charge_failed', amountCents: amount, failure: { code: code.slice(0, 100), isFinal } }
  }
  if (status === 'requires_action') return failed(authenticationRequired, false)
  if (status === 'canceled') return failed('canceled', false)
  if (status !== 'requires_payment_method' || !error) return null
  const code = error.code === authenticationRequired ? error.code : (error.decline_code ?? error.code ?? 'declined')
  // https://docs.stripe.com/declines/card#retrying-issuer-declines
  return failed(code, error.advice_code === 'do_not_try_again')
}

function sessionFact(type: HandledEvent, object: z.output<typeof session>): PaymentFact | CardFact | null {
  if (object.mode !== 'setup') return paymentFact(type, object)
  const organisationId = object.metadata?.[cardField]
  const isSaved = type === 'checkout.session.completed' && organisationId
  return isSaved ? { what: 'card_saved', organisationId, sessionId: object.id } : null
}

function paymentFact(type: HandledEvent, { metadata, ...object }: z.output<typeof session>): PaymentFact | null {
  const topUpId = metadata?.[topUpField]
  const what = stepOf(type, object.payment_status)
  if (!topUpId || !what) return null
  return {
    what,
    topUpId,
    sessionId: object.id,
    paymentId: object.payment_intent ?? null,
    amountCents: object.amount_total ?? 0,
    currency: object.currency ?? '',
  }
}

function stepOf(type: HandledEvent, paymentStatus: string): PaymentStep | null {
  if (type === 'checkout.session.async_payment_succeeded') return 'debit_succeeded'
  if (type === 'checkout.session.async_payment_failed') return 'debit_failed'
  if (type === 'checkout.session.expired') return 'expired'
  if (paymentStatus === 'paid') return 'paid'
  return paymentStatus === 'unpaid' ? 'debit_started' : null
}

function refundFact(object: z.output<typeof refundOrDispute>): ReturnFact | null {
  return returnFact('refund', object, object.status === 'failed' || object.status === 'canceled')
}

/** Inquiries (`warning_…`) and prevented disputes withdraw no money, unless the event is `funds_withdrawn`. */
function disputeFact(type: HandledEvent, object: z.output<typeof refundOrDispute>): ReturnFact | null {
  const status = object.status ?? ''
  const isHarmless = status.startsWith('warning_') || status === 'prevented'
  if (isHarmless && type !== 'charge.dispute.funds_withdrawn') return null
  return returnFact('dispute', object, status === 'won')
}

function returnFact(
  what: ReturnFact['what'],
  { id, payment_intent: paymentId, amount, currency }: z.output<typeof refundOrDispute>,
  undone: boolean,
): ReturnFact | null {
  return paymentId ? { what, id, paymentId, amountCents: amount, currency, undone } : null
}
