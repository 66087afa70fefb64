import { PrismaPg } from '@prisma/adapter-pg'
import type { Pool } from 'pg'
import { ConfigError } from '../base/config.ts'
import { PrismaClient } from '../generated/prisma/client.ts'
import { isOutage, sqlStateOf } from './outage.ts'
import { openPool, type PoolOptions } from './postgres.ts'

export type Database = PrismaClient
/** A database handle inside or outside a transaction. */
export type Connection = Omit<PrismaClient, '$connect' | '$disconnect' | '$on' | '$transaction' | '$extends'>

/** Writes additional rows in the transaction that creates a row, so that both are committed or neither. */
export type TransactionStep<Row> = (tx: Connection, row: Row) => Promise<void> | undefined

/** Opens a Prisma client over a connection pool of its own. */
export function openDatabase(url: string, options: PoolOptions): Database {
  return openDatabaseOver(openPool(url, options))
}

/** Opens a Prisma client over a connection pool, which it closes. */
export function openDatabaseOver(pool: Pool): Database {
  const adapter = new PrismaPg(pool, { disposeExternalPool: true })
  return new PrismaClient({ adapter, transactionOptions: { maxWait: 5_000, timeout: 15_000 } })
}

/** A pooler may serve each of several statements by another session. */
const comparedSessions = 4

/**
 * Throws a ConfigError if statements run in a time zone other than UTC, in which times are read wrong: a pooler did not
 * keep the setting of its client. An outage is no such answer.
 */
export async function confirmTimeZone(db: Database): Promise<void> {
  const readZone = async () => {
    const [row] = await db.$queryRaw<[{ zone: string }]>`SELECT current_setting('TimeZone') AS zone`
    return row.zone
  }
  try {
    const zones = await Promise.all(Array.from({ length: comparedSessions }, readZone))
    const other = zones.find(zone => zone !== 'UTC')
    if (other === undefined) return
    const cure = "ALTER ROLE … SET timezone TO 'UTC' for the gateway’s user"
    throw new ConfigError([`DATABASE_URL: the pooler’s sessions are in the time zone ${other}, not in UTC: ${cure}`])
  } catch (error) {
    if (!isOutage(error)) throw error
  }
}

/** True if Postgres cancelled a statement at its timeout. */
export function isStatementTimeout(error: unknown): boolean {
  return sqlStateOf(error) === '57014'
}
