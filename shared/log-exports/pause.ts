import { type Condition, reconcileIncidents } from '../alerts/incidents.ts'
import { raiseAlerts } from '../alerts/raise.ts'
import type { LogExport } from '../generated/prisma/client.ts'
import { audit, operatorActor } from '../io/audit.ts'
import type { Platform } from '../platform.ts'
import type { LogExportServices } from './export-services.ts'

/** An operator's export is an incident after this time. */
const failingMs = 15 * 60_000
const maxFailing = 100

/** Pauses an export whose batches were not accepted for days, and tells its organisation. It continues when it is enabled again. */
export async function pauseExport(
  services: LogExportServices,
  { id, organisationId, name }: LogExport,
  failingSince: Date,
  error: string,
): Promise<void> {
  const { db, clock, webhooks, log } = services
  const deliveryIds = await db.$transaction(async tx => {
    const { count } = await tx.logExport.updateMany({
      where: { id, enabled: true },
      data: { enabled: false, pausedForFailures: true, updatedAt: new Date(clock.now()) },
    })
    if (count === 0) return []
    const actor = { ...operatorActor, name: 'log exports' }
    const changes = { enabled: [true, false] } satisfies Record<string, [boolean, boolean]>
    await audit(tx, { organisationId, actor, action: 'log_export.paused', target: { id, name }, changes })
    if (organisationId === null) return []
    const data = { object: 'log_export.paused', id, name, failing_since: failingSince.toISOString(), error }
    const cause = `log_export_paused:${id}:${failingSince.getTime()}`
    const alert = { organisationId, cause, type: 'log_export.paused', keyId: null, data } as const
    return (await raiseAlerts(services, tx, [alert])).deliveryIds
  })
  await webhooks.enqueue(deliveryIds)
  log.warn({ export: id, error }, 'an export of logs is paused: its batches were not accepted for days')
}

/** Records the operator's exports that fail or are paused for it. */
export async function watchLogExports(services: Pick<Platform, 'db' | 'clock'>): Promise<void> {
  const { db, clock } = services
  const since = new Date(clock.now() - failingMs)
  const rows = await db.logExport.findMany({
    where: {
      organisationId: null,
      OR: [{ pausedForFailures: true }, { enabled: true, cursors: { some: { failingSince: { lte: since } } } }],
    },
    include: { cursors: { where: { failingSince: { not: null } }, orderBy: { failingSince: 'asc' }, take: 1 } },
    take: maxFailing,
  })
  const conditions = rows.map(({ id, name, pausedForFailures, cursors: [cursor] }): Condition => {
    const state = pausedForFailures ? 'is paused' : 'fails'
    const message = `The export “${name}” of logs ${state}: ${cursor?.lastError ?? 'its batches were not accepted'}`
    return {
      kind: 'log_export',
      subject: id,
      message,
      ...(cursor?.failingSince && { sinceMs: cursor.failingSince.getTime() }),
    }
  })
  await reconcileIncidents(services, ['log_export'], conditions)
}
