import { randomUUID } from 'node:crypto'
import { GatewayError } from '../base/errors.ts'
import { shardsOf } from '../io/redis-shards.ts'
import { acquireSlot } from '../io/slots.ts'
import {
  createTemporarySecret,
  expiredRetentionMs,
  findTemporarySecret,
  type SecretStores,
  type TemporarySecretKind,
} from './temporary-secrets.ts'

/** The restrictions of sessions that are opened with a client secret. */
export type ClientSecret = {
  /** Hash of the key that created it; its policy applies to the sessions. */
  keyHash: string
  /** The only model allowed; null = any. */
  model: string | null
  /** Settings applied when a session is opened; null = none. */
  settings: Record<string, unknown> | null
  expiresAtMs: number
}

const kind: TemporarySecretKind = { prefix: 'ek_', store: 'clientsecret', name: 'client secret' }

/**
 * Creates a secret, `ek_…`; only its hash is stored. Its settings may be large, so an organisation may have `maxStored` of them at
 * a time, those counted that expired so recently that they are still stored. Throws 429, 503 and what Redis throws.
 */
export async function createClientSecret(
  stores: SecretStores,
  bound: Omit<ClientSecret, 'expiresAtMs'>,
  { lifeMs, organisationId, maxStored }: { lifeMs: number; organisationId: string; maxStored: number },
): Promise<{ value: string; expiresAtMs: number }> {
  const { redis, clock } = stores
  const nowMs = clock.now()
  const isFree = await acquireSlot(redis, {
    slotsKey: `${shardsOf(redis).of(organisationId).tag}clientsecrets:${organisationId}`,
    id: randomUUID(),
    nowMs,
    expiresAtMs: nowMs + lifeMs + expiredRetentionMs,
    maxSlots: maxStored,
  })
  if (!isFree) throw tooManySecretsError(maxStored)
  return createTemporarySecret(stores, kind, bound, lifeMs)
}

function tooManySecretsError(max: number): GatewayError {
  return new GatewayError(
    'rate_limit_exceeded',
    `This organisation has ${max} client secrets, as many as it may have at a time. Each counts until ten minutes after it expires: ` +
      'use one several times, or make them with a shorter `expires_after`.',
    { headers: { 'retry-after': '10' } },
  )
}

/** Looks up a secret; does not check that its key is still valid. Throws 401, and what Redis throws. */
export async function findClientSecret(stores: SecretStores, value: string): Promise<ClientSecret> {
  return findTemporarySecret<ClientSecret>(stores, kind, value)
}
