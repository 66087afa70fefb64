import type { Connection, Database } from '../io/db.ts'

/** How many months ahead of the current one partitions of the request log are created. */
const monthsAhead = 3
/** Advisory lock that serialises this task across workers. */
const lockId = 4_121_986

/**
 * Creates the partitions of the coming months and drops those older than the retention, with the hours of usage. Rows in the default partition (from a
 * month without a partition) move into the new partition, or are deleted when too old. Safe to call concurrently.
 */
export async function maintainPartitions(db: Database, nowMs: number, retentionMonths: number): Promise<void> {
  const now = new Date(nowMs)
  const month = (offset: number) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + offset, 1))
  await db.$transaction(async tx => {
    await tx.$executeRaw`SELECT pg_advisory_xact_lock(${lockId})`
    const existing = await partitionNames(tx)
    for (let offset = 0; offset <= monthsAhead; offset++) {
      const name = nameOf(month(offset))
      if (!existing.includes(name))
        await createPartition(tx, name, month(offset).toISOString(), month(offset + 1).toISOString())
    }
    const oldest = month(-retentionMonths)
    for (const name of existing) if (name < nameOf(oldest)) await tx.$executeRawUnsafe(`DROP TABLE partitions.${name}`)
    await tx.$executeRaw`DELETE FROM partitions.generations_other WHERE created_at < ${oldest}`
  })
  await deleteHours(db, month(-retentionMonths))
}

const maxHoursPerDelete = 10_000
const maxDeletes = 500

/** Deletes the hours of usage before a time; what is left after the maximum number of deletes is deleted next time. */
async function deleteHours(db: Database, before: Date): Promise<void> {
  for (let i = 0; i < maxDeletes; i++) {
    const deleted = await db.$executeRaw`
      DELETE FROM usage_hours WHERE ctid IN (SELECT ctid FROM usage_hours WHERE hour < ${before} LIMIT ${maxHoursPerDelete})`
    if (deleted < maxHoursPerDelete) return
  }
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
