import type { MessageEvent } from '../kinds/messages.ts'
import { endOfPlain, hasAt, maxUnusedTemplates, ownBytes, partsAround, probes, withProbes } from './event-template.ts'

/** Members of a delta that carry text. */
const texts = ['text', 'thinking', 'partial_json']
const event = /^(?:event: content_block_delta\n)?data: \{[^\r\n]*\}\n\n$/
/** Text that needs no escapes. */
const plain = /^[ !#-[\]-~]*$/
/** What follows the text of a delta. Anthropic's API hides the length of texts by spaces between the two brackets. */
const closing = /^"\}( *)\}( *)\n\n$/
const quote = 0x22
const space = 0x20
const bracket = 0x7d
const newline = 0x0a

/** An event that repeats an earlier one: the position after it, and its text. */
type DeltaRepeat = { end: number; text: string }

/**
 * Recognises `content_block_delta` events that repeat an earlier one except for their text and the spaces that hide its
 * length: they need no parsing. The position of the text is proved once, by parsing the earlier event with another text.
 */
export class DeltaRepeats {
  /** The event up to its text. */
  #opening: Buffer | null = null
  #unusedTemplates = 0

  /** Matches the event at `from`; null when it must be parsed. */
  match(bytes: Buffer, from: number): DeltaRepeat | null {
    if (!this.#opening || !hasAt(bytes, this.#opening, from)) return null
    const start = from + this.#opening.length
    const textEnd = endOfPlain(bytes, start)
    if (bytes[textEnd] !== quote || bytes[textEnd + 1] !== bracket) return null
    let end = endOfSpaces(bytes, textEnd + 2)
    if (bytes[end] !== bracket) return null
    end = endOfSpaces(bytes, end + 1)
    if (bytes[end] !== newline || bytes[end + 1] !== newline) return null
    this.#unusedTemplates = 0
    return { end: end + 2, text: bytes.toString('latin1', start, textEnd) }
  }

  /** Learns from an ASCII event and its parsed content. */
  learn(raw: string, parsed: MessageEvent): void {
    if (parsed.type !== 'content_block_delta' || this.#unusedTemplates === maxUnusedTemplates) return
    const name = texts.find(name => name in parsed.delta)
    if (name === undefined || !plain.test(String((parsed.delta as Record<string, unknown>)[name]))) return
    if (!event.test(raw)) return
    const probedEvent = withProbes(raw, [name])
    if (probedEvent === null) return
    this.#unusedTemplates++
    const { delta } = JSON.parse(probedEvent.slice(probedEvent.indexOf('data: ') + 'data: '.length))
    const [opening, rest] = partsAround([probes[0]], probedEvent) ?? []
    if (opening === undefined || delta[name] !== probes[0] || !closing.test(rest!)) return
    this.#opening = ownBytes(opening)
  }
}

function endOfSpaces(bytes: Buffer, from: number): number {
  let at = from
  while (bytes[at] === space) at++
  return at
}
