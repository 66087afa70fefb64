import { createHmac } from 'node:crypto'
import { isEqual } from '../../base/is-equal.ts'
import type { Headers } from './json-fields.ts'

/** Verifies the signatures of callbacks. */

/** Maximum age of a signed callback, and tolerated clock skew. */
const toleranceS = 300

/** A header that occurs exactly once. */
export function header(headers: Headers, name: string): string | null {
  const value = headers[name]
  return typeof value === 'string' && value !== '' ? value : null
}

/** Whether a header's Unix time in seconds is within the tolerance of now. */
export function isFresh(timestampS: string, nowMs: number): boolean {
  return /^\d{1,12}$/.test(timestampS) && Math.abs(nowMs / 1000 - Number(timestampS)) <= toleranceS
}

/** Whether a signature is the HMAC-SHA256 of these parts; compared in constant time. */
export function isHmac(
  signature: string,
  encoding: 'hex' | 'base64',
  key: string | Buffer,
  ...parts: (string | Buffer)[]
): boolean {
  const hmac = createHmac('sha256', key)
  for (const part of parts) hmac.update(part)
  return isEqual(signature, hmac.digest(encoding))
}

/** Standard Webhooks (`webhook-id`, `webhook-timestamp`, `webhook-signature`) with a secret `whsec_<base64>`. */
export function isStandardWebhook(headers: Headers, raw: Buffer, secret: string, nowMs: number): boolean {
  const id = header(headers, 'webhook-id')
  const timestamp = header(headers, 'webhook-timestamp')
  const signatures = header(headers, 'webhook-signature')
  if (!id || !timestamp || !signatures || !isFresh(timestamp, nowMs)) return false
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  return signatures
    .slice(0, maxHeader)
    .split(' ')
    .some(one => one.startsWith('v1,') && isHmac(one.slice(3), 'base64', key, `${id}.${timestamp}.`, raw))
}

const maxHeader = 2_000
