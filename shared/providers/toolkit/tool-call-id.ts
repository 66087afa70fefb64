import { randomBytes } from 'node:crypto'

/**
 * Gemini 3 signs the thoughts behind a function call and refuses a history without the signature, but an OpenAI client
 * returns only a tool call's id, name and arguments. So the signature travels in the id:
 *
 *     <id>__sig__<signature in base64url, no padding>
 *
 * The characters are those every provider accepts in ids (`A-Z a-z 0-9 _ -`), so a conversation can continue at another provider.
 * `<id>` is Gemini's own when it fits the pattern (at most 64 characters, no double underscore), else a new one.
 * A signature that is not canonical base64 or has more than 32,768 characters is left out, as if it were lost.
 */
const separator = '__sig__'
const maxSignatureLength = 32_768

type SignedId = { id: string; signature?: string }

/** Encodes Gemini's call id and thought signature in a `tool_calls[].id`. */
export function encodeToolCallId(id: string | undefined, signature: string | undefined): string {
  const plain = id && /^(?!.*__)[A-Za-z0-9_-]{1,64}$/.test(id) ? id : `call_${randomBytes(12).toString('hex')}`
  if (!signature || signature.length > maxSignatureLength) return plain
  const bytes = Buffer.from(signature, 'base64')
  return bytes.toString('base64') === signature ? plain + separator + bytes.toString('base64url') : plain
}

/** Decodes an id of `encodeToolCallId`; any other id is returned unchanged. */
export function decodeToolCallId(text: string): SignedId {
  const at = text.indexOf(separator)
  const encoded = text.slice(at + separator.length)
  if (at < 1 || !/^[A-Za-z0-9_-]{2,}$/.test(encoded)) return { id: text }
  return { id: text.slice(0, at), signature: Buffer.from(encoded, 'base64url').toString('base64') }
}
