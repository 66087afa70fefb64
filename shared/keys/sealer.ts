import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

const cipher = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16
const sealed = /^sealed:1:([0-9a-f]{8}):([\w-]+)$/

type Key = { id: string; derive(purpose: string): Buffer }

/**
 * Encrypts secrets that lie in PostgreSQL (AES-256-GCM, keys derived by HKDF-SHA-256). The first configured key encrypts, all
 * of them decrypt. A sealed text is `sealed:1:<key id>:<nonce, tag and ciphertext in base64url>`. Without a key, texts are
 * stored as they are (docs/decisions/secrets-at-rest.md).
 */
export class Sealer {
  readonly #keys: readonly Key[]

  /** `secrets`: the configured keys, the one that encrypts first; none = nothing is encrypted. */
  constructor(secrets: readonly string[]) {
    this.#keys = [...new Set(secrets)].map(secret => {
      const derive = (purpose: string) => Buffer.from(hkdfSync('sha256', secret, '', purpose, 32))
      return { id: derive('encryption key id').subarray(0, 4).toString('hex'), derive }
    })
  }

  /** Whether a key is configured. */
  get encrypts(): boolean {
    return this.#keys.length > 0
  }

  /** `place` names the one column and row that the text belongs to: moved elsewhere, it cannot be opened. */
  seal(text: string, place: string): string {
    const [key] = this.#keys
    if (!key) return text
    const nonce = randomBytes(nonceBytes)
    const sealing = createCipheriv(cipher, key.derive('secrets at rest'), nonce).setAAD(Buffer.from(place))
    const encrypted = Buffer.concat([sealing.update(text, 'utf8'), sealing.final()])
    return `sealed:1:${key.id}:${Buffer.concat([nonce, sealing.getAuthTag(), encrypted]).toString('base64url')}`
  }

  /** The text that was sealed for this place; a text that never was sealed as it is. Throws an Error without its key. */
  open(text: string, place: string): string {
    const [, id, encoded] = sealed.exec(text) ?? []
    if (encoded === undefined) return text
    const key = this.#keys.find(known => known.id === id)
    if (!key)
      throw new Error(`${place} is encrypted with key ${id}, which is not configured: add it to ENCRYPTION_KEY.`)
    const bytes = Buffer.from(encoded, 'base64url')
    const opening = createDecipheriv(cipher, key.derive('secrets at rest'), bytes.subarray(0, nonceBytes))
      .setAAD(Buffer.from(place))
      .setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
    return Buffer.concat([opening.update(bytes.subarray(nonceBytes + tagBytes)), opening.final()]).toString('utf8')
  }

  /** Whether a stored text is as `seal` would write it now. */
  isCurrent(text: string): boolean {
    return sealed.exec(text)?.[1] === this.#keys[0]?.id
  }

  /**
   * A key of its own for a library that encrypts by itself, from each configured key, the one to encrypt with first. `version`
   * is a number that names it.
   */
  keysFor(purpose: string): { version: number; value: string }[] {
    return this.#keys.map(({ id, derive }) => ({
      version: Number.parseInt(id, 16),
      value: derive(purpose).toString('base64url'),
    }))
  }
}
