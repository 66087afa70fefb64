import { GatewayError } from '../base/errors.ts'
import type { Clock } from '../base/time.ts'
import type { Redis } from '../io/redis.ts'
import { hashSecret, newSecret } from './secret.ts'

export type SecretStores = { redis: Redis; clock: Clock }

/** A kind of secret that stands for a key for a while. It is kept in Redis alone, by its hash, with what it is bound to. */
export type PassingKind = {
  prefix: 'ek_' | 'svc_play_'
  /** Where Redis has them. */
  store: string
  /** What it is called in errors. */
  name: string
}

/** How long an expired secret is still known as one. */
const rememberedMs = 10 * 60_000

/** Makes a secret of a kind, of which only the hash is kept. Throws what Redis throws. */
export async function createPassing(
  { redis, clock }: SecretStores,
  { prefix, store }: PassingKind,
  bound: object,
  lifeMs: number,
): Promise<{ value: string; expiresAtMs: number }> {
  const { secret: value, hash } = newSecret(prefix)
  const expiresAtMs = clock.now() + lifeMs
  await redis.set(`${store}:${hash}`, JSON.stringify({ ...bound, expiresAtMs }), 'PX', lifeMs + rememberedMs)
  return { value, expiresAtMs }
}

/** What a secret is bound to; whether its key still holds is not looked at. Throws 401, and what Redis throws. */
export async function findPassing<Bound extends { expiresAtMs: number }>(
  { redis, clock }: SecretStores,
  { store, name }: PassingKind,
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
