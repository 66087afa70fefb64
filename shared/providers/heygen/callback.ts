import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Callback } from '../contract.ts'
import { at } from '../fields.ts'

const toleranceSeconds = 300

/**
 * Events of an endpoint registered with the account: `Heygen-Signature` is the hex HMAC-SHA256 of the body with the
 * endpoint's secret. `Heygen-Timestamp`, where there is one, is not part of what is signed; old ones are refused all the same.
 */
export async function verify({ headers, raw, nowMs, secret }: Callback): Promise<boolean> {
  const signature = headers['heygen-signature']
  if (!secret || typeof signature !== 'string' || !/^[0-9a-f]{64}$/i.test(signature)) return false
  const sentAt = headers['heygen-timestamp']
  if (sentAt !== undefined && !(Math.abs(nowMs / 1000 - Number(sentAt)) <= toleranceSeconds)) return false
  const expected = createHmac('sha256', secret).update(raw).digest()
  return timingSafeEqual(Buffer.from(signature, 'hex'), expected)
}

/** The job that an event is about: it was created with the job's id as `callback_id`. */
export function callbackJobId(json: unknown): string | null {
  const id = at(json, 'event_data.callback_id')
  return typeof id === 'string' ? id : null
}
