import type { Readable } from 'node:stream'
import { type ServerSentEvent, SseParser } from '../../io/sse.ts'
import { invalid } from '../fields.ts'

/**
 * The JSON of a stream's server-sent events, up to its end or `[DONE]`. Throws a ProviderError `invalid_response` for one
 * that is none, and what the stream fails with.
 */
export async function* jsonEvents(stream: Readable): AsyncIterable<unknown> {
  const parser = new SseParser()
  for await (const chunk of stream)
    for (const event of pushed(parser, chunk)) {
      if (event.data === '[DONE]') return
      yield jsonOf(event)
    }
  const last = parser.end()
  if (last && last.data !== '[DONE]') yield jsonOf(last)
}

function pushed(parser: SseParser, chunk: Buffer): ServerSentEvent[] {
  try {
    return parser.push(chunk)
  } catch {
    throw invalid('an event of it is too long')
  }
}

function jsonOf({ data }: ServerSentEvent): unknown {
  try {
    return JSON.parse(data)
  } catch {
    throw invalid('an event of it is no JSON')
  }
}
