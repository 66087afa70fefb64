import { newId } from '../base/ids.ts'
import type { Nano } from '../base/money.ts'
import { type Clock, monthOf } from '../base/time.ts'
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
export type Deposit = {
  organisationId: string
  amountNano: Nano
  method: 'card' | 'ach' | 'grant'
  availableAt?: Date
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
    const waiting = parseHolds(holds ?? '').filter(hold => hold.atMs > this.#clock.now())
    const heldNano = waiting.reduce((sum, hold) => sum + hold.amountNano, 0n)
    const heldReleaseAt = waiting.length > 0 ? new Date(Math.min(...waiting.map(hold => hold.atMs))) : null
    return { balanceNano, reservedNano, heldNano, availableNano: balanceNano - reservedNano - heldNano, heldReleaseAt }
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

  /** Books a deposit and makes it spendable at once, or from `availableAt` on (ACH). A second deposit of the same cause changes nothing. */
  async deposit(deposit: Deposit): Promise<void> {
    const { organisationId, amountNano, method, availableAt, note } = deposit
    const cause = deposit.cause ?? `deposit:${newId('dep')}`
    await this.#db.$transaction(async tx => {
      const { count } = await tx.ledgerEntry.createMany({
        data: {
          organisationId,
          kind: 'deposit',
          amountNano,
          cause,
          method,
          availableAt: availableAt ?? null,
          note: note ?? null,
        },
        skipDuplicates: true,
      })
      if (count === 1) await addToBalance(tx, organisationId, amountNano)
    })
    // The deposit stands: where Redis cannot take it now, the reconciler brings it.
    await this.install(organisationId).catch(() => {})
  }

  async #figures(organisationId: string): Promise<(string | null)[]> {
    return this.#redis.hmget(`wallet:${organisationId}`, 'posted', 'unposted', 'reserved', 'holds')
  }
}

async function addToBalance(tx: Connection, organisationId: string, amountNano: Nano): Promise<void> {
  await tx.wallet.upsert({
    where: { organisationId },
    create: { organisationId, balanceNano: amountNano, version: 1n },
    update: { balanceNano: { increment: amountNano }, version: { increment: 1n } },
  })
}

/** Release times told apart per wallet; what is released after them waits for the last one. */
const mostHolds = 100

/** Wallets as Postgres has them now, four figures each, as `post.lua` takes them. */
export async function walletFigures(
  db: Connection,
  organisationIds: readonly string[],
  nowMs: number,
): Promise<string[]> {
  const organisationId = { in: [...organisationIds] }
  // In this order: a deposit between the two reads may be held before it counts, never the other way round.
  const rows = await db.wallet.findMany({ where: { organisationId } })
  const holds = await db.ledgerEntry.groupBy({
    by: ['organisationId', 'availableAt'],
    where: { organisationId, kind: 'deposit', availableAt: { gt: new Date(nowMs) } },
    _sum: { amountNano: true },
    orderBy: { availableAt: 'asc' },
  })
  const wallets = new Map(rows.map(row => [row.organisationId, row]))
  return organisationIds.flatMap(id => {
    const own = holds
      .filter(hold => hold.organisationId === id)
      .map(({ availableAt, _sum }) => ({ atMs: availableAt!.getTime(), amountNano: _sum.amountNano! }))
    const late = own.slice(mostHolds)
    const rest = { atMs: late.at(-1)?.atMs, amountNano: late.reduce((sum, hold) => sum + hold.amountNano, 0n) }
    const parts = [...own.slice(0, mostHolds), ...(late.length > 0 ? [rest] : [])]
    const wallet = wallets.get(id)
    return [
      id,
      String(wallet?.balanceNano ?? 0n),
      String(wallet?.version ?? 0n),
      parts.map(hold => `${hold.atMs}:${hold.amountNano}`).join(','),
    ]
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

function parseHolds(text: string): { atMs: number; amountNano: Nano }[] {
  return text
    .split(',')
    .filter(Boolean)
    .map(part => {
      const [at, amount] = part.split(':')
      return { atMs: Number(at), amountNano: BigInt(amount!) }
    })
}
