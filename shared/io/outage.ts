import { GatewayError } from '../base/errors.ts'

/** Prisma's codes for a database that cannot be reached, is too slow to be reached, or hung up. */
const prismaCodes = new Set(['P1001', 'P1002', 'P1008', 'P1017', 'P2024', 'P2037'])
const networkCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
])
/** What ioredis and pg say in words only. */
const words =
  /^(Connection is closed|Stream isn't writeable|Command timed out|LOADING |Connection terminated|timeout exceeded when trying to connect)/

/** True for an error that says Redis or Postgres is away, not that the request or the code is at fault. */
export function isOutage(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { code } = error as { code?: unknown }
  if (typeof code === 'string' && (prismaCodes.has(code) || networkCodes.has(code))) return true
  return error.name === 'MaxRetriesPerRequestError' || words.test(error.message)
}

/** 503: a store is away. */
export function unavailable(cause: unknown): GatewayError {
  return new GatewayError('service_unavailable', 'The gateway cannot reach its store. Try again shortly.', {
    headers: { 'retry-after': '1' },
    cause,
  })
}
