import { type Nano, usdFromNano } from '../base/money.ts'
import { monthOf, nextMonthStart } from '../base/time.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import { shardsOf } from '../io/redis-shards.ts'
import type { Platform } from '../platform.ts'
import type { WebhookServices } from '../webhooks/webhook-services.ts'
import { type NewAlert, raiseAlerts } from './raise.ts'

/** Keys of a shard whose cap refused a request, recorded by `admit.lua`: `<key>|<month>|<cap in nano-dollars>`. */
const cappedSet = 'alerts:capped'
const levels = [50, 80, 100]
const maxRefusalsRead = 1_000
const keysPerRound = 200
const maxRounds = 50

type DueKey = {
  keyId: string
  organisationId: string
  hash: string
  name: string
  prefix: string
  last4: string
  capNano: Nano
  spentNano: Nano
  percent: number
}

/**
 * Alerts on live keys that reached a level of their monthly cap, and on budgets that reached a percentage of theirs: only the highest level
 * reached, and once per level. Returns how many.
 */
export async function raiseCapAlerts(services: WebhookServices): Promise<number> {
  const { db, redis, webhooks, clock } = services
  const month = monthOf(clock.now())
  const sets = await Promise.all(
    shardsOf(redis).all.map(async ({ tag }) => {
      const refusals = await redis.srandmember(tag + cappedSet, maxRefusalsRead)
      return { set: tag + cappedSet, refusals }
    }),
  )
  const refused = sets
    .flatMap(({ refusals }) => refusals)
    .map(refusal => refusal.split('|'))
    .filter(([, refusedIn]) => refusedIn === month)
  let raised = await raiseBudgetAlerts(services, month, refused)
  for (let round = 0; round < maxRounds; round++) {
    const due = await findDueKeys(services, month, refused)
    if (due.length === 0) break
    const alerts = due.map(key => alertOf(key, month, clock.now()))
    const { deliveryIds, count } = await db.$transaction(tx => raiseAlerts(services, tx, alerts))
    await webhooks.enqueue(deliveryIds)
    raised += count
    if (due.length < keysPerRound) break
  }
  // Removed last, so that the refusals are processed again if this process dies before.
  for (const { set, refusals } of sets) if (refusals.length > 0) await redis.srem(set, ...refusals)
  return raised
}

/**
 * Finds keys at a level of their cap without an alert: none of this month was at this level or a higher one, at a spend that
 * also reaches this level of the current cap. So after a cap was raised, the levels of the new cap alert again.
 */
async function findDueKeys({ db }: Platform, month: string, refused: string[][]): Promise<DueKey[]> {
  const keyIds = refused.map(([keyId]) => keyId)
  const caps = refused.map(([, , cap]) => BigInt(cap!))
  return db.$queryRaw<DueKey[]>`
    WITH refused AS (SELECT * FROM unnest(${keyIds}::text[], ${caps}::bigint[]) AS r(key_id, cap_nano)),
    reached AS (
      SELECT k.id, k.organisation_id, k.hash, k.name, k.prefix, k.last4, k.monthly_spend_cap_nano AS cap,
        coalesce(s.spent_nano, 0) AS spent,
        (SELECT max(percent) FROM unnest(${levels}::int[]) AS percent
          WHERE coalesce(s.spent_nano, 0) * 100 >= k.monthly_spend_cap_nano * percent
            OR (percent = 100 AND (k.id, k.monthly_spend_cap_nano) IN (SELECT key_id, cap_nano FROM refused))) AS percent
      FROM api_keys k LEFT JOIN key_spend s ON s.key_id = k.id AND s.month = ${month}
      WHERE k.environment = 'live' AND k.revoked_at IS NULL AND k.monthly_spend_cap_nano > 0)
    SELECT r.id AS "keyId", organisation_id AS "organisationId", hash, name, prefix, last4, cap AS "capNano", spent AS "spentNano",
      percent
    FROM reached r
    WHERE percent IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM alerts a
      WHERE a.organisation_id = r.organisation_id AND a.key_id = r.id AND a.created_at >= ${new Date(`${month}-01`)}
        AND (a.data->>'percent')::int >= percent
        AND greatest((a.data->>'spent_usd')::numeric, (a.data->>'cap_usd')::numeric * (a.data->>'percent')::int / 100) * 1000000000
          >= cap::numeric * percent / 100)
    ORDER BY r.id LIMIT ${keysPerRound}`
}

function alertOf(
  { keyId, organisationId, capNano, spentNano, percent, ...key }: DueKey,
  month: string,
  nowMs: number,
): NewAlert {
  return {
    organisationId,
    keyId,
    type: 'key.spend_alert',
    cause: `cap:${keyId}:${month}:${percent}:${capNano}`,
    data: {
      object: 'key.spend_alert',
      key,
      percent,
      cap_usd: usdFromNano(capNano),
      spent_usd: usdFromNano(spentNano),
      month,
      resets_at: nextMonthStart(nowMs),
    } satisfies Prisma.InputJsonObject,
  }
}

type DueBudget = {
  id: string
  organisationId: string
  member: { id: string; name: string; email: string } | null
  limitNano: Nano
  spentNano: Nano
  blocks: boolean
  percent: number
}

/** Alerts on budgets at the highest of their percentages that is reached; one that refused a request counts as reached. */
async function raiseBudgetAlerts(services: WebhookServices, month: string, refused: string[][]): Promise<number> {
  const { db, webhooks, clock } = services
  let raised = 0
  for (let round = 0; round < maxRounds; round++) {
    const due = await findDueBudgets(services, month, refused)
    if (due.length === 0) break
    const alerts = due.map(budget => budgetAlertOf(budget, month, clock.now()))
    const { deliveryIds, count } = await db.$transaction(tx => raiseAlerts(services, tx, alerts))
    await webhooks.enqueue(deliveryIds)
    raised += count
    if (due.length < keysPerRound) break
  }
  return raised
}

async function findDueBudgets({ db }: Platform, month: string, refused: string[][]): Promise<DueBudget[]> {
  const ids = refused.map(([account]) => account)
  const limits = refused.map(([, , limit]) => BigInt(limit!))
  return db.$queryRaw<DueBudget[]>`
    WITH refused AS (SELECT * FROM unnest(${ids}::text[], ${limits}::bigint[]) AS r(id, limit_nano)),
    spent AS (
      SELECT b.*, coalesce(sum(s.spent_nano), 0)::bigint AS spent FROM budgets b
        LEFT JOIN api_keys k ON k.organisation_id = b.organisation_id AND b.member_id IN ('', k.created_by_id)
        LEFT JOIN key_spend s ON s.key_id = k.id AND s.month = ${month}
      WHERE b.limit_nano > 0 GROUP BY b.id
    ), reached AS (
      SELECT b.*, (SELECT max(percent) FROM unnest(alert_percents) AS percent WHERE spent::numeric * 100 >= limit_nano::numeric * percent
        OR (percent = 100 AND (b.id, b.limit_nano) IN (SELECT id, limit_nano FROM refused))) AS percent FROM spent b
    )
    SELECT r.id, r.organisation_id AS "organisationId", r.limit_nano AS "limitNano", r.spent AS "spentNano", r.blocks, r.percent,
      CASE WHEN u.id IS NOT NULL THEN json_build_object('id', u.id, 'name', u.name, 'email', u.email) END AS member
    FROM reached r LEFT JOIN users u ON u.id = r.member_id
    WHERE r.percent IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM alerts a WHERE a.cause = concat_ws(':', 'budget', r.id, ${month}::text, r.percent, r.limit_nano))
    ORDER BY r.id LIMIT ${keysPerRound}`
}

function budgetAlertOf(
  { id, organisationId, member, limitNano, spentNano, blocks, percent }: DueBudget,
  month: string,
  nowMs: number,
): NewAlert {
  return {
    organisationId,
    keyId: null,
    type: 'budget.spend_alert',
    cause: `budget:${id}:${month}:${percent}:${limitNano}`,
    data: {
      object: 'budget.spend_alert',
      member,
      percent,
      limit_usd: usdFromNano(limitNano),
      spent_usd: usdFromNano(spentNano),
      blocks,
      month,
      resets_at: nextMonthStart(nowMs),
    } satisfies Prisma.InputJsonObject,
  }
}
