import {
  createTemporarySecret,
  findTemporarySecret,
  type SecretStores,
  type TemporarySecretKind,
} from './temporary-secrets.ts'

/** The key and the user that a playground secret represents. */
type PlaygroundSecret = {
  /** Hash of the key whose policy applies. */
  keyHash: string
  organisationId: string
  userId: string
  /** The role that the user needs for this key, determined when the secret was created. */
  role: 'member' | 'admin'
  expiresAtMs: number
}

const kind: TemporarySecretKind = { prefix: 'svc_play_', store: 'playsecret', name: 'playground secret' }
const lifeMs = 15 * 60_000

/** Creates a secret, `svc_play_…`; only its hash is stored. Throws what Redis throws. */
export async function createPlaygroundSecret(
  stores: SecretStores,
  bound: Omit<PlaygroundSecret, 'expiresAtMs'>,
): Promise<{ value: string; expiresAtMs: number }> {
  return createTemporarySecret(stores, kind, bound, lifeMs)
}

/** Looks up a secret; does not check that its key and its user are still valid. Throws 401, and what Redis throws. */
export async function findPlaygroundSecret(stores: SecretStores, value: string): Promise<PlaygroundSecret> {
  return findTemporarySecret<PlaygroundSecret>(stores, kind, value)
}
