import { crc32 } from 'node:zlib'
import type { Features } from './features.ts'

/** Shorter texts, such as greetings, are often repeated by chance. */
const minCharacters = 24

/**
 * By what a repetition of the same prompt by the same key, in the same session, is recognised: a checksum of the session and
 * the last user message, and the size of the request. A collision within the minutes of a retry is rare and counts once.
 * Null for short texts.
 */
export function promptChecksum(keyId: string, session: string | null, features: Features): string | null {
  const text = features.lastText()
  if (text.length < minCharacters) return null
  return `${keyId}.${features.promptTokensEstimate}.${crc32(text, crc32(session ?? ''))}`
}
