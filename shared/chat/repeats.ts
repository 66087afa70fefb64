import type { MessageEvent } from '../kinds/messages.ts'
import type { Addition, ChunkChoice } from './choices.ts'
import type { Splicer } from './splice.ts'

/** Values that prove the positions of the texts of an event: nothing else in an event equals them. */
const probes = ['headgate-probe-0', 'headgate-probe-1', 'headgate-probe-2'] as const
/** Learning stops after this many unused templates in a row: the server's events differ in more than their text. */
const maxUnusedTemplates = 4
/** Matches a member whose value is plain text. */
const values = new Map(
  ['content', 'reasoning_content', 'refusal', 'text', 'thinking', 'partial_json', 'obfuscation', 'p'].map(name => [
    name,
    plainValueOf(name),
  ]),
)
const quote = 0x22
const backslash = 0x5c

function plainValueOf(name: string): RegExp {
  return new RegExp(`("${name}": ?")[ !#-[\\]-~]*(?=")`)
}

/** The end of plain text, which is identical in JSON, bytes and characters: the first character that needs escaping. */
function endOfPlain(bytes: Buffer, from: number): number {
  let at = from
  for (; at < bytes.length; at++) {
    const byte = bytes[at]!
    if (byte < 0x20 || byte > 0x7e || byte === quote || byte === backslash) break
  }
  return at
}

/** Whether these bytes contain `part` at this position. */
function hasAt(bytes: Buffer, part: Buffer, at: number): boolean {
  const end = at + part.length
  return end <= bytes.length && part.compare(bytes, at, end) === 0
}

/** Replaces the first plain-text value of each named member by a probe; null when one is missing. */
function withProbes(raw: string, names: readonly string[]): string | null {
  let text = raw
  for (const [i, name] of names.entries()) {
    const changed = text.replace(values.get(name)!, `$1${probes[i]}`)
    if (changed === text) return null
    text = changed
  }
  return text
}

/** Not from Node's buffer pool, which a template would keep in memory. */
function ownBytes(text: string): Buffer {
  const bytes = Buffer.alloc(text.length)
  bytes.write(text, 'latin1')
  return bytes
}

/** The parts of a text around its probes; null unless each occurs exactly once, in this order. */
function partsAround(order: readonly string[], text: string): string[] | null {
  const parts: string[] = []
  let rest = text
  for (const probe of order) {
    const [before, after, more] = rest.split(probe)
    if (after === undefined || more !== undefined) return null
    parts.push(before!)
    rest = after
  }
  return [...parts, rest]
}

/** Members of a chunk's delta that carry text. */
const chunkTexts = ['content', 'reasoning_content', 'refusal']
/** Random padding that hides the text length and differs in each chunk: OpenAI's, Mistral's. */
const paddings = ['obfuscation', 'p']
const chunkEvent = /^data: \{[^\r\n]*\}\n\n$/

/** An event split around its values: one more part than values. */
type Template = {
  received: readonly Buffer[]
  /** The event as forwarded, in latin1; null when nothing changes. */
  passing: readonly string[] | null
  /** Index of the part after the text. */
  textAt: number
}

/** An event that matches the template: its end, its text, and its forwarded form, in latin1. */
export type Repeat = { end: number; text: string; passing: string }

/**
 * Recognises events that repeat an earlier one except for the text of its choice and a padding: they need no parsing.
 * The positions of the values are proved once, by parsing the earlier event with other values.
 */
export class Repeats {
  /** The choice to which the events add. */
  index = 0
  #template: Template | null = null
  #unusedTemplates = 0

  /** Matches the event at `from`; null when it must be parsed. */
  match(bytes: Buffer, from: number): Repeat | null {
    const template = this.#template
    if (!template || !hasAt(bytes, template.received[0]!, from)) return null
    const { received, passing, textAt } = template
    let text = ''
    let out = passing ? passing[0]! : ''
    let end = from + received[0]!.length
    for (let i = 1; i < received.length; i++) {
      const start = end
      end = endOfPlain(bytes, start)
      if (!hasAt(bytes, received[i]!, end)) return null
      const isText = i === textAt
      const value = isText || passing ? bytes.toString('latin1', start, end) : ''
      if (isText) text = value
      if (passing) out += value + passing[i]
      end += received[i]!.length
    }
    this.#unusedTemplates = 0
    return { end, text, passing: passing ? out : bytes.toString('latin1', from, end) }
  }

  /** Learns a template from an ASCII event that only adds to choices; `addition` is its parsed content. */
  learn(raw: string, addition: Addition, splicer: Splicer): void {
    const { choices } = addition
    if (this.#unusedTemplates === maxUnusedTemplates || choices.length > 1 || !chunkEvent.test(raw)) return
    const text = textIn(choices[0]!)
    if (text === null) return
    const names = [text, ...paddings.filter(name => typeof (addition as Members)[name] === 'string')]
    const probedEvent = withProbes(raw, names)
    if (probedEvent === null) return
    this.#unusedTemplates++
    const template = templateOf(probedEvent, names, splicer)
    if (!template) return
    this.#template = template
    this.index = choices[0]!.index
  }
}

type Members = Record<string, unknown>

/** The member that carries a choice's text; null when there is none, or the delta has other content. */
function textIn({ delta, text }: ChunkChoice): string | null {
  if (!delta) return text ? 'text' : null
  if (text) return null
  let textMember: string | null = null
  for (const [name, value] of Object.entries(delta)) {
    if (value === null || value === '' || name === 'role') continue
    if (textMember !== null || !chunkTexts.includes(name)) return null
    textMember = name
  }
  return textMember
}

/** The template of an event with probes as values of the named members; null unless parsing proves their positions. */
function templateOf(probedEvent: string, names: readonly string[], splicer: Splicer): Template | null {
  const chunk = JSON.parse(probedEvent.slice('data: '.length)) as Addition
  const [choice] = chunk.choices
  const isProved = names.every((name, i) => {
    const holder = (i > 0 ? chunk : (choice!.delta ?? choice)) as Members
    return holder[name] === probes[i]
  })
  const rewritten = isProved ? splicer.splice(probedEvent, chunk) : null
  if (rewritten === null) return null
  const order = probes.slice(0, names.length).sort((a, b) => probedEvent.indexOf(a) - probedEvent.indexOf(b))
  const received = partsAround(order, probedEvent)
  const passing = rewritten === probedEvent ? null : partsAround(order, rewritten)
  if (!received || (rewritten !== probedEvent && !passing)) return null
  return { received: received.map(part => ownBytes(part)), passing, textAt: order.indexOf(probes[0]!) + 1 }
}

/** Members of a delta of Messages that carry text. */
const deltaTexts = ['text', 'thinking', 'partial_json']
const deltaEvent = /^(?:event: content_block_delta\n)?data: \{[^\r\n]*\}\n\n$/
/** Text that needs no escapes. */
const plain = /^[ !#-[\]-~]*$/
/** What follows the text of a delta. Anthropic's API hides the length of texts by spaces between the two brackets. */
const closing = /^"\}( *)\}( *)\n\n$/
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
    const name = deltaTexts.find(name => name in parsed.delta)
    if (name === undefined || !plain.test(String((parsed.delta as Record<string, unknown>)[name]))) return
    if (!deltaEvent.test(raw)) return
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
