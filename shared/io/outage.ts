import { GatewayError } from '../base/errors.ts'

/**
 * Errors that mean a store is unavailable, read-only, full or overloaded. Every other error is a fault of the request
 * or of our code. There is one table because every route must classify errors alike.
 */

/** Classes and codes of PostgreSQL (SQLSTATE): https://www.postgresql.org/docs/current/errcodes-appendix.html */
const sqlStates = new RegExp(
  `^(?:${[
    '08...', // connection exceptions
    '53...', // insufficient resources: disk full, out of memory, too many connections
    '57P0.', // shut down, crashed, starting up, database dropped, idle too long
    '58...', // system errors: I/O, missing files
    '28...', // our credentials are refused
    '3D000', // the database does not exist
    '25006', // read-only: a replica, or `default_transaction_read_only`
    '25P0[34]', // a transaction was idle, or lasted, too long
    '57014', // statement timeout
    '55P03', // lock not available
    '40001', // serialization failure
    '40P01', // deadlock
  ].join('|')})$`,
)

/**
 * Severities with which PostgreSQL, or a pooler before it, ends a session or does not begin it, whatever the code: poolers of services say
 * XX000 when they are full (https://www.postgresql.org/docs/current/runtime-config-logging.html#RUNTIME-CONFIG-SEVERITY-LEVELS).
 */
const sessionEnds: ReadonlySet<unknown> = new Set(['FATAL', 'PANIC'])

/** Codes of Prisma (https://www.prisma.io/docs/orm/reference/error-reference) that mean the same without an SQLSTATE. */
const prismaCodes = new Set([
  'P1000', // our credentials are refused
  'P1001', // unreachable
  'P1002', // reached, but timed out
  'P1003', // the database does not exist
  'P1008', // timed out
  'P1010', // access denied
  'P1011', // TLS failed
  'P1017', // the server closed the connection
  'P2024', // no connection of the pool in time
  'P2028', // no transaction in time, or it lasted too long
  'P2034', // write conflict or deadlock
  'P2037', // too many connections
])

/** Prisma adapter errors that mean the same where PostgreSQL gave no SQLSTATE. */
const adapterKinds = new Set([
  'DatabaseNotReachable',
  'ConnectionClosed',
  'SocketTimeout',
  'TooManyConnections',
  'TransactionWriteConflict',
])

/** Error codes of sockets and of the file system that holds files. */
const systemCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EACCES',
  'EPERM',
  'ENOSPC',
  'EFBIG',
  'EDQUOT',
  'EROFS',
  'EMFILE',
  'ENFILE',
  'EIO',
  'ESTALE',
])

/** First words of Redis error replies. For a script's command, older servers put them after the script's location. */
const redisReplies = [
  'READONLY', // a replica: the primary has moved
  'NOREPLICAS', // too few replicas are in reach for a write
  'MISCONF', // snapshots fail, so writes are refused
  'OOM', // maxmemory is reached
  'EXECABORT', // a command of the transaction was rejected
  'LOADING',
  'BUSY', // a script runs too long
  'CLUSTERDOWN',
  'MASTERDOWN',
  'TRYAGAIN',
  'MOVED',
  'ASK',
  'CROSSSLOT',
  'UNBLOCKED', // the server became a replica during a blocking command
  'NOAUTH',
  'WRONGPASS',
  'NOPERM',
]
const words = new RegExp(
  [
    `^(?:.*@user_script[^-]*-)?(?:${redisReplies.join('|')})\\b`,
    '^(?:ERR )?Script attempted to access a non local key', // Redis Cluster
    // Errors of ioredis and BullMQ that have only a message.
    '^Connection is closed',
    "^Stream isn't writeable",
    '^Command timed out',
    '^Blocking command timed out',
    '^Socket timeout',
    '^Command aborted due to connection close',
    '^All sentinels are unreachable',
    '^Cluster (?:isn.t ready|is (?:ended|disconnect))',
    '^Too many Cluster redirections',
    '^None of startup nodes is available',
    '^Failed to refresh slots cache',
    '^No subscriber for the cluster',
    // Errors of pg that have only a message.
    '^Connection terminated',
    '^timeout exceeded when trying to connect',
    '^Query read timeout',
    '^Client (?:has encountered a connection error|was closed) and is not queryable',
  ].join('|'),
)

/** A file storage request that was rejected or not answered, where the error itself has no code. */
export class StorageError extends Error {
  override name = 'StorageError'
}

/**
 * True for an error that means a store is unavailable, read-only, full or too slow, not that the request or the code is
 * at fault.
 */
export function isOutage(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (error instanceof StorageError || error.name === 'MaxRetriesPerRequestError') return true
  const { code, errorCode, severity } = error as { code?: unknown; errorCode?: unknown; severity?: unknown }
  if (sessionEnds.has(severity ?? adapterErrorOf(error)?.cause?.severity)) return true
  if (adapterKinds.has(adapterErrorOf(error)?.cause?.kind ?? '')) return true
  const known = [code, errorCode, sqlStateOf(error)].filter(it => typeof it === 'string')
  if (known.some(it => prismaCodes.has(it) || systemCodes.has(it) || sqlStates.test(it))) return true
  return words.test(error.message)
}

type AdapterError = { cause?: { originalCode?: string; kind?: string; severity?: string } }

/** The SQLSTATE of a PostgreSQL error wrapped by Prisma, or thrown by its adapter at the end of a transaction. */
export function sqlStateOf(error: unknown): string | undefined {
  return adapterErrorOf(error)?.cause?.originalCode
}

function adapterErrorOf(error: unknown): AdapterError | undefined {
  const { name, meta } = (error ?? {}) as { name?: string; meta?: { driverAdapterError?: AdapterError } }
  return name === 'DriverAdapterError' ? (error as AdapterError) : meta?.driverAdapterError
}

/**
 * True when the data itself cannot be stored, so that no later try can succeed: what Prisma cannot send, or PostgreSQL does not
 * take (SQLSTATE class 22).
 */
export function isUnstorable(error: unknown): boolean {
  if (!(error instanceof Error) || isOutage(error)) return false
  const isUnsendable = error.name === 'PrismaClientValidationError' || error.name === 'PrismaClientUnknownRequestError'
  return isUnsendable || sqlStateOf(error)?.startsWith('22') === true
}

/** The 503 for an unavailable store. */
export function storeUnavailable(cause: unknown): GatewayError {
  return new GatewayError('service_unavailable', 'The gateway cannot reach its store. Try again shortly.', {
    headers: { 'retry-after': '1' },
    cause,
  })
}
