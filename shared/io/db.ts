import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaClient } from '../generated/prisma/client.ts'
import { sqlStateOf } from './outage.ts'
import { openPool, type PoolOptions } from './postgres.ts'

export type Database = PrismaClient
/** A database handle inside or outside a transaction. */
export type Connection = Omit<PrismaClient, '$connect' | '$disconnect' | '$on' | '$transaction' | '$extends'>

/** Writes something in the transaction that creates a row: both are there, or neither. */
export type Beside<Row> = (tx: Connection, row: Row) => Promise<void> | undefined

/** A Prisma client over a pool of connections. */
export function openDatabase(url: string, options: PoolOptions): Database {
  const adapter = new PrismaPg(openPool(url, options), { disposeExternalPool: true })
  return new PrismaClient({ adapter, transactionOptions: { maxWait: 5_000, timeout: 15_000 } })
}

/** True when Postgres refused because a unique value exists already. */
export function isUniqueViolation(error: unknown): boolean {
  return (error as { code?: string })?.code === 'P2002'
}

/** True when Postgres gave a statement up because it took longer than it was given. */
export function isStatementTimeout(error: unknown): boolean {
  return sqlStateOf(error) === '57014'
}
