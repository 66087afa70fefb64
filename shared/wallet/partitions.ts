import { Prisma } from '../generated/prisma/client.ts'
import type { Connection, Database } from '../io/db.ts'
import { measureExpired, type Removable } from '../io/expired-rows.ts'

/** How many months ahead of the current one partitions of the request log are created. */
const monthsAhead = 3
/** Advisory lock that serialises this task across workers. */
const lockId = 4_121_986

/**
 * Creates the partitions of the coming months and drops those older than the retention. Rows in the default partition (from a
 * month without a partition) move into the new partition, or are deleted when too old. Safe to call concurrently.
 */
export async function maintainPartitions(db: Database, nowMs: number, retentionMonths: number): Promise<void> {
  const month = (offset: number) => monthStart(nowMs, offset)
  const oldest = month(-retentionMonths)
  await db.$transaction(async tx => {
    await tx.$executeRaw`SELECT pg_advisory_xact_lock(${lockId})`
    const existing = await partitionNames(tx)
    for (let offset = 0; offset <= monthsAhead; offset++) {
      const name = nameOf(month(offset))
      if (!existing.includes(name))
        await createPartition(tx, name, month(offset).toISOString(), month(offset + 1).toISOString())
    }
    for (const name of existing) if (name < nameOf(oldest)) await tx.$executeRawUnsafe(`DROP TABLE partitions.${name}`)
    await tx.$executeRaw`DELETE FROM partitions.generations_other WHERE created_at < ${oldest}`
  })
}

/** The start of the UTC month at an offset from the current one. */
export function monthStart(nowMs: number, offset: number): Date {
  const now = new Date(nowMs)
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + offset, 1))
}

/** The months of the request log that `maintainPartitions` would drop. Rows are PostgreSQL's estimate where it has one. */
export async function measureOldMonths(db: Database, nowMs: number, retentionMonths: number): Promise<Removable> {
  const oldest = monthStart(nowMs, -retentionMonths)
  const where = Prisma.sql`created_at < ${oldest}`
  const total = await measureExpired(db, 'partitions.generations_other', where)
  for (const name of await partitionNames(db)) {
    if (name >= nameOf(oldest)) continue
    const [found] = await db.$queryRaw<{ rows: number; bytes: number }[]>`
      SELECT reltuples::float8 AS rows, pg_total_relation_size(oid)::float8 AS bytes
      FROM pg_class WHERE oid = to_regclass(${`partitions.${name}`})`
    if (!found) continue // Dropped meanwhile.
    total.rows += found.rows >= 0 ? found.rows : await countRows(db, name)
    total.bytes = (total.bytes ?? 0) + found.bytes
  }
  return total
}

/** For a partition that PostgreSQL has not analysed yet. */
async function countRows(db: Database, name: string): Promise<number> {
  const [counted] = await db.$queryRawUnsafe<{ rows: number }[]>(
    `SELECT count(*)::float8 AS rows FROM partitions.${name}`,
  )
  return counted!.rows
}

function nameOf(month: Date): string {
  return `generations_${month.toISOString().slice(0, 7).replace('-', '_')}`
}

async function partitionNames(tx: Connection): Promise<string[]> {
  const tables = await tx.$queryRaw<{ name: string }[]>`
    SELECT tablename::text AS name FROM pg_tables
    WHERE schemaname = 'partitions' AND tablename ~ '^generations_[0-9]{4}_[0-9]{2}$'`
  return tables.map(({ name }) => name)
}

/** Postgres rejects a partition while the default one has rows of its range, so they are moved before it is attached. */
async function createPartition(tx: Connection, name: string, from: string, to: string): Promise<void> {
  await tx.$executeRawUnsafe(`CREATE TABLE partitions.${name} (LIKE generations INCLUDING ALL)`)
  await tx.$executeRawUnsafe(`
    WITH moved AS (
      DELETE FROM partitions.generations_other WHERE created_at >= '${from}' AND created_at < '${to}' RETURNING *
    ) INSERT INTO partitions.${name} SELECT * FROM moved`)
  await tx.$executeRawUnsafe(
    `ALTER TABLE generations ATTACH PARTITION partitions.${name} FOR VALUES FROM ('${from}') TO ('${to}')`,
  )
}
