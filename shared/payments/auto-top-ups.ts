import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { centsFromNano, nanoFromCents, usdFromNano } from '../base/money.ts'
import { type Clock, monthOf } from '../base/time.ts'
import type { AutoTopUp, TopUp } from '../generated/prisma/client.ts'
import { type Actor, audit, changesBetween } from '../io/audit.ts'
import type { Connection, Database } from '../io/db.ts'
import type { Logger } from '../io/log.ts'
import { heldDeposits } from '../wallet/accounts.ts'
import type { TopUpFact } from './facts.ts'
import type { Charge, StripeApi } from './stripe.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
/** An attempt without an outcome is looked up after this time. */
const settleAfterMs = minuteMs
/** Stripe forgets idempotency keys after 24 hours at the earliest (https://docs.stripe.com/api/idempotent_requests). */
const keyLifeMs = 23 * hourMs
/** By how much Stripe's clock may differ from ours. */
const skewMs = hourMs
/** A page at which a card is saved ends after 24 hours. */
const pageLifeMs = 25 * hourMs
/** Organisations, attempts or pages at a time; the next round follows within seconds. */
const perRound = 50
/** What is set before anybody chose. */
const defaults = { thresholdCents: 1_000, amountCents: 5_000, monthlyLimitCents: 50_000 }

export type AutoTopUpSettings = Pick<AutoTopUp, 'enabled' | 'thresholdCents' | 'amountCents' | 'monthlyLimitCents'>
export type AutoTopUpView = { settings: AutoTopUp | null; spentCents: number; last: TopUp | null }

/**
 * Charges saved cards while balances are low. The row of a top-up is inserted, under the lock of the organisation's settings,
 * before Stripe is called, and its id is the idempotency key: whatever dies in between, the next round finds the charge or makes it.
 */
export class AutoTopUps {
  readonly #db: Database
  readonly #clock: Clock
  readonly #log: Logger
  readonly #stripe: StripeApi
  readonly #publicUrl: string
  readonly #apply: (fact: TopUpFact) => Promise<void>

  constructor(options: {
    db: Database
    clock: Clock
    log: Logger
    stripe: StripeApi
    publicUrl: string
    apply: (fact: TopUpFact) => Promise<void>
  }) {
    this.#db = options.db
    this.#clock = options.clock
    this.#log = options.log
    this.#stripe = options.stripe
    this.#publicUrl = options.publicUrl
    this.#apply = options.apply
  }

  /** The settings with what was charged this month, and the latest attempt. */
  async view(organisationId: string): Promise<AutoTopUpView> {
    const [settings, spentNano, last] = await Promise.all([
      this.#db.autoTopUp.findUnique({ where: { organisationId } }),
      monthSpendNano(this.#db, organisationId, this.#clock.now()),
      this.#db.topUp.findFirst({ where: { organisationId, automatic: true }, orderBy: { createdAt: 'desc' } }),
    ])
    return { settings, spentCents: centsFromNano(spentNano), last }
  }

  /** Stores settings. Throws 400 when they are turned on without a card. */
  async set(organisationId: string, wanted: AutoTopUpSettings, actor: Actor): Promise<void> {
    const now = new Date(this.#clock.now())
    await this.#db.$transaction(async tx => {
      const before = await lockSettings(tx, organisationId, now)
      if (wanted.enabled && before.paymentMethodId === null)
        throw new GatewayError('invalid_request', 'Save a card first: without one nothing can be charged.', {
          param: 'enabled',
        })
      // Whoever turns it on has seen why it was off.
      const fresh = wanted.enabled && { failures: 0, nextAttemptAt: now, disabledReason: null }
      await tx.autoTopUp.update({ where: { organisationId }, data: { ...wanted, ...fresh, updatedAt: now } })
      const changes = changesBetween(presentSettings(before), presentSettings(wanted))
      if (Object.keys(changes).length > 0)
        await audit(tx, { organisationId, actor, action: 'auto_top_up.changed', changes })
    })
  }

  /** Creates a page at which a card is saved, and returns its URL. Throws 502 when Stripe fails. */
  async createCardPage(organisationId: string, actor: Actor): Promise<{ url: string }> {
    const now = new Date(this.#clock.now())
    const { customerId } = await this.#db.$transaction(tx => lockSettings(tx, organisationId, now))
    const page =
      (customerId && (await this.#openPage(organisationId, customerId))) || (await this.#openFirst(organisationId))
    await this.#db.$transaction(async tx => {
      const setup = { setupSessionId: page.id, setupStartedAt: now }
      await tx.autoTopUp.update({ where: { organisationId }, data: setup })
      await audit(tx, { organisationId, actor, action: 'auto_top_up.card_requested' })
    })
    return { url: page.url }
  }

  /** For a new customer, which replaces one that Stripe does not have any more. */
  async #openFirst(organisationId: string): Promise<{ id: string; url: string }> {
    const { name } = await this.#db.organisation.findUniqueOrThrow({ where: { id: organisationId } })
    const customerId = await this.#stripe.createCustomer(organisationId, name)
    await this.#db.autoTopUp.update({ where: { organisationId }, data: { customerId } })
    const page = await this.#openPage(organisationId, customerId)
    if (page) return page
    throw new GatewayError('upstream_invalid_response', 'The payment provider does not know its own customer.')
  }

  #openPage(organisationId: string, customerId: string): Promise<{ id: string; url: string } | null> {
    const page = `${this.#publicUrl}/dashboard/${organisationId}/billing`
    const urls = { successUrl: `${page}?card=saved`, cancelUrl: `${page}?card=cancelled` }
    return this.#stripe.createCardPage({ organisationId, customerId, ...urls })
  }

  /** Stores the card that was saved at a page, if that is the latest one; idempotent. Throws 502 when Stripe fails. */
  async saveCard(organisationId: string, sessionId: string): Promise<void> {
    const where = { organisationId, setupSessionId: sessionId }
    if (!(await this.#db.autoTopUp.findFirst({ where }))) return
    const card = await this.#stripe.findSavedCard(sessionId)
    if (card === 'open') return
    const now = new Date(this.#clock.now())
    const replacedId = await this.#db.$transaction(async tx => {
      const before = await lockSettings(tx, organisationId, now)
      if (before.setupSessionId !== sessionId) return null
      const over = { setupSessionId: null, setupStartedAt: null, updatedAt: now }
      if (card === null) {
        await tx.autoTopUp.update({ where: { organisationId }, data: over })
        return null
      }
      const { paymentMethodId, brand, last4, expires } = card
      const saved = { paymentMethodId, cardBrand: brand, cardLast4: last4, cardExpires: expires }
      const fresh = { failures: 0, nextAttemptAt: now }
      await tx.autoTopUp.update({ where: { organisationId }, data: { ...over, ...saved, ...fresh } })
      const changes = { card: [labelOf(before), `${brand} ${last4}`] } satisfies Record<string, [unknown, unknown]>
      const actor = { kind: 'operator', id: null, name: 'payment provider' } as const
      await audit(tx, { organisationId, actor, action: 'auto_top_up.card_saved', changes })
      return before.paymentMethodId === paymentMethodId ? null : before.paymentMethodId
    })
    if (replacedId) await this.#forget(replacedId)
  }

  /** Forgets the saved card, and turns automatic top-ups off. */
  async removeCard(organisationId: string, actor: Actor): Promise<void> {
    const now = new Date(this.#clock.now())
    const removedId = await this.#db.$transaction(async tx => {
      const before = await lockSettings(tx, organisationId, now)
      const none = { paymentMethodId: null, cardBrand: null, cardLast4: null, cardExpires: null }
      const data = { ...none, enabled: false, setupSessionId: null, setupStartedAt: null, updatedAt: now }
      await tx.autoTopUp.update({ where: { organisationId }, data })
      if (before.paymentMethodId === null) return null
      const changes = { card: [labelOf(before), null] } satisfies Record<string, [unknown, unknown]>
      await audit(tx, { organisationId, actor, action: 'auto_top_up.card_removed', changes })
      return before.paymentMethodId
    })
    if (removedId) await this.#forget(removedId)
  }

  /** A card that stays at Stripe does no harm: nothing here charges it. */
  async #forget(paymentMethodId: string): Promise<void> {
    await this.#stripe
      .forgetCard(paymentMethodId)
      .catch(err => this.#log.warn({ err }, 'a card that was replaced or removed stays at the payment provider'))
  }

  /** One round of the worker: begins what is due, then settles what has no outcome yet. Returns how many were begun. */
  async run(): Promise<number> {
    let begun = 0
    for (const { organisationId } of await listDue(this.#db, new Date(this.#clock.now()))) {
      const charge = await this.#db.$transaction(tx => this.#begin(tx, organisationId))
      if (!charge) continue
      begun++
      await this.#settled(charge.topUpId, this.#charge(charge))
    }
    await this.#settleOpen()
    await this.#finishPages()
    return begun
  }

  /** Inserts the top-up that is due, if it fits into the month; null if it is not due any more. */
  async #begin(tx: Connection, organisationId: string): Promise<Charge | null> {
    const nowMs = this.#clock.now()
    const now = new Date(nowMs)
    await tx.$queryRaw`SELECT 1 FROM auto_top_ups WHERE organisation_id = ${organisationId} FOR UPDATE`
    const isDue = (await listDue(tx, now, organisationId)).length > 0
    const settings = await tx.autoTopUp.findUniqueOrThrow({ where: { organisationId } })
    const { amountCents, customerId, paymentMethodId } = settings
    if (!isDue || customerId === null || paymentMethodId === null) return null
    const id = newId('top')
    const amountNano = nanoFromCents(amountCents)
    const parts = { customerId, paymentMethodId }
    await tx.topUp.create({ data: { id, organisationId, amountNano, automatic: true, ...parts, createdAt: now } })
    this.#log.info({ topUp: id, organisation: organisationId, amountCents }, 'an automatic top-up')
    return { topUpId: id, organisationId, amountCents, ...parts }
  }

  async #charge(charge: Charge): Promise<void> {
    const fact = await this.#stripe.charge(charge)
    if (!fact) return
    await this.#apply(fact)
    // Declined: only its payer could complete it, who pays a new one instead.
    if (fact.failure && fact.paymentId) await this.#stripe.cancelCharge(fact.paymentId)
  }

  /** An attempt whose outcome is not known now is settled by an event, or in a later round. */
  async #settled(topUpId: string, attempt: Promise<void>): Promise<void> {
    await attempt.catch(err => this.#log.warn({ err, topUp: topUpId }, 'an automatic top-up has no outcome yet'))
  }

  /** Looks up attempts that neither an answer nor an event has ended. */
  async #settleOpen(): Promise<void> {
    const createdAt = { lt: new Date(this.#clock.now() - settleAfterMs) }
    const where = { automatic: true, status: 'open', createdAt } as const
    for (const row of await this.#db.topUp.findMany({ where, orderBy: { updatedAt: 'asc' }, take: perRound }))
      await this.#settled(row.id, this.#settle(row))
  }

  async #settle(row: TopUp): Promise<void> {
    const { id: topUpId, organisationId, customerId, paymentMethodId, createdAt } = row
    if (customerId === null || paymentMethodId === null) return
    const amountCents = centsFromNano(row.amountNano)
    const charge = { topUpId, organisationId, customerId, paymentMethodId, amountCents }
    // So that one that cannot be settled does not keep others from their turn.
    await this.#db.topUp.updateMany({
      where: { id: topUpId, status: 'open' },
      data: { updatedAt: new Date(this.#clock.now()) },
    })
    const found = await this.#stripe.findCharge(charge, new Date(createdAt.getTime() - skewMs))
    if (found === null) return
    if (found !== 'missing') return this.#apply(found)
    if (this.#clock.now() - createdAt.getTime() < keyLifeMs) return this.#charge(charge)
    const failure = { code: 'not_charged', isFinal: false }
    await this.#apply({ what: 'charge_failed', topUpId, paymentId: null, amountCents, currency: 'usd', failure })
  }

  /** Saves the cards of pages whose event was lost. */
  async #finishPages(): Promise<void> {
    const nowMs = this.#clock.now()
    const setupStartedAt = { lt: new Date(nowMs - settleAfterMs), gt: new Date(nowMs - pageLifeMs) }
    const where = { setupSessionId: { not: null }, setupStartedAt }
    for (const row of await this.#db.autoTopUp.findMany({ where, take: perRound }))
      await this.saveCard(row.organisationId, row.setupSessionId!).catch(err =>
        this.#log.warn({ err, organisation: row.organisationId }, 'it is not known yet whether a card was saved'),
      )
  }
}

/** Locks the settings of an organisation, which are created with the first use. */
async function lockSettings(tx: Connection, organisationId: string, now: Date): Promise<AutoTopUp> {
  await tx.autoTopUp.createMany({
    data: { organisationId, ...defaults, nextAttemptAt: now, createdAt: now, updatedAt: now },
    skipDuplicates: true,
  })
  await tx.$queryRaw`SELECT 1 FROM auto_top_ups WHERE organisation_id = ${organisationId} FOR UPDATE`
  return tx.autoTopUp.findUniqueOrThrow({ where: { organisationId } })
}

/** What automatic top-ups of the current UTC month add up to, those in flight included. */
async function monthSpendNano(db: Connection, organisationId: string, nowMs: number): Promise<bigint> {
  const { _sum: sum } = await db.topUp.aggregate({
    where: {
      organisationId,
      automatic: true,
      status: { in: ['open', 'processing', 'paid', 'refunded'] },
      createdAt: { gte: new Date(`${monthOf(nowMs)}-01`) },
    },
    _sum: { amountNano: true },
  })
  return sum.amountNano ?? 0n
}

/**
 * Organisations whose balance, without held deposits, is below their threshold, and whose card may be charged now: none is in
 * flight, and the amount fits into the month.
 */
function listDue(db: Connection, now: Date, organisationId?: string): Promise<{ organisationId: string }[]> {
  const month = new Date(`${monthOf(now.getTime())}-01`)
  return db.$queryRaw<{ organisationId: string }[]>`
    SELECT a.organisation_id AS "organisationId"
    FROM auto_top_ups a JOIN organisations o ON o.id = a.organisation_id LEFT JOIN wallets w ON w.organisation_id = o.id
    WHERE a.enabled AND a.payment_method_id IS NOT NULL AND a.customer_id IS NOT NULL AND a.next_attempt_at <= ${now}
      AND o.suspended_at IS NULL AND (${organisationId ?? null}::text IS NULL OR o.id = ${organisationId ?? null})
      AND coalesce(w.balance_nano, 0) - (SELECT coalesce(sum(amount), 0)::bigint FROM (${heldDeposits(now)}) held)
        < a.threshold_cents * 10000000::bigint
      AND NOT EXISTS (
        SELECT 1 FROM top_ups t
        WHERE t.organisation_id = o.id AND t.automatic AND t.status IN ('open', 'processing'))
      AND (
        SELECT coalesce(sum(t.amount_nano), 0) FROM top_ups t
        WHERE t.organisation_id = o.id AND t.automatic AND t.status IN ('open', 'processing', 'paid', 'refunded')
          AND t.created_at >= ${month}) + a.amount_cents * 10000000::bigint <= a.monthly_limit_cents * 10000000::bigint
    ORDER BY a.updated_at, o.id LIMIT ${perRound}`
}

/** As the audit log shows them. */
function presentSettings({ enabled, thresholdCents, amountCents, monthlyLimitCents }: AutoTopUpSettings) {
  return {
    enabled,
    threshold_usd: usdFromNano(nanoFromCents(thresholdCents)),
    amount_usd: usdFromNano(nanoFromCents(amountCents)),
    monthly_limit_usd: usdFromNano(nanoFromCents(monthlyLimitCents)),
  }
}

function labelOf({ cardBrand, cardLast4 }: AutoTopUp): string | null {
  return cardLast4 === null ? null : `${cardBrand} ${cardLast4}`
}
