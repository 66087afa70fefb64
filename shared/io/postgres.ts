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
  const used = new WeakSet<pg.PoolClient>()
  pool.on('acquire', client => void used.add(client))
  pool.on('release', (_error, client) => void used.delete(client))
  pool.on('connect', client => {
    // Whatever breaks a connection fails the statement under way, too. Without this listener it would be an uncaught error
    // while the connection is between the pool and its user.
    client.on('error', ignore)
    const { stream } = (client as unknown as { connection: { stream: Socket } }).connection
    stream.setTimeout(statementTimeoutMs + silenceLeewayMs, () => {
      if (used.has(client)) stream.destroy(silent())
    })
  })
  return pool
}

function silent(): Error {
  return Object.assign(new Error('PostgreSQL fell silent'), { code: 'ETIMEDOUT' })
}

function ignore(): void {}
