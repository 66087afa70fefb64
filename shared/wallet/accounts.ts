import { newId } from '../base/ids.ts'
import type { Nano } from '../base/money.ts'
import { type Clock, monthOf } from '../base/time.ts'
import type { Connection, Database } from '../io/db.ts'
import type { Redis } from '../io/redis.ts'
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

  /** Brings an organisation's balance (and a key's month) from Postgres into Redis, where Redis has none or older ones. */
  async install(organisationId: string, keyId?: string, month = monthOf(this.#clock.now())): Promise<void> {
    const state = await walletState(this.#db, organisationId)
    const spend = keyId && (await this.#db.keySpend.findUnique({ where: { keyId_month: { keyId, month } } }))
    const keyPart = keyId
      ? [keyId, month, String(spend ? spend.spentNano : 0n), String(spend ? spend.version : 0n)]
      : []
    await this.#scripts.install([organisationId, state.balance, state.version, state.holds, ...keyPart])
  }

  /** The wallet as `GET /v1/balance` shows it: balance = available + reserved + held. */
  async view(organisationId: string): Promise<WalletView> {
    let [posted, unposted, reserved, holds] = await this.#figures(organisationId)
    if (posted == null) {
      await this.install(organisationId)
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
    await this.install(organisationId)
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

/** An organisation's balance with its version, and the deposits that wait for their release, as the Redis scripts take them. */
export async function walletState(
  db: Connection,
  organisationId: string,
): Promise<{ balance: string; version: string; holds: string }> {
  const wallet = await db.wallet.findUnique({ where: { organisationId } })
  const holds = await db.ledgerEntry.findMany({
    where: { organisationId, kind: 'deposit', availableAt: { gt: new Date() } },
    select: { amountNano: true, availableAt: true },
    orderBy: { availableAt: 'asc' },
    take: 1000,
  })
  return {
    balance: String(wallet?.balanceNano ?? 0n),
    version: String(wallet?.version ?? 0n),
    holds: holds.map(hold => `${hold.availableAt!.getTime()}:${hold.amountNano}`).join(','),
  }
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
