import type { Readable } from 'node:stream'
import { type ServerSentEvent, SseParser } from '../io/sse.ts'
import { invalid } from './fields.ts'

/** An event with the JSON of its data. `name` is '' where it has none. */
export type JsonEvent = { name: string; json: unknown }

/**
 * The server-sent events of an answer up to the one that is the last, to `[DONE]` or to its end, each read when it is asked for.
 * Throws a ProviderError `invalid_response` for an event that is no JSON or too long, and what the stream fails with.
 */
export async function* jsonEvents(
  answer: Readable,
  isLast: (json: unknown) => boolean = () => false,
): AsyncGenerator<JsonEvent> {
  let isOver = false
  try {
    for await (const { event, data } of eventsOf(answer)) {
      if (data === '[DONE]') return
      const json = jsonOf(data)
      isOver = isLast(json)
      yield { name: event, json }
      if (isOver) return
    }
  } finally {
    // Nothing of interest follows the last event, but a connection that was read to its end can be used again.
    if (isOver) answer.on('error', () => {}).resume()
    else answer.destroy()
  }
}

async function* eventsOf(answer: Readable): AsyncGenerator<ServerSentEvent> {
  const parser = new SseParser()
  try {
    for await (const chunk of answer.iterator({ destroyOnReturn: false })) yield* parser.push(chunk)
  } catch (error) {
    throw error instanceof RangeError ? invalid('an event of it is too long') : error
  }
  const rest = parser.end()
  if (rest) yield rest
}

function jsonOf(data: string): unknown {
  try {
    return JSON.parse(data)
  } catch {
    throw invalid('an event of it is no JSON')
  }
}
