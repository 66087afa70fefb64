import { StringDecoder } from 'node:string_decoder'

/**
 * `event` is its name, `data` its data lines joined by \n. Lines that are no field, such as a page of HTML or an error that
 * a proxy writes into the stream, are `stray` data: whoever reads the data judges them.
 */
export type ServerSentEvent = { event: string; data: string; stray?: true }

/** No event of a sane provider is longer (an image of 24 MB in base64). */
const mostEventCharacters = 32 * 1024 * 1024
/** As text, and as latin1 text of its UTF-8 bytes. */
const byteOrderMark = /^(?:\uFEFF|\u00EF\u00BB\u00BF)/

/**
 * Cuts text that comes in pieces into runs of whole server-sent events. Lines may end with \n, \r\n or \r. A long event is
 * joined once, when its end is there, however many pieces it came in.
 */
export class EventCutter {
  #parts: string[] = []
  #length = 0
  /** The end of what waits: a part of a blank line may be there. */
  #tail = ''
  #started = false

  get isEmpty(): boolean {
    return this.#length === 0
  }

  /** Gives every event that is whole now, '' while there is none. Throws a RangeError when one grows beyond 32 M characters. */
  push(text: string): string {
    const end = endOfLastEvent(this.#tail + text) - this.#tail.length
    if (end === text.length && this.#length === 0) return this.#unmarked(text)
    if (end <= 0) {
      this.#keep(text)
      return ''
    }
    this.#keep(text.slice(0, end))
    const whole = this.rest()
    this.#keep(text.slice(end))
    return whole
  }

  /** Takes out what waits without its blank line. */
  rest(): string {
    const text = this.#parts.length === 1 ? this.#parts[0]! : this.#parts.join('')
    this.#parts = []
    this.#length = 0
    this.#tail = ''
    return this.#unmarked(text)
  }

  /** The text without the mark with which a stream may begin. */
  #unmarked(text: string): string {
    if (this.#started || text === '') return text
    this.#started = true
    return text.replace(byteOrderMark, '')
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
 * Cuts a byte stream into server-sent events, characters split between chunks included. `push` gives the events that
 * became whole; it throws a RangeError when one grows beyond 32 M characters.
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
  for (const one of splitEvents(text)) {
    const event = parseEvent(one)
    if (event) events.push(event)
  }
  return events
}

/** The end of a line and an empty line. */
const endOfEvent = /\n\r?\n|\r\r/g

/** Cuts a text of whole events into its events, each with the blank line that ends it. */
export function splitEvents(text: string): string[] {
  const events: string[] = []
  let from = 0
  const cut = (end: number) => {
    events.push(text.slice(from, end))
    from = end
  }
  if (text.includes('\r')) {
    for (const { 0: ending, index } of text.matchAll(endOfEvent)) cut(index + ending.length)
  } else {
    for (let at = text.indexOf('\n\n'); at >= 0; at = text.indexOf('\n\n', from)) cut(at + 2)
  }
  if (from < text.length) cut(text.length)
  return events
}

/** Reads one event; null when it has no data, such as a comment. */
export function parseEvent(text: string): ServerSentEvent | null {
  const isOneLine = text.startsWith('data: ') && text.indexOf('\n') === text.length - 2 && text.endsWith('\n')
  if (isOneLine && !text.includes('\r')) return { event: '', data: text.slice('data: '.length, -2) }
  let event = ''
  let data: string | null = null
  let stray = false
  for (const line of text.split(/\r\n|\n|\r/)) {
    if (line === '' || line.startsWith(':')) continue
    const colon = line.indexOf(':')
    const field = colon < 0 ? line : line.slice(0, colon)
    let value = colon < 0 ? '' : line.slice(colon + 1)
    if (value.startsWith(' ')) value = value.slice(1)
    if (field === 'id' || field === 'retry') continue
    if (field === 'event') {
      event = value
      continue
    }
    if (field !== 'data') {
      stray = true
      value = line
    }
    data = data === null ? value : `${data}\n${value}`
  }
  return data === null ? null : { event, data, ...(stray && { stray }) }
}

/** Where the last event of a text ends; 0 when none does. */
function endOfLastEvent(text: string): number {
  if (text.endsWith('\n\n')) return text.length
  const unix = lastEnd(text, '\n\n')
  return text.includes('\r') ? Math.max(unix, lastEnd(text, '\n\r\n'), lastEnd(text, '\r\r')) : unix
}

/** `includes` first: it skips a long piece of one event many times as fast as a search from the end. */
function lastEnd(text: string, mark: string): number {
  return text.includes(mark) ? text.lastIndexOf(mark) + mark.length : 0
}
