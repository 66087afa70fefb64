import { parseWithCalls } from '../../../base/exact-numbers.ts'
import { isObject } from '../../../base/is-object.ts'
import { isBlank, type NativeEvent, type SseEvent, type StreamDecoder } from '../../stream-decoder.ts'
import { invalidResponse, type Json } from '../../toolkit/json-fields.ts'
import { reportsError } from './answer.ts'
import { reportedFailure } from './failure.ts'

type Chunk = { choices: { index: number; finish_reason: unknown; delta?: unknown }[] }

/**
 * `read` converts an event; null for one that is not a chunk. `passes`: see `StreamDecoder`. `end`: what the answer still
 * needs when the server declares its end.
 */
type Reader<C> = { read(json: Json): C | null; passes?(event: NativeEvent): boolean; end?(): C[] }

/**
 * Decodes events to chunks. Some servers never send `[DONE]`, so a response is also complete once every choice has its
 * finish reason. Of events that are not chunks, vendors' notes are skipped, anything else is rejected.
 */
export function createDecoder<C extends Chunk>(reader: Reader<C>): StreamDecoder<C> {
  return new ChunkDecoder(reader)
}

class ChunkDecoder<C extends Chunk> implements StreamDecoder<C> {
  readonly #reader: Reader<C>
  readonly #finished = new Map<number, boolean>()
  #isEnded = false

  constructor(reader: Reader<C>) {
    this.#reader = reader
  }

  get done(): boolean {
    return this.#isEnded || (this.#finished.size > 0 && [...this.#finished.values()].every(Boolean))
  }

  passes(event: NativeEvent): boolean {
    return this.#reader.passes?.(event) ?? true
  }

  push(event: SseEvent): C[] {
    if (this.#isEnded || isBlank(event.data)) return []
    this.#isEnded = event.data.trim() === '[DONE]'
    if (this.#isEnded) return this.#reader.end?.() ?? []
    const given = eventObject(event)
    const json = this.#finished.size === 0 ? asPieces(given) : given
    const chunk = this.#reader.read(json)
    if (!chunk && !isNote(json)) throw invalidResponse('an event of the stream is no chunk')
    if (!chunk) return []
    for (const [position, choice] of chunk.choices.entries()) {
      if ('delta' in choice && !isPiece((json.choices as Json[])[position]!)) {
        throw invalidResponse(`choice ${position} of a chunk has no delta`)
      }
      const wasFinished = this.#finished.get(choice.index) === true
      this.#finished.set(choice.index, wasFinished || choice.finish_reason !== null)
      // The first reason counts: a `stop` after `length` would hide that the answer was cut off.
      if (wasFinished) choice.finish_reason = null
    }
    return [chunk]
  }
}

/** Throws the failure that an event reports: as an `error`, as an event of that name, or as an object of that type. */
function eventObject({ event, data }: SseEvent): Json {
  let json: unknown
  try {
    json = parseWithCalls(data)
  } catch {
    throw invalidResponse('an event of the stream is not JSON')
  }
  if (!isObject(json)) throw invalidResponse('an event of the stream is not an object')
  const isError = event === 'error' || json.object === 'error' || json.type === 'error'
  if (isError || reportsError(json)) throw reportedFailure(json)
  return json
}

/** An event apart from the response, such as a ping, identifies at least its type. */
function isNote({ choices, message, ...names }: Json): boolean {
  if (choices !== undefined && choices !== null) return false
  return message === undefined && [names.object, names.type, names.id].some(name => typeof name === 'string')
}

/**
 * A whole answer as one chunk: the same object if it is none. Servers that do not stream give it as the body (warpllm/warpllm#26) or in
 * an event. Only the first event can be one: a later message repeats what came before.
 */
function asPieces(json: Json): Json {
  const { choices } = json
  if (!Array.isArray(choices) || choices.length === 0 || !choices.every(isWhole)) return json
  return { ...json, choices: choices.map(({ message, ...choice }) => ({ ...choice, delta: message })) }
}

function isWhole(choice: unknown): choice is Json {
  return isObject(choice) && isObject(choice.message) && (choice.delta === undefined || choice.delta === null)
}

/** The finish reason and a filter result may have no delta; a complete message or a text is not a chat chunk. */
function isPiece({ delta, message, text, index, finish_reason: finish }: Json): boolean {
  if (isObject(delta)) return true
  const isSilent = [delta, message, text].every(value => value === undefined || value === null)
  return isSilent && (Number.isInteger(index) || typeof finish === 'string')
}
