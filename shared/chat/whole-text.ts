import { memberText } from '../base/json-member.ts'

/** What a provider answered: parsed, and the text that it was parsed from; null for the answers to several requests. */
export type Received = { json: unknown; text: string | null }

/** Serialising less than this costs no more than finding what need not be serialised. */
const minCopiedCharacters = 4_000
const lineEnd = /[\n\r]/

/**
 * The JSON of an answer as its client gets it, on one line. Where its choices or vectors are the very list that was received, they
 * are copied as the provider wrote them: numbers keep their digits, and a large answer is not serialised at all.
 */
export function wholeText(shown: object, { json, text }: Received): string {
  const member = text !== null && text.length >= minCopiedCharacters ? copied(shown, json, text) : null
  if (member === null) return JSON.stringify(shown)
  const others = JSON.stringify({ ...shown, [member.name]: undefined })
  return `${others.slice(0, -1)},"${member.name}":${member.written}}`
}

/** The member that holds most of an answer, if it may be copied from the text. */
function copied(shown: object, json: unknown, text: string): { name: string; written: string } | null {
  const name = 'choices' in shown ? 'choices' : 'data'
  if ((shown as Record<string, unknown>)[name] !== (json as Record<string, unknown> | null)?.[name]) return null
  const written = memberText(text, name)
  // Answers become lines of batches' files, and indented ones would grow.
  return written === null || lineEnd.test(written) ? null : { name, written }
}
