import { newId } from '../base/ids.ts'
import type { Nano } from '../base/money.ts'
import { type Clock, monthOf } from '../base/time.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Connection, Database } from '../io/db.ts'
import type { Logger } from '../io/log.ts'
import type { Redis } from '../io/redis.ts'
import { type Shard, ShardBatches } from '../io/redis-shards.ts'
import { addHolds, listHolds } from './holds.ts'
import { generationKey, type Scripts } from './scripts.ts'
import { StoreGenerations } from './store-generations.ts'

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

const restoredMessage =
  'Redis and PostgreSQL are not of the same time: one was restored, emptied or lost writes. Wallets, spends and key versions are read from PostgreSQL again'

/** What Redis lacks of an organisation: its wallet, and the month of a key and its budgets unless only the wallet is asked for. */
type Load = { organisationId: string; keyId: string | undefined; month: string }
type PendingLoad = Load & { resolve(): void; reject(error: unknown): void }
const maxPerLoad = 256

/** The wallets: Postgres has the posted balance, Redis the unposted charges and the reservations on top of it. */
export class Wallets {
  readonly #db: Database
  readonly #redis: Redis
  readonly #scripts: Scripts
  readonly #clock: Clock
  readonly #pending: ShardBatches<PendingLoad>
  /** Tell whether what Redis has copied from Postgres still counts. */
  readonly generations: StoreGenerations

  constructor(options: { db: Database; redis: Redis; scripts: Scripts; clock: Clock; log?: Logger }) {
    this.#db = options.db
    this.#redis = options.redis
    this.#scripts = options.scripts
    this.#clock = options.clock
    const { db, scripts, log } = options
    this.#pending = new ShardBatches(scripts.shards, maxPerLoad, (shard, batch) => this.#loadBatch(shard, batch))
    const onRestored = () => log?.error(restoredMessage)
    this.generations = new StoreGenerations({ db, scripts, onRestored })
  }

  /**
   * Loads an organisation (or a key's month) that is missing in Redis, or that counts no longer. What is loaded in one turn of the
   * event loop is read by the same statements, one of each kind per shard. Throws what the stores throw.
   */
  load(organisationId: string, keyId?: string, month = monthOf(this.#clock.now())): Promise<void> {
    return new Promise((resolve, reject) =>
      this.#pending.add(organisationId, { organisationId, keyId, month, resolve, reject }),
    )
  }

  async #loadBatch(shard: Shard, batch: readonly PendingLoad[]): Promise<void> {
    try {
      await this.#loadAll(shard, batch)
      for (const { resolve } of batch) resolve()
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }

  /** The holds of the organisations' jobs in flight come first, so that no request is admitted on money that a job holds. */
  async #loadAll(shard: Shard, loads: readonly Load[]): Promise<void> {
    const organisationIds = [...new Set(loads.map(({ organisationId }) => organisationId))]
    const since = await this.#validSince(shard)
    for await (const jobs of listHolds(this.#db, organisationIds)) await addHolds(this.#scripts, jobs)
    const pipeline = this.#redis.pipeline()
    for (const id of organisationIds) pipeline.hset(this.#walletKey(id), 'jobs', since)
    for (const [error] of (await pipeline.exec()) ?? []) if (error) throw error
    await this.#installAll(shard, organisationIds, loads)
  }

  /** Copies an organisation's balance (and the month of a key and its budgets) from Postgres to Redis, unless Redis has that version or a newer one. */
  install(organisationId: string, keyId?: string, month = monthOf(this.#clock.now())): Promise<void> {
    const shard = this.#scripts.shards.of(organisationId)
    return this.#installAll(shard, [organisationId], [{ organisationId, keyId, month }])
  }

  async #installAll(shard: Shard, organisationIds: readonly string[], loads: readonly Load[]): Promise<void> {
    const months = loads.flatMap(({ keyId, month }) => (keyId === undefined ? [] : [{ account: keyId, month }]))
    const distinct = [...new Map(months.map(one => [`${one.account} ${one.month}`, one])).values()]
    const wallets = await walletFigures(this.#db, organisationIds, this.#clock.now())
    const spends = await spendFigures(this.#db, distinct)
    await this.#scripts.post({ events: [], wallets, spends }, shard)
  }

  /** The wallet in the terms of `GET /v1/balance`: balance = available + reserved + held. */
  async view(organisationId: string): Promise<WalletView> {
    let [posted, unposted, reserved, holds, since] = await this.#figures(organisationId)
    if (posted == null || (since ?? '1') !== (await this.#validSince(this.#scripts.shards.of(organisationId)))) {
      await this.load(organisationId)
      ;[posted, unposted, reserved, holds] = await this.#figures(organisationId)
    }
    const balanceNano = BigInt(posted ?? 0) - BigInt(unposted ?? 0)
    const reservedNano = BigInt(reserved ?? 0)
    const active = activeHolds(holds ?? '', this.#clock.now())
    const heldNano = sumOf(active)
    const heldReleaseAt = active.length > 0 ? new Date(Math.min(...active.map(hold => hold.atMs))) : null
    const availableNano = balanceNano - reservedNano - heldNano
    return { balanceNano, reservedNano, heldNano, availableNano, heldReleaseAt }
  }

  /** The spend of keys in this month, by their ids, including settled requests that are not posted to the ledger yet. */
  async monthSpend(keys: readonly { id: string; organisationId: string }[]): Promise<Map<string, Nano>> {
    const month = monthOf(this.#clock.now())
    const keyIds = keys.map(({ id }) => id)
    const rows = await this.#db.keySpend.findMany({ where: { keyId: { in: keyIds }, month } })
    const spent = new Map(rows.map(row => [row.keyId, row.spentNano]))
    for (const [{ tag }, own] of this.#scripts.shards.group(keys, key => key.organisationId)) {
      const pipeline = this.#redis.pipeline()
      for (const { id } of own) pipeline.hmget(`${tag}spend:${id}:${month}`, 'posted', 'unposted', 'since')
      pipeline.hget(tag + generationKey, 'valid_since')
      const replies = (await pipeline.exec()) ?? []
      const validSince = replies.at(-1)?.[1] ?? '1'
      for (const [i, { id }] of own.entries()) {
        const [posted, unposted, since] = (replies[i]?.[1] ?? []) as (string | null)[]
        if (posted != null && (since ?? '1') === validSince) spent.set(id, BigInt(posted) + BigInt(unposted ?? 0))
      }
    }
    return spent
  }

  /**
   * Books a deposit and makes it spendable at once, or from `availableAt` on (ACH). Idempotent by its cause. `alongside` runs in
   * the same transaction. Returns false, without a change, when its cause is booked already.
   */
  async deposit(deposit: Deposit, alongside?: (tx: Connection) => Promise<void>): Promise<boolean> {
    const { organisationId, cause = `deposit:${newId('dep')}` } = deposit
    const createdAt = new Date(this.#clock.now())
    const isBooked = await this.#db.$transaction(async tx => {
      const booked = await bookDeposit(tx, { ...deposit, cause, createdAt })
      if (booked) await alongside?.(tx)
      return booked
    })
    // The deposit is committed: if Redis is unavailable, the reconciler copies it later.
    await this.install(organisationId).catch(() => {})
    return isBooked
  }

  async #figures(organisationId: string): Promise<(string | null)[]> {
    return this.#redis.hmget(this.#walletKey(organisationId), 'posted', 'unposted', 'reserved', 'holds', 'since')
  }

  /** The number since which the wallets of a shard count. */
  async #validSince({ tag }: Shard): Promise<string> {
    return (await this.#redis.hget(tag + generationKey, 'valid_since')) ?? '1'
  }

  #walletKey(organisationId: string): string {
    return `${this.#scripts.shards.of(organisationId).tag}wallet:${organisationId}`
  }
}

/**
 * Books a deposit, or a reversal of one (negative, with the deposit's `availableAt`), and adds it to the balance, within the
 * caller's transaction. Returns false, without a change, when its cause is booked already.
 */
export function bookDeposit(tx: Connection, deposit: Deposit & { cause: string; createdAt: Date }): Promise<boolean> {
  return bookEntry(tx, { ...deposit, kind: 'deposit' })
}

type Entry = Omit<Deposit, 'method'> & {
  kind: 'deposit' | 'adjustment'
  method?: DepositMethod
  cause: string
  createdAt: Date
}

/** Books a ledger entry and adds it to the balance, within the caller's transaction. Returns false when its cause is booked already. */
export async function bookEntry(tx: Connection, entry: Entry): Promise<boolean> {
  const { organisationId, amountNano } = entry
  const { count } = await tx.ledgerEntry.createMany({ data: entry, skipDuplicates: true })
  if (count === 0) return false
  await tx.wallet.upsert({
    where: { organisationId },
    create: { organisationId, balanceNano: amountNano, version: 1n },
    update: { balanceNano: { increment: amountNano }, version: { increment: 1n } },
  })
  return true
}

/** Distinct release times per wallet; later ones are merged into the last one. */
const maxHolds = 100

type Figures = { id: string; balance: bigint; version: bigint; at: Date | null; amount: bigint | null }

/**
 * SQL: the deposits of an organisation `o` that are not spendable yet, by release time. Reversed deposits are excluded.
 *
 * ACH deposits can be reversed for several days. A deposit is posted at once and held until the `available_at` of its ledger
 * entry. There is no release entry, so no release job can be late, run twice or be missed. Redis has the holds as a list
 * (`time:amount`) beside the balance, of which `admit.lua` adds up those in the future. A reversal is a negative deposit
 * with the same time, so its hold ends with it (docs/decisions/payments.md).
 */
export function heldDeposits(now: Date): Prisma.Sql {
  return Prisma.sql`
    SELECT available_at AS at, sum(amount_nano)::bigint AS amount FROM ledger_entries
    WHERE organisation_id = o.id AND kind = 'deposit' AND available_at > ${now}
    GROUP BY available_at HAVING sum(amount_nano) > 0`
}

export type WalletFigures = { organisationId: string; balanceNano: Nano; version: bigint; holds: string }
export type SpendFigures = { account: string; month: string; spentNano: Nano; version: bigint }

/** The current wallets from Postgres, as `post.lua` installs them. */
export async function walletFigures(
  db: Connection,
  organisationIds: readonly string[],
  nowMs: number,
): Promise<WalletFigures[]> {
  // A single statement reads one snapshot, so that a deposit and its hold are always consistent.
  const rows = await db.$queryRaw<Figures[]>`
    SELECT o.id, coalesce(w.balance_nano, 0) AS balance, coalesce(w.version, 0) AS version, h.at, h.amount
    FROM unnest(${[...organisationIds]}::text[]) AS o(id)
    LEFT JOIN wallets w ON w.organisation_id = o.id
    LEFT JOIN LATERAL (
      ${heldDeposits(new Date(nowMs))}
    ) h ON true
    ORDER BY h.at`
  const wallets = Map.groupBy(rows, row => row.id)
  return organisationIds.map(id => {
    const walletRows = wallets.get(id)!
    const holds = walletRows.flatMap(({ at, amount }) => (at ? [{ atMs: at.getTime(), amountNano: amount! }] : []))
    const late = holds.slice(maxHolds)
    const merged = { atMs: late.at(-1)?.atMs, amountNano: sumOf(late) }
    const parts = [...holds.slice(0, maxHolds), ...(late.length > 0 ? [merged] : [])]
    const { balance: balanceNano, version } = walletRows[0]!
    const text = parts.map(hold => `${hold.atMs}:${hold.amountNano}`).join(',')
    return { organisationId: id, balanceNano, version, holds: text }
  })
}

/**
 * The current months of keys from Postgres, as `post.lua` installs them, and with them those of the budgets that block these keys. An
 * account may also be a budget. A budget's figures are the sums of its keys': whoever books a charge has no more to write, and they are
 * right from its first moment. Versions only grow, so their sum orders the sums.
 */
export async function spendFigures(
  db: Connection,
  months: readonly { account: string; month: string }[],
): Promise<SpendFigures[]> {
  if (months.length === 0) return []
  const ids = months.map(({ account }) => account)
  const rows = await db.$queryRaw<SpendFigures[]>`
    WITH wanted AS (SELECT * FROM unnest(${ids}::text[], ${months.map(({ month }) => month)}::text[]) AS w(id, month)),
    covering AS (
      SELECT b.*, w.month FROM wanted w JOIN budgets b ON b.id = w.id
      UNION
      SELECT b.*, w.month FROM wanted w JOIN api_keys k ON k.id = w.id
        JOIN budgets b ON b.organisation_id = k.organisation_id AND b.member_id IN ('', k.created_by_id)
    )
    SELECT w.id AS account, w.month, s.spent_nano AS "spentNano", s.version FROM wanted w JOIN key_spend s ON s.key_id = w.id AND s.month = w.month
    UNION ALL
    SELECT c.id, c.month, coalesce(sum(s.spent_nano), 0)::bigint, coalesce(sum(s.version), 0)::bigint FROM covering c
      LEFT JOIN api_keys k ON k.organisation_id = c.organisation_id AND c.member_id IN ('', k.created_by_id)
      LEFT JOIN key_spend s ON s.key_id = k.id AND s.month = c.month
    WHERE c.blocks GROUP BY c.id, c.month`
  const found = new Set(rows.map(({ account, month }) => `${account} ${month}`))
  const unspent = months.filter(({ account, month }) => !isBudget(account) && !found.has(`${account} ${month}`))
  return [...rows, ...unspent.map(({ account, month }) => ({ account, month, spentNano: 0n, version: 0n }))]
}

/** Whether an account is that of a budget; others are those of keys. */
export function isBudget(account: string): boolean {
  return account.startsWith('bdg_')
}

/** Whether some of a wallet's holds were merged, and so are released later than necessary. */
export function hasLateHolds(holds: string): boolean {
  return holds.split(',').length > maxHolds
}

/** The amount that a wallet's list of holds still holds at `nowMs`. */
export function heldNano(holds: string, nowMs: number): Nano {
  return sumOf(activeHolds(holds, nowMs))
}

type Hold = { atMs: number; amountNano: Nano }

function activeHolds(text: string, nowMs: number): Hold[] {
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
