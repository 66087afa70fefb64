import type { Socket } from 'node:net'
import pg from 'pg'

export type PoolOptions = {
  connections: number
  /** Default statement timeout. */
  statementTimeoutMs: number
  /**
   * Whether the server is a pooler in transaction mode, which refuses start-up parameters: then the statement timeout is
   * applied on our side alone, by closing the connection, and the pooler ends the transactions of a process that vanished.
   */
  pooler?: boolean
  /** Maximum wait for a connection, new or released by another request; default 4 s. */
  connectTimeoutMs?: number | undefined
}

/** After a statement timeout the server still replies; if it stays silent for this much longer, it is dead. */
const silenceLeewayMs = 1_000
const defaultConnectTimeoutMs = 4_000
const idleTimeoutMs = 30_000
/**
 * PostgreSQL ends a transaction that waits for its next statement for longer, and with it the locks of a process that vanished without
 * closing its connections. No transaction of a process that is alive lasts as long (`transactionOptions` in db.ts).
 */
const idleTransactionMs = 20_000
const keepAliveAfterMs = 10_000

/**
 * Opens a PostgreSQL connection pool in which every wait is bounded and no failure ends the process: a restarting
 * server notifies all connections at any time, even between two users of a connection, and a frozen or vanished server
 * sends nothing at all. Sessions are in UTC, whatever the server's time zone is: Prisma's adapter reads and writes
 * times without their offset. Close it with `end`.
 */
export function openPool(url: string, options: PoolOptions): pg.Pool {
  const { connections, statementTimeoutMs, pooler = false, connectTimeoutMs = defaultConnectTimeoutMs } = options
  const pool = new pg.Pool({
    connectionString: url,
    max: connections,
    connectionTimeoutMillis: connectTimeoutMs,
    idleTimeoutMillis: idleTimeoutMs,
    ...(!pooler && {
      statement_timeout: statementTimeoutMs,
      idle_in_transaction_session_timeout: idleTransactionMs,
    }),
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveAfterMs,
    onConnect: client => prepareSession(client as pg.PoolClient, connectTimeoutMs),
  })
  // A broken idle connection has already left the pool.
  pool.on('error', ignore)
  const idle = new Set<pg.PoolClient>()
  pool.on('connect', client => {
    // Idle connections most likely lead to the same dead server; each would cost a request its timeout.
    streamOf(client).on('timeout', () => {
      for (const other of idle) streamOf(other).destroy(silenceError())
    })
  })
  // The timeout applies while a connection is in use. It is set on each acquire: an expired socket timer does not
  // restart.
  pool.on('acquire', client => {
    idle.delete(client)
    streamOf(client).setTimeout(statementTimeoutMs + silenceLeewayMs)
  })
  pool.on('release', (_error, client) => {
    idle.add(client)
    streamOf(client).setTimeout(0)
  })
  pool.on('remove', client => void idle.delete(client))
  return pool
}

/**
 * Prepares a new connection before its first user. A statement, unlike a start-up parameter, is accepted by poolers in
 * transaction mode too; PgBouncer restores the time zone of each client.
 */
async function prepareSession(client: pg.PoolClient, connectTimeoutMs: number): Promise<void> {
  // A connection error also fails the running statement. Without this listener it would be an uncaught error while
  // the connection is between the pool and its user.
  client.on('error', ignore)
  const stream = streamOf(client)
  stream.on('timeout', () => stream.destroy(silenceError()))
  stream.setTimeout(connectTimeoutMs)
  await client.query("SET TIME ZONE 'UTC'")
}

function streamOf(client: pg.PoolClient): Socket {
  return (client as unknown as { connection: { stream: Socket } }).connection.stream
}

function silenceError(): Error {
  return Object.assign(new Error('PostgreSQL fell silent'), { code: 'ETIMEDOUT' })
}

function ignore(): void {}
