import { randomBytes } from 'node:crypto'
import { GatewayError } from '../base/errors.ts'
import type { Organisation } from '../generated/prisma/client.ts'
import type { Database } from '../io/db.ts'
import { type Actor, audit } from './audit.ts'

const overlapMs = 24 * 3_600_000

type SecretColumns = Pick<Organisation, 'webhookSecret' | 'previousWebhookSecret' | 'webhookSecretRotatedAt'>
export type WebhookSecrets = { secret: string; previous: string | null; previousUntil: Date | null }

/** An organisation's signing secrets, newest first; the first one is made on first use. Throws 404. */
export async function webhookSecrets(db: Database, organisationId: string, nowMs: number): Promise<WebhookSecrets> {
  await db.organisation.updateMany({
    where: { id: organisationId, webhookSecret: null },
    data: { webhookSecret: newWebhookSecret() },
  })
  const row = await db.organisation.findUnique({ where: { id: organisationId } })
  if (!row) throw new GatewayError('not_found', `There is no organisation ${organisationId}.`)
  return inForce(row, nowMs)
}

/** What signs each organisation's webhooks now, newest first. Throws 404 for an organisation that is not there. */
export async function signingSecrets(
  db: Database,
  organisationIds: string[],
  nowMs: number,
): Promise<Map<string, string[]>> {
  const rows = await db.organisation.findMany({ where: { id: { in: organisationIds } } })
  const known = new Map(rows.filter(row => row.webhookSecret !== null).map(row => [row.id, inForce(row, nowMs)]))
  const secrets = new Map<string, string[]>()
  for (const id of organisationIds) {
    const { secret, previous } = known.get(id) ?? (await webhookSecrets(db, id, nowMs))
    secrets.set(id, previous === null ? [secret] : [secret, previous])
  }
  return secrets
}

function inForce(row: SecretColumns, nowMs: number): WebhookSecrets {
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
  actor: Actor,
  nowMs: number,
): Promise<WebhookSecrets> {
  const { secret } = await webhookSecrets(db, organisationId, nowMs)
  const data = {
    webhookSecret: newWebhookSecret(),
    previousWebhookSecret: secret,
    webhookSecretRotatedAt: new Date(nowMs),
  }
  await db.$transaction(async tx => {
    const where = { id: organisationId, webhookSecret: secret }
    const { count } = await tx.organisation.updateMany({ where, data })
    if (count === 1) await audit(tx, { organisationId, actor, action: 'webhook_secret.rotated' })
  })
  return webhookSecrets(db, organisationId, nowMs)
}

function newWebhookSecret(): string {
  return `whsec_${randomBytes(24).toString('base64')}`
}
