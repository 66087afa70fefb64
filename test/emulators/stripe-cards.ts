import { randomBytes } from 'node:crypto'
import { json, type Reply } from './emulator.ts'

type Metadata = Record<string, string>
/** How a card's charges end. `processing` and `requires_action` leave them open. */
export type CardBehaviour = 'succeeds' | 'declined' | 'stolen' | 'authentication' | 'requires_action' | 'processing'
type Card = { id: string; customer: string | null; last4: string; behaviour: CardBehaviour }
type Failure = { type: 'card_error'; code: string; decline_code?: string; advice_code?: string; message: string }
export type Payment = {
  id: string
  amount: number
  currency: string
  metadata: Metadata
  /** Of charges of saved cards; payments of checkouts have none until they are paid. */
  customer?: string
  payment_method?: string
  status?: string
  amount_received?: number
  last_payment_error?: Failure | null
  created?: number
}
export type Refusal = (status: number, error: object) => Reply

const failures: Partial<Record<CardBehaviour, Failure>> = {
  declined: {
    type: 'card_error',
    code: 'card_declined',
    decline_code: 'insufficient_funds',
    advice_code: 'try_again_later',
    message: 'Your card has insufficient funds.',
  },
  stolen: {
    type: 'card_error',
    code: 'card_declined',
    decline_code: 'stolen_card',
    advice_code: 'do_not_try_again',
    message: 'Your card was declined.',
  },
  authentication: {
    type: 'card_error',
    code: 'authentication_required',
    decline_code: 'authentication_required',
    message: 'Your card was declined. This transaction requires authentication.',
  },
}
const knownOfCharges =
  /^(amount|currency|customer|payment_method|allowed_payment_method_types\[\d\]|off_session|confirm|description|metadata\[\w+\])$/

/** Customers, their saved cards and the charges of these, as Stripe has them. */
export class StripeCards {
  readonly customers = new Map<string, { id: string; name: string | null; deleted: boolean }>()
  readonly cards = new Map<string, Card>()
  readonly #payments: Map<string, Payment>
  readonly #refuse: Refusal
  readonly #now: () => number

  constructor(payments: Map<string, Payment>, refuse: Refusal, now: () => number) {
    this.#payments = payments
    this.#refuse = refuse
    this.#now = now
  }

  /** The charges of a customer's cards, newest first. */
  chargesOf(customer: string): Payment[] {
    return [...this.#payments.values()].filter(payment => payment.customer === customer).reverse()
  }

  createCustomer(form: URLSearchParams): Reply {
    const strange = [...form.keys()].find(field => !/^(name|email|metadata\[\w+\])$/.test(field))
    if (strange) return this.#unknown(strange)
    const customer = { id: newId('cus'), name: form.get('name'), deleted: false }
    this.customers.set(customer.id, customer)
    return json(200, { object: 'customer', ...customer })
  }

  /** The refusal of a request that names a customer who does not exist; null if there is one. */
  refuseCustomer(id: string | null): Reply | null {
    const customer = id === null ? undefined : this.customers.get(id)
    if (customer && !customer.deleted) return null
    return this.#refuse(400, {
      type: 'invalid_request_error',
      code: 'resource_missing',
      param: 'customer',
      message: `No such customer: '${id}'`,
    })
  }

  /** What a person does at the page of a setup: saves a card for the customer. */
  save(customer: string, behaviour: CardBehaviour, last4 = '4242'): Card {
    const card = { id: newId('pm'), customer, last4, behaviour }
    this.cards.set(card.id, card)
    return card
  }

  detach(id: string): Reply {
    const card = this.cards.get(id)
    if (!card?.customer)
      return this.#invalid('payment_method', 'resource_missing', 'This PaymentMethod is not attached to a Customer.')
    card.customer = null
    return json(200, presentCard(card))
  }

  list(query: URLSearchParams): Reply {
    const customer = query.get('customer')
    const since = Number(query.get('created[gte]') ?? 0)
    const limit = Number(query.get('limit') ?? 10)
    const after = query.get('starting_after')
    const all = this.chargesOf(customer ?? '').filter(({ created = 0 }) => created >= since)
    const start = after === null ? 0 : all.findIndex(({ id }) => id === after) + 1
    const data = all.slice(start, start + limit).map(presentPayment)
    return json(200, { object: 'list', url: '/v1/payment_intents', has_more: start + limit < all.length, data })
  }

  cancel(id: string): Reply {
    const payment = this.#payments.get(id)
    if (!payment) return this.#refuse(404, { type: 'invalid_request_error', code: 'resource_missing', message: id })
    if (payment.status === 'succeeded' || payment.status === 'canceled')
      return this.#invalid('intent', 'payment_intent_unexpected_state', `You cannot cancel this PaymentIntent: ${id}`)
    payment.status = 'canceled'
    return json(200, presentPayment(payment))
  }

  charge(form: URLSearchParams): Reply {
    const strange = [...form.keys()].find(field => !knownOfCharges.test(field))
    if (strange) return this.#unknown(strange)
    const amount = Number(form.get('amount'))
    if (!Number.isInteger(amount)) return this.#invalid('amount', 'parameter_invalid_integer', 'Invalid integer')
    if (amount < 50) return this.#invalid('amount', 'amount_too_small', 'Amount must be at least $0.50 usd')
    if (amount > 99_999_999)
      return this.#invalid('amount', 'amount_too_large', 'Amount must be no more than $999,999.99')
    if (!form.get('currency'))
      return this.#invalid('currency', 'parameter_missing', 'Missing required param: currency.')
    if (form.get('off_session') === 'true' && form.get('confirm') !== 'true')
      return this.#invalid('off_session', 'parameter_missing', '`off_session` can only be used with `confirm=true`.')
    const customer = form.get('customer')
    const refused = this.refuseCustomer(customer)
    if (refused) return refused
    const method = form.get('payment_method')
    if (method === null) return this.#invalid('payment_method', 'parameter_missing', 'A payment method is missing.')
    const card = this.cards.get(method)
    if (card?.customer !== customer || !card)
      return this.#invalid('payment_method', 'resource_missing', `No such PaymentMethod: '${method}'`)
    const payment = this.#pay(card, amount, form)
    const { last_payment_error: failure } = payment
    if (!failure) return json(200, presentPayment(payment))
    return this.#refuse(402, { ...failure, payment_intent: presentPayment(payment) })
  }

  #pay({ id, customer, behaviour }: Card, amount: number, form: URLSearchParams): Payment {
    const failure = failures[behaviour] ?? null
    const open = behaviour === 'requires_action' || behaviour === 'processing' ? behaviour : 'succeeded'
    const status = failure ? 'requires_payment_method' : open
    const payment: Payment = {
      id: newId('pi'),
      amount,
      currency: form.get('currency')!,
      metadata: metadataOf(form, 'metadata'),
      customer: customer!,
      payment_method: id,
      status,
      amount_received: status === 'succeeded' ? amount : 0,
      last_payment_error: failure,
      created: Math.floor(this.#now() / 1000),
    }
    this.#payments.set(payment.id, payment)
    return payment
  }

  #unknown(param: string): Reply {
    return this.#invalid(param, 'parameter_unknown', `Received unknown parameter: ${param}`)
  }

  #invalid(param: string, code: string, message: string): Reply {
    return this.#refuse(400, { type: 'invalid_request_error', code, param, message })
  }
}

export function presentCard({ id, customer, last4 }: Card): object {
  const card = { brand: 'visa', last4, exp_month: 3, exp_year: 2031 }
  return { id, object: 'payment_method', type: 'card', customer, card }
}

export function presentPayment(payment: Payment): Record<string, unknown> {
  return { object: 'payment_intent', ...payment }
}

export function metadataOf(form: URLSearchParams, field: string): Metadata {
  const own = [...form].filter(([name]) => name.startsWith(`${field}[`))
  return Object.fromEntries(own.map(([name, value]) => [name.slice(field.length + 1, -1), value]))
}

export function newId(prefix: string): string {
  return `${prefix}_${randomBytes(12).toString('hex')}`
}
