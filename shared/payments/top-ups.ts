import type { Config } from '../base/config.ts'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { nanoFromCents, usdFromNano } from '../base/money.ts'
import type { Clock } from '../base/time.ts'
import type { TopUp } from '../generated/prisma/client.ts'
import type { Connection, Database } from '../io/db.ts'
import type { Logger } from '../io/log.ts'
import { type Actor, audit } from '../keys/audit.ts'
import { type Accounts, bookDeposit, type DepositMethod } from '../wallet/accounts.ts'
import { topUpCause } from '../wallet/causes.ts'
import { type Fact, factOf, type PaymentFact, type ReturnFact } from './facts.ts'
import { statusOf, steps } from './steps.ts'
import { StripeApi } from './stripe.ts'

const hourMs = 3_600_000
/** Payments one organisation may begin in an hour. */
const mostPerHour = 30

export type NewTopUp = { organisationId: string; actor: Actor; email: string; amountCents: number }

/** Payments into wallets. A top-up's state and its ledger entries change in one transaction, whatever order events come in. */
export class TopUps {
  readonly #db: Database
  readonly #accounts: Accounts
  readonly #clock: Clock
  readonly #log: Logger
  readonly #publicUrl: string
  readonly #achHoldMs: number
  readonly #stripe: StripeApi | null

  constructor(options: { db: Database; accounts: Accounts; clock: Clock; log: Logger; config: Config }) {
    const { stripe, publicUrl } = options.config
    this.#db = options.db
    this.#accounts = options.accounts
    this.#clock = options.clock
    this.#log = options.log
    this.#publicUrl = publicUrl
    this.#achHoldMs = stripe?.achHoldMs ?? 0
    this.#stripe = stripe && new StripeApi(stripe)
  }

  /** Begins a payment: where to pay it. Throws 404 without payments, 429 after many of them, 502 when Stripe does not answer. */
  async begin({ organisationId, actor, email, amountCents }: NewTopUp): Promise<{ id: string; url: string }> {
    const stripe = this.#open()
    const createdAt = { gt: new Date(this.#clock.now() - hourMs) }
    if ((await this.#db.topUp.count({ where: { organisationId, createdAt } })) >= mostPerHour)
      throw new GatewayError('rate_limit_exceeded', `At most ${mostPerHour} payments can be begun in an hour.`, {
        headers: { 'retry-after': '3600' },
      })
    const id = newId('top')
    const amountNano = nanoFromCents(amountCents)
    // Before Stripe knows of it: its first event may come before its answer.
    await this.#db.$transaction(async tx => {
      const data = { id, organisationId, userId: actor.id, amountNano, createdAt: new Date(this.#clock.now()) }
      await tx.topUp.create({ data })
      const changes = { amount_usd: [null, usdFromNano(amountNano)] } satisfies Record<string, [unknown, unknown]>
      await audit(tx, { organisationId, actor, action: 'top_up.started', target: { id, name: id }, changes })
    })
    const page = `${this.#publicUrl}/dashboard/${organisationId}/billing?top_up=${id}`
    const urls = { successUrl: page, cancelUrl: `${page}&cancelled=true` }
    const checkout = await stripe.createCheckout({ topUpId: id, organisationId, amountCents, email, ...urls })
    await this.#db.topUp.update({ where: { id }, data: { checkoutSessionId: checkout.id } })
    return { id, url: checkout.url }
  }

  /** Takes a webhook's event into account. Throws 404 without payments, 400 where it is not genuine or not in US dollars. */
  async take(raw: Buffer, signature: string): Promise<void> {
    const event = await this.#open().readEvent(raw, signature, this.#clock.now())
    const fact = factOf(event)
    const topUpId = fact && ('topUpId' in fact ? fact.topUpId : await this.#paidFor(fact.paymentId))
    if (!topUpId) return
    const organisationId = await this.#db.$transaction(tx => this.#apply(tx, topUpId, fact))
    // The entries stand: where Redis cannot take them now, the reconciler brings them.
    if (organisationId) await this.#accounts.install(organisationId).catch(() => {})
  }

  /** Throws 404 where payments are not set up. */
  assertOn(): void {
    this.#open()
  }

  #open(): StripeApi {
    if (this.#stripe) return this.#stripe
    throw new GatewayError(
      'not_found',
      'Payments are not set up here. Credits are added by the operator of the service.',
    )
  }

  /** The top-up of a payment. Where its checkout's event is still to come, Stripe knows it. */
  async #paidFor(paymentId: string): Promise<string | null> {
    const topUp = await this.#db.topUp.findUnique({ where: { paymentId }, select: { id: true } })
    return topUp?.id ?? this.#open().topUpOf(paymentId)
  }

  /** Answers the organisation whose wallet may have changed; null where the fact is not ours. */
  async #apply(tx: Connection, id: string, fact: Fact): Promise<string | null> {
    await tx.$queryRaw`SELECT 1 FROM top_ups WHERE id = ${id} FOR UPDATE`
    const topUp = await tx.topUp.findUnique({ where: { id } })
    if (!topUp || ('sessionId' in fact && (topUp.checkoutSessionId ?? fact.sessionId) !== fact.sessionId)) return null
    if (fact.currency !== 'usd')
      throw new GatewayError('invalid_request', `Top-up ${id} is in US dollars, this event is not.`, {
        param: 'data.object.currency',
      })
    const changed = 'sessionId' in fact ? await this.#pay(tx, topUp, fact) : await this.#return(tx, topUp, fact)
    const row = { ...topUp, ...changed }
    await tx.topUp.update({ where: { id }, data: { ...changed, status: statusOf(row) } })
    const { what, amountCents } = fact
    this.#log.info({ topUp: id, organisation: topUp.organisationId, what, amountCents }, 'a payment')
    return topUp.organisationId
  }

  async #pay(tx: Connection, topUp: TopUp, fact: PaymentFact): Promise<Partial<TopUp>> {
    const { id, organisationId } = topUp
    const step = steps[fact.what][topUp.status]
    const createdAt = new Date(this.#clock.now())
    const known = { checkoutSessionId: fact.sessionId, paymentId: topUp.paymentId ?? fact.paymentId }
    if (step?.credit) {
      if (fact.amountCents === 0)
        throw new GatewayError('invalid_request', `Top-up ${id} cannot be paid with nothing.`, {
          param: 'data.object.amount_total',
        })
      const amountNano = nanoFromCents(fact.amountCents)
      const availableAt = step.credit === 'ach' ? new Date(createdAt.getTime() + this.#achHoldMs) : null
      const cause = topUpCause(id, 'payment')
      await bookDeposit(tx, { organisationId, amountNano, method: step.credit, availableAt, cause, createdAt })
      return { ...known, amountNano, method: step.credit, status: step.status }
    }
    if (step?.reverse) {
      const { amountNano, availableAt } = await tx.ledgerEntry.findUniqueOrThrow({
        where: { cause: topUpCause(id, 'payment') },
      })
      const cause = topUpCause(id, 'failed')
      await bookDeposit(tx, { organisationId, amountNano: -amountNano, method: 'ach', availableAt, cause, createdAt })
    }
    return { ...known, ...(step && { status: step.status }) }
  }

  /** What failed to go back, or came back, went first: so the two may come in any order. */
  async #return(tx: Connection, topUp: TopUp, fact: ReturnFact): Promise<Partial<TopUp>> {
    const { id, organisationId } = topUp
    const deposit = await tx.ledgerEntry.findUnique({ where: { cause: topUpCause(id, 'payment') } })
    const method: DepositMethod = topUp.method === 'ach' ? 'ach' : 'card'
    const createdAt = new Date(this.#clock.now())
    const amountNano = nanoFromCents(fact.amountCents)
    const cause = topUpCause(id, fact.what, fact.id)
    const entry = { organisationId, method, availableAt: deposit?.availableAt ?? null, createdAt }
    let { returnedNano } = topUp
    if (await bookDeposit(tx, { ...entry, amountNano: -amountNano, cause })) returnedNano += amountNano
    if (fact.undone) {
      const taken = await tx.ledgerEntry.findUniqueOrThrow({ where: { cause } })
      const { amountNano: takenNano, availableAt } = taken
      const again = topUpCause(id, `${fact.what}_undone`, fact.id)
      if (await bookDeposit(tx, { ...entry, amountNano: -takenNano, availableAt, cause: again }))
        returnedNano += takenNano
    }
    return { returnedNano, paymentId: fact.paymentId }
  }
}
