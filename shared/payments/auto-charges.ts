import { newId } from '../base/ids.ts'
import { centsFromNano, nanoFromCents } from '../base/money.ts'
import { type Clock, hourMs } from '../base/time.ts'
import type { TopUp } from '../generated/prisma/client.ts'
import type { Connection, Database } from '../io/db.ts'
import type { Logger } from '../io/log.ts'
import { listDue } from './due-top-ups.ts'
import type { ChargeFact } from './facts.ts'
import type { Charge, StripeApi } from './stripe.ts'

const minuteMs = 60_000
/** An attempt without an outcome is looked up after this time. */
const settleAfterMs = minuteMs
/** Stripe forgets idempotency keys after 24 hours at the earliest (https://docs.stripe.com/api/idempotent_requests). */
const keyLifeMs = 23 * hourMs
/** By how much Stripe's clock may differ from ours. */
const skewMs = hourMs
/** Attempts at a time; the next round follows within seconds. */
const perRound = 50

/**
 * Charges saved cards while balances are low. The row of a top-up is inserted, under the lock of the organisation's settings,
 * before Stripe is called, and its id is the idempotency key: after a crash in between, a later round finds the charge or makes it.
 */
export class AutoCharges {
  readonly #db: Database
  readonly #clock: Clock
  readonly #log: Logger
  readonly #stripe: StripeApi
  readonly #apply: (fact: ChargeFact) => Promise<void>

  /** `apply` books what Stripe says of a charge. */
  constructor(options: {
    db: Database
    clock: Clock
    log: Logger
    stripe: StripeApi
    apply: (fact: ChargeFact) => Promise<void>
  }) {
    this.#db = options.db
    this.#clock = options.clock
    this.#log = options.log
    this.#stripe = options.stripe
    this.#apply = options.apply
  }

  /** One round of the worker: begins what is due, then settles what has no outcome yet. Returns how many were begun. */
  async run(): Promise<number> {
    let begun = 0
    for (const { organisationId } of await listDue(this.#db, this.#clock.now())) {
      const charge = await this.#db.$transaction(tx => this.#begin(tx, organisationId))
      if (!charge) continue
      begun++
      await this.#logIfFailed(charge.topUpId, this.#charge(charge))
    }
    await this.#settleOpen()
    return begun
  }

  /** Inserts the top-up that is due, if it fits into the month; null if it is not due any more. */
  async #begin(tx: Connection, organisationId: string): Promise<Charge | null> {
    const nowMs = this.#clock.now()
    const now = new Date(nowMs)
    await tx.$queryRaw`SELECT 1 FROM auto_top_ups WHERE organisation_id = ${organisationId} FOR UPDATE`
    const isDue = (await listDue(tx, nowMs, organisationId)).length > 0
    const settings = await tx.autoTopUp.findUniqueOrThrow({ where: { organisationId } })
    const { amountCents, customerId, paymentMethodId } = settings
    if (!isDue || customerId === null || paymentMethodId === null) return null
    const id = newId('top')
    const amountNano = nanoFromCents(amountCents)
    const parts = { customerId, paymentMethodId }
    await tx.topUp.create({ data: { id, organisationId, amountNano, automatic: true, ...parts, createdAt: now } })
    this.#log.info({ topUp: id, organisation: organisationId, amountCents }, 'automatic top-up begun')
    return { topUpId: id, organisationId, amountCents, ...parts }
  }

  async #charge(charge: Charge): Promise<void> {
    const fact = await this.#stripe.charge(charge)
    if (fact) await this.#conclude(fact)
  }

  /** Books the outcome. A charge that was declined could be completed by its payer only, who pays a new top-up instead. */
  async #conclude(fact: ChargeFact): Promise<void> {
    await this.#apply(fact)
    if (fact.failure === null || fact.paymentId === null) return
    await this.#stripe
      .cancelCharge(fact.paymentId)
      .catch(err =>
        this.#log.warn({ err, topUp: fact.topUpId }, 'a declined charge stays open at the payment provider'),
      )
  }

  /** Waits for an attempt. One without an outcome is settled by an event, or in a later round. Never rejects. */
  async #logIfFailed(topUpId: string, attempt: Promise<void>): Promise<void> {
    await attempt.catch(err => this.#log.warn({ err, topUp: topUpId }, 'an automatic top-up has no outcome yet'))
  }

  /** Looks up attempts that neither an answer nor an event has ended. */
  async #settleOpen(): Promise<void> {
    const createdAt = { lt: new Date(this.#clock.now() - settleAfterMs) }
    const where = { automatic: true, status: 'open', createdAt } as const
    for (const row of await this.#db.topUp.findMany({ where, orderBy: { updatedAt: 'asc' }, take: perRound }))
      await this.#logIfFailed(row.id, this.#settle(row))
  }

  async #settle(row: TopUp): Promise<void> {
    const { id: topUpId, organisationId, customerId, paymentMethodId, createdAt } = row
    if (customerId === null || paymentMethodId === null) return
    const amountCents = centsFromNano(row.amountNano)
    const charge = { topUpId, organisationId, customerId, paymentMethodId, amountCents }
    // The least recently updated come first: one that cannot be settled must not keep others from their turn.
    await this.#db.topUp.updateMany({
      where: { id: topUpId, status: 'open' },
      data: { updatedAt: new Date(this.#clock.now()) },
    })
    const found = await this.#stripe.findCharge(charge, new Date(createdAt.getTime() - skewMs))
    if (found === null) return
    if (found !== 'missing') return this.#conclude(found)
    if (this.#clock.now() - createdAt.getTime() < keyLifeMs) return this.#charge(charge)
    const failure = { code: 'not_charged', isFinal: false }
    await this.#apply({ what: 'charge_failed', topUpId, paymentId: null, amountCents, currency: 'usd', failure })
  }
}
