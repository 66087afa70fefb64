import type { ServerSentEvent } from '../io/sse.ts'

/** What one piece of a streamed answer adds to one choice. */
export type Choice = {
  index: number
  finish_reason?: string | null
  delta?: Record<string, unknown>
  text?: string
  logprobs?: unknown
}

/** `finish`: the reason that it must have, if the provider gives none. */
type Progress = { finish: 'stop' | 'tool_calls' | 'function_call'; finished: boolean }

/** Choices beyond those that were asked for which are watched all the same. */
const mostUnasked = 128

/** The choices of one streamed answer: which have begun, called a tool, finished. */
export class Choices {
  readonly #asked: number
  readonly #progress = new Map<number, Progress>()

  constructor(asked: number) {
    this.#asked = asked
  }

  note({ index, delta }: Choice): void {
    const progress = this.#of(index)
    if (delta?.tool_calls) progress.finish = 'tool_calls'
    else if (delta?.function_call) progress.finish = 'function_call'
  }

  hasFinished(index: number): boolean {
    return this.#progress.get(index)?.finished === true
  }

  /** Notes a finish. A choice finishes once: repeated by the server, it loses its reason here. */
  finishing(choice: Choice): Choice {
    if (choice.finish_reason == null) return choice
    const progress = this.#of(choice.index)
    if (progress.finished) return { ...choice, finish_reason: null }
    progress.finished = true
    return choice
  }

  /** True when all that have begun have finished, and as many as were asked for unless the provider says it is done (`said`). */
  areWhole(said: boolean): boolean {
    const finished = this.#finished
    return finished > 0 && finished === this.#progress.size && (said || finished >= this.#asked)
  }

  /** The finishes of an answer that came without any: a tool that was called is meant to be run. None when the provider gave some. */
  impliedFinishes(object: string): Choice[] {
    if (this.#finished > 0) return []
    const begun = [...this.#progress]
    return begun.map(([index, { finish }]) => emptyChoice(object, finish, index))
  }

  get #finished(): number {
    return [...this.#progress.values()].filter(({ finished }) => finished).length
  }

  #of(index: number): Progress {
    const known = this.#progress.get(index)
    if (known) return known
    const progress: Progress = { finish: 'stop', finished: false }
    if (this.#progress.size < this.#asked + mostUnasked) this.#progress.set(index, progress)
    return progress
  }
}

/** A choice that says nothing but its finish reason. `object` is that of the answer. */
export function emptyChoice(object: string, finish_reason: string | null, index = 0): Choice {
  return object === 'text_completion'
    ? { index, text: '', logprobs: null, finish_reason }
    : { index, delta: {}, finish_reason }
}

type Parted = { object: string; choices: Choice[] }

/** What a finishing piece says but for its finish. */
export function withoutFinish<P extends Parted>(piece: P): P {
  return { ...piece, choices: piece.choices.map(choice => ({ ...choice, finish_reason: null })) }
}

/** What a finishing piece says but for its text. */
export function onlyFinish<P extends Parted>(piece: P): P {
  const { object, choices } = piece
  return { ...piece, choices: choices.map(one => emptyChoice(object, one.finish_reason ?? null, one.index)) }
}

type Chunk = { choices?: unknown; error?: unknown; usage?: unknown; model?: unknown; system_fingerprint?: unknown }
/** A chunk that adds to its choices and says nothing else. */
export type Addition = Chunk & { choices: Choice[] }

/** The chunk of an event in our dialect that adds to its choices and says nothing else; null for any other event. */
export function additionOf({ event, data, stray }: ServerSentEvent, isChat: boolean): Addition | null {
  // The terminator, which every stream has: an error of JSON.parse is dear.
  if (stray || event === 'error' || data.startsWith('[DONE]')) return null
  let chunk: Chunk | null
  try {
    chunk = JSON.parse(data)
  } catch {
    return null
  }
  if (!chunk || chunk.error != null || chunk.usage != null) return null
  const { choices } = chunk
  if (!Array.isArray(choices) || choices.length === 0) return null
  return choices.every(isChat ? isChatAddition : isTextAddition) ? (chunk as Addition) : null
}

function isChatAddition(choice: Choice | null): boolean {
  // `reasoning` has another name in our dialect.
  return isUnfinished(choice) && isObject(choice.delta) && !choice.delta.reasoning
}

function isTextAddition(choice: Choice | null): boolean {
  return isUnfinished(choice) && typeof choice.text === 'string'
}

function isUnfinished(choice: Choice | null): choice is Choice {
  return choice !== null && Number.isInteger(choice.index) && choice.finish_reason == null
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
