import { GatewayError } from '../base/errors.ts'

/** How long the caller is willing to wait, in milliseconds; absent = as long as the gateway. */
export type CallerTimeouts = {
  /** From the beginning of the request to the end of its answer. */
  totalMs?: number
  /** For each call to a provider: to the first token of a stream, or to a whole answer. */
  firstTokenMs?: number
}

/** The header by which a caller says how long it waits. */
export const timeoutName = 'x-gateway-timeout-ms'
const timeoutValue = /^(\d{1,8})?\s*(?:;\s*first-token=(\d{1,8}))?$/

export type TimedBody = {
  provider?: { timeout_ms?: number | { total?: number | undefined; first_token?: number | undefined } | undefined }
}

/**
 * The timeouts of a request in its header and in `provider.timeout_ms`, at most those of the gateway; null if it has none. Throws
 * 400.
 */
export function readTimeouts(sent: string | undefined, body: object, maxMs: number): CallerTimeouts | null {
  const given = (body as TimedBody).provider?.timeout_ms
  if (sent === undefined && given === undefined) return null
  const [, total, firstToken] = sent === undefined ? [] : (timeoutValue.exec(sent.trim()) ?? [])
  const times = [total, firstToken].map(text => (text === undefined ? undefined : Number(text)))
  if (sent !== undefined && (times.every(time => time === undefined) || times.includes(0)))
    throw new GatewayError(
      'invalid_request',
      `${timeoutName} must be milliseconds such as \`30000\`, or \`30000; first-token=5000\`.`,
      { param: timeoutName },
    )
  const inBody = typeof given === 'number' ? { total: given } : (given ?? {})
  const shortest = (a: number | undefined, b: number | undefined) =>
    a === undefined && b === undefined ? undefined : Math.min(a ?? maxMs, b ?? maxMs, maxMs)
  const totalMs = shortest(times[0], inBody.total)
  const firstTokenMs = shortest(times[1], inBody.first_token)
  return { ...(totalMs !== undefined && { totalMs }), ...(firstTokenMs !== undefined && { firstTokenMs }) }
}

/** The field of a caller's own timeouts. */
export const timeoutParam = 'provider.timeout_ms'

/** The error of a request that has reached its own timeout. */
export function timeoutReached(totalMs: number): GatewayError {
  const message = `The request took longer than its own timeout of ${totalMs} ms.`
  return new GatewayError('upstream_timeout', message, { param: timeoutParam })
}

/** Whether a request ended by its own timeout: it is not made again. */
export function isOwnTimeout({ code, param }: GatewayError): boolean {
  return code === 'upstream_timeout' && param === timeoutParam
}
