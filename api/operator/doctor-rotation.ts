import type { Config } from '../../shared/base/config.ts'
import { type Database, openDatabase } from '../../shared/io/db.ts'
import { onConnectionError, openRequestRedis, waitUntilReady } from '../../shared/io/redis.ts'
import { listReportedKeys } from '../../shared/keys/reported-keys.ts'

const connectTimeoutMs = 5_000
const statementTimeoutMs = 10_000

/**
 * At which step the rotations of ENCRYPTION_KEY and SIGNING_SECRET stand, and the next step: by the keys that running processes
 * report, and those that encrypted what is in the database. Keys are named by their ids.
 */
export async function examineRotation(config: Config): Promise<Finding[]> {
  const redis = openRequestRedis(config)
  onConnectionError(redis, () => {}) // The command under way fails with it.
  const { databaseUrl, databasePooler: pooler } = config
  const db = openDatabase(databaseUrl, { connections: 1, statementTimeoutMs, pooler })
  try {
    await waitUntilReady(redis, connectTimeoutMs)
    const reports = await listReportedKeys(redis)
    // Large tables may take too long.
    const used = await listUsedKeys(db).catch(() => null)
    return [
      rotationFinding(
        'ENCRYPTION_KEY',
        reports.map(({ encryption }) => encryption),
        used,
      ),
      rotationFinding(
        'SIGNING_SECRET',
        reports.map(({ signing }) => signing),
        [],
      ),
    ].flatMap(finding => finding ?? [])
  } finally {
    redis.disconnect()
    await db.$disconnect()
  }
}

/**
 * `held`: the ids of the keys of each process, that in use first. `used`: those that encrypted data; null = not known. Null where
 * no process reports a key.
 */
export function rotationFinding(
  name: 'ENCRYPTION_KEY' | 'SIGNING_SECRET',
  held: readonly (readonly string[])[],
  used: readonly string[] | null,
): Finding | null {
  if (held.every(({ length }) => length === 0)) return null
  const check = name === 'ENCRYPTION_KEY' ? 'encryption key' : 'signing secret'
  const find = (state: Finding['state'], detail: string) => ({ state, check, detail })
  const lacking = (id: string) => held.filter(ids => !ids.includes(id)).length
  const unread = held.map(([first]) => first).find(first => first !== undefined && lacking(first) > 0)
  if (unread !== undefined)
    return find(
      'warning',
      `${lacking(unread)} of ${held.length} processes cannot read what others write with ${unread}: give all of them both, the old one first`,
    )
  const lost = used?.find(id => lacking(id) > 0)
  if (lost !== undefined)
    return find('failed', `data is encrypted with ${lost}, which ${lacking(lost)} processes lack: add it to ${name}`)
  const sets = new Set(held.map(ids => ids.join(',')))
  if (sets.size > 1)
    return find(
      'warning',
      `a change is rolled out: processes have ${[...sets].join(' or ')}; wait until all have the same`,
    )
  const [first, ...others] = held[0]!
  if (others.length === 0) return find('ok', `all ${held.length} processes have ${first} alone`)
  if (name === 'SIGNING_SECRET')
    return find(
      'ok',
      `${first} signs, ${others.join(', ')} verify: put a new one first, or remove old ones after a week`,
    )
  if (used === null)
    return find('ok', `${first} encrypts, ${others.join(', ')} decrypt; which of them data needs is not known`)
  const older = used.filter(id => id !== first)
  if (older.length > 0)
    return find('warning', `${first} encrypts, data still needs ${older.join(', ')}: run \`operator secrets encrypt\``)
  return find(
    'ok',
    `no row in the database needs ${others.join(', ')}: put the new key first, or remove old ones after \`operator secrets encrypt\``,
  )
}

/** The ids of the keys that encrypted what is in the database; files in storage have those of their rows or older ones. */
async function listUsedKeys(db: Database): Promise<string[]> {
  const rows = await db.$queryRaw<{ id: string | null }[]>`
    WITH text AS (
      SELECT webhook_secret AS value FROM organisations UNION ALL SELECT previous_webhook_secret FROM organisations
      UNION ALL SELECT secret FROM webhook_endpoints UNION ALL SELECT previous_secret FROM webhook_endpoints
      UNION ALL SELECT secret FROM log_exports UNION ALL SELECT previous_secret FROM log_exports
      UNION ALL SELECT credentials FROM log_exports
      UNION ALL SELECT slack_url FROM alert_rules UNION ALL SELECT slack_url FROM operator_notifications
      UNION ALL SELECT webhook_secret FROM operator_notifications
      UNION ALL SELECT previous_webhook_secret FROM operator_notifications UNION ALL SELECT secret FROM catalog_overrides
      UNION ALL SELECT value FROM settings
      UNION ALL SELECT encode(substring(head FOR 18), 'escape') FROM stored_responses
      UNION ALL SELECT encode(substring(items FOR 18), 'escape') FROM stored_responses
      UNION ALL SELECT encode(substring(item FOR 18), 'escape') FROM conversation_items
    )
    SELECT DISTINCT substring(value FROM '^sealed:1:([0-9a-f]{8}):') AS id FROM text
    UNION SELECT DISTINCT lpad(to_hex(substring(secret FROM '^\\$ba\\$([0-9]+)\\$')::bigint), 8, '0') FROM two_factors`
  return rows.flatMap(({ id }) => id ?? [])
}

/** One line of the doctor's report. A `warning` works but needs attention. */
export type Finding = { state: 'ok' | 'warning' | 'failed'; check: string; detail: string }
