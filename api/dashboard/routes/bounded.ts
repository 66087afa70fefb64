import { GatewayError } from '../../../shared/base/errors.ts'
import { type Connection, type Database, isStatementTimeout } from '../../../shared/io/db.ts'

/** Searches for so long, and no longer. Throws 400 naming `param`, which makes it shorter, where that is not enough. */
export async function within<T>(
  db: Database,
  { ms, param }: { ms: number; param: string },
  read: (tx: Connection) => Promise<T>,
): Promise<T> {
  try {
    return await db.$transaction(async tx => {
      await tx.$executeRawUnsafe(`SET LOCAL statement_timeout = ${ms}`)
      return read(tx)
    })
  } catch (error) {
    if (!isStatementTimeout(error)) throw error
    const message = 'This search takes too long. Choose a shorter time.'
    throw new GatewayError('invalid_request', message, { param, cause: error })
  }
}
