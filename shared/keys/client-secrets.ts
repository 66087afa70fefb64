import { GatewayError } from '../base/errors.ts'
import type { Clock } from '../base/time.ts'
import type { Redis } from '../io/redis.ts'
import { hashSecret, newSecret } from './secret.ts'

/** How long an expired secret is still known as one. */
const rememberedMs = 10 * 60_000

/** What sessions opened with a client secret are bound to. */
export type ClientSecret = {
  /** Of the key that made it, under whose policy they are. */
  keyHash: string
  /** The one model they may have; null = any. */
  model: string | null
  /** What is applied when they are opened; null = nothing. */
  settings: Record<string, unknown> | null
  expiresAtMs: number
}

type Stores = { redis: Redis; clock: Clock }

/** Makes a secret, `ek_…`, of which only the hash is kept. Throws what Redis throws. */
export async function createClientSecret(
  { redis, clock }: Stores,
  bound: Omit<ClientSecret, 'expiresAtMs'>,
  lifeMs: number,
): Promise<{ value: string; expiresAtMs: number }> {
  const { secret: value, hash } = newSecret('ek_')
  const expiresAtMs = clock.now() + lifeMs
  const secret: ClientSecret = { ...bound, expiresAtMs }
  await redis.set(nameOf(hash), JSON.stringify(secret), 'PX', lifeMs + rememberedMs)
  return { value, expiresAtMs }
}

/** What a secret stands for; whether its key still holds is not looked at. Throws 401, and what Redis throws. */
export async function findClientSecret({ redis, clock }: Stores, value: string): Promise<ClientSecret> {
  const text = await redis.get(nameOf(hashSecret(value)))
  if (text === null)
    throw new GatewayError(
      'invalid_api_key',
      'This client secret does not exist, or expired long ago. Create a new one.',
    )
  const secret = JSON.parse(text) as ClientSecret
  if (secret.expiresAtMs <= clock.now())
    throw new GatewayError('expired_api_key', 'This client secret has expired. Create a new one.')
  return secret
}

function nameOf(hash: string): string {
  return `clientsecret:${hash}`
}
