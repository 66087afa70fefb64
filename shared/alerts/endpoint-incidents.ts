import { dayMs } from '../base/time.ts'
import type { Services } from '../services.ts'
import { type Condition, reconcileIncidents } from './incidents.ts'

const minFailedAttempts = 5
/** Maximum deliveries of an endpoint that are looked at. */
const maxDeliveries = 200
const maxEndpoints = 100

type Failing = { id: string; organisationId: string; name: string; url: string; attempts: number; since: Date }

/** Records the webhook endpoints at which every attempt has failed since the last delivery that succeeded, within a day. */
export async function watchEndpoints(services: Services): Promise<void> {
  const { db, clock } = services
  const recent = new Date(clock.now() - dayMs)
  const failing = await db.$queryRaw<Failing[]>`
    SELECT e.id, e.organisation_id AS "organisationId", o.name, e.url, failed.attempts, failed.since
    FROM webhook_endpoints e JOIN organisations o ON o.id = e.organisation_id
    CROSS JOIN LATERAL (
      WITH latest AS MATERIALIZED (
        SELECT d.status, d.attempts, d.created_at, d.delivered_at FROM webhook_deliveries d
        WHERE d.endpoint_id = e.id AND d.created_at >= greatest(${recent}::timestamptz, e.enabled_at)
        ORDER BY d.created_at DESC LIMIT ${maxDeliveries})
      SELECT coalesce(sum(attempts), 0)::int AS attempts, min(created_at) AS since FROM latest
      WHERE status <> 'delivered' AND created_at > coalesce((SELECT max(delivered_at) FROM latest), '-infinity')) failed
    WHERE e.enabled AND failed.attempts >= ${minFailedAttempts}
    ORDER BY failed.attempts DESC, e.id LIMIT ${maxEndpoints}`
  await reconcileIncidents(services, ['webhook'], failing.map(conditionOf))
}

/** Names the host alone: a receiver's URL may contain a secret. */
function conditionOf({ id, organisationId, name, url, attempts, since }: Failing): Condition {
  const from = `${since.toISOString().slice(0, 16).replace('T', ' ')} UTC`
  const message = `${attempts} attempts at ${new URL(url).host} failed and none succeeded since ${from} (${name}).`
  return { kind: 'webhook', subject: `${organisationId}|${id}`, message, sinceMs: since.getTime() }
}
