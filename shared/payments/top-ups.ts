import type { Config } from '../base/config.ts'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { nanoFromCents, usdFromNano } from '../base/money.ts'
import { type Clock, dayMs, hourMs } from '../base/time.ts'
import type { TopUp, TopUpStatus } from '../generated/prisma/client.ts'
import { type Actor, audit, type Changes, operatorActor } from '../io/audit.ts'
import type { Connection, Database } from '../io/db.ts'
import type { Logger } from '../io/log.ts'
import { topUpCause } from '../wallet/causes.ts'
import { bookDeposit, type DepositMethod, type Wallets } from '../wallet/wallets.ts'
import { AutoCharges } from './auto-charges.ts'
import { AutoTopUps } from './auto-top-ups.ts'
import {
  type ChargeFact,
  type ChargeStep,
  factOf,
  type PaymentFact,
  type PaymentStep,
  type ReturnFact,
  type TopUpFact,
} from './facts.ts'
import { StripeApi } from './stripe.ts'

/** Maximum checkouts per organisation and hour. */
const maxPerHour = 30
/** The delays after the first failures of automatic top-ups in a row; one more turns them off. */
const retryDelaysMs = [hourMs, dayMs]
/** The author of what the service does by itself. */
const autoTopUpActor = { ...operatorActor, name: 'automatic top-up' }

type NewTopUp = { organisationId: string; actor: Actor; email: string; amountCents: number }

/** A transition of a top-up: the new status, and the ledger entry to book. */
type Transition = { status: TopUpStatus; credit?: 'card' | 'ach'; reverse?: true }

const paidByCard: Transition = { status: 'paid', credit: 'card' }
const debitStarted: Transition = { status: 'processing', credit: 'ach' }
const paidByDebit: Transition = { status: 'paid', credit: 'ach' }

/**
 * The state machine of top-ups, by payment step and current status. A missing entry changes nothing: the event is a duplicate or
 * out of order. What Stripe says was charged is credited whatever was believed before.
 */
const transitions: Readonly<Record<PaymentStep | ChargeStep, Partial<Record<TopUpStatus, Transition>>>> = {
  paid: { open: paidByCard, expired: paidByCard },
  debit_started: { open: debitStarted, expired: debitStarted },
  debit_succeeded: { open: paidByDebit, expired: paidByDebit, processing: { status: 'paid' } },
  debit_failed: {
    open: { status: 'failed' },
    expired: { status: 'failed' },
    processing: { status: 'failed', reverse: true },
  },
  expired: { open: { status: 'expired' } },
  charged: { open: paidByCard, failed: paidByCard, expired: paidByCard },
  charge_failed: { open: { status: 'failed' } },
}

/** Payments into wallets. A top-up's status and its ledger entries change in one transaction; events may arrive in any order. */
export class TopUps {
  readonly #db: Database
  readonly #wallets: Wallets
  readonly #clock: Clock
  readonly #log: Logger
  readonly #publicUrl: string
  readonly #achHoldMs: number
  readonly #stripe: StripeApi | null
  /** Settings and charges of automatic top-ups; null when payments are not configured. */
  readonly automatic: AutoTopUps | null
  readonly charges: AutoCharges | null

  constructor(options: { db: Database; wallets: Wallets; clock: Clock; log: Logger; config: Config }) {
    const { stripe, publicUrl, proxies } = options.config
    this.#db = options.db
    this.#wallets = options.wallets
    this.#clock = options.clock
    this.#log = options.log
    this.#publicUrl = publicUrl
    this.#achHoldMs = stripe?.achHoldMs ?? 0
    this.#stripe = stripe && new StripeApi({ ...stripe, proxies })
    this.automatic = this.#stripe && new AutoTopUps({ ...options, stripe: this.#stripe, publicUrl })
    this.charges =
      this.#stripe && new AutoCharges({ ...options, stripe: this.#stripe, apply: fact => this.apply(fact) })
  }

  /** Creates a top-up and returns the URL of its checkout page. Throws 404 without payments, 429 above the hourly limit, 502 when Stripe fails. */
  async createCheckout({ organisationId, actor, email, amountCents }: NewTopUp): Promise<{ id: string; url: string }> {
    const stripe = this.#getStripe()
    const createdAt = { gt: new Date(this.#clock.now() - hourMs) }
    if ((await this.#db.topUp.count({ where: { organisationId, createdAt } })) >= maxPerHour)
      throw new GatewayError('rate_limit_exceeded', `At most ${maxPerHour} payments can be begun in an hour.`, {
        headers: { 'retry-after': '3600' },
      })
    const id = newId('top')
    const amountNano = nanoFromCents(amountCents)
    // Inserted before the call to Stripe, because the first event may arrive before the response.
    await this.#db.$transaction(async tx => {
      const data = { id, organisationId, userId: actor.id, amountNano, createdAt: new Date(this.#clock.now()) }
      await tx.topUp.create({ data })
      const changes = { amount_usd: [null, usdFromNano(amountNano)] } satisfies Changes
      await audit(tx, { organisationId, actor, action: 'top_up.started', target: { id, name: id }, changes })
    })
    const page = `${this.#publicUrl}/dashboard/${organisationId}/billing?top_up=${id}`
    const urls = { successUrl: page, cancelUrl: `${page}&cancelled=true` }
    const checkout = await stripe.createCheckout({ topUpId: id, organisationId, amountCents, email, ...urls })
    await this.#db.topUp.update({ where: { id }, data: { checkoutSessionId: checkout.id } })
    return { id, url: checkout.url }
  }

  /** Applies a webhook event. Throws 404 without payments, 400 when the signature is invalid or the currency is not US dollars. */
  async handleEvent(raw: Buffer, signature: string): Promise<void> {
    const event = await this.#getStripe().readEvent(raw, signature, this.#clock.now())
    const fact = factOf(event)
    if (fact?.what === 'card_saved') await this.automatic?.saveCard(fact.organisationId, fact.sessionId)
    else if (fact) await this.apply(fact)
  }

  /** Books what Stripe says of a payment, by an event or an answer; idempotent. Throws 400 unless it is in US dollars. */
  async apply(fact: TopUpFact): Promise<void> {
    const topUpId = 'topUpId' in fact ? fact.topUpId : await this.#findTopUpId(fact.paymentId)
    if (!topUpId) return
    const organisationId = await this.#db.$transaction(tx => this.#apply(tx, topUpId, fact))
    // The entries are committed: if Redis is unavailable, the reconciler copies them later.
    if (organisationId) await this.#wallets.install(organisationId).catch(() => {})
  }

  /** Throws 404 when payments are not configured. */
  assertEnabled(): void {
    this.#getStripe()
  }

  #getStripe(): StripeApi {
    if (this.#stripe) return this.#stripe
    throw new GatewayError(
      'not_found',
      'Payments are not set up here. Credits are added by the operator of the service.',
    )
  }

  /** The top-up of a payment. Asks Stripe if the event of its checkout has not arrived yet. */
  async #findTopUpId(paymentId: string): Promise<string | null> {
    const topUp = await this.#db.topUp.findUnique({ where: { paymentId }, select: { id: true } })
    return topUp?.id ?? this.#getStripe().findTopUpId(paymentId)
  }

  /** Returns the organisation whose wallet may have changed; null when the fact belongs to no top-up. */
  async #apply(tx: Connection, id: string, fact: TopUpFact): Promise<string | null> {
    if ('failure' in fact) await lockAutoTopUp(tx, id)
    await tx.$queryRaw`SELECT 1 FROM top_ups WHERE id = ${id} FOR UPDATE`
    const topUp = await tx.topUp.findUnique({ where: { id } })
    if (!topUp || !isOf(topUp, fact)) return null
    if (fact.currency !== 'usd')
      throw new GatewayError('invalid_request', `Top-up ${id} is in US dollars, this event is not.`, {
        param: 'data.object.currency',
      })
    const changes =
      'topUpId' in fact ? await this.#bookPayment(tx, topUp, fact) : await this.#bookReturn(tx, topUp, fact)
    const row = { ...topUp, ...changes }
    await tx.topUp.update({ where: { id }, data: { ...changes, status: statusOf(row) } })
    const { what, amountCents } = fact
    this.#log.info({ topUp: id, organisation: topUp.organisationId, what, amountCents }, 'payment event applied')
    return topUp.organisationId
  }

  async #bookPayment(tx: Connection, topUp: TopUp, fact: PaymentFact | ChargeFact): Promise<Partial<TopUp>> {
    const { id, organisationId } = topUp
    const transition = transitions[fact.what][topUp.status]
    const createdAt = new Date(this.#clock.now())
    const ids = {
      ...('sessionId' in fact && { checkoutSessionId: fact.sessionId }),
      paymentId: topUp.paymentId ?? fact.paymentId,
    }
    if (transition && 'failure' in fact) await noteOutcome(tx, topUp, fact, createdAt)
    const failure = 'failure' in fact && transition ? { failureCode: fact.failure?.code ?? null } : {}
    if (transition?.credit) {
      if (fact.amountCents === 0)
        throw new GatewayError('invalid_request', `Top-up ${id} cannot be paid with nothing.`, {
          param: 'data.object.amount_total',
        })
      const amountNano = nanoFromCents(fact.amountCents)
      const availableAt = transition.credit === 'ach' ? new Date(createdAt.getTime() + this.#achHoldMs) : null
      const cause = topUpCause(id, 'payment')
      await bookDeposit(tx, { organisationId, amountNano, method: transition.credit, availableAt, cause, createdAt })
      return { ...ids, ...failure, amountNano, method: transition.credit, status: transition.status }
    }
    if (transition?.reverse) {
      const { amountNano, availableAt } = await tx.ledgerEntry.findUniqueOrThrow({
        where: { cause: topUpCause(id, 'payment') },
      })
      const cause = topUpCause(id, 'failed')
      await bookDeposit(tx, { organisationId, amountNano: -amountNano, method: 'ach', availableAt, cause, createdAt })
    }
    return { ...ids, ...failure, ...(transition && { status: transition.status }) }
  }

  /** Books a refund or a dispute, and its reversal. A reversal books the return first if it is missing, so the events may arrive in any order. */
  async #bookReturn(tx: Connection, topUp: TopUp, fact: ReturnFact): Promise<Partial<TopUp>> {
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
      const booked = await tx.ledgerEntry.findUniqueOrThrow({ where: { cause } })
      const { amountNano: bookedNano, availableAt } = booked
      const undoCause = topUpCause(id, `${fact.what}_undone`, fact.id)
      if (await bookDeposit(tx, { ...entry, amountNano: -bookedNano, availableAt, cause: undoCause }))
        returnedNano += bookedNano
    }
    return { returnedNano, paymentId: fact.paymentId }
  }
}

/** Whether a fact may be about a top-up: charges are of automatic ones, and a checkout's session does not change. */
function isOf({ automatic, checkoutSessionId }: TopUp, fact: TopUpFact): boolean {
  if ('failure' in fact) return automatic
  if ('sessionId' in fact) return !automatic && (checkoutSessionId ?? fact.sessionId) === fact.sessionId
  return true
}

/** The status of a top-up after refunds and disputes: a paid top-up is refunded while the whole amount is returned. */
function statusOf({
  status,
  amountNano,
  returnedNano,
}: Pick<TopUp, 'status' | 'amountNano' | 'returnedNano'>): TopUpStatus {
  if (status !== 'paid' && status !== 'refunded') return status
  return returnedNano >= amountNano ? 'refunded' : 'paid'
}

/** Locks the settings behind an automatic top-up, always before the top-up itself. */
async function lockAutoTopUp(tx: Connection, topUpId: string): Promise<void> {
  await tx.$queryRaw`
    SELECT 1 FROM auto_top_ups
    WHERE organisation_id = (SELECT organisation_id FROM top_ups WHERE id = ${topUpId} AND automatic) FOR UPDATE`
}

/** Counts the failures in a row of automatic top-ups: the next attempt is delayed, and after the last one they are turned off. */
async function noteOutcome(
  tx: Connection,
  { organisationId }: Pick<TopUp, 'organisationId'>,
  { failure }: ChargeFact,
  now: Date,
): Promise<void> {
  const settings = await tx.autoTopUp.findUnique({ where: { organisationId } })
  if (!settings) return
  const where = { organisationId }
  if (failure === null) {
    await tx.autoTopUp.update({ where, data: { failures: 0, nextAttemptAt: now, updatedAt: now } })
    return
  }
  const failures = settings.failures + 1
  const delayMs = failure.isFinal ? undefined : retryDelaysMs[failures - 1]
  if (delayMs !== undefined) {
    const nextAttemptAt = new Date(now.getTime() + delayMs)
    await tx.autoTopUp.update({ where, data: { failures, nextAttemptAt, updatedAt: now } })
    return
  }
  await tx.autoTopUp.update({
    where,
    data: { failures, enabled: false, disabledReason: failure.code, updatedAt: now },
  })
  if (!settings.enabled) return
  const changes = { enabled: [true, false], reason: [null, failure.code] } satisfies Changes
  await audit(tx, { organisationId, actor: autoTopUpActor, action: 'auto_top_up.disabled', changes })
}
