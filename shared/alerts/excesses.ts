import { type Nano, usdFromNano } from '../base/money.ts'
import type { ApiKey } from '../generated/prisma/client.ts'
import { blockKey } from '../keys/cost-control.ts'
import type { Platform } from '../platform.ts'
import { referenceOf } from '../wallet/causes.ts'
import type { WebhookServices } from '../webhooks/webhook-services.ts'
import { type Condition, reconcileIncidents } from './incidents.ts'
import { type NewAlert, raiseAlerts } from './raise.ts'

/** An organisation may exceed the limit of one key by this factor, over all its keys: then those that took part are blocked. */
const limitsPerOrganisation = 5
const maxPerRound = 500
const maxRounds = 20

/** Why a key is blocked: its own sum of an hour, that of its organisation, or a balance that the excess drove below zero. */
type Reason = 'hourly_limit' | 'organisation_limit' | 'negative_balance'

/**
 * A key whose requests cost too much beyond their reservations, of those since `countsFrom`; `cause`: the last of these entries
 * of the ledger.
 */
type ExceedingKey = { keyId: string; reason: Reason; excessNano: Nano; cause: string; countsFrom: Date | null }

/**
 * Handles entries of the ledger for costs above reservations: blocks the keys for which they are too much, and learns from the
 * others how much more has to be reserved. Returns how many entries were new. Idempotent, and safe on several processes.
 */
export async function handleExcesses(services: WebhookServices): Promise<number> {
  const { db, reservationFactors, clock } = services
  let handled = 0
  for (let round = 0; round < maxRounds; round++) {
    const entries = await db.excess.findMany({
      where: { handledAt: null },
      select: { cause: true },
      orderBy: { createdAt: 'asc' },
      take: maxPerRound,
    })
    if (entries.length === 0) break
    const causes = entries.map(({ cause }) => cause)
    for (const key of await findOverLimit(services, causes)) await block(services, key)
    handled += await db.$transaction(async tx => {
      const where = { cause: { in: causes }, handledAt: null }
      const data = { handledAt: new Date(clock.now()) }
      const marked = await tx.excess.updateManyAndReturn({ where, data, select: { cause: true } })
      const learned = marked.map(({ cause }) => cause)
      if (learned.length > 0) await reservationFactors.learn(tx, learned)
      return learned.length
    })
  }
  for (const key of await findBelowZero(services)) await block(services, key)
  if (handled > 0) await reservationFactors.refresh()
  return handled
}

/** Keys with an hour in which they, or all keys of their organisation, exceeded the limit, among the hours around new entries. */
function findOverLimit({ db, config }: Platform, causes: readonly string[]): Promise<ExceedingKey[]> {
  const limitNano = BigInt(config.maxExcessNano)
  const organisationLimitNano = limitNano * BigInt(limitsPerOrganisation)
  return db.$queryRaw<ExceedingKey[]>`
    WITH spans AS (
      SELECT organisation_id, min(created_at) - interval '1 hour' AS first, max(created_at) + interval '1 hour' AS last
      FROM excesses WHERE cause = ANY(${[...causes]}) GROUP BY organisation_id
    ), counted AS (
      -- What a key exceeded before it was enabled again was reviewed; while it is disabled, it counts for its organisation.
      SELECT e.*, k.disabled OR k.revoked_at IS NOT NULL AS ended, k.excess_counts_from,
        sum(e.amount_nano) OVER (PARTITION BY e.key_id ORDER BY e.created_at
          RANGE BETWEEN '1 hour' PRECEDING AND CURRENT ROW) AS key_nano,
        sum(e.amount_nano) OVER (PARTITION BY e.organisation_id ORDER BY e.created_at
          RANGE BETWEEN '1 hour' PRECEDING AND CURRENT ROW) AS organisation_nano
      FROM spans s JOIN excesses e ON e.organisation_id = s.organisation_id AND e.created_at BETWEEN s.first AND s.last
      JOIN api_keys k ON k.id = e.key_id
      WHERE k.disabled OR k.excess_counts_from IS NULL OR e.created_at > k.excess_counts_from
    ), hours AS (
      -- The most expensive of the hours that an entry belongs to.
      SELECT *,
        max(key_nano) OVER (PARTITION BY key_id ORDER BY created_at
          RANGE BETWEEN CURRENT ROW AND '1 hour' FOLLOWING) AS key_hour_nano,
        max(organisation_nano) OVER (PARTITION BY organisation_id ORDER BY created_at
          RANGE BETWEEN CURRENT ROW AND '1 hour' FOLLOWING) AS organisation_hour_nano
      FROM counted
    )
    SELECT key_id AS "keyId", max(key_hour_nano)::bigint AS "excessNano",
      (array_agg(cause ORDER BY created_at DESC))[1] AS cause, max(excess_counts_from) AS "countsFrom",
      CASE WHEN max(key_hour_nano) > ${limitNano} THEN 'hourly_limit' ELSE 'organisation_limit' END AS reason
    FROM hours WHERE NOT ended AND (key_hour_nano > ${limitNano} OR organisation_hour_nano > ${organisationLimitNano})
    GROUP BY key_id`
}

/**
 * Keys whose excess of the last hour drove the balance of their organisation below zero. The balance may fall after the excess
 * was booked, when the other requests that were under way are charged.
 */
function findBelowZero({ db }: Platform): Promise<ExceedingKey[]> {
  return db.$queryRaw<ExceedingKey[]>`
    WITH recent AS (
      SELECT e.*, k.disabled OR k.revoked_at IS NOT NULL AS ended, k.excess_counts_from, w.balance_nano
      FROM excesses e JOIN api_keys k ON k.id = e.key_id JOIN wallets w ON w.organisation_id = e.organisation_id
      WHERE e.booked_at > now() - interval '1 hour' AND w.balance_nano < 0
        AND (k.disabled OR k.excess_counts_from IS NULL OR e.created_at > k.excess_counts_from)
    ), driven AS (
      SELECT organisation_id FROM recent GROUP BY organisation_id, balance_nano
      HAVING balance_nano + sum(amount_nano) >= 0
    )
    SELECT key_id AS "keyId", sum(amount_nano)::bigint AS "excessNano",
      (array_agg(cause ORDER BY created_at DESC))[1] AS cause, max(excess_counts_from) AS "countsFrom",
      'negative_balance' AS reason
    FROM recent JOIN driven USING (organisation_id) WHERE NOT ended GROUP BY key_id`
}

/** Blocks a key, and alerts its organisation and the operators in the same transaction. */
async function block(services: WebhookServices, exceeding: ExceedingKey): Promise<void> {
  const { db, webhooks, log } = services
  const { keyId, cause, reason, excessNano, countsFrom } = exceeding
  const key = await db.apiKey.findUniqueOrThrow({ where: { id: keyId } })
  const decided = { ...key, excessCountsFrom: countsFrom }
  const deliveryIds = await blockKey(services, decided, async (tx, row) => {
    return (await raiseAlerts(services, tx, [alertOf(row, exceeding)])).deliveryIds
  })
  if (!deliveryIds) return
  const { organisationId: organisation } = key
  log.error(
    { organisation, key: keyId, cause, reason, excessNano },
    'requests cost more than was reserved; their key is blocked',
  )
  await webhooks.enqueue(deliveryIds)
}

function alertOf(row: ApiKey, { cause, reason, excessNano }: ExceedingKey): NewAlert {
  const { id, organisationId, hash, name, prefix, last4 } = row
  return {
    organisationId,
    cause,
    keyId: id,
    type: 'key.blocked',
    data: {
      object: 'key.blocked',
      key: { hash, name, prefix, last4 },
      reason,
      reference: referenceOf(cause).reference,
      excess_usd: usdFromNano(excessNano),
    },
  }
}

/** Records the models at providers whose reservations are exceeded: one incident each, until their factors are forgotten. */
export async function watchReservations(services: Platform): Promise<void> {
  const exceeded = await services.reservationFactors.list()
  const conditions = exceeded.map(({ provider, model, exceeded: count, worst, since }): Condition => {
    const times = count === 1 ? 'once' : `${count} times`
    const message = `Reservations of ${model} at ${provider} are exceeded (${times}, worst × ${(Math.ceil(worst * 100) / 100).toFixed(2)}).`
    return { kind: 'reservations', subject: `${provider}|${model}`, provider, model, message, sinceMs: since.getTime() }
  })
  await reconcileIncidents(services, ['reservations'], conditions)
}
