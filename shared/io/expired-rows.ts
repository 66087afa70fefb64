import { Prisma } from '../generated/prisma/client.ts'
import type { Database } from './db.ts'

/** Rows that can be removed, and the bytes of disk or storage that they take; null = unknown. */
export type Removable = { rows: number; bytes: number | null }

const rowsPerDelete = 5_000
const maxDeletes = 1_000

/**
 * Deletes rows past their retention, some thousand per statement, so that no lock is held for long. Rows that another
 * transaction has locked, and what is left after the maximum number of statements, are deleted next time. Returns their number.
 */
export async function deleteExpired(db: Database, table: string, where: Prisma.Sql): Promise<number> {
  const name = Prisma.raw(table)
  let deleted = 0
  for (let i = 0; i < maxDeletes; i++) {
    const count = await db.$executeRaw`
      DELETE FROM ${name} WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ${name} WHERE ${where} LIMIT ${rowsPerDelete} FOR UPDATE SKIP LOCKED))`
    deleted += count
    if (count < rowsPerDelete) break
  }
  return deleted
}

/** Counts rows past their retention. Their bytes are estimated: the table's size per row, with indexes. */
export async function measureExpired(db: Database, table: string, where: Prisma.Sql): Promise<Removable> {
  const [found] = await db.$queryRaw<{ rows: number; bytes: number | null }[]>`
    SELECT expired.rows::float8 AS rows,
      expired.rows * pg_total_relation_size(c.oid) / nullif(greatest(c.reltuples, 0), 0)::float8 AS bytes
    FROM pg_class c, (SELECT count(*) AS rows FROM ${Prisma.raw(table)} WHERE ${where}) expired
    WHERE c.oid = to_regclass(${table})`
  const { rows, bytes } = found!
  return { rows, bytes: rows === 0 ? 0 : bytes && Math.round(bytes) }
}
