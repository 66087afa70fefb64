import type { ProviderCallback } from '../../contract.ts'
import { header, isFresh, isHmac } from '../../toolkit/callback-signatures.ts'
import { valueAt } from '../../toolkit/json-fields.ts'

/**
 * Events of an endpoint registered with the account: `Heygen-Signature` is the hex HMAC-SHA256 of the body with the
 * endpoint's secret. `Heygen-Timestamp` is optional and not signed; stale ones are rejected nevertheless.
 */
export async function verify({ headers, raw, nowMs, secret }: ProviderCallback): Promise<boolean> {
  const signature = header(headers, 'heygen-signature')
  if (!secret || signature === null) return false
  if (headers['heygen-timestamp'] !== undefined && !isFresh(header(headers, 'heygen-timestamp') ?? '', nowMs))
    return false
  return isHmac(signature.toLowerCase(), 'hex', secret, raw)
}

/** The job of an event: it was created with the job's id as `callback_id`. */
export function callbackJobId(json: unknown): string | null {
  const id = valueAt(json, 'event_data.callback_id')
  return typeof id === 'string' ? id : null
}
