import type { Socket } from 'node:net'
import pg from 'pg'

export type PoolOptions = {
  connections: number
  /** The longest a statement may take, unless it says otherwise itself. */
  statementTimeoutMs: number
}

/** A statement that ran out of time is answered a moment later: a server that says nothing for longer does not run it. */
const silenceLeewayMs = 1_000
/** How long a connection is waited for, whether it must be opened or another request must give it back. */
const connectTimeoutMs = 4_000
const idleTimeoutMs = 30_000
const keepAliveAfterMs = 10_000

/**
 * A pool of connections to PostgreSQL of which every wait is bounded and no failure ends the process: a server that restarts
 * says so to all its connections at any time, also in the moment between two of their users, and one that froze or vanished
 * says nothing at all. Close it with `end`.
 */
export function openPool(url: string, { connections, statementTimeoutMs }: PoolOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max: connections,
    connectionTimeoutMillis: connectTimeoutMs,
    idleTimeoutMillis: idleTimeoutMs,
    statement_timeout: statementTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveAfterMs,
  })
  // An idle connection that broke has left the pool already.
  pool.on('error', ignore)
  const idle = new Set<pg.PoolClient>()
  pool.on('connect', client => {
    // Whatever breaks a connection fails the statement under way, too. Without this listener it would be an uncaught error
    // while the connection is between the pool and its user.
    client.on('error', ignore)
    const stream = streamOf(client)
    stream.on('timeout', () => {
      stream.destroy(silent())
      // Those that are idle most likely lead to the same dead server, and would each cost a request its time.
      for (const other of idle) streamOf(other).destroy(silent())
    })
  })
  // Silence counts while a connection is used. Armed anew each time: a timer of a socket that has run out stays so.
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

function streamOf(client: pg.PoolClient): Socket {
  return (client as unknown as { connection: { stream: Socket } }).connection.stream
}

function silent(): Error {
  return Object.assign(new Error('PostgreSQL fell silent'), { code: 'ETIMEDOUT' })
}

function ignore(): void {}
