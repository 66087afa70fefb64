import { createPassing, findPassing, type PassingKind, type SecretStores } from './passing-secrets.ts'

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

const kind: PassingKind = { prefix: 'ek_', store: 'clientsecret', name: 'client secret' }

/** Makes a secret, `ek_…`, of which only the hash is kept. Throws what Redis throws. */
export async function createClientSecret(
  stores: SecretStores,
  bound: Omit<ClientSecret, 'expiresAtMs'>,
  lifeMs: number,
): Promise<{ value: string; expiresAtMs: number }> {
  return createPassing(stores, kind, bound, lifeMs)
}

/** What a secret stands for; whether its key still holds is not looked at. Throws 401, and what Redis throws. */
export async function findClientSecret(stores: SecretStores, value: string): Promise<ClientSecret> {
  return findPassing<ClientSecret>(stores, kind, value)
}
