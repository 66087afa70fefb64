import { GatewayError } from '../base/errors.ts'
import type { Clock } from '../base/time.ts'
import type { Redis } from '../io/redis.ts'
import { hashSecret, newSecret } from './secret.ts'

export type SecretStores = { redis: Redis; clock: Clock }

/** A kind of short-lived secret that represents a key. Stored in Redis only, by its hash, with its restrictions. */
export type TemporarySecretKind = {
  prefix: 'ek_' | 'svc_play_'
  /** Prefix of its Redis keys. */
  store: string
  /** Its name in error messages. */
  name: string
}

/** How long an expired secret stays stored, for a more precise error. */
export const expiredRetentionMs = 10 * 60_000

/** Creates a secret; only its hash is stored. Throws what Redis throws. */
export async function createTemporarySecret(
  { redis, clock }: SecretStores,
  { prefix, store }: TemporarySecretKind,
  bound: object,
  lifeMs: number,
): Promise<{ value: string; expiresAtMs: number }> {
  const { secret: value, hash } = newSecret(prefix)
  const expiresAtMs = clock.now() + lifeMs
  await redis.set(`${store}:${hash}`, JSON.stringify({ ...bound, expiresAtMs }), 'PX', lifeMs + expiredRetentionMs)
  return { value, expiresAtMs }
}

/** Looks up the restrictions of a secret; does not check that its key is still valid. Throws 401, and what Redis throws. */
export async function findTemporarySecret<Bound extends { expiresAtMs: number }>(
  { redis, clock }: SecretStores,
  { store, name }: TemporarySecretKind,
  value: string,
): Promise<Bound> {
  const text = await redis.get(`${store}:${hashSecret(value)}`)
  if (text === null)
    throw new GatewayError('invalid_api_key', `This ${name} does not exist, or expired long ago. Create a new one.`)
  const bound = JSON.parse(text) as Bound
  if (bound.expiresAtMs <= clock.now())
    throw new GatewayError('expired_api_key', `This ${name} has expired. Create a new one.`)
  return bound
}
