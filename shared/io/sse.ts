import { StringDecoder } from 'node:string_decoder'

export type ServerSentEvent = { event: string; data: string }

/** No event of a sane provider is longer (an image of 24 MB in base64). */
const mostEventCharacters = 32 * 1024 * 1024

/**
 * Cuts a byte stream into server-sent events: \n and \r\n, several data lines, comments, names, characters split between
 * chunks. `push` gives the events that became whole; it throws a RangeError when one grows beyond 32 M characters.
 */
export class SseParser {
  readonly #decoder = new StringDecoder('utf8')
  #rest = ''

  push(chunk: Buffer): ServerSentEvent[] {
    this.#rest += this.#decoder.write(chunk)
    if (this.#rest.length > mostEventCharacters) throw new RangeError('a server-sent event is too long')
    const events: ServerSentEvent[] = []
    let from = 0
    for (;;) {
      const end = blankLine(this.#rest, from)
      if (!end) break
      const event = parseEvent(this.#rest.slice(from, end.at))
      if (event) events.push(event)
      from = end.next
    }
    if (from > 0) this.#rest = this.#rest.slice(from)
    return events
  }

  /** What was left without its blank line when the stream closed: some servers omit the last one. */
  end(): ServerSentEvent | null {
    const rest = this.#rest + this.#decoder.end()
    this.#rest = ''
    return parseEvent(rest)
  }
}

function blankLine(text: string, from: number): { at: number; next: number } | null {
  for (let at = text.indexOf('\n', from); at >= 0; at = text.indexOf('\n', at + 1)) {
    if (text[at + 1] === '\n') return { at, next: at + 2 }
    if (text[at + 1] === '\r' && text[at + 2] === '\n') return { at, next: at + 3 }
  }
  return null
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
