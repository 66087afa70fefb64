import type { Callback } from '../contract.ts'
import { at } from '../fields.ts'
import { header, isFresh, isHmac } from '../signatures.ts'

/**
 * Events of an endpoint registered with the account: `Heygen-Signature` is the hex HMAC-SHA256 of the body with the
 * endpoint's secret. `Heygen-Timestamp`, where there is one, is not part of what is signed; old ones are refused all the same.
 */
export async function verify({ headers, raw, nowMs, secret }: Callback): Promise<boolean> {
  const signature = header(headers, 'heygen-signature')
  if (!secret || signature === null) return false
  if (headers['heygen-timestamp'] !== undefined && !isFresh(header(headers, 'heygen-timestamp') ?? '', nowMs))
    return false
  return isHmac(signature.toLowerCase(), 'hex', secret, raw)
}

/** The job that an event is about: it was created with the job's id as `callback_id`. */
export function callbackJobId(json: unknown): string | null {
  const id = at(json, 'event_data.callback_id')
  return typeof id === 'string' ? id : null
}
