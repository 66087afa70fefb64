import { createHash } from 'node:crypto'
import type { ChatProfile } from '../../catalog/chat-profile.ts'
import { decodeToolCallId } from '../toolkit/tool-call-id.ts'

const maxCharacters = 64
const alphanumeric = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const alphanumericCharacters = 9

/**
 * The ids of tool calls in the form that a provider accepts. An id is always sent in the same way, so that prompt caches
 * are hit; what Gemini signed in it is left out, as only Gemini can read it.
 */
export class CallIds {
  readonly #form: ChatProfile['tool_call_id']
  /** The calls of the conversation by the id that is sent; null: ids may recur. */
  readonly #sent: Set<string> | null
  /** The last sent form of an id that recurred. */
  readonly #recurring = new Map<string, string>()

  constructor({ tool_call_id: form, unique_call_ids: isUnique }: ChatProfile) {
    this.#form = form
    this.#sent = isUnique ? new Set() : null
  }

  /** The id of a call. */
  ofCall(id: string): string {
    const sent = sentId(id, this.#form)
    if (!this.#sent) return sent
    let unique = sent
    for (let count = 2; this.#sent.has(unique); count++) unique = sentId(`${sent}_${count}`, this.#form)
    this.#sent.add(unique)
    if (unique !== sent) this.#recurring.set(sent, unique)
    return unique
  }

  /** The id of a result, which belongs to the last call with it. */
  ofResult(id: string): string {
    const sent = sentId(id, this.#form)
    return this.#recurring.get(sent) ?? sent
  }
}

function sentId(id: string, form: ChatProfile['tool_call_id']): string {
  if (form === 'signed') return id
  const plain = id.includes('__sig__') ? decodeToolCallId(id).id : id
  switch (form) {
    case 'any':
      return plain
    case 'max_64':
      return plain.length <= maxCharacters ? plain : shortened(plain)
    case 'word_64': {
      const word = plain.replace(/[^a-zA-Z0-9_-]/g, '_')
      return word.length <= maxCharacters ? word : shortened(word)
    }
    case 'alphanumeric_9':
      return /^[a-zA-Z0-9]{9}$/.test(plain) ? plain : alphanumericDigest(plain)
  }
}

function shortened(id: string): string {
  const digest = createHash('sha256').update(id).digest('hex').slice(0, 24)
  return `${id.slice(0, maxCharacters - digest.length - 1)}_${digest}`
}

function alphanumericDigest(id: string): string {
  const digest = createHash('sha256').update(id).digest()
  return Array.from(digest.subarray(0, alphanumericCharacters), byte => alphanumeric[byte % alphanumeric.length]).join(
    '',
  )
}
