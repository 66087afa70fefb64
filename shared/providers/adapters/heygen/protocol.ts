import type { Protocol, ProviderCallback } from '../../contract.ts'
import { header, isFresh, isHmac } from '../../toolkit/callback-signatures.ts'
import { valueAt } from '../../toolkit/json-fields.ts'
import { catalog } from './catalog.ts'
import { failure } from './failure.ts'
import { avatar, lipsync } from './videos.ts'

/**
 * HeyGen's API v3 (developers.heygen.com; schemas in github.com/heygen-com/heygen-cli). An avatar row's upstream model
 * is the engine (`avatar_iv`, `avatar_iii`); it is omitted with a custom picture, which has no choice of engine. A
 * lip-sync deployment's trait `mode` is `speed` or `precision`.
 */
export const heygen: Protocol = {
  direct: {},
  queued: { avatar, lipsync },
  verify,
  callbackJobId,
  catalog,
  credentialCheck: () => ({ path: '/v3/users/me' }),
  failure,
}

/**
 * Events of an endpoint registered with the account: `Heygen-Signature` is the hex HMAC-SHA256 of the body with the
 * endpoint's secret. `Heygen-Timestamp` is optional and not signed; stale ones are rejected nevertheless.
 */
async function verify({ headers, raw, nowMs, secret }: ProviderCallback): Promise<boolean> {
  const signature = header(headers, 'heygen-signature')
  if (!secret || signature === null) return false
  if (headers['heygen-timestamp'] !== undefined && !isFresh(header(headers, 'heygen-timestamp') ?? '', nowMs))
    return false
  return isHmac(signature.toLowerCase(), 'hex', secret, raw)
}

/** The job of an event: it was created with the job's id as `callback_id`. */
function callbackJobId(json: unknown): string | null {
  const id = valueAt(json, 'event_data.callback_id')
  return typeof id === 'string' ? id : null
}
