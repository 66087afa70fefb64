import { type Nano, usdFromNano } from '../base/money.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import type { Services } from '../services.ts'
import { heldDeposits } from '../wallet/accounts.ts'
import { type NewAlert, tell } from './tell.ts'

const organisationsAtOnce = 200
const mostRounds = 50

type Low = { organisationId: string; lowNano: Nano; balanceNano: Nano; heldNano: Nano }

/**
 * Tells organisations whose balance, without deposits that are held, fell below their threshold: once, and again after it was
 * above. Answers how many. A wallet that never had money is none that runs out.
 */
export async function tellOfBalances(services: Services): Promise<number> {
  const { db, webhooks, clock } = services
  const now = new Date(clock.now())
  await rearm(db, now)
  let told = 0
  for (let round = 0; round < mostRounds; round++) {
    const { found, deliveryIds } = await db.$transaction(async tx => {
      const low = await claimLow(tx, now)
      const { deliveryIds } = await tell(
        services,
        tx,
        low.map(wallet => alertOf(wallet, now)),
      )
      return { found: low.length, deliveryIds }
    })
    await webhooks.enqueue(deliveryIds)
    told += found
    if (found < organisationsAtOnce) break
  }
  return told
}

/** What of the deposits of an organisation `o` cannot be spent yet. */
const heldNano = (now: Date) => Prisma.sql`(
  SELECT coalesce(sum(amount), 0)::bigint FROM (${heldDeposits(now)}) held)`

/** Forgets that a balance was low where it is no more, or where nobody wants to know. */
async function rearm(db: Connection, now: Date): Promise<void> {
  await db.$executeRaw`
    UPDATE organisations o SET low_balance_since = NULL FROM wallets w
    WHERE o.low_balance_since IS NOT NULL AND w.organisation_id = o.id
      AND (o.low_balance_nano IS NULL OR w.balance_nano - ${heldNano(now)} >= o.low_balance_nano)`
}

/** Marks balances as known to be low, each for one caller. */
async function claimLow(tx: Connection, now: Date): Promise<Low[]> {
  return tx.$queryRaw<Low[]>`
    WITH low AS (
      SELECT o.id, o.low_balance_nano, w.balance_nano, ${heldNano(now)} AS held_nano
      FROM organisations o JOIN wallets w ON w.organisation_id = o.id
      WHERE o.low_balance_since IS NULL AND w.version > 0 AND w.balance_nano - ${heldNano(now)} < o.low_balance_nano
      ORDER BY o.id LIMIT ${organisationsAtOnce} FOR NO KEY UPDATE OF o SKIP LOCKED)
    UPDATE organisations o SET low_balance_since = ${now} FROM low WHERE o.id = low.id
    RETURNING o.id AS "organisationId", low.low_balance_nano AS "lowNano", low.balance_nano AS "balanceNano",
      low.held_nano AS "heldNano"`
}

function alertOf({ organisationId, lowNano, balanceNano, heldNano }: Low, now: Date): NewAlert {
  return {
    organisationId,
    keyId: null,
    type: 'wallet.low_balance',
    cause: `low:${organisationId}:${now.getTime()}`,
    data: {
      object: 'wallet.low_balance',
      balance_usd: usdFromNano(balanceNano),
      held_usd: usdFromNano(heldNano),
      low_balance_usd: usdFromNano(lowNano),
    },
  }
}
