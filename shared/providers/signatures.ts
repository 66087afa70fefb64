import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Headers } from './fields.ts'

/** How callbacks are proven to be a provider's own. */

/** How old a signed callback may be, and how far the provider's clock may be off. */
const toleranceS = 300

/** A header that came once. */
export function header(headers: Headers, name: string): string | null {
  const value = headers[name]
  return typeof value === 'string' && value !== '' ? value : null
}

/** Whether a Unix time in seconds, as a header has it, is near enough to now. */
export function isFresh(timestampS: string, nowMs: number): boolean {
  return /^\d{1,12}$/.test(timestampS) && Math.abs(nowMs / 1000 - Number(timestampS)) <= toleranceS
}

/** Whether a signature is the HMAC-SHA256 of these parts; how long it takes tells nothing. */
export function isHmac(
  signature: string,
  encoding: 'hex' | 'base64',
  key: string | Buffer,
  ...parts: (string | Buffer)[]
): boolean {
  const hmac = createHmac('sha256', key)
  for (const part of parts) hmac.update(part)
  const expected = Buffer.from(hmac.digest(encoding))
  const given = Buffer.from(signature)
  return given.length === expected.length && timingSafeEqual(given, expected)
}

/** Standard Webhooks (`webhook-id`, `webhook-timestamp`, `webhook-signature`) with a secret `whsec_<base64>`. */
export function isStandardWebhook(headers: Headers, raw: Buffer, secret: string, nowMs: number): boolean {
  const id = header(headers, 'webhook-id')
  const timestamp = header(headers, 'webhook-timestamp')
  const signatures = header(headers, 'webhook-signature')
  if (!id || !timestamp || !signatures || !isFresh(timestamp, nowMs)) return false
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  return signatures
    .slice(0, longestHeader)
    .split(' ')
    .some(one => one.startsWith('v1,') && isHmac(one.slice(3), 'base64', key, `${id}.${timestamp}.`, raw))
}

const longestHeader = 2_000
