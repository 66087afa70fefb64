import { type Nano, usdFromNano } from '../base/money.ts'
import { rolesWith } from '../base/roles.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import { heldDeposits } from '../wallet/wallets.ts'
import type { WebhookServices } from '../webhooks/webhook-services.ts'
import { type NewAlert, raiseAlerts } from './raise.ts'

/** Administrators, and those who can buy credits. */
const lowBalanceRoles = [...new Set([...rolesWith('pay'), ...rolesWith('manage')])]
const organisationsPerRound = 200
const maxRounds = 50

type LowBalance = { organisationId: string; lowNano: Nano; balanceNano: Nano; heldNano: Nano }

/**
 * Alerts organisations whose balance, excluding held deposits, fell below their threshold: once, and again after the balance
 * was above it. Returns how many. Ignores wallets that never had money.
 */
export async function raiseBalanceAlerts(services: WebhookServices): Promise<number> {
  const { db, webhooks, clock } = services
  const now = new Date(clock.now())
  await rearm(db, now)
  let raised = 0
  for (let round = 0; round < maxRounds; round++) {
    const { count, deliveryIds } = await db.$transaction(async tx => {
      const low = await claimLow(tx, now)
      const { deliveryIds } = await raiseAlerts(
        services,
        tx,
        low.map(wallet => alertOf(wallet, now)),
      )
      return { count: low.length, deliveryIds }
    })
    await webhooks.enqueue(deliveryIds)
    raised += count
    if (count < organisationsPerRound) break
  }
  return raised
}

/** SQL: the sum of the held deposits of an organisation `o`. */
const heldNano = (now: Date) => Prisma.sql`(
  SELECT coalesce(sum(amount), 0)::bigint FROM (${heldDeposits(now)}) held)`

/** Clears the low-balance mark where the balance has recovered or no threshold is set. */
async function rearm(db: Connection, now: Date): Promise<void> {
  await db.$executeRaw`
    UPDATE organisations o SET low_balance_since = NULL FROM wallets w
    WHERE o.low_balance_since IS NOT NULL AND w.organisation_id = o.id
      AND (o.low_balance_nano IS NULL OR w.balance_nano - ${heldNano(now)} >= o.low_balance_nano)`
}

/** Marks low balances and returns them; each is claimed by one caller only. */
async function claimLow(tx: Connection, now: Date): Promise<LowBalance[]> {
  return tx.$queryRaw<LowBalance[]>`
    WITH low AS (
      SELECT o.id, o.low_balance_nano, w.balance_nano, ${heldNano(now)} AS held_nano
      FROM organisations o JOIN wallets w ON w.organisation_id = o.id
      WHERE o.low_balance_since IS NULL AND w.version > 0 AND w.balance_nano - ${heldNano(now)} < o.low_balance_nano
      ORDER BY o.id LIMIT ${organisationsPerRound} FOR NO KEY UPDATE OF o SKIP LOCKED)
    UPDATE organisations o SET low_balance_since = ${now} FROM low WHERE o.id = low.id
    RETURNING o.id AS "organisationId", low.low_balance_nano AS "lowNano", low.balance_nano AS "balanceNano",
      low.held_nano AS "heldNano"`
}

function alertOf({ organisationId, lowNano, balanceNano, heldNano }: LowBalance, now: Date): NewAlert {
  return {
    organisationId,
    keyId: null,
    type: 'wallet.low_balance',
    channels: { emailTo: { roles: lowBalanceRoles }, webhook: true, slack: null },
    cause: `low:${organisationId}:${now.getTime()}`,
    data: {
      object: 'wallet.low_balance',
      balance_usd: usdFromNano(balanceNano),
      held_usd: usdFromNano(heldNano),
      low_balance_usd: usdFromNano(lowNano),
    },
  }
}
