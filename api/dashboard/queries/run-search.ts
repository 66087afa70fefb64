import { GatewayError } from '../../../shared/base/errors.ts'
import { type Connection, type Database, isStatementTimeout } from '../../../shared/io/db.ts'
import { FairSlots, type SlotOwner } from '../../../shared/io/fair-slots.ts'

/**
 * Each search occupies a connection for seconds, and there are few: API requests must not wait for dashboard searches. Organisations
 * get their turn: the searches of one do not keep those of others from being made.
 */
const slots = new FairSlots({ slots: 3, testSlots: 3 })

/** Whose turn a search or an export is: an organisation's, or that of the operators. */
export function slotOwner(organisationId: string | null): SlotOwner {
  return { organisationId: organisationId ?? '', environment: 'live' }
}

/**
 * Runs a search of an organisation, of operators if null, with a time limit for each statement and limited concurrency; with
 * `isOneInstant`, all its statements read the same snapshot. `byIndex` is for the request log: PostgreSQL overestimates what an index by
 * time costs, and would read the partition of a whole month in place of some hours. Throws 400 naming `param`, which narrows the search,
 * on timeout.
 */
export async function runSearch<T>(
  db: Database,
  { ms, param }: { ms: number; param: string },
  organisationId: string | null,
  read: (tx: Connection) => Promise<T>,
  { isOneInstant = false, byIndex = false } = {},
): Promise<T> {
  try {
    return await slots.runInTurn(slotOwner(organisationId), () =>
      db.$transaction(async tx => {
        if (isOneInstant) await tx.$executeRawUnsafe('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ')
        await tx.$executeRawUnsafe(`SET LOCAL statement_timeout = ${ms}`)
        if (byIndex) await preferIndexes(tx)
        return read(tx)
      }),
    )
  } catch (error) {
    if (!isStatementTimeout(error)) throw error
    const message = 'This search takes too long. Choose a shorter time range.'
    throw new GatewayError('invalid_request', message, { param, cause: error })
  }
}

/** Before PostgreSQL 18, a scan that has no index then counts as so expensive that its query would be compiled, which takes longer than it. */
async function preferIndexes(tx: Connection): Promise<void> {
  await tx.$queryRaw`SELECT set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)`
}
