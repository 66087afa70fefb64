import { createHmac, randomBytes } from 'node:crypto'
import { GatewayError } from '../base/errors.ts'
import { dayMs } from '../base/time.ts'
import type { Organisation } from '../generated/prisma/client.ts'
import { type Actor, audit } from '../io/audit.ts'
import type { Database } from '../io/db.ts'
import type { Sealer } from '../io/sealer.ts'

const overlapMs = dayMs

/** The database with the secrets, and the sealer that decrypts them. */
type WebhookSecretStore = { db: Database; sealer: Sealer }
type SecretRow = Pick<Organisation, 'id' | 'webhookSecret' | 'previousWebhookSecret' | 'webhookSecretRotatedAt'>
/** Stored secrets, encrypted; `previous` also signs for 24 hours after `rotatedAt`. */
export type SecretPair = { secret: string; previous: string | null; rotatedAt: Date | null }
export type WebhookSecrets = { secret: string; previous: string | null; previousUntil: Date | null }

const placeOf = (organisationId: string) => `organisations.webhook_secret:${organisationId}`

/** An organisation's signing secrets, newest first; creates the first one on first use. Throws 404. */
export async function getWebhookSecrets(
  store: WebhookSecretStore,
  organisationId: string,
  nowMs: number,
): Promise<WebhookSecrets> {
  return secretsOf(store, await getOrCreateRow(store, organisationId), nowMs)
}

/** Secrets to sign with, newest first, as they are needed: those of others are of use if these cannot be decrypted (503). */
export type SigningSecrets = () => string[]

/** The secrets that sign each organisation's webhooks now. Throws 404 for an unknown organisation. */
export async function listSigningSecrets(
  store: WebhookSecretStore,
  organisationIds: string[],
  nowMs: number,
): Promise<Map<string, SigningSecrets>> {
  const where = { id: { in: organisationIds }, webhookSecret: { not: null } }
  const existing = new Map((await store.db.organisation.findMany({ where })).map(row => [row.id, row]))
  const secrets = new Map<string, SigningSecrets>()
  for (const id of organisationIds) {
    const row = existing.get(id) ?? (await getOrCreateRow(store, id))
    secrets.set(id, () => newestFirst(secretsOf(store, row, nowMs)))
  }
  return secrets
}

async function getOrCreateRow({ db, sealer }: WebhookSecretStore, organisationId: string): Promise<SecretRow> {
  await db.organisation.updateMany({
    where: { id: organisationId, webhookSecret: null },
    data: { webhookSecret: newWebhookSecret(sealer, organisationId) },
  })
  const row = await db.organisation.findUnique({ where: { id: organisationId } })
  if (!row) throw new GatewayError('not_found', `There is no organisation ${organisationId}.`)
  return row
}

function secretsOf({ sealer }: WebhookSecretStore, row: SecretRow, nowMs: number): WebhookSecrets {
  const { webhookSecret, previousWebhookSecret: previous, webhookSecretRotatedAt: rotatedAt } = row
  return validSecrets(sealer, placeOf(row.id), { secret: webhookSecret!, previous, rotatedAt }, nowMs)
}

/** Decrypts the secrets of a pair that are valid now. */
export function validSecrets(sealer: Sealer, place: string, pair: SecretPair, nowMs: number): WebhookSecrets {
  const { secret, previous, rotatedAt } = pair
  const until = rotatedAt && new Date(rotatedAt.getTime() + overlapMs)
  const overlapping = until !== null && until.getTime() > nowMs && previous !== null
  return {
    secret: sealer.open(secret, place),
    previous: overlapping ? sealer.open(previous, place) : null,
    previousUntil: overlapping ? until : null,
  }
}

/** Replaces the secret. For 24 hours, webhooks are signed with both the old and the new one (docs/webhooks.md). */
export async function rotateWebhookSecret(
  store: WebhookSecretStore,
  organisationId: string,
  actor: Actor,
  nowMs: number,
): Promise<WebhookSecrets> {
  const { db, sealer } = store
  const { webhookSecret } = await getOrCreateRow(store, organisationId)
  const data = {
    webhookSecret: newWebhookSecret(sealer, organisationId),
    previousWebhookSecret: webhookSecret,
    webhookSecretRotatedAt: new Date(nowMs),
  }
  await db.$transaction(async tx => {
    const where = { id: organisationId, webhookSecret }
    const { count } = await tx.organisation.updateMany({ where, data })
    if (count === 1) await audit(tx, { organisationId, actor, action: 'webhook_secret.rotated' })
  })
  return getWebhookSecrets(store, organisationId, nowMs)
}

/** Re-encrypts an organisation's secrets with the current key; returns false when nothing changed. */
export async function resealWebhookSecrets({ db, sealer }: WebhookSecretStore, row: SecretRow): Promise<boolean> {
  const { id, webhookSecret, previousWebhookSecret } = row
  const reseal = (text: string | null) =>
    text === null || sealer.isCurrent(text) ? text : sealer.seal(sealer.open(text, placeOf(id)), placeOf(id))
  const data = { webhookSecret: reseal(webhookSecret), previousWebhookSecret: reseal(previousWebhookSecret) }
  if (data.webhookSecret === webhookSecret && data.previousWebhookSecret === previousWebhookSecret) return false
  // Compare-and-set: a concurrent rotation has already used the current key.
  const { count } = await db.organisation.updateMany({ where: { id, webhookSecret, previousWebhookSecret }, data })
  return count === 1
}

function newWebhookSecret(sealer: Sealer, organisationId: string): string {
  return sealer.seal(newSigningSecret(), placeOf(organisationId))
}

/** A random signing secret. */
export function newSigningSecret(): string {
  return `whsec_${randomBytes(24).toString('base64')}`
}

/** Valid secrets as a list. */
export function newestFirst({ secret, previous }: WebhookSecrets): string[] {
  return previous === null ? [secret] : [secret, previous]
}

/** The headers that sign a message by Standard Webhooks. `secrets`: see `webhookSignature`. */
export function signatureHeaders(
  secrets: readonly string[],
  id: string,
  nowMs: number,
  body: string,
): Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string> {
  const timestampS = Math.floor(nowMs / 1_000)
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestampS),
    'webhook-signature': webhookSignature(secrets, id, timestampS, body),
  }
}

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
