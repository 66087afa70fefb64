import { newId } from '../base/ids.ts'
import type { Nano } from '../base/money.ts'
import { type Clock, monthOf } from '../base/time.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Connection, Database } from '../io/db.ts'
import type { Redis } from '../io/redis.ts'
import { openHolds, takeHolds } from './holds.ts'
import type { Scripts } from './scripts.ts'

export type WalletView = {
  balanceNano: Nano
  reservedNano: Nano
  heldNano: Nano
  availableNano: Nano
  heldReleaseAt: Date | null
}
export type DepositMethod = 'card' | 'ach' | 'grant'
export type Deposit = {
  organisationId: string
  amountNano: Nano
  method: DepositMethod
  availableAt?: Date | null
  cause?: string
  note?: string
}

/** The wallets: Postgres has the balance, Redis what is in flight on top of it. */
export class Accounts {
  readonly #db: Database
  readonly #redis: Redis
  readonly #scripts: Scripts
  readonly #clock: Clock

  constructor(options: { db: Database; redis: Redis; scripts: Scripts; clock: Clock }) {
    this.#db = options.db
    this.#redis = options.redis
    this.#scripts = options.scripts
    this.#clock = options.clock
  }

  /**
   * Makes an organisation known to a Redis that does not know it (or a key's month), what its jobs in flight hold before
   * anything else: nothing is admitted on a balance that they have a claim to.
   */
  async load(organisationId: string, keyId?: string, month = monthOf(this.#clock.now())): Promise<void> {
    for await (const jobs of openHolds(this.#db, organisationId)) await takeHolds(this.#scripts, jobs)
    await this.#redis.hset(`wallet:${organisationId}`, 'jobs', 1)
    await this.install(organisationId, keyId, month)
  }

  /** Brings an organisation's balance (and a key's month) from Postgres into Redis, where Redis has none or older ones. */
  async install(organisationId: string, keyId?: string, month = monthOf(this.#clock.now())): Promise<void> {
    const wallets = await walletFigures(this.#db, [organisationId], this.#clock.now())
    const spends = keyId ? await spendFigures(this.#db, [{ keyId, month }]) : []
    await this.#scripts.post([0, 1, ...wallets, ...spends])
  }

  /** The wallet as `GET /v1/balance` shows it: balance = available + reserved + held. */
  async view(organisationId: string): Promise<WalletView> {
    let [posted, unposted, reserved, holds] = await this.#figures(organisationId)
    if (posted == null) {
      await this.load(organisationId)
      ;[posted, unposted, reserved, holds] = await this.#figures(organisationId)
    }
    const balanceNano = BigInt(posted ?? 0) - BigInt(unposted ?? 0)
    const reservedNano = BigInt(reserved ?? 0)
    const waiting = waitingHolds(holds ?? '', this.#clock.now())
    const held = sumOf(waiting)
    const heldReleaseAt = waiting.length > 0 ? new Date(Math.min(...waiting.map(hold => hold.atMs))) : null
    const availableNano = balanceNano - reservedNano - held
    return { balanceNano, reservedNano, heldNano: held, availableNano, heldReleaseAt }
  }

  /** What a key spent this month, settled requests included that the ledger has not booked yet. */
  async monthSpend(keyIds: string[]): Promise<Map<string, Nano>> {
    const month = monthOf(this.#clock.now())
    const rows = await this.#db.keySpend.findMany({ where: { keyId: { in: keyIds }, month } })
    const spent = new Map(rows.map(row => [row.keyId, row.spentNano]))
    const pipeline = this.#redis.pipeline()
    for (const keyId of keyIds) pipeline.hmget(`spend:${keyId}:${month}`, 'posted', 'unposted')
    const replies = (await pipeline.exec()) ?? []
    for (const [i, keyId] of keyIds.entries()) {
      const [posted, unposted] = (replies[i]?.[1] ?? []) as (string | null)[]
      if (posted != null) spent.set(keyId, BigInt(posted) + BigInt(unposted ?? 0))
    }
    return spent
  }

  /**
   * Books a deposit and makes it spendable at once, or from `availableAt` on (ACH). A second deposit of the same cause changes
   * nothing. What `alongside` writes stands or falls with it.
   */
  async deposit(deposit: Deposit, alongside?: (tx: Connection) => Promise<void>): Promise<void> {
    const { organisationId, cause = `deposit:${newId('dep')}` } = deposit
    const createdAt = new Date(this.#clock.now())
    await this.#db.$transaction(async tx => {
      if (await bookDeposit(tx, { ...deposit, cause, createdAt })) await alongside?.(tx)
    })
    // The deposit stands: where Redis cannot take it now, the reconciler brings it.
    await this.install(organisationId).catch(() => {})
  }

  async #figures(organisationId: string): Promise<(string | null)[]> {
    return this.#redis.hmget(`wallet:${organisationId}`, 'posted', 'unposted', 'reserved', 'holds')
  }
}

/**
 * Books a deposit, or what is taken back of one (negative, with the deposit's `availableAt`), and adds it to the balance,
 * within the caller's transaction. False where its cause is booked already: then nothing changes.
 */
export async function bookDeposit(
  tx: Connection,
  { organisationId, amountNano, ...entry }: Deposit & { cause: string; createdAt: Date },
): Promise<boolean> {
  const data = { organisationId, kind: 'deposit' as const, amountNano, ...entry }
  const { count } = await tx.ledgerEntry.createMany({ data, skipDuplicates: true })
  if (count === 0) return false
  await tx.wallet.upsert({
    where: { organisationId },
    create: { organisationId, balanceNano: amountNano, version: 1n },
    update: { balanceNano: { increment: amountNano }, version: { increment: 1n } },
  })
  return true
}

/** Release times told apart per wallet; what is released after them waits for the last one. */
const mostHolds = 100

type Figures = { id: string; balance: bigint; version: bigint; at: Date | null; amount: bigint | null }

/** The deposits of an organisation `o` that cannot be spent yet, by their release; those that went back hold nothing. */
export function heldDeposits(now: Date): Prisma.Sql {
  return Prisma.sql`
    SELECT available_at AS at, sum(amount_nano)::bigint AS amount FROM ledger_entries
    WHERE organisation_id = o.id AND kind = 'deposit' AND available_at > ${now}
    GROUP BY available_at HAVING sum(amount_nano) > 0`
}

/** Wallets as Postgres has them now, four figures each, as `post.lua` takes them. */
export async function walletFigures(
  db: Connection,
  organisationIds: readonly string[],
  nowMs: number,
): Promise<string[]> {
  // One statement sees one moment: a deposit never counts without its hold, nor does the hold outlive what it held.
  const rows = await db.$queryRaw<Figures[]>`
    SELECT o.id, coalesce(w.balance_nano, 0) AS balance, coalesce(w.version, 0) AS version, h.at, h.amount
    FROM unnest(${[...organisationIds]}::text[]) AS o(id)
    LEFT JOIN wallets w ON w.organisation_id = o.id
    LEFT JOIN LATERAL (
      ${heldDeposits(new Date(nowMs))}
    ) h ON true
    ORDER BY h.at`
  const wallets = Map.groupBy(rows, row => row.id)
  return organisationIds.flatMap(id => {
    const own = wallets.get(id)!
    const holds = own.flatMap(({ at, amount }) => (at ? [{ atMs: at.getTime(), amountNano: amount! }] : []))
    const late = holds.slice(mostHolds)
    const rest = { atMs: late.at(-1)?.atMs, amountNano: sumOf(late) }
    const parts = [...holds.slice(0, mostHolds), ...(late.length > 0 ? [rest] : [])]
    const text = parts.map(hold => `${hold.atMs}:${hold.amountNano}`).join(',')
    return [id, String(own[0]!.balance), String(own[0]!.version), text]
  })
}

/** Key months as Postgres has them now, four figures each, as `post.lua` takes them. */
export async function spendFigures(
  db: Connection,
  keyMonths: readonly { keyId: string; month: string }[],
): Promise<string[]> {
  const rows = await db.keySpend.findMany({ where: { OR: [...keyMonths] } })
  const spends = new Map(rows.map(row => [`${row.keyId} ${row.month}`, row]))
  return keyMonths.flatMap(({ keyId, month }) => {
    const spend = spends.get(`${keyId} ${month}`)
    return [keyId, month, String(spend?.spentNano ?? 0n), String(spend?.version ?? 0n)]
  })
}

/** Whether some of a wallet's holds wait longer than they would have to. */
export function hasLateHolds(holds: string): boolean {
  return holds.split(',').length > mostHolds
}

/** What a wallet's list of holds keeps back at a moment. */
export function heldNano(holds: string, nowMs: number): Nano {
  return sumOf(waitingHolds(holds, nowMs))
}

type Hold = { atMs: number; amountNano: Nano }

function waitingHolds(text: string, nowMs: number): Hold[] {
  return text
    .split(',')
    .filter(Boolean)
    .map(part => {
      const [at, amount] = part.split(':')
      return { atMs: Number(at), amountNano: BigInt(amount!) }
    })
    .filter(hold => hold.atMs > nowMs)
}

function sumOf(holds: Hold[]): Nano {
  return holds.reduce((sum, hold) => sum + hold.amountNano, 0n)
}
