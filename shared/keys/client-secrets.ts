import {
  createTemporarySecret,
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

/** Creates a secret, `ek_…`; only its hash is stored. Throws what Redis throws. */
export async function createClientSecret(
  stores: SecretStores,
  bound: Omit<ClientSecret, 'expiresAtMs'>,
  lifeMs: number,
): Promise<{ value: string; expiresAtMs: number }> {
  return createTemporarySecret(stores, kind, bound, lifeMs)
}

/** Looks up a secret; does not check that its key is still valid. Throws 401, and what Redis throws. */
export async function findClientSecret(stores: SecretStores, value: string): Promise<ClientSecret> {
  return findTemporarySecret<ClientSecret>(stores, kind, value)
}
