import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { z } from 'zod'
import { GatewayError } from '../../base/errors.ts'
import type { Policy } from '../../keys/policy.ts'
import type { SigningSecret } from '../../keys/signing-secret.ts'

/** What a provider needs back to continue its reasoning, and the account and model that made it. */
type ReasoningState = {
  provider: string
  /** The id of the provider's API key; null for a provider without keys. */
  credentialId: string | null
  /** Our id of the model. */
  model: string
  state: string
}

const prefix = 'hg1.'
const cipher = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16
/** Longer states are not carried. A signature that contains the whole hidden reasoning has some 100,000 characters. */
const maxStateCharacters = 1024 * 1024
const maxEnvelopeCharacters = 3 * maxStateCharacters
/** Of the envelopes of one request: to open one takes some twenty microseconds, and more if it is forged. */
const maxOpened = 4_096
const contents = z.tuple([z.string(), z.string().nullable(), z.string(), z.string()])

/**
 * Seals reasoning state for a client to hand back: `hg1.<nonce, tag and ciphertext in base64url>` (AES-256-GCM). The key
 * is derived from the signing secret and the organisation, so that an envelope can be neither forged, nor read, nor used
 * by another organisation (docs/decisions/reasoning-state.md). Envelopes under `older` secrets are opened, too. One sealer serves
 * one request.
 */
export class ReasoningSealer {
  readonly #secret: string
  readonly #older: readonly string[]
  readonly #scope: string
  #key: Buffer | null = null
  #olderKeys: Buffer[] | null = null
  #opened = 0

  constructor(
    secret: string,
    { organisationId, environment }: Pick<Policy, 'organisationId' | 'environment'>,
    older: readonly string[] = [],
  ) {
    this.#secret = secret
    this.#older = older
    this.#scope = `${organisationId} ${environment}`
  }

  /** The envelope of a state; null when the state has more than 1 M characters. */
  seal({ provider, credentialId, model, state }: ReasoningState): string | null {
    if (state.length > maxStateCharacters) return null
    const nonce = randomBytes(nonceBytes)
    const encryption = createCipheriv(cipher, this.#currentKey(), nonce)
    const text = JSON.stringify([provider, credentialId, model, state])
    const encrypted = Buffer.concat([encryption.update(text, 'utf8'), encryption.final()])
    return prefix + Buffer.concat([nonce, encryption.getAuthTag(), encrypted]).toString('base64url')
  }

  /**
   * The state in an envelope of `seal`; null for any other text, including a changed envelope. Throws a GatewayError 400 for too many
   * envelopes.
   */
  open(envelope: string): ReasoningState | null {
    if (!isEnvelope(envelope) || envelope.length > maxEnvelopeCharacters) return null
    const encoded = envelope.slice(prefix.length)
    const bytes = Buffer.from(encoded, 'base64url')
    // The decoder ignores foreign characters and unused bits.
    if (bytes.length <= nonceBytes + tagBytes || bytes.toString('base64url') !== encoded) return null
    if (++this.#opened > maxOpened) throw tooMany()
    const state = decrypt(bytes, this.#currentKey())
    if (state) return state
    this.#olderKeys ??= this.#older.map(secret => deriveKey(secret, this.#scope))
    for (const key of this.#olderKeys) {
      const earlier = decrypt(bytes, key)
      if (earlier) return earlier
    }
    return null
  }

  /** Derived on first use: most requests have no reasoning state. */
  #currentKey(): Buffer {
    this.#key ??= deriveKey(this.#secret, this.#scope)
    return this.#key
  }
}

function tooMany(): GatewayError {
  const message = `A request can hand back at most ${maxOpened} states of reasoning. Leave out those of earlier turns.`
  return new GatewayError('invalid_request', message)
}

function deriveKey(secret: string, scope: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, scope, 'reasoning state', 32))
}

/** The state in the bytes of an envelope; null under another key. */
function decrypt(bytes: Buffer, key: Buffer): ReasoningState | null {
  try {
    const decryption = createDecipheriv(cipher, key, bytes.subarray(0, nonceBytes)).setAuthTag(
      bytes.subarray(nonceBytes, nonceBytes + tagBytes),
    )
    const text = decryption.update(bytes.subarray(nonceBytes + tagBytes), undefined, 'utf8') + decryption.final('utf8')
    const [provider, credentialId, model, state] = contents.parse(JSON.parse(text))
    return { provider, credentialId, model, state }
  } catch {
    return null
  }
}

/** Whether a text has the form of an envelope; only `open` tells whether it is one. */
export function isEnvelope(text: string): boolean {
  return text.startsWith(prefix)
}

/**
 * The sealer of a caller's organisation; null while the signing secret cannot be read: state is then not carried. At
 * once if the secret is known.
 */
export function openReasoningSealer(
  signingSecret: Pick<SigningSecret, 'current' | 'older' | 'get'>,
  policy: Pick<Policy, 'organisationId' | 'environment'>,
): ReasoningSealer | null | Promise<ReasoningSealer | null> {
  const { current, older } = signingSecret
  if (current !== null) return new ReasoningSealer(current, policy, older)
  return signingSecret.get().then(
    secret => new ReasoningSealer(secret, policy, older),
    () => null,
  )
}
