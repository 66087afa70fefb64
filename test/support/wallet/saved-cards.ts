// Automatic top-ups in random histories: an organisation with a saved card at an emulated Stripe, and what must be true of it.
import { loadConfig } from '../../../shared/base/config.ts'
import { centsFromNano, nanoFromCents } from '../../../shared/base/money.ts'
import { monthOf } from '../../../shared/base/time.ts'
import { operatorActor } from '../../../shared/io/audit.ts'
import { createLog } from '../../../shared/io/log.ts'
import { TopUps } from '../../../shared/payments/top-ups.ts'
import { json, type Recorded, type Reply } from '../../emulators/emulator.ts'
import { StripeEmulator, type StripeEvent, signature } from '../../emulators/stripe.ts'
import type { Stores } from '../gateway.ts'
import type { World } from './history.ts'
import { paymentEnvironment } from './payments.ts'

const hourMs = 3_600_000
const settleAfterMs = 60_000
const keyLifeMs = 23 * hourMs
const retryDelaysMs = [hourMs, 24 * hourMs]
/** In a month, six charges. */
const settings = { enabled: true, thresholdCents: 100, amountCents: 50, monthlyLimitCents: 300 }
const amountNano = Number(nanoFromCents(settings.amountCents))

/** What becomes of the charges of a round: `lost`: Stripe charges and its answer is lost; `away`: nothing reaches it. */
export type ChargeFault = 'none' | 'lost' | 'away' | 'declined'

/** Stripe's library does not repeat a request that has this answer, so that histories need not wait for it. */
const failed: Reply = json(500, { error: { type: 'api_error' } }, { 'stripe-should-retry': 'false' })

/** The organisation of one history, two workers that top it up, and a model of what they must do. */
export class SavedCards {
  readonly #world: World
  readonly #stripe: StripeEmulator
  readonly #workers: TopUps[]
  organisationId = ''
  #customerId = ''
  #cardId = ''
  /** The attempt without an outcome. */
  #open: { atMs: number; isCharged: boolean } | null = null
  #isEnabled = true
  #failures = 0
  #notBeforeMs = 0
  /** What counts towards the limit, by month. */
  #spent = new Map<string, number>()

  private constructor(world: World, stores: Stores, stripe: StripeEmulator) {
    this.#world = world
    this.#stripe = stripe
    const config = loadConfig({
      ...paymentEnvironment(stripe),
      DATABASE_URL: stores.databaseUrl,
      REDIS_URL: stores.redisUrl,
    })
    const { db, wallets, clock } = world
    this.#workers = [0, 1].map(() => new TopUps({ db, wallets, clock, log: createLog('silent'), config }))
  }

  static async open(world: World, stores: Stores): Promise<SavedCards> {
    return new SavedCards(world, stores, await StripeEmulator.start(() => world.clock.now()))
  }

  async close(): Promise<void> {
    await this.#stripe.close()
  }

  /** A new organisation whose balance is zero, with a saved card and a key; those of earlier histories are left alone. */
  async begin(): Promise<void> {
    const { db } = this.#world
    await db.autoTopUp.updateMany({ data: { enabled: false } })
    await db.topUp.updateMany({ where: { status: 'open' }, data: { status: 'expired' } })
    this.organisationId = await this.#world.addAccount()
    const automatic = this.#workers[0]!.automatic!
    await automatic.createCardPage(this.organisationId, operatorActor)
    await this.#take(this.#workers[0]!, this.#stripe.saveCard(this.organisationId, 'succeeds'))
    await automatic.set(this.organisationId, settings, operatorActor)
    const row = await db.autoTopUp.findUniqueOrThrow({ where: { organisationId: this.organisationId } })
    this.#customerId = row.customerId!
    this.#cardId = row.paymentMethodId!
    this.#open = null
    this.#spent = new Map()
    this.#start()
  }

  /** Somebody turns automatic top-ups on again. */
  async turnOn(): Promise<void> {
    await this.#workers[0]!.automatic!.set(this.organisationId, settings, operatorActor)
    this.#start()
  }

  /** A round of one or both workers, at the same time; of one, where it would depend on their order what becomes of an attempt. */
  async run(fault: ChargeFault, maxWorkers: number): Promise<void> {
    const workers = this.#open !== null && fault !== 'none' ? 1 : maxWorkers
    this.#stripe.intercept = request => (isCharge(request) ? this.#interfere(fault, request) : null)
    this.#stripe.cards.cards.get(this.#cardId)!.behaviour = fault === 'declined' ? 'declined' : 'succeeds'
    const wasIdle = this.#open === null
    const isExpected = this.#isDue()
    const rounds = await Promise.all(this.#workers.slice(0, workers).map(worker => worker.charges!.run()))
    this.#stripe.intercept = null
    this.#settle(fault)
    const begun = rounds.reduce((all, count) => all + count, 0)
    if (isExpected !== begun > 0 && (wasIdle || workers === 1)) throw new Error(`${begun} charges were begun`)
    for (let i = 0; i < begun; i++) {
      if (!this.#isDue()) throw new Error(`a charge was begun that was not due, the ${i + 1}th of ${begun}`)
      this.#begin(fault)
    }
  }

  /** Stripe tells of one of its charges, to both processes at the same time. */
  async tell(which: number): Promise<void> {
    const charges = this.#charges()
    const charge = charges[which % charges.length]
    if (!charge) return
    const type = ({ succeeded: 'succeeded', canceled: 'canceled' } as const)[charge.status!] ?? 'payment_failed'
    const event = this.#stripe.chargeEvent(type, charge.id)
    await Promise.all(this.#workers.map(worker => this.#take(worker, event)))
    // The newest is the one without an outcome, if Stripe has that.
    if (this.#open?.isCharged && which % charges.length === 0) this.#succeed()
  }

  /** Idempotency keys end a day after they were used. */
  pass(ms: number): void {
    if (ms >= 24 * hourMs) this.#stripe.forgetKeys()
  }

  /** Every attempt gets its outcome, if it has none. */
  async end(): Promise<void> {
    this.#world.clock.advance(2 * settleAfterMs)
    await this.run('none', 1)
    if (this.#open !== null) throw new Error('an automatic top-up has no outcome')
  }

  /** Each charge has one top-up and is credited once, one is in flight at most, and no month exceeds its limit. */
  async invariants(): Promise<void> {
    const { db } = this.#world
    const { organisationId } = this
    const rows = await db.topUp.findMany({ where: { organisationId, automatic: true } })
    const entries = await db.ledgerEntry.findMany({ where: { organisationId, cause: { startsWith: 'stripe:' } } })
    const inFlight = rows.filter(({ status }) => status === 'open')
    if (inFlight.length !== (this.#open ? 1 : 0)) throw new Error(`${inFlight.length} top-ups are in flight`)
    const charged = this.#charges().filter(({ status }) => status === 'succeeded')
    const reasons = new Set(charged.map(({ metadata }) => metadata.top_up))
    if (reasons.size !== charged.length) throw new Error(`${charged.length} charges for ${reasons.size} top-ups`)
    const uncredited = this.#open?.isCharged ? 1 : 0
    if (entries.length !== charged.length - uncredited)
      throw new Error(`${entries.length} credits for ${charged.length} charges, ${uncredited} of them without outcome`)
    for (const { cause, amountNano: credited } of entries)
      if (!reasons.has(cause.split(':')[1]!) || Number(credited) !== amountNano) throw new Error(`credited: ${cause}`)
    const months = Map.groupBy(
      rows.filter(({ status }) => status !== 'failed'),
      ({ createdAt }) => monthOf(createdAt.getTime()),
    )
    for (const [month, { length }] of months) {
      const cents = centsFromNano(BigInt(length * amountNano))
      if (cents > settings.monthlyLimitCents) throw new Error(`${cents} cents in ${month}`)
    }
  }

  #charges() {
    return this.#stripe.cards.chargesOf(this.#customerId)
  }

  #interfere(fault: ChargeFault, request: Recorded): Reply | null {
    if (fault !== 'lost' && fault !== 'away') return null
    if (fault === 'lost') this.#stripe.reply(request)
    return failed
  }

  async #take(worker: TopUps, event: StripeEvent): Promise<void> {
    const payload = JSON.stringify(event)
    await worker.handleEvent(Buffer.from(payload), signature(payload, this.#world.clock.now()))
  }

  /** Whether the card is to be charged now, by the rules. */
  #isDue(): boolean {
    const { truth, clock } = this.#world
    const nowMs = clock.now()
    const spent = this.#spent.get(monthOf(nowMs)) ?? 0
    const balanceNano = truth.balance(this.organisationId, nowMs)
    return (
      this.#isEnabled &&
      this.#open === null &&
      this.#notBeforeMs <= nowMs &&
      balanceNano < Number(nanoFromCents(settings.thresholdCents)) &&
      spent + amountNano <= Number(nanoFromCents(settings.monthlyLimitCents))
    )
  }

  #begin(fault: ChargeFault): void {
    const atMs = this.#world.clock.now()
    this.#count(atMs, amountNano)
    this.#open = { atMs, isCharged: fault === 'lost' }
    if (fault === 'declined') this.#fail()
    else if (fault === 'none') this.#succeed()
  }

  /** What a round does with an attempt that had no outcome before. */
  #settle(fault: ChargeFault): void {
    if (this.#open === null) return
    const ageMs = this.#world.clock.now() - this.#open.atMs
    if (ageMs <= settleAfterMs) return
    const isRepeated = !this.#open.isCharged && ageMs < keyLifeMs
    if (this.#open.isCharged || (isRepeated && fault === 'none')) this.#succeed()
    else if (!isRepeated || fault === 'declined') this.#fail()
    else this.#open.isCharged = fault === 'lost'
  }

  #succeed(): void {
    const nowMs = this.#world.clock.now()
    this.#open = null
    this.#failures = 0
    this.#notBeforeMs = nowMs
    this.#world.truth.deposits.push({
      organisation: this.organisationId,
      amount: amountNano,
      releasedAtMs: nowMs,
    })
  }

  #fail(): void {
    this.#count(this.#open!.atMs, -amountNano)
    this.#open = null
    const delayMs = retryDelaysMs[this.#failures++]
    if (delayMs === undefined) this.#isEnabled = false
    else this.#notBeforeMs = this.#world.clock.now() + delayMs
  }

  #start(): void {
    this.#isEnabled = true
    this.#failures = 0
    this.#notBeforeMs = this.#world.clock.now()
  }

  #count(atMs: number, nano: number): void {
    const month = monthOf(atMs)
    this.#spent.set(month, (this.#spent.get(month) ?? 0) + nano)
  }
}

function isCharge({ method, path }: Recorded): boolean {
  return method === 'POST' && path === '/v1/payment_intents'
}
