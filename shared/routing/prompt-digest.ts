import { hash } from 'node:crypto'
import type { Features } from './features.ts'

/** Shorter texts, such as greetings, are often repeated by chance. */
const minCharacters = 24
const digestCharacters = 16

/**
 * A digest by which a repetition of the same prompt by the same key, in the same session, is recognised: of the last user
 * message and the size of the request. Null for short texts.
 */
export function promptDigest(keyId: string, session: string | null, features: Features): string | null {
  const text = features.lastText()
  if (text.length < minCharacters) return null
  const prompt = [keyId, session ?? '', features.promptTokensEstimate, text].join('\n')
  return hash('sha256', prompt, 'base64url').slice(0, digestCharacters)
}
