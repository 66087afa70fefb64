import type { FinishReason } from '../../kinds/chat.ts'
import { ProviderError, type SseEvent, type StreamDecoder } from '../contract.ts'
import { reportedFailure } from './failure.ts'
import { invalid, isObject, type Json } from './json.ts'

const finishReasons = new Map<unknown, FinishReason>([
  ['length', 'length'],
  ['model_length', 'length'],
  ['max_tokens', 'length'],
  ['tool_calls', 'tool_calls'],
  ['function_call', 'tool_calls'],
  ['content_filter', 'content_filter'],
])

/** A provider's finish reason as one of ours (an unknown one is a plain stop). Throws a ProviderError when it reports a failure. */
export function finishReason(value: unknown): FinishReason {
  if (value === 'error') throw new ProviderError('server_error', 'The provider failed while it generated the answer.')
  if (value === 'insufficient_system_resource') {
    throw new ProviderError('overloaded', 'The provider ran out of capacity while it generated the answer.')
  }
  return finishReasons.get(value) ?? 'stop'
}

type Chunk = { choices: { index: number; finish_reason: unknown }[] }

/**
 * Events to chunks. Some servers never send `[DONE]`, so an answer is also complete once every choice has its finish
 * reason. `read` gives null for an event that is no chunk.
 */
export function decoder<C extends Chunk>(read: (json: Json) => C | null): StreamDecoder<C> {
  const finished = new Map<number, boolean>()
  let ended = false
  return {
    push(event) {
      if (ended || event.data === '') return []
      ended = event.data.trim() === '[DONE]'
      if (ended) return []
      const chunk = read(eventObject(event))
      if (!chunk) return []
      for (const { index, finish_reason } of chunk.choices) {
        finished.set(index, finish_reason !== null || finished.get(index) === true)
      }
      return [chunk]
    },
    get done() {
      return ended || (finished.size > 0 && [...finished.values()].every(Boolean))
    },
  }
}

function eventObject({ event, data }: SseEvent): Json {
  let json: unknown
  try {
    json = JSON.parse(data)
  } catch {
    throw invalid('an event of the stream is not JSON')
  }
  if (!isObject(json)) throw invalid('an event of the stream is not an object')
  if (event === 'error' || (json.error !== undefined && json.error !== null)) throw reportedFailure(json)
  return json
}
