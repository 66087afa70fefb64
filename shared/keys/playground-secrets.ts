import { createPassing, findPassing, type PassingKind, type SecretStores } from './passing-secrets.ts'

/** Whom and what a playground secret stands for. */
export type PlaygroundSecret = {
  /** Of the key whose policy holds for it. */
  keyHash: string
  organisationId: string
  userId: string
  /** The role that the person needs for this key, as it was decided when the secret was made. */
  role: 'member' | 'admin'
  expiresAtMs: number
}

const kind: PassingKind = { prefix: 'svc_play_', store: 'playsecret', name: 'playground secret' }
const lifeMs = 15 * 60_000

/** Makes a secret, `svc_play_…`, of which only the hash is kept. Throws what Redis throws. */
export async function createPlaygroundSecret(
  stores: SecretStores,
  bound: Omit<PlaygroundSecret, 'expiresAtMs'>,
): Promise<{ value: string; expiresAtMs: number }> {
  return createPassing(stores, kind, bound, lifeMs)
}

/** What a secret stands for; whether its key and its person still hold is not looked at. Throws 401, and what Redis throws. */
export async function findPlaygroundSecret(stores: SecretStores, value: string): Promise<PlaygroundSecret> {
  return findPassing<PlaygroundSecret>(stores, kind, value)
}
