import { Redis } from 'ioredis'
import { GatewayError } from '../../shared/base/errors.ts'
import { newId } from '../../shared/base/ids.ts'
import { monthOf } from '../../shared/base/time.ts'
import { Bulk } from '../../shared/io/bulk.ts'
import { type Database, openDatabase } from '../../shared/io/db.ts'
import { createLog } from '../../shared/io/log.ts'
import { Accounts } from '../../shared/wallet/accounts.ts'
import { Admission, type Spender, type Ticket } from '../../shared/wallet/admission.ts'
import { parseEvent, postUsage, type StreamedEvent } from '../../shared/wallet/ledger.ts'
import { loadScripts, type Scripts } from '../../shared/wallet/scripts.ts'
import { sweepReservations } from '../../shared/wallet/upkeep.ts'
import type { UsageEvent } from '../../shared/wallet/usage-event.ts'
import { passForSweeper } from './ageing.ts'
import type { Stores } from './gateway.ts'
import { testClock } from './money.ts'

export const fixedNano = 10_000
export const picoPerOutputToken = 1_234_567
export const price = (tokens: number) => fixedNano + Math.ceil((tokens * picoPerOutputToken) / 1_000)

type Deposit = { organisation: string; amount: number; releasedAtMs: number }
type Charge = { organisation: string; spend: string; cost: number; booked: boolean }
type Open = { ticket: Ticket; process: Process; reserved: boolean }

/** What must be true, kept beside the real stores. All amounts are nano-dollars. */
export class Truth {
  deposits: Deposit[] = []
  charges = new Map<string, Charge>()
  open: Open[] = []
  /** What wiped reservations may have let a key spend beyond its cap, by key and month. */
  slack = new Map<string, number>()
  /** The same of an organisation's balance. */
  readonly #overdrafts = new Map<string, number>()

  /** How far the balance of an organisation may be below zero. */
  overdraft(organisation: string): number {
    return this.#overdrafts.get(organisation) ?? 0
  }

  /** A request was charged whose reservation had been wiped: others may have been admitted with the same money. */
  addSlack({ spender, month }: Ticket, cost: number): void {
    const spend = spendOf({ spender, month })
    this.slack.set(spend, (this.slack.get(spend) ?? 0) + cost)
    this.#overdrafts.set(spender.organisationId, this.overdraft(spender.organisationId) + cost)
  }

  available(organisation: string, nowMs: number): number {
    const released = this.deposits.filter(it => it.organisation === organisation && it.releasedAtMs <= nowMs)
    return sum(released, it => it.amount) - this.charged(organisation) - this.reserved(organisation)
  }

  charged(organisation: string, bookedOnly = false): number {
    const own = [...this.charges.values()].filter(it => it.organisation === organisation && (it.booked || !bookedOnly))
    return sum(own, it => it.cost)
  }

  reserved(organisation: string): number {
    const own = this.open.filter(it => it.reserved && it.ticket.spender.organisationId === organisation)
    return sum(own, it => it.ticket.reservedNano)
  }

  spent(spend: string): number {
    return sum(
      [...this.charges.values()].filter(it => it.spend === spend),
      it => it.cost,
    )
  }

  spendReserved(spend: string): number {
    const own = this.open.filter(it => it.reserved && spendOf(it.ticket) === spend)
    return sum(own, it => it.ticket.reservedNano)
  }

  deposited(organisation: string): number {
    return sum(
      this.deposits.filter(it => it.organisation === organisation),
      it => it.amount,
    )
  }
}

export function sum<T>(items: T[], amount: (item: T) => number): number {
  return items.reduce((total, item) => total + amount(item), 0)
}

export function spendOf({ spender, month }: Pick<Ticket, 'spender' | 'month'>): string {
  return `${spender.keyId}:${month}`
}

/** A web process's part in the money. Its next reply from a script can be lost on the way. */
export class Process {
  readonly admission: Admission
  loses: keyof Scripts | null = null

  constructor(world: World) {
    const lossy = (name: keyof Scripts) => async (args: (string | number)[]) => {
      const reply = await world.scripts[name](args)
      if (this.loses !== name) return reply
      this.loses = null
      throw new Error('the connection broke before the reply')
    }
    const scripts = { ...world.scripts, admit: lossy('admit'), settle: lossy('settle'), hold: lossy('hold') }
    const { accounts, clock } = world
    this.admission = new Admission({
      scripts,
      accounts,
      clock,
      log: createLog('silent'),
      deadlineMs: 400 * 86_400_000,
    })
  }
}

/** Real stores with two organisations and three keys, and the truth about them. */
export class World {
  readonly clock = testClock('2027-01-30T10:00:00Z')
  readonly redis: Redis
  readonly db: Database
  readonly bulk: Bulk
  readonly scripts: Scripts
  readonly accounts: Accounts
  truth = new Truth()
  spenders: Spender[] = []
  processes: Process[] = []

  constructor(stores: Stores) {
    this.redis = new Redis(stores.redisUrl)
    this.db = openDatabase(stores.databaseUrl, { connections: 3, statementTimeoutMs: 30_000 })
    this.bulk = new Bulk(stores.databaseUrl)
    this.scripts = loadScripts(this.redis)
    this.accounts = new Accounts({ db: this.db, redis: this.redis, scripts: this.scripts, clock: this.clock })
  }

  /** Starts a new history on empty Redis; Postgres keeps the organisations of earlier ones. */
  async begin(): Promise<void> {
    await this.redis.flushdb()
    this.clock.set('2027-01-30T10:00:00Z')
    this.truth = new Truth()
    this.processes = [new Process(this), new Process(this)]
    const [rich, poor] = [await this.#organisation(), await this.#organisation()]
    this.spenders = [await this.#key(rich, null), await this.#key(rich, 40_000_000), await this.#key(poor, 25_000_000)]
  }

  async close(): Promise<void> {
    this.redis.disconnect()
    await Promise.all([this.db.$disconnect(), this.bulk.close()])
  }

  async #organisation(): Promise<string> {
    const id = newId('org')
    await this.db.organisation.create({ data: { id, name: 'Random', wallet: { create: {} } } })
    return id
  }

  async #key(organisationId: string, capNano: number | null): Promise<Spender> {
    const id = newId('key')
    const shown = { name: id, prefix: 'svc_sk_live_', last4: 'test', environment: 'live' as const }
    await this.db.apiKey.create({ data: { id, organisationId, hash: id, ...shown } })
    const limits = { expiresAtMs: null, rpmLimit: null, tpmLimit: null, capNano }
    return { hash: id, version: 1, keyId: id, rateKey: id, organisationId, ...limits, spendsMoney: true }
  }

  async deposit(organisationId: string, amount: number, holdMs: number): Promise<void> {
    const availableAt = new Date(this.clock.now() + holdMs)
    const hold = holdMs > 0 ? { availableAt } : {}
    await this.accounts.deposit({ organisationId, amountNano: BigInt(amount), method: 'ach', ...hold })
    this.truth.deposits.push({ organisation: organisationId, amount, releasedAtMs: availableAt.getTime() })
  }

  /** A ticket, or the code of the refusal. */
  async admit(process: Process, spender: Spender, outputTokens: number, explicit: boolean): Promise<Ticket | string> {
    const bound = { estimatedTokens: 0, fixedNano, picoPerOutputToken, outputTokens, explicit }
    try {
      const ticket = (await process.admission.admit(spender, '-', newId('chatcmpl'), bound)) as Ticket
      this.truth.open.push({ ticket, process, reserved: true })
      return ticket
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      return error.code
    } finally {
      await process.admission.flush()
    }
  }

  async settle(open: Open, cost: number): Promise<void> {
    const { ticket, process } = open
    this.truth.open = this.truth.open.filter(it => it !== open)
    const { organisationId: organisation } = ticket.spender
    const spend = spendOf(ticket)
    if (cost > 0) this.truth.charges.set(ticket.id, { organisation, spend, cost, booked: false })
    if (!open.reserved) this.truth.addSlack(ticket, cost)
    process.admission.settle(ticket, cost, 0, usageEvent(ticket, cost, this.clock.now()))
    await process.admission.flush()
  }

  async release(open: Open): Promise<void> {
    this.truth.open = this.truth.open.filter(it => it !== open)
    open.process.admission.release(open.ticket)
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
    const booking = postUsage({ db: this.db, bulk: this.bulk, scripts }, batch, this.clock.now())
    await (dies ? booking.catch(() => {}) : booking)
    for (const { event } of batch) {
      const charge = this.truth.charges.get(event.id)
      if (charge) charge.booked = true
    }
  }

  /** Kills a process: its open requests end with it, what they reserved stays until it is swept. */
  die(index: number): void {
    this.processes[index] = new Process(this)
  }

  /** Twenty-five seconds in which the living processes beat and the sweeper sweeps. */
  async sweep(): Promise<void> {
    for (let round = 0; round < 5; round++) {
      for (const { admission } of this.processes) await this.scripts.beat([admission.instance, 1])
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

export function usageEvent(ticket: Ticket, cost: number, at: number): UsageEvent {
  const { keyId, organisationId, capNano } = ticket.spender
  const who = { id: ticket.id, org: organisationId, key: keyId, month: ticket.month, requestId: ticket.id }
  const what = { kind: 'chat', model: 'coin', provider: 'openai', mode: 'balanced', environment: 'live' as const }
  const outcome = { status: 200, errorCode: null, finishReason: 'stop', streamed: false, attempts: 1, upstreamId: null }
  const tokens = { promptTokens: 1, completionTokens: 1, cachedTokens: 0, reasoningTokens: 0, estimated: false }
  const free = cost === 0 && ({ waiver: 'nothing_produced' } as const)
  return { ...who, at, ...what, ...outcome, ...tokens, cost, ...free, cap: capNano, firstByteMs: 1, durationMs: 2 }
}
