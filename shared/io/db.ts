import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaClient } from '../generated/prisma/client.ts'
import { sqlStateOf } from './outage.ts'
import { openPool, type PoolOptions } from './postgres.ts'

export type Database = PrismaClient
/** A database handle inside or outside a transaction. */
export type Connection = Omit<PrismaClient, '$connect' | '$disconnect' | '$on' | '$transaction' | '$extends'>

/** Writes additional rows in the transaction that creates a row, so that both are committed or neither. */
export type TransactionStep<Row> = (tx: Connection, row: Row) => Promise<void> | undefined

/** Opens a Prisma client over a connection pool. */
export function openDatabase(url: string, options: PoolOptions): Database {
  const adapter = new PrismaPg(openPool(url, options), { disposeExternalPool: true })
  return new PrismaClient({ adapter, transactionOptions: { maxWait: 5_000, timeout: 15_000 } })
}

/** True if Postgres cancelled a statement at its timeout. */
export function isStatementTimeout(error: unknown): boolean {
  return sqlStateOf(error) === '57014'
}
