import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { GatewayError } from '../base/errors.ts'

const cipher = 'aes-256-gcm'
const nonceBytes = 12
const retryAfterS = 5
const tagBytes = 16
const sealed = /^sealed:1:([0-9a-f]{8}):([\w-]+)$/
/** The head of sealed bytes: `sealed:1:<key id>:`. */
const headBytes = 'sealed:1:'.length + 9
const sealedHead = /^sealed:1:([0-9a-f]{8}):$/

type Key = { id: string; atRest: Buffer; derive(purpose: string): Buffer }

/**
 * Encrypts secrets at rest in PostgreSQL (AES-256-GCM, keys derived by HKDF-SHA-256). The first configured key encrypts; all
 * configured keys decrypt. A sealed text is `sealed:1:<key id>:<nonce, tag and ciphertext in base64url>`. Without a key, texts
 * are stored in plain text (docs/decisions/secrets-at-rest.md).
 */
export class Sealer {
  readonly #keys: readonly Key[]

  /** `secrets`: the configured keys, the encrypting key first; empty = no encryption. */
  constructor(secrets: readonly string[]) {
    this.#keys = [...new Set(secrets)].map(secret => {
      const derive = (purpose: string) => Buffer.from(hkdfSync('sha256', secret, '', purpose, 32))
      const id = derive('encryption key id').subarray(0, 4).toString('hex')
      // Derived once: a conversation has thousands of sealed items.
      return { id, atRest: derive('secrets at rest'), derive }
    })
  }

  /** Whether a key is configured. */
  get encrypts(): boolean {
    return this.#keys.length > 0
  }

  /** The ids of the configured keys, that of the encrypting key first. They do not reveal the keys. */
  get keyIds(): string[] {
    return this.#keys.map(({ id }) => id)
  }

  /** Encrypts a text. `place` names its column and row and is authenticated (AAD): the ciphertext cannot be opened elsewhere. */
  seal(text: string, place: string): string {
    const [key] = this.#keys
    if (!key) return text
    return `sealed:1:${key.id}:${Buffer.concat(encrypt(key, Buffer.from(text), place)).toString('base64url')}`
  }

  /** Encrypts bytes, as `seal` does a text, without encoding them as text. */
  sealBytes(bytes: Buffer, place: string): Buffer {
    const [key] = this.#keys
    return key ? Buffer.concat([Buffer.from(`sealed:1:${key.id}:`), ...encrypt(key, bytes, place)]) : bytes
  }

  /** Decrypts bytes that were sealed for `place`; returns unsealed bytes unchanged. Throws 503 when their key is not configured. */
  openBytes(bytes: Buffer, place: string): Buffer {
    const [, id] = sealedHead.exec(bytes.toString('latin1', 0, headBytes)) ?? []
    return id === undefined ? bytes : decrypt(this.#keyOf(id, place), bytes.subarray(headBytes), place)
  }

  /** Decrypts a text that was sealed for `place`; returns an unsealed text unchanged. Throws 503 when its key is not configured. */
  open(text: string, place: string): string {
    const [, id, encoded] = sealed.exec(text) ?? []
    if (encoded === undefined) return text
    return decrypt(this.#keyOf(id!, place), Buffer.from(encoded, 'base64url'), place).toString()
  }

  /** Whether a stored text is sealed with the current key, or plain when none is configured. */
  isCurrent(text: string): boolean {
    return sealed.exec(text)?.[1] === this.#keys[0]?.id
  }

  /** Whether stored bytes are sealed with the current key, or plain when none is configured. */
  isCurrentBytes(bytes: Buffer): boolean {
    return sealedHead.exec(bytes.toString('latin1', 0, headBytes))?.[1] === this.#keys[0]?.id
  }

  /**
   * Derives keys for a library that does its own encryption, one from each configured key, the encrypting key first. `version`
   * is the key's numeric id.
   */
  keysFor(purpose: string): { version: number; value: string }[] {
    return this.#keys.map(({ id, derive }) => ({
      version: Number.parseInt(id, 16),
      value: derive(purpose).toString('base64url'),
    }))
  }

  #keyOf(id: string, place: string): Key {
    const key = this.#keys.find(candidate => candidate.id === id)
    if (key) return key
    // While a rotation is rolled out, the process that is asked next may have the key.
    throw new GatewayError('service_unavailable', 'Stored data cannot be decrypted at the moment. Try again shortly.', {
      headers: { 'retry-after': String(retryAfterS) },
      cause: new Error(`${place} is encrypted with key ${id}, which is not configured: add it to ENCRYPTION_KEY.`),
    })
  }
}

/** Nonce, tag and ciphertext. */
function encrypt(key: Key, bytes: Buffer, place: string): Buffer[] {
  const nonce = randomBytes(nonceBytes)
  const encryption = createCipheriv(cipher, key.atRest, nonce).setAAD(Buffer.from(place))
  const encrypted = [encryption.update(bytes), encryption.final()]
  return [nonce, encryption.getAuthTag(), ...encrypted]
}

function decrypt(key: Key, bytes: Buffer, place: string): Buffer {
  const decryption = createDecipheriv(cipher, key.atRest, bytes.subarray(0, nonceBytes))
    .setAAD(Buffer.from(place))
    .setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
  return Buffer.concat([decryption.update(bytes.subarray(nonceBytes + tagBytes)), decryption.final()])
}
