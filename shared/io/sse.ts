import { StringDecoder } from 'node:string_decoder'

export type ServerSentEvent = { event: string; data: string }

/** No event of a sane provider is longer (an image of 24 MB in base64). */
const mostEventCharacters = 32 * 1024 * 1024

/**
 * Cuts text that comes in pieces into runs of whole server-sent events. A long event is joined once, when its end is
 * there, however many pieces it came in.
 */
export class EventCutter {
  #parts: string[] = []
  #length = 0
  /** The end of what waits: where half of a blank line may be. */
  #tail = ''

  /** True when the last piece ended with an event. */
  get empty(): boolean {
    return this.#length === 0
  }

  /** Gives every event that is whole now, '' while there is none. Throws a RangeError when one grows beyond 32 M characters. */
  push(text: string): string {
    const end = endOfLastEvent(this.#tail + text) - this.#tail.length
    if (end <= 0) {
      this.#keep(text)
      return ''
    }
    const whole = this.rest() + text.slice(0, end)
    this.#keep(text.slice(end))
    return whole
  }

  /** Takes out what waits without its blank line. */
  rest(): string {
    const text = this.#parts.join('')
    this.#parts = []
    this.#length = 0
    this.#tail = ''
    return text
  }

  #keep(text: string): void {
    if (text === '') return
    this.#parts.push(text)
    this.#length += text.length
    this.#tail = (this.#tail + text).slice(-2)
    if (this.#length > mostEventCharacters) throw new RangeError('a server-sent event is too long')
  }
}

/**
 * Cuts a byte stream into server-sent events: \n and \r\n, several data lines, comments, names, characters split between
 * chunks. `push` gives the events that became whole; it throws a RangeError when one grows beyond 32 M characters.
 */
export class SseParser {
  readonly #decoder = new StringDecoder('utf8')
  readonly #cutter = new EventCutter()

  push(chunk: Buffer): ServerSentEvent[] {
    return parseEvents(this.#cutter.push(this.#decoder.write(chunk)))
  }

  /** What was left without its blank line when the stream closed: some servers omit the last one. */
  end(): ServerSentEvent | null {
    return parseEvent(this.#cutter.rest() + this.#decoder.end())
  }
}

/** The events of a text that holds whole ones only; comments are left out. */
export function parseEvents(text: string): ServerSentEvent[] {
  const events: ServerSentEvent[] = []
  for (let from = 0; from < text.length; ) {
    const next = endOfEvent(text, from)
    const event = parseEvent(text.slice(from, next))
    if (event) events.push(event)
    from = next
  }
  return events
}

/** Where the event that starts at `from` ends, its blank line included; the text's length when it has none. */
export function endOfEvent(text: string, from: number): number {
  for (let at = text.indexOf('\n', from); at >= 0; at = text.indexOf('\n', at + 1)) {
    if (text[at + 1] === '\n') return at + 2
    if (text[at + 1] === '\r' && text[at + 2] === '\n') return at + 3
  }
  return text.length
}

function endOfLastEvent(text: string): number {
  const unix = text.lastIndexOf('\n\n')
  const dos = text.lastIndexOf('\n\r\n')
  return Math.max(unix < 0 ? 0 : unix + 2, dos < 0 ? 0 : dos + 3)
}

function parseEvent(text: string): ServerSentEvent | null {
  let event = ''
  let data: string | null = null
  for (const raw of text.split('\n')) {
    const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw
    const colon = line.indexOf(':')
    const field = colon < 0 ? line : line.slice(0, colon)
    let value = colon < 0 ? '' : line.slice(colon + 1)
    if (value.startsWith(' ')) value = value.slice(1)
    if (field === 'data') data = data === null ? value : `${data}\n${value}`
    else if (field === 'event') event = value
  }
  return data === null ? null : { event, data }
}
