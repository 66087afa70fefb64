import { GatewayError } from '../../../shared/base/errors.ts'
import { type Connection, type Database, isStatementTimeout } from '../../../shared/io/db.ts'
import { semaphore } from '../../../shared/io/semaphore.ts'

/**
 * Each search occupies a connection for seconds, and there are few: API requests must not wait for dashboard searches.
 */
const withSearchSlot = semaphore(3)

/**
 * Runs a search with a time limit for each statement and limited concurrency; with `isOneInstant`, all its statements
 * read the same snapshot. Throws 400 naming `param`, which narrows the search, on timeout.
 */
export async function runSearch<T>(
  db: Database,
  { ms, param }: { ms: number; param: string },
  read: (tx: Connection) => Promise<T>,
  { isOneInstant = false } = {},
): Promise<T> {
  try {
    return await withSearchSlot(() =>
      db.$transaction(async tx => {
        if (isOneInstant) await tx.$executeRawUnsafe('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ')
        await tx.$executeRawUnsafe(`SET LOCAL statement_timeout = ${ms}`)
        return read(tx)
      }),
    )
  } catch (error) {
    if (!isStatementTimeout(error)) throw error
    const message = 'This search takes too long. Choose a shorter time range.'
    throw new GatewayError('invalid_request', message, { param, cause: error })
  }
}
