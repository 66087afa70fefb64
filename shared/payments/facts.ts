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
export type Fact = PaymentFact | ReturnFact

const cents = z.int().min(0)
const session = z.object({
  id: z.string().min(1),
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

/** The metadata field of checkouts and payments with the top-up's id. */
export const topUpField = 'top_up'

/** The Stripe events that can change a top-up. */
const handledEvents = [
  'checkout.session.completed',
  'checkout.session.async_payment_succeeded',
  'checkout.session.async_payment_failed',
  'checkout.session.expired',
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
  if (type.startsWith('checkout.')) return paymentFact(type, parseObject(session, object))
  if (type.startsWith('refund.')) return refundFact(parseObject(refundOrDispute, object))
  return disputeFact(type, parseObject(refundOrDispute, object))
}

function parseObject<T extends z.ZodType>(schema: T, object: unknown): z.output<T> {
  const result = schema.safeParse(object)
  if (result.success) return result.data
  const field = ['data', 'object', ...(result.error.issues[0]?.path ?? [])].join('.')
  throw new GatewayError('invalid_request', `\`${field}\` is not what this event should have.`, { param: field })
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
