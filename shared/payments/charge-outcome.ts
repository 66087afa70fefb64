import { dayMs, hourMs } from '../base/time.ts'
import type { TopUp } from '../generated/prisma/client.ts'
import { audit, operatorActor } from '../io/audit.ts'
import type { Connection } from '../io/db.ts'
import type { ChargeFact } from './facts.ts'

/** The delays after the first failures in a row; one more turns automatic top-ups off. */
const retryDelaysMs = [hourMs, dayMs]
/** The author of what the service does by itself. */
export const autoTopUpActor = { ...operatorActor, name: 'automatic top-up' }

/** Locks the settings behind an automatic top-up, always before the top-up itself. */
export async function lockAutoTopUp(tx: Connection, topUpId: string): Promise<void> {
  await tx.$queryRaw`
    SELECT 1 FROM auto_top_ups
    WHERE organisation_id = (SELECT organisation_id FROM top_ups WHERE id = ${topUpId} AND automatic) FOR UPDATE`
}

/** Counts the failures in a row of automatic top-ups: the next attempt is delayed, and after the last one they are turned off. */
export async function noteOutcome(
  tx: Connection,
  { organisationId }: Pick<TopUp, 'organisationId'>,
  { failure }: ChargeFact,
  now: Date,
): Promise<void> {
  const settings = await tx.autoTopUp.findUnique({ where: { organisationId } })
  if (!settings) return
  const where = { organisationId }
  if (failure === null) {
    await tx.autoTopUp.update({ where, data: { failures: 0, nextAttemptAt: now, updatedAt: now } })
    return
  }
  const failures = settings.failures + 1
  const delayMs = failure.isFinal ? undefined : retryDelaysMs[failures - 1]
  if (delayMs !== undefined) {
    const nextAttemptAt = new Date(now.getTime() + delayMs)
    await tx.autoTopUp.update({ where, data: { failures, nextAttemptAt, updatedAt: now } })
    return
  }
  await tx.autoTopUp.update({
    where,
    data: { failures, enabled: false, disabledReason: failure.code, updatedAt: now },
  })
  if (!settings.enabled) return
  const changes = { enabled: [true, false], reason: [null, failure.code] } satisfies Record<string, [unknown, unknown]>
  await audit(tx, { organisationId, actor: autoTopUpActor, action: 'auto_top_up.disabled', changes })
}
