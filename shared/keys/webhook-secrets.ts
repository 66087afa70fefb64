import { randomBytes } from 'node:crypto'
import { GatewayError } from '../base/errors.ts'
import type { Database } from '../io/db.ts'

const overlapMs = 24 * 3_600_000

export type WebhookSecrets = { secret: string; previous: string | null; previousUntil: Date | null }

/** An organisation's signing secrets, newest first; the first one is made on first use. Throws 404. */
export async function webhookSecrets(db: Database, organisationId: string, nowMs: number): Promise<WebhookSecrets> {
  await db.organisation.updateMany({
    where: { id: organisationId, webhookSecret: null },
    data: { webhookSecret: newWebhookSecret() },
  })
  const row = await db.organisation.findUnique({ where: { id: organisationId } })
  if (!row) throw new GatewayError('not_found', `There is no organisation ${organisationId}.`)
  const until = row.webhookSecretRotatedAt && new Date(row.webhookSecretRotatedAt.getTime() + overlapMs)
  const overlapping = until !== null && until.getTime() > nowMs
  return {
    secret: row.webhookSecret!,
    previous: overlapping ? row.previousWebhookSecret : null,
    previousUntil: overlapping ? until : null,
  }
}

/** Replaces the secret; the old one keeps signing beside the new one for 24 hours (contract §8). */
export async function rotateWebhookSecret(
  db: Database,
  organisationId: string,
  nowMs: number,
): Promise<WebhookSecrets> {
  const { secret } = await webhookSecrets(db, organisationId, nowMs)
  await db.organisation.updateMany({
    where: { id: organisationId, webhookSecret: secret },
    data: { webhookSecret: newWebhookSecret(), previousWebhookSecret: secret, webhookSecretRotatedAt: new Date(nowMs) },
  })
  return webhookSecrets(db, organisationId, nowMs)
}

function newWebhookSecret(): string {
  return `whsec_${randomBytes(24).toString('base64')}`
}
