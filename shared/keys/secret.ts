import { hash, randomBytes } from 'node:crypto'

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const standard = /^svc_sk_(live|test)_[0-9A-Za-z]{32,128}$/
const provisioning = /^svc_pk_[0-9A-Za-z]{32,128}$/
const client = /^ek_[0-9A-Za-z]{32,128}$/
const playground = /^svc_play_[0-9A-Za-z]{40}$/

export type Secret = { secret: string; hash: string; prefix: string; last4: string }

/** A new secret with the fields to store. The plaintext is shown once and not stored. */
export function newSecret(kind: 'svc_sk_live_' | 'svc_sk_test_' | 'svc_pk_' | 'svc_play_' | 'ek_'): Secret {
  let random = ''
  while (random.length < 40) {
    // Rejects bytes from 248 on, which would bias the result towards the first characters.
    for (const byte of randomBytes(48)) if (byte < 248 && random.length < 40) random += base62[byte % 62]
  }
  return secretOf(kind + random)
}

/** A secret that somebody else made, with the fields to store. */
export function secretOf(secret: string): Secret {
  return { secret, hash: hashSecret(secret), prefix: secret.slice(0, 16), last4: secret.slice(-4) }
}

/** SHA-256 in hex: secrets are long and random, so a slow hash would add nothing. */
export function hashSecret(secret: string): string {
  return hash('sha256', secret, 'hex')
}

/** The kind of a secret by its format; null when no format matches. */
export function secretKind(secret: string): 'standard' | 'provisioning' | 'client' | 'playground' | null {
  if (standard.test(secret)) return 'standard'
  if (client.test(secret)) return 'client'
  if (playground.test(secret)) return 'playground'
  return provisioning.test(secret) ? 'provisioning' : null
}
