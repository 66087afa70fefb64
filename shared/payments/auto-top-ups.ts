import { GatewayError } from '../base/errors.ts'
import { centsFromNano, nanoFromCents, usdFromNano } from '../base/money.ts'
import { type Clock, hourMs } from '../base/time.ts'
import type { AutoTopUp, TopUp } from '../generated/prisma/client.ts'
import { type Actor, audit, type Changes, changesBetween } from '../io/audit.ts'
import type { Connection, Database } from '../io/db.ts'
import type { Logger } from '../io/log.ts'
import { monthSpendNano } from './due-top-ups.ts'
import type { StripeApi } from './stripe.ts'

const minuteMs = 60_000
/** A card page whose event did not come is looked up after this time. */
const settleAfterMs = minuteMs
/** A page at which a card is saved ends after 24 hours. */
const pageLifeMs = 25 * hourMs
/** Pages at a time; the next round follows within seconds. */
const perRound = 50
const noCard = { paymentMethodId: null, cardBrand: null, cardLast4: null, cardExpires: null }
/** What is set before anybody chose. */
const defaults = { thresholdCents: 1_000, amountCents: 5_000, monthlyLimitCents: 50_000 }

type AutoTopUpSettings = Pick<AutoTopUp, 'enabled' | 'thresholdCents' | 'amountCents' | 'monthlyLimitCents'>
type AutoTopUpView = {
  settings: Omit<AutoTopUp, 'createdAt' | 'updatedAt'>
  spentCents: number
  last: TopUp | null
}

/** The settings of an organisation with what was charged this month, and the latest attempt; also where payments are off. */
export async function viewAutoTopUp(db: Connection, organisationId: string, nowMs: number): Promise<AutoTopUpView> {
  const [settings, spentNano, last] = await Promise.all([
    db.autoTopUp.findUnique({ where: { organisationId } }),
    monthSpendNano(db, organisationId, nowMs),
    db.topUp.findFirst({ where: { organisationId, automatic: true }, orderBy: { createdAt: 'desc' } }),
  ])
  return { settings: settings ?? unset(organisationId, nowMs), spentCents: centsFromNano(spentNano), last }
}

/** What an organisation has before its first use of automatic top-ups. */
function unset(organisationId: string, nowMs: number): AutoTopUpView['settings'] {
  const state = { enabled: false, failures: 0, nextAttemptAt: new Date(nowMs), disabledReason: null }
  return {
    organisationId,
    ...defaults,
    ...noCard,
    ...state,
    customerId: null,
    setupSessionId: null,
    setupStartedAt: null,
  }
}

/**
 * Turns the automatic top-ups of an organisation off, also where payments are off; its settings and its saved card stay, and a
 * charge in flight ends as it does. Returns whether they were on.
 */
export async function turnOffAutoTopUp(
  db: Database,
  organisationId: string,
  nowMs: number,
  actor: Actor,
): Promise<boolean> {
  return db.$transaction(async tx => {
    const before = await lockSettings(tx, organisationId, new Date(nowMs))
    if (!before.enabled) return false
    const data = { enabled: false, updatedAt: new Date(nowMs) }
    await tx.autoTopUp.update({ where: { organisationId }, data })
    const changes = { enabled: [true, false] } satisfies Changes
    await audit(tx, { organisationId, actor, action: 'auto_top_up.changed', changes })
    return true
  })
}

/** What organisations set for automatic top-ups, and their saved cards; the charges are in `AutoCharges`. */
export class AutoTopUps {
  readonly #db: Database
  readonly #clock: Clock
  readonly #log: Logger
  readonly #stripe: StripeApi
  readonly #publicUrl: string

  constructor(options: {
    db: Database
    clock: Clock
    log: Logger
    stripe: StripeApi
    publicUrl: string
  }) {
    this.#db = options.db
    this.#clock = options.clock
    this.#log = options.log
    this.#stripe = options.stripe
    this.#publicUrl = options.publicUrl
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
      // Billing shows why it was turned off: turning it on again starts the count of failures anew.
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
      const changes = { card: [labelOf(before), `${brand} ${last4}`] } satisfies Changes
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
      const data = { ...noCard, enabled: false, setupSessionId: null, setupStartedAt: null, updatedAt: now }
      await tx.autoTopUp.update({ where: { organisationId }, data })
      if (before.paymentMethodId === null) return null
      const changes = { card: [labelOf(before), null] } satisfies Changes
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

  /** Saves the cards of pages whose event was lost. */
  async finishCardPages(): Promise<void> {
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
    data: { ...unset(organisationId, now.getTime()), createdAt: now, updatedAt: now },
    skipDuplicates: true,
  })
  await tx.$queryRaw`SELECT 1 FROM auto_top_ups WHERE organisation_id = ${organisationId} FOR UPDATE`
  return tx.autoTopUp.findUniqueOrThrow({ where: { organisationId } })
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
