import type { FinishReason } from '../../kinds/chat.ts'
import { ProviderError } from '../contract.ts'
import type { SseEvent, StreamDecoder } from '../stream-decoder.ts'
import { reportedFailure } from './failure.ts'
import { invalid, isObject, type Json } from './json.ts'

const finishReasons = new Map<unknown, FinishReason>([
  ['length', 'length'],
  ['model_length', 'length'],
  ['max_tokens', 'length'],
  ['tool_calls', 'tool_calls'],
  ['function_call', 'function_call'],
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

type Chunk = { choices: { index: number; finish_reason: unknown; delta?: unknown }[] }

/**
 * Events to chunks. Some servers never send `[DONE]`, so an answer is also complete once every choice has its finish
 * reason. `read` gives null for an event that is no chunk: vendors' notes are left out, anything else is refused.
 */
export function decoder<C extends Chunk>(read: (json: Json) => C | null): StreamDecoder<C> {
  return new ChunkDecoder(read)
}

class ChunkDecoder<C extends Chunk> implements StreamDecoder<C> {
  readonly #read: (json: Json) => C | null
  readonly #finished = new Map<number, boolean>()
  #ended = false

  constructor(read: (json: Json) => C | null) {
    this.#read = read
  }

  get done(): boolean {
    return this.#ended || (this.#finished.size > 0 && [...this.#finished.values()].every(Boolean))
  }

  push(event: SseEvent): C[] {
    if (this.#ended || event.data === '') return []
    this.#ended = event.data.trim() === '[DONE]'
    if (this.#ended) return []
    const json = eventObject(event)
    const chunk = this.#read(json)
    if (!chunk && !isNote(json)) throw invalid('an event of the stream is no chunk')
    if (!chunk) return []
    for (const [position, choice] of chunk.choices.entries()) {
      if ('delta' in choice && !isPiece((json.choices as Json[])[position]!)) {
        throw invalid(`choice ${position} of a chunk has no delta`)
      }
      const isFinished = choice.finish_reason !== null || this.#finished.get(choice.index) === true
      this.#finished.set(choice.index, isFinished)
    }
    return [chunk]
  }
}

/** Throws the failure that an event reports: as an `error`, as an event of that name, or as an object that calls itself one. */
function eventObject({ event, data }: SseEvent): Json {
  let json: unknown
  try {
    json = JSON.parse(data)
  } catch {
    throw invalid('an event of the stream is not JSON')
  }
  if (!isObject(json)) throw invalid('an event of the stream is not an object')
  const isError = event === 'error' || json.object === 'error' || json.type === 'error'
  if (isError || (json.error !== undefined && json.error !== null)) throw reportedFailure(json)
  return json
}

/** An event beside the answer, such as a ping, says at least what it is. */
function isNote({ choices, message, ...names }: Json): boolean {
  if (choices !== undefined && choices !== null) return false
  return message === undefined && [names.object, names.type, names.id].some(name => typeof name === 'string')
}

/** The finish and a filter's verdict may come without a delta; a whole message or a text is no piece of a chat. */
function isPiece({ delta, message, text, index, finish_reason: finish }: Json): boolean {
  if (isObject(delta)) return true
  const isSilent = [delta, message, text].every(said => said === undefined || said === null)
  return isSilent && (Number.isInteger(index) || typeof finish === 'string')
}
