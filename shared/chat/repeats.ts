import type { Addition, Choice } from './choices.ts'
import type { Splicer } from './splice.ts'

/** Members of a delta that bring text. */
const texts = ['content', 'reasoning_content', 'refusal']
/** Members of a chunk that only hide how long its text is, and so differ in each: OpenAI's, Mistral's. */
const paddings = ['obfuscation', 'p']
/** The plain text that is the value of a member, after its name. */
const values = new Map([...texts, 'text', ...paddings].map(name => [name, plainValueOf(name)]))
/** Values by which the places of the text and the paddings are proved: nothing else in an event is the same. */
const probes = ['headgate-probe-0', 'headgate-probe-1', 'headgate-probe-2']
const quote = 0x22
const backslash = 0x5c
const event = /^data: \{[^\r\n]*\}\n\n$/
/** So many in a row that nothing repeats are enough: servers whose chunks differ in more than their text are not compared for long. */
const maxVainLessons = 4

/** An event around its values: one part more than there are values. */
type Template = {
  received: readonly Buffer[]
  /** As it passes, in latin1; null where nothing is to be changed. */
  passing: readonly string[] | null
  /** The part after the text. */
  textAt: number
}

/** An event that repeats an earlier one: where it ends, what it says, and how it may pass, in latin1. */
export type Repeat = { end: number; text: string; passing: string }

/**
 * Recognises events that repeat an earlier one but for the text of its choice and a padding: they need no parsing. That the values
 * stand where they are looked for is proved once, by parsing the earlier event with other values.
 */
export class Repeats {
  /** The choice to which the events add. */
  index = 0
  #template: Template | null = null
  #vainLessons = 0

  /** The event that begins at `from`; null where it has to be parsed. */
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
    this.#vainLessons = 0
    return { end, text, passing: passing ? out : bytes.toString('latin1', from, end) }
  }

  /** Takes an event in ASCII that only adds to choices (`addition` is what it holds) as the one that others may repeat. */
  learn(raw: string, addition: Addition, splicer: Splicer): void {
    const { choices } = addition
    if (this.#vainLessons === maxVainLessons || choices.length > 1 || !event.test(raw)) return
    const text = textIn(choices[0]!)
    if (text === null) return
    const names = [text, ...paddings.filter(name => typeof (addition as Members)[name] === 'string')]
    const probed = withProbes(raw, names)
    if (probed === null) return
    this.#vainLessons++
    const template = templateOf(probed, names, splicer)
    if (!template) return
    this.#template = template
    this.index = choices[0]!.index
  }
}

function plainValueOf(name: string): RegExp {
  return new RegExp(`("${name}": ?")[ !#-[\\]-~]*(?=")`)
}

/** Where plain text ends, which is the same in JSON, in bytes and in characters: at the first character that is no part of it. */
function endOfPlain(bytes: Buffer, from: number): number {
  let at = from
  for (; at < bytes.length; at++) {
    const byte = bytes[at]!
    if (byte < 0x20 || byte > 0x7e || byte === quote || byte === backslash) break
  }
  return at
}

function hasAt(bytes: Buffer, part: Buffer, at: number): boolean {
  const end = at + part.length
  return end <= bytes.length && part.compare(bytes, at, end) === 0
}

type Members = Record<string, unknown>

/** The name of the member that brings a choice's text; null where there is none, or its delta says more than that. */
function textIn({ delta, text }: Choice): string | null {
  if (!delta) return text ? 'text' : null
  if (text) return null
  let found: string | null = null
  for (const [name, value] of Object.entries(delta)) {
    if (value === null || value === '' || name === 'role') continue
    if (found !== null || !texts.includes(name)) return null
    found = name
  }
  return found
}

/** An event with a probe for the value of the first member of each name that is plain text; null where there is none. */
function withProbes(raw: string, names: readonly string[]): string | null {
  let text = raw
  for (const [i, name] of names.entries()) {
    const changed = text.replace(values.get(name)!, `$1${probes[i]}`)
    if (changed === text) return null
    text = changed
  }
  return text
}

/** The template of an event in which probes are the values of the members of these names; null unless parsing proves that they are. */
function templateOf(probed: string, names: readonly string[], splicer: Splicer): Template | null {
  const chunk = JSON.parse(probed.slice('data: '.length)) as Addition
  const [choice] = chunk.choices
  const isProved = names.every((name, i) => {
    const holder = (i > 0 ? chunk : (choice!.delta ?? choice)) as Members
    return holder[name] === probes[i]
  })
  const passed = isProved ? splicer.splice(probed, chunk) : null
  if (passed === null) return null
  const order = probes.slice(0, names.length).sort((a, b) => probed.indexOf(a) - probed.indexOf(b))
  const received = partsAround(order, probed)
  const passing = passed === probed ? null : partsAround(order, passed)
  if (!received || (passed !== probed && !passing)) return null
  return { received: received.map(part => ownBytes(part)), passing, textAt: order.indexOf(probes[0]!) + 1 }
}

/** Not from the pool of Node, which a template would keep in memory. */
function ownBytes(text: string): Buffer {
  const bytes = Buffer.alloc(text.length)
  bytes.write(text, 'latin1')
  return bytes
}

/** The parts of a text around its probes; null unless each is there once, in this order. */
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
