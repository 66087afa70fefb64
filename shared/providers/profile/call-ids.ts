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
  readonly #isUnique: boolean
  /** The ids of the conversation's calls as sent, if none may recur. */
  readonly #sent = new Set<string>()
  /** The number of the last call with such an id: of thousands that have the same one, each would try those of all before it. */
  readonly #counts = new Map<string, number>()
  /** The ids as sent of the calls that the next results belong to, by the client's id. */
  readonly #calls = new Map<string, string[]>()
  #hasResults = false

  constructor({
    tool_call_id: form,
    unique_call_ids: isUnique,
  }: Pick<ChatProfile, 'tool_call_id' | 'unique_call_ids'>) {
    this.#form = form
    this.#isUnique = isUnique
  }

  /** The id of a call. */
  ofCall(id: string): string {
    const sent = sentId(id, this.#form)
    if (!this.#isUnique) return sent
    if (this.#hasResults) this.#calls.clear()
    this.#hasResults = false
    let unique = sent
    let count = this.#counts.get(sent) ?? 1
    while (this.#sent.has(unique)) unique = sentId(`${sent}_${++count}`, this.#form)
    this.#counts.set(sent, count)
    this.#sent.add(unique)
    const calls = this.#calls.get(id)
    if (calls) calls.push(unique)
    else this.#calls.set(id, [unique])
    return unique
  }

  /** The id of a result. Of parallel calls with the same id, each has its result in their order. */
  ofResult(id: string): string {
    this.#hasResults = true
    const calls = this.#calls.get(id)
    if (!calls) return sentId(id, this.#form)
    return calls.length > 1 ? calls.shift()! : calls[0]!
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
