import { createHmac } from 'node:crypto'

/**
 * The `webhook-signature` of a message by Standard Webhooks: one `v1,<base64 HMAC-SHA256>` per secret, separated by
 * spaces. `secrets` are `whsec_` and the key's bytes in base64; `timestampS` is the header's Unix time.
 */
export function webhookSignature(secrets: readonly string[], id: string, timestampS: number, body: string): string {
  const content = `${id}.${timestampS}.${body}`
  return secrets
    .map(secret => Buffer.from(secret.replace(/^whsec_/, ''), 'base64'))
    .map(key => `v1,${createHmac('sha256', key).update(content).digest('base64')}`)
    .join(' ')
}
