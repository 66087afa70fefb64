import { setTimeout as sleep } from 'node:timers/promises'
import { centsFromNano } from '../../shared/base/money.ts'
import { monthOf } from '../../shared/base/time.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { json, type Reply } from '../emulators/emulator.ts'
import type { StripeEmulator } from '../emulators/stripe.ts'
import { createAccount } from '../support/gateway.ts'
import type { Tell } from './payments.ts'
import type { World } from './world.ts'

/** Images cost cents: the wallet runs low within seconds, and again after each charge. */
const startUsd = '0.5'
const settings = { enabled: true, thresholdCents: 100, amountCents: 50, monthlyLimitCents: 150 }
const lookEveryMs = 1_000
/** Of charges, whose answers are lost after Stripe charged, or that do not reach it. */
const faultyShare = 0.2
/** Of charges, whose events come; the others are told by their answers, or found a minute later. */
const toldShare = 0.7
const failed: Reply = json(500, { error: { type: 'api_error' } }, { 'stripe-should-retry': 'false' })

/** An organisation whose wallet runs low under load, and whose saved card two workers charge. */
export class SavedCard {
  readonly live: string
  readonly organisationId: string
  readonly #customerId: string
  readonly #world: World
  readonly #stripe: StripeEmulator
  readonly #random: () => number
  readonly #tell: Tell
  readonly #running: Promise<void>
  readonly #seen = new Set<string>()
  #untaken = 0
  #isStopped = false

  private constructor(
    { world, stripe, random, tell }: SavedCardOptions,
    account: { live: string; organisationId: string },
    customerId: string,
  ) {
    this.live = account.live
    this.organisationId = account.organisationId
    this.#customerId = customerId
    this.#world = world
    this.#stripe = stripe
    this.#random = random
    this.#tell = tell
    stripe.intercept = request => {
      if (request.method !== 'POST' || request.path !== '/v1/payment_intents') return null
      const draw = random()
      if (draw >= faultyShare) return null
      if (draw < faultyShare / 2) stripe.reply(request)
      return failed
    }
    this.#running = this.#tellOfCharges()
  }

  /** Opens the account and saves its card, before anything fails. */
  static async open(options: SavedCardOptions): Promise<SavedCard> {
    const { services } = options.world
    const account = await createAccount(services, { usd: startUsd })
    const { organisationId } = account
    const automatic = services.topUps.automatic!
    await automatic.createCardPage(organisationId, operatorActor)
    const event = options.stripe.saveCard(organisationId, 'succeeds')
    await automatic.saveCard(organisationId, event.data.object.id as string)
    await automatic.set(organisationId, settings, operatorActor)
    const { customerId } = await services.db.autoTopUp.findUniqueOrThrow({ where: { organisationId } })
    return new SavedCard(options, account, customerId!)
  }

  /** How often the card was charged. */
  get count(): number {
    return this.#charges().length
  }

  /** From now on, Stripe answers; events of its charges still come. */
  heal(): void {
    this.#stripe.intercept = null
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#running
  }

  /** Each charge has a top-up of its own and is credited once, the month's limit holds, and nothing is without an outcome. */
  async findBreaches(): Promise<string[]> {
    const { db, wallets } = this.#world.services
    const { organisationId } = this
    const rows = await db.topUp.findMany({ where: { organisationId } })
    const entries = await db.ledgerEntry.findMany({ where: { organisationId, cause: { startsWith: 'stripe:' } } })
    const charges = this.#charges()
    const breaches: string[] = []
    if (charges.length === 0) breaches.push('the saved card was never charged')
    for (const [topUp, of] of Map.groupBy(charges, ({ metadata }) => metadata.top_up!))
      if (of.length > 1) breaches.push(`the card was charged ${of.length} times for ${topUp}`)
    for (const { metadata, amount } of charges) {
      const id = metadata.top_up!
      const credited = entries.filter(({ cause }) => cause.startsWith(`stripe:${id}:`))
      if (credited.length !== 1 || centsFromNano(credited[0]!.amountNano) !== amount)
        breaches.push(`the charge of ${id} is in the ledger ${credited.length} times`)
      if (rows.find(row => row.id === id)?.status !== 'paid') breaches.push(`the charge of ${id} is not a paid top-up`)
    }
    if (entries.length > charges.length) breaches.push(`${entries.length} credits for ${charges.length} charges`)
    for (const { id, status } of rows) if (status === 'open') breaches.push(`the automatic top-up ${id} has no outcome`)
    for (const [month, of] of Map.groupBy(rows, ({ createdAt }) => monthOf(createdAt.getTime()))) {
      const cents = of.filter(({ status }) => status === 'paid').length * settings.amountCents
      if (cents > settings.monthlyLimitCents) breaches.push(`${cents} cents were charged in ${month}`)
    }
    // Usage only lowers it: it was not below the threshold before a charge that was made too often.
    const { balanceNano } = await wallets.view(organisationId)
    if (centsFromNano(balanceNano) >= settings.thresholdCents + settings.amountCents)
      breaches.push(`the card was charged although ${centsFromNano(balanceNano)} cents were there`)
    if (this.#untaken > 0) breaches.push(`${this.#untaken} events of charges were not taken`)
    return breaches
  }

  #charges() {
    return this.#stripe.cards.chargesOf(this.#customerId).filter(({ status }) => status === 'succeeded')
  }

  /** Tells of most charges, soon after they were made: before or after their answers, as Stripe does. */
  async #tellOfCharges(): Promise<void> {
    const open: Promise<void>[] = []
    while (!this.#isStopped) {
      for (const { id } of this.#charges()) {
        if (this.#seen.has(id)) continue
        this.#seen.add(id)
        if (this.#random() < toldShare) open.push(this.#tellOf(id))
      }
      await sleep(lookEveryMs)
    }
    await Promise.all(open)
  }

  async #tellOf(paymentId: string): Promise<void> {
    if (!(await this.#tell(this.#stripe.chargeEvent('succeeded', paymentId)))) this.#untaken++
  }
}

type SavedCardOptions = { world: World; stripe: StripeEmulator; random: () => number; tell: Tell }
