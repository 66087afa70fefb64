import { Redis } from 'ioredis'
import { GatewayError } from '../../../shared/base/errors.ts'
import { newId } from '../../../shared/base/ids.ts'
import { monthOf } from '../../../shared/base/time.ts'
import { type Database, openDatabase } from '../../../shared/io/db.ts'
import { createLog } from '../../../shared/io/log.ts'
import { RawPool } from '../../../shared/io/raw-pool.ts'
import type { Shard } from '../../../shared/io/redis-shards.ts'
import {
  Admission,
  type BillingContext,
  type MaxCost,
  type Reservation,
  type StalePolicy,
} from '../../../shared/wallet/admission.ts'
import { parseEvent, postUsage, type StreamedEvent } from '../../../shared/wallet/ledger.ts'
import { sweepReservations } from '../../../shared/wallet/reconcile.ts'
import type { SpendBudget } from '../../../shared/wallet/reservation.ts'
import { loadScripts, type ScriptArguments, type ScriptCalls, type Scripts } from '../../../shared/wallet/scripts.ts'
import type { UsageEvent } from '../../../shared/wallet/usage-event.ts'
import { Wallets } from '../../../shared/wallet/wallets.ts'
import type { Stores } from '../gateway.ts'
import { passForSweeper } from './ageing.ts'
import { testClock } from './money.ts'
import { usageEventOf } from './usage-event.ts'

export const fixedNano = 10_000
export const picoPerOutputToken = 1_234_567
export const price = (tokens: number) => fixedNano + Math.ceil((tokens * picoPerOutputToken) / 1_000)

type Deposit = { organisation: string; amount: number; releasedAtMs: number }
type Charge = { organisation: string; spends: string[]; cost: number; booked: boolean }
/** `extends`: the request whose output this reservation reserves while it runs; null = the reservation is of a request itself. */
type Open = { reservation: Reservation; process: Process; reserved: boolean; extends: Open | null }
/** How much output a request wants, and how it may be served with less. */
export type Wanted = Pick<MaxCost, 'outputTokens' | 'explicit' | 'minTokens' | 'likelyTokens'>

/** What must be true, kept beside the real stores. All amounts are nano-dollars. */
export class Truth {
  deposits: Deposit[] = []
  charges = new Map<string, Charge>()
  open: Open[] = []
  /** What wiped reservations may have let a key or budget spend beyond its limit, by its account and month. */
  slack = new Map<string, number>()
  /** The same of an organisation's balance. */
  readonly #overdrafts = new Map<string, number>()

  /** How far the balance of an organisation may be below zero. */
  overdraft(organisation: string): number {
    return this.#overdrafts.get(organisation) ?? 0
  }

  /** A request was charged whose reservation had been wiped: others may have been admitted with the same money. */
  addSlack({ billing, month }: Reservation, cost: number): void {
    for (const spend of spendsOf({ billing, month })) this.slack.set(spend, (this.slack.get(spend) ?? 0) + cost)
    this.allowOverdraft(billing.organisationId, cost)
  }

  /** A request cost this much that it had not reserved: others may have reserved the same money. */
  allowOverdraft(organisation: string, amount: number): void {
    this.#overdrafts.set(organisation, this.overdraft(organisation) + amount)
  }

  /** What was reserved for a request while it ran. */
  extrasOf(open: Open): Open[] {
    return this.open.filter(it => it.extends === open)
  }

  /** All that is reserved for a request. */
  reservedFor(open: Open): number {
    return reservedWith(open, this.extrasOf(open))
  }

  available(organisation: string, nowMs: number): number {
    const released = this.deposits.filter(it => it.organisation === organisation && it.releasedAtMs <= nowMs)
    return sum(released, it => it.amount) - this.charged(organisation) - this.reserved(organisation)
  }

  /** As PostgreSQL has it, without what is held. */
  balance(organisation: string, nowMs: number): number {
    const released = this.deposits.filter(it => it.organisation === organisation && it.releasedAtMs <= nowMs)
    return sum(released, it => it.amount) - this.charged(organisation, true)
  }

  charged(organisation: string, bookedOnly = false): number {
    const own = [...this.charges.values()].filter(it => it.organisation === organisation && (it.booked || !bookedOnly))
    return sum(own, it => it.cost)
  }

  reserved(organisation: string): number {
    const own = this.open.filter(it => it.reserved && it.reservation.billing.organisationId === organisation)
    return sum(own, it => it.reservation.reservedNano)
  }

  spent(spend: string): number {
    return sum(
      [...this.charges.values()].filter(it => it.spends.includes(spend)),
      it => it.cost,
    )
  }

  spendReserved(spend: string): number {
    const own = this.open.filter(it => it.reserved && spendsOf(it.reservation).includes(spend))
    return sum(own, it => it.reservation.reservedNano)
  }

  deposited(organisation: string): number {
    return sum(
      this.deposits.filter(it => it.organisation === organisation),
      it => it.amount,
    )
  }
}

function reservedWith(open: Open, extras: Open[]): number {
  return sum([open, ...extras], it => it.reservation.reservedNano)
}

export function sum<T>(items: T[], amount: (item: T) => number): number {
  return items.reduce((total, item) => total + amount(item), 0)
}

/** The month of a key, and of its budgets. */
export function spendsOf({ billing, month }: Pick<Reservation, 'billing' | 'month'>): string[] {
  return [billing.keyId, ...(billing.budgets ?? []).map(({ id }) => id)].map(account => `${account}:${month}`)
}

/** A web process's part in the money. Its next reply from a script can be lost on the way. */
export class Process {
  readonly admission: Admission
  loses: keyof ScriptArguments | null = null

  constructor(world: World) {
    const calls: ScriptCalls = world.scripts
    const lossy =
      <Name extends keyof ScriptArguments>(name: Name) =>
      async (values: ScriptArguments[Name], shard?: Shard) => {
        const reply = await calls[name](values, shard)
        if (this.loses !== name) return reply
        this.loses = null
        throw new Error('the connection broke before the reply')
      }
    const scripts = { ...world.scripts, admit: lossy('admit'), settle: lossy('settle'), hold: lossy('hold') }
    const { wallets, clock } = world
    this.admission = new Admission({
      scripts,
      wallets,
      clock,
      log: createLog('silent'),
      deadlineMs: 400 * 86_400_000,
    })
  }
}

/** Real stores with two organisations and four keys, and the truth about them. */
export class World {
  readonly clock = testClock('2027-01-30T10:00:00Z')
  readonly redis: Redis
  readonly db: Database
  readonly rawPool: RawPool
  readonly scripts: Scripts
  readonly wallets: Wallets
  truth = new Truth()
  billingContexts: BillingContext[] = []
  processes: Process[] = []

  constructor(stores: Stores) {
    this.redis = new Redis(stores.redisUrl)
    this.db = openDatabase(stores.databaseUrl, { connections: 3, statementTimeoutMs: 30_000 })
    this.rawPool = new RawPool(stores.databaseUrl)
    this.scripts = loadScripts(this.redis)
    this.wallets = new Wallets({ db: this.db, redis: this.redis, scripts: this.scripts, clock: this.clock })
  }

  /** Starts a new history on empty Redis; Postgres keeps the organisations of earlier ones. */
  async begin(): Promise<void> {
    await this.redis.flushdb()
    this.clock.set('2027-01-30T10:00:00Z')
    this.truth = new Truth()
    this.processes = [new Process(this), new Process(this)]
    const [rich, poor] = [await this.#organisation(), await this.#organisation()]
    const ofMember = await this.#budget(rich, 'user_m', 50_000_000)
    const ofAll = await this.#budget(poor, '', 22_000_000)
    this.billingContexts = [
      await this.#key(rich, null),
      await this.#key(rich, 40_000_000, ofMember),
      await this.#key(poor, 25_000_000, ofAll),
      await this.#key(rich, null, ofMember),
    ]
  }

  /** A further organisation with an empty wallet, and a key of it without limits. */
  async addAccount(): Promise<string> {
    const id = await this.#organisation()
    this.billingContexts.push(await this.#key(id, null))
    return id
  }

  async close(): Promise<void> {
    this.redis.disconnect()
    await Promise.all([this.db.$disconnect(), this.rawPool.close()])
  }

  async #organisation(): Promise<string> {
    const id = newId('org')
    await this.db.organisation.create({ data: { id, name: 'Random', wallet: { create: {} } } })
    return id
  }

  async #budget(organisationId: string, memberId: string, limitNano: number): Promise<SpendBudget> {
    const id = newId('bdg')
    const now = new Date(this.clock.now())
    const terms = { limitNano: BigInt(limitNano), blocks: true, createdAt: now, updatedAt: now }
    await this.db.budget.create({ data: { id, organisationId, memberId, ...terms } })
    return { id, limitNano, of: memberId === '' ? 'organisation' : 'member' }
  }

  async #key(organisationId: string, capNano: number | null, budget?: SpendBudget): Promise<BillingContext> {
    const id = newId('key')
    const shown = { name: id, prefix: 'svc_sk_live_', last4: 'test', environment: 'live' as const }
    const createdById = budget?.of === 'member' ? 'user_m' : null
    await this.db.apiKey.create({ data: { id, organisationId, hash: id, createdById, ...shown } })
    const budgets = budget ? [budget] : null
    const limits = { expiresAtMs: null, rpmLimit: null, tpmLimit: null, capNano, budgets }
    return { hash: id, version: 1, keyId: id, rateKey: id, organisationId, ...limits, spendsMoney: true }
  }

  async deposit(organisationId: string, amount: number, holdMs: number): Promise<void> {
    const availableAt = new Date(this.clock.now() + holdMs)
    const hold = holdMs > 0 ? { availableAt } : {}
    await this.wallets.deposit({ organisationId, amountNano: BigInt(amount), method: 'ach', ...hold })
    this.truth.deposits.push({ organisation: organisationId, amount, releasedAtMs: availableAt.getTime() })
  }

  /** A reservation, or the code of the refusal. */
  async admit(process: Process, billing: BillingContext, wanted: Wanted): Promise<Reservation | string> {
    const bound = { estimatedTokens: 0, fixedNano, picoPerOutputToken, ...wanted }
    const admit = () => process.admission.admit(billing, '-', newId('chatcmpl'), bound)
    return this.#reserve(process, admit, null)
  }

  /** Reserves more for a running request: a reservation, or the code of the refusal. */
  extend(running: Open, nano: number): Promise<Reservation | string> {
    const { process, reservation } = running
    const extend = () => process.admission.extend(reservation.billing, '-', newId('chatcmpl'), nano, reservation.month)
    return this.#reserve(process, extend, running)
  }

  async #reserve(
    process: Process,
    admit: () => Promise<Reservation | StalePolicy>,
    running: Open | null,
  ): Promise<Reservation | string> {
    try {
      const reservation = (await admit()) as Reservation
      this.truth.open.push({ reservation, process, reserved: true, extends: running })
      return reservation
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      return error.code
    } finally {
      await process.admission.flush()
    }
  }

  /** Charges a request, then releases what was reserved while it ran. */
  async settle(open: Open, cost: number): Promise<void> {
    const { reservation, process } = open
    const extras = this.truth.extrasOf(open)
    this.truth.open = this.truth.open.filter(it => it !== open)
    const { organisationId: organisation } = reservation.billing
    const spends = spendsOf(reservation)
    if (cost > 0) this.truth.charges.set(reservation.id, { organisation, spends, cost, booked: false })
    if (!open.reserved || extras.some(it => !it.reserved)) this.truth.addSlack(reservation, cost)
    else this.truth.allowOverdraft(organisation, Math.max(0, cost - reservedWith(open, extras)))
    process.admission.settle(reservation, cost, 0, usageEvent(reservation, cost, this.clock.now()))
    await process.admission.flush()
    for (const extra of extras) await this.release(extra)
  }

  async release(open: Open): Promise<void> {
    for (const extra of this.truth.extrasOf(open)) await this.release(extra)
    this.truth.open = this.truth.open.filter(it => it !== open)
    open.process.admission.release(open.reservation)
    await open.process.admission.flush()
  }

  /** The first `count` events that wait to be booked. */
  async batch(count: number): Promise<StreamedEvent[]> {
    const entries = await this.redis.xrange('usage', '-', '+', 'COUNT', count)
    return entries.map(([streamId, fields]) => ({ streamId, event: parseEvent(fields)! }))
  }

  /** Books a batch as the worker does; `dies` = between Postgres and Redis. */
  async book(batch: StreamedEvent[], dies: boolean): Promise<void> {
    if (batch.length === 0) return
    const post = async () => {
      throw new Error('the worker died')
    }
    const scripts = dies ? { ...this.scripts, post } : this.scripts
    const booking = postUsage({ db: this.db, rawPool: this.rawPool, scripts }, batch, this.clock.now())
    await (dies ? booking.catch(() => {}) : booking)
    for (const { event } of batch) {
      const charge = this.truth.charges.get(event.id)
      if (charge) charge.booked = true
    }
  }

  /** Kills a process: its open requests end with it, and their reservations stay until they are swept. */
  die(index: number): void {
    this.processes[index] = new Process(this)
  }

  /** Twenty-five seconds in which the living processes beat and the sweeper sweeps. */
  async sweep(): Promise<void> {
    for (let round = 0; round < 5; round++) {
      for (const { admission } of this.processes) await this.scripts.beat({ instance: admission.instance, alive: 1 })
      await sweepReservations(this.scripts)
      this.clock.advance(5_000)
      await passForSweeper(this.redis, 5_000)
    }
    this.truth.open = this.truth.open.filter(({ process }) => this.processes.includes(process))
  }

  /** Redis loses everything: the reservations, and the events not booked yet. */
  async wipe(): Promise<void> {
    await this.redis.flushdb()
    for (const [id, { booked }] of this.truth.charges) if (!booked) this.truth.charges.delete(id)
    this.truth.open = this.truth.open.filter(({ process }) => this.processes.includes(process))
    for (const open of this.truth.open) open.reserved = false
  }

  month(): string {
    return monthOf(this.clock.now())
  }
}

export function usageEvent(reservation: Reservation, cost: number, endedMs: number): UsageEvent {
  const { keyId, organisationId, capNano } = reservation.billing
  // A request begins in the month in which it is admitted.
  const at = monthOf(endedMs) === reservation.month ? endedMs : Date.parse(`${reservation.month}-28T12:00:00Z`)
  const own = {
    id: reservation.id,
    at,
    org: organisationId,
    key: keyId,
    month: reservation.month,
    requestId: reservation.id,
  }
  const free = cost === 0 && ({ waiver: 'nothing_produced' } as const)
  return usageEventOf({ ...own, cost, ...free, cap: capNano })
}
