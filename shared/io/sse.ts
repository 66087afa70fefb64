import { StringDecoder } from 'node:string_decoder'

/**
 * `event` is its name, `data` its data lines joined by \n. Lines that are no field, such as an HTML page or an error
 * that a proxy writes into the stream, become `stray` data, which the consumer must judge.
 */
export type ServerSentEvent = { event: string; data: string; stray?: true }

/** Longer than any legitimate event (an image of 24 MB in base64). */
const maxEventCharacters = 32 * 1024 * 1024
/** So many tiny pieces in a row are joined: an array of them takes many times their characters. */
const joinedPieces = 64
const tinyCharacters = 256
/** As decoded text, and as its UTF-8 bytes decoded as latin1. */
const byteOrderMark = /^(?:\uFEFF|\u00EF\u00BB\u00BF)/

/**
 * Splits a stream of text into runs of complete server-sent events. Lines may end with \n, \r\n or \r. A long
 * event is joined once, at its end, however many chunks it has.
 */
export class EventCutter {
  #parts: string[] = []
  /** How many of the last parts are tiny. */
  #tiny = 0
  #length = 0
  /** The last characters of the buffered text: a blank line may be split between chunks. */
  #tail = ''
  #started = false

  get isEmpty(): boolean {
    return this.#length === 0
  }

  /**
   * Returns all events that are now complete, '' if there are none. Throws a RangeError if one exceeds 32 M characters.
   */
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

  /** Removes and returns the buffered text that has no final blank line. */
  rest(): string {
    const text = this.#parts.length === 1 ? this.#parts[0]! : this.#parts.join('')
    this.#parts = []
    this.#tiny = 0
    this.#length = 0
    this.#tail = ''
    return this.#unmarked(text)
  }

  /** Removes the byte order mark with which a stream may begin. */
  #unmarked(text: string): string {
    if (this.#started || text === '') return text
    this.#started = true
    return text.replace(byteOrderMark, '')
  }

  #keep(text: string): void {
    if (text === '') return
    this.#parts.push(text)
    this.#tiny = text.length < tinyCharacters ? this.#tiny + 1 : 0
    if (this.#tiny === joinedPieces) {
      this.#parts.push(this.#parts.splice(-joinedPieces).join(''))
      this.#tiny = 0
    }
    this.#length += text.length
    this.#tail = (this.#tail + text).slice(-2)
    if (this.#length > maxEventCharacters) throw new RangeError('a server-sent event is too long')
  }
}

/**
 * Parses a byte stream into server-sent events; characters may be split between chunks. `push` returns the events that
 * became complete; it throws a RangeError if one exceeds 32 M characters.
 */
export class SseParser {
  readonly #decoder = new StringDecoder('utf8')
  readonly #cutter = new EventCutter()

  push(chunk: Buffer): ServerSentEvent[] {
    return parseEvents(this.#cutter.push(this.#decoder.write(chunk)))
  }

  /** Returns the last event if it has no final blank line when the stream closes: some servers omit it. */
  end(): ServerSentEvent | null {
    return parseEvent(this.#cutter.rest() + this.#decoder.end())
  }
}

/** Whether a whole body is one of server-sent events, as which no JSON begins. */
export function isEventStream(text: string): boolean {
  return /^\s*(?:data|event|id|retry)?:/.test(text)
}

/** Parses a text of complete events; comments are omitted. */
export function parseEvents(text: string): ServerSentEvent[] {
  const events: ServerSentEvent[] = []
  for (const one of splitEvents(text)) {
    const event = parseEvent(one)
    if (event) events.push(event)
  }
  return events
}

/** A line end followed by an empty line. */
const endOfEvent = /\n\r?\n|\r\r/g

/** Splits a text of complete events into its events, each with its final blank line. */
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

/** Parses one event; null if it has no data, such as a comment. */
export function parseEvent(text: string): ServerSentEvent | null {
  const usual = parseUsualEvent(text)
  if (usual) return usual
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

/** Parses an event as nearly all servers write it: its name, if any, and one line of data. Null for all others. */
function parseUsualEvent(text: string): ServerSentEvent | null {
  const nameEnd = text.startsWith('event: ') ? text.indexOf('\n') : -1
  const start = nameEnd + 1
  const isUsual = text.startsWith('data: ', start) && text.indexOf('\n', start) === text.length - 2
  if (!isUsual || !text.endsWith('\n') || text.includes('\r')) return null
  const event = nameEnd < 0 ? '' : text.slice('event: '.length, nameEnd)
  return { event, data: text.slice(start + 'data: '.length, -2) }
}

/** The end of the last complete event of a text; 0 if there is none. */
function endOfLastEvent(text: string): number {
  if (text.endsWith('\n\n')) return text.length
  const unix = lastEnd(text, '\n\n')
  return text.includes('\r') ? Math.max(unix, lastEnd(text, '\n\r\n'), lastEnd(text, '\r\r')) : unix
}

/** `includes` first: over a long chunk of one event it is many times as fast as a search from the end. */
function lastEnd(text: string, mark: string): number {
  return text.includes(mark) ? text.lastIndexOf(mark) + mark.length : 0
}
