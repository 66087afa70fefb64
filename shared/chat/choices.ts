import { isObject } from '../base/is-object.ts'
import type { ServerSentEvent } from '../io/sse.ts'

/** The part of one choice in a chunk of a streamed answer. */
export type ChunkChoice = {
  index: number
  finish_reason?: string | null
  delta?: Record<string, unknown>
  text?: string
  logprobs?: unknown
}

/** `finish`: the implied finish reason, used if the provider sends none. */
type Progress = { finish: 'stop' | 'tool_calls' | 'function_call'; finished: boolean }

/** Maximum choices tracked beyond the requested number. */
const maxUnrequested = 128

/** State of the choices of one streamed answer: started, called a tool, finished. */
export class Choices {
  readonly #requested: number
  readonly #progress = new Map<number, Progress>()

  constructor(requested: number) {
    this.#requested = requested
  }

  record({ index, delta }: ChunkChoice): void {
    const progress = this.#of(index)
    if (delta?.tool_calls) progress.finish = 'tool_calls'
    else if (delta?.function_call) progress.finish = 'function_call'
  }

  hasFinished(index: number): boolean {
    return this.#progress.get(index)?.finished === true
  }

  /** Records a finish. A choice finishes once: a repeated finish reason is removed. */
  finish(choice: ChunkChoice): ChunkChoice {
    if (choice.finish_reason == null) return choice
    const progress = this.#of(choice.index)
    if (progress.finished) return { ...choice, finish_reason: null }
    progress.finished = true
    return choice
  }

  /**
   * True when all started choices have finished, and either as many as requested or the provider declared the end
   * (`isDeclaredDone`).
   */
  areComplete(isDeclaredDone: boolean): boolean {
    const finished = this.#finished
    return finished > 0 && finished === this.#progress.size && (isDeclaredDone || finished >= this.#requested)
  }

  /**
   * The implied finishes of an answer without any: a tool call implies `tool_calls`. Empty when the provider sent some.
   */
  impliedFinishes(object: string): ChunkChoice[] {
    if (this.#finished > 0) return []
    const begun = [...this.#progress]
    return begun.map(([index, { finish }]) => emptyChoice(object, finish, index))
  }

  get #finished(): number {
    return [...this.#progress.values()].filter(({ finished }) => finished).length
  }

  #of(index: number): Progress {
    const existing = this.#progress.get(index)
    if (existing) return existing
    const progress: Progress = { finish: 'stop', finished: false }
    if (this.#progress.size < this.#requested + maxUnrequested) this.#progress.set(index, progress)
    return progress
  }
}

/** A choice with nothing but a finish reason. `object` is that of the answer. */
export function emptyChoice(object: string, finish_reason: string | null, index = 0): ChunkChoice {
  return object === 'text_completion'
    ? { index, text: '', logprobs: null, finish_reason }
    : { index, delta: {}, finish_reason }
}

type ChunkWithChoices = { object: string; choices: ChunkChoice[] }

/** A finishing chunk without its finish reason. */
export function withoutFinish<P extends ChunkWithChoices>(chunk: P): P {
  return { ...chunk, choices: chunk.choices.map(choice => ({ ...choice, finish_reason: null })) }
}

/** A finishing chunk without its text. */
export function onlyFinish<P extends ChunkWithChoices>(chunk: P): P {
  const { object, choices } = chunk
  return { ...chunk, choices: choices.map(choice => emptyChoice(object, choice.finish_reason ?? null, choice.index)) }
}

type Chunk = { choices?: unknown; error?: unknown; usage?: unknown; model?: unknown; system_fingerprint?: unknown }
/** A chunk that only adds to its choices. */
export type Addition = Chunk & { choices: ChunkChoice[] }

/** Parses an event of the native dialect that only adds to its choices; null for any other event. */
export function additionOf({ event, data, stray }: ServerSentEvent, isChat: boolean): Addition | null {
  // Every stream has the terminator, and an exception of JSON.parse is expensive.
  if (stray || event === 'error' || data.startsWith('[DONE]')) return null
  let parsed: Chunk | null
  try {
    parsed = JSON.parse(data)
  } catch {
    return null
  }
  if (!parsed || parsed.error != null || parsed.usage != null) return null
  const { choices } = parsed
  if (!Array.isArray(choices) || choices.length === 0) return null
  return choices.every(isChat ? isChatAddition : isTextAddition) ? (parsed as Addition) : null
}

function isChatAddition(choice: ChunkChoice | null): boolean {
  if (!isUnfinished(choice) || !isObject(choice.delta)) return false
  const { reasoning, reasoning_details: details } = choice.delta
  // The native dialect names `reasoning` differently, and seals the details.
  return !reasoning && (!details || (Array.isArray(details) && details.length === 0))
}

function isTextAddition(choice: ChunkChoice | null): boolean {
  return isUnfinished(choice) && typeof choice.text === 'string'
}

function isUnfinished(choice: ChunkChoice | null): choice is ChunkChoice {
  return choice !== null && Number.isInteger(choice.index) && choice.finish_reason == null
}
