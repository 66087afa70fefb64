import { isObject } from '../../../base/is-object.ts'
import { type ReasoningDetail, reasoningDetail } from '../../../kinds/reasoning.ts'
import { isEnvelope } from '../reasoning-envelope.ts'

/**
 * Reasoning of a model of another provider in a thought signature. Clients of Google's API hand back the signature of a
 * function call with the call, but mostly leave out the thoughts (gemini-cli keeps them out of its history), so the signature
 * has the text and the sealed state: base64, as the field is of type `bytes`, of a mark and JSON.
 */
export type CarriedReasoning = { text: string; details: ReasoningDetail[] }

const mark = 'hg1:'
/** The mark without its last byte, whose bits depend on what follows. */
const beginning = Buffer.from(mark.slice(0, 3)).toString('base64')
/** Larger reasoning is not carried. */
const maxCharacters = 4 * 1024 * 1024

/**
 * The signature of a call, with the reasoning before it if there is any: without one, Gemini 3 would refuse the call in a later
 * turn (ai.google.dev/gemini-api/docs/thought-signatures), and our own tells that it may have a substitute.
 */
export function signatureOf({ text, details }: CarriedReasoning): string {
  const joined = joinDetails(details)
  const json = JSON.stringify([textOf(joined) === text ? '' : text, joined])
  return Buffer.from(mark + (json.length > maxCharacters ? '["",[]]' : json)).toString('base64')
}

/** Whether a thought signature is one of `signatureOf`. */
export function isOwnSignature(signature: string): boolean {
  return signature.startsWith(beginning)
}

/** The reasoning in a signature of `signatureOf`; null for any other. Never throws. */
export function reasoningIn(signature: string): CarriedReasoning | null {
  if (!isOwnSignature(signature) || signature.length > 2 * maxCharacters) return null
  const carried = Buffer.from(signature, 'base64').toString()
  if (!carried.startsWith(mark)) return null
  try {
    const [text, details]: unknown[] = JSON.parse(carried.slice(mark.length))
    const valid = Array.isArray(details) && details.every(detail => reasoningDetail.safeParse(detail).success)
    return typeof text === 'string' && valid ? { text: text || textOf(details), details } : null
  } catch {
    return null
  }
}

function textOf(details: readonly ReasoningDetail[]): string {
  return details.map(({ text }) => text ?? '').join('')
}

/** The details of a stream with the pieces of each text in one. */
function joinDetails(details: readonly ReasoningDetail[]): ReasoningDetail[] {
  const joined: ReasoningDetail[] = []
  for (const detail of details) {
    const last = joined.at(-1)
    const continues = last?.type === 'reasoning.text' && detail.type === 'reasoning.text' && !last.signature
    if (continues && last.index === detail.index)
      joined[joined.length - 1] = { ...last, ...detail, text: (last.text ?? '') + (detail.text ?? '') }
    else joined.push(detail)
  }
  return joined
}

/** The sealed states that a content of a request carries. */
export function envelopesOf(content: unknown): string[] {
  const parts = isObject(content) && content.role === 'model' && Array.isArray(content.parts) ? content.parts : []
  return parts.flatMap(part => {
    const signature: unknown = part?.thoughtSignature
    const carried = typeof signature === 'string' ? reasoningIn(signature) : null
    const states = (carried?.details ?? []).flatMap(({ signature: signed, data }) => [signed, data])
    return states.filter((state): state is string => typeof state === 'string' && isEnvelope(state))
  })
}
