import { type Nano, usdFromNano } from '../base/money.ts'
import { monthOf, nextMonthStart } from '../base/time.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import type { Services } from '../services.ts'
import { type NewAlert, tell } from './tell.ts'

/** Keys whose cap refused a request, as `admit.lua` notes them: `<key>|<month>|<cap in nano-dollars>`. */
const cappedSet = 'alerts:capped'
const levels = [50, 80, 100]
const notesAtOnce = 1_000
const keysAtOnce = 200
const mostRounds = 50

type Due = {
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

/** Tells of live keys that reached a level of their monthly cap: the highest one reached, and each once. Answers how many. */
export async function tellOfCaps(services: Services): Promise<number> {
  const { db, redis, webhooks, clock } = services
  const month = monthOf(clock.now())
  const notes = await redis.srandmember(cappedSet, notesAtOnce)
  const capped = notes.map(note => note.split('|')).filter(([, noted]) => noted === month)
  let told = 0
  for (let round = 0; round < mostRounds; round++) {
    const due = await dueKeys(services, month, capped)
    if (due.length === 0) break
    const alerts = due.map(key => alertOf(key, month, clock.now()))
    const { deliveryIds, ...written } = await db.$transaction(tx => tell(services, tx, alerts))
    await webhooks.enqueue(deliveryIds)
    told += written.told
    if (due.length < keysAtOnce) break
  }
  // Only now: a process that dies before leaves the notes for the next one.
  if (notes.length > 0) await redis.srem(cappedSet, ...notes)
  return told
}

/**
 * Keys at a level of their cap that they were not told of: no alert of this month was of this level or a higher one, at a spend
 * that reaches this level under the present cap too. So what a raised cap put out of reach is told again, and nothing else.
 */
async function dueKeys({ db }: Services, month: string, capped: string[][]): Promise<Due[]> {
  const keyIds = capped.map(([keyId]) => keyId)
  const caps = capped.map(([, , cap]) => BigInt(cap!))
  return db.$queryRaw<Due[]>`
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
    ORDER BY r.id LIMIT ${keysAtOnce}`
}

function alertOf(
  { keyId, organisationId, capNano, spentNano, percent, ...key }: Due,
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
