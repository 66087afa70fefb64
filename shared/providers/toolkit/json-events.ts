import type { Readable } from 'node:stream'
import { type ServerSentEvent, SseParser } from '../../io/sse.ts'
import { invalidResponse } from './json-fields.ts'

/** An event with its data as JSON. `name` is '' if it has none. */
export type JsonEvent = { name: string; json: unknown }

/**
 * The server-sent events of a response up to the last one, `[DONE]` or the end of the stream, read on demand. Throws a
 * ProviderError `invalid_response` for an event that is not JSON or too long, and the stream's own errors.
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
    // Drains the response after the last event, so that the connection can be reused.
    if (isOver) answer.on('error', () => {}).resume()
    else answer.destroy()
  }
}

async function* eventsOf(answer: Readable): AsyncGenerator<ServerSentEvent> {
  const parser = new SseParser()
  try {
    for await (const chunk of answer.iterator({ destroyOnReturn: false })) yield* parser.push(chunk)
  } catch (error) {
    throw error instanceof RangeError ? invalidResponse('an event of it is too long') : error
  }
  const rest = parser.end()
  if (rest) yield rest
}

function jsonOf(data: string): unknown {
  try {
    return JSON.parse(data)
  } catch {
    throw invalidResponse('an event of it is no JSON')
  }
}
