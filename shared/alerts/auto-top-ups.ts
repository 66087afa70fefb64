import { usdFromNano } from '../base/money.ts'
import { rolesWith } from '../base/roles.ts'
import { dayMs, nextMonthStart } from '../base/time.ts'
import type { Connection } from '../io/db.ts'
import { type Low, limitCause, listLimited } from '../payments/due-top-ups.ts'
import { authenticationRequired } from '../payments/facts.ts'
import type { WebhookServices } from '../webhooks/webhook-services.ts'
import type { EmailTo } from './emails.ts'
import { type NewAlert, raiseAlerts } from './raise.ts'

const perRound = 100
/** Older failures are no news. */
const recentMs = 7 * dayMs
/** The roles that can do something about it. */
const payers: EmailTo = { roles: rolesWith('pay') }
const channels = { emailTo: payers, webhook: true, slack: null }

type Failed = {
  id: string
  organisationId: string
  amountNano: bigint
  code: string
  enabled: boolean
  nextAttemptAt: Date
}

/** Alerts organisations whose automatic top-up failed, or has no room in the month. Returns how many. */
export async function raiseTopUpAlerts(services: WebhookServices): Promise<number> {
  const { db, webhooks, clock } = services
  const nowMs = clock.now()
  const { count, deliveryIds } = await db.$transaction(async tx => {
    const failed = await listFailed(tx, nowMs)
    const limited = await listLimited(tx, nowMs)
    return raiseAlerts(services, tx, [...failed.map(alertOf), ...limited.map(low => limitAlert(low, nowMs))])
  })
  await webhooks.enqueue(deliveryIds)
  return count
}

/** Automatic top-ups that failed and were not told of. */
function listFailed(tx: Connection, nowMs: number): Promise<Failed[]> {
  return tx.$queryRaw<Failed[]>`
    SELECT t.id, t.organisation_id AS "organisationId", t.amount_nano AS "amountNano",
      coalesce(t.failure_code, 'declined') AS code, a.enabled, a.next_attempt_at AS "nextAttemptAt"
    FROM top_ups t JOIN auto_top_ups a ON a.organisation_id = t.organisation_id
    WHERE t.automatic AND t.status = 'failed' AND t.created_at > ${new Date(nowMs - recentMs)}
      AND NOT EXISTS (SELECT 1 FROM alerts x WHERE x.cause = 'auto_top_up:' || t.id)
    ORDER BY t.created_at LIMIT ${perRound}`
}

function alertOf({ id, organisationId, amountNano, code, enabled, nextAttemptAt }: Failed): NewAlert {
  const type = 'auto_top_up.failed'
  const data = {
    object: type,
    id,
    amount_usd: usdFromNano(amountNano),
    reason: code,
    authentication_required: code === authenticationRequired,
    enabled,
    next_attempt_at: enabled ? nextAttemptAt.toISOString() : null,
  }
  return { organisationId, cause: `auto_top_up:${id}`, type, keyId: null, data, channels }
}

function limitAlert(low: Low, nowMs: number): NewAlert {
  const { organisationId, balance, spent, bound } = low
  const type = 'auto_top_up.limit_reached'
  const data = {
    object: type,
    balance_usd: usdFromNano(balance),
    spent_usd: usdFromNano(spent),
    monthly_limit_usd: usdFromNano(bound),
    resets_at: nextMonthStart(nowMs),
  }
  return { organisationId, cause: limitCause(low, nowMs), type, keyId: null, data, channels }
}
