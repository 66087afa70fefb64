import { GatewayError } from '../../../shared/base/errors.ts'
import { type Connection, type Database, isStatementTimeout } from '../../../shared/io/db.ts'
import { gate } from '../../../shared/io/gate.ts'

/** Each search keeps a connection for seconds, and there are few: what keys ask for must not wait for what people look up. */
const searching = gate(3)

/** Searches for so long, and no longer, few at a time. Throws 400 naming `param`, which makes it shorter, where that is not enough. */
export async function within<T>(
  db: Database,
  { ms, param }: { ms: number; param: string },
  read: (tx: Connection) => Promise<T>,
): Promise<T> {
  try {
    return await searching(() =>
      db.$transaction(async tx => {
        await tx.$executeRawUnsafe(`SET LOCAL statement_timeout = ${ms}`)
        return read(tx)
      }),
    )
  } catch (error) {
    if (!isStatementTimeout(error)) throw error
    const message = 'This search takes too long. Choose a shorter time.'
    throw new GatewayError('invalid_request', message, { param, cause: error })
  }
}
