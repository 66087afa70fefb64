import type { Addition, ChunkChoice } from './choices.ts'
import { endOfPlain, hasAt, maxUnusedTemplates, ownBytes, partsAround, probes, withProbes } from './event-template.ts'
import type { Splicer } from './splice.ts'

/** Members of a delta that carry text. */
const texts = ['content', 'reasoning_content', 'refusal']
/** Random padding that hides the text length and differs in each chunk: OpenAI's, Mistral's. */
const paddings = ['obfuscation', 'p']
const event = /^data: \{[^\r\n]*\}\n\n$/

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
    if (this.#unusedTemplates === maxUnusedTemplates || choices.length > 1 || !event.test(raw)) return
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
    if (textMember !== null || !texts.includes(name)) return null
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
