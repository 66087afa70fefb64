import type { Usage } from '../../base/usage.ts'
import type { ChatChunk, ChatDelta, FinishReason } from '../../kinds/chat.ts'
import { type Call, ProviderError } from '../contract.ts'
import type { SseEvent, StreamDecoder } from '../stream-decoder.ts'
import { finishReason, head, isBlocked, logprobsOf, piecesOf, usageOf } from './answer.ts'
import { type Generated, readGenerated } from './wire.ts'

type Candidate = NonNullable<Generated['candidates']>[number]
/** What a choice has given so far. */
type Progress = { started: boolean; produced: boolean; toolCalls: number; finished: boolean }

/** The decoder of one streamed answer. */
export function chatStream(call: Call<'chat'>): StreamDecoder<ChatChunk> {
  return new GeneratedDecoder(call)
}

/**
 * Decodes `streamGenerateContent?alt=sse`: every event has the shape of a whole answer and carries the next parts;
 * function calls come whole. There is no end mark: the answer is complete when every choice has a finish reason. The
 * counts are cumulative, so the last event's are given, in a chunk without choices.
 */
class GeneratedDecoder implements StreamDecoder<ChatChunk> {
  readonly #call: Call<'chat'>
  readonly #expected: number
  readonly #choices = new Map<number, Progress>()
  #opening: Pick<ChatChunk, 'id' | 'created' | 'model'> | undefined
  #usage: Usage | undefined

  constructor(call: Call<'chat'>) {
    this.#call = call
    this.#expected = call.body.n ?? 1
  }

  get done(): boolean {
    let finished = 0
    for (const choice of this.#choices.values()) if (choice.finished) finished++
    return finished >= this.#expected
  }

  push(event: SseEvent): ChatChunk[] {
    if (event.data === '') return []
    const generated = readGenerated(parse(event.data))
    if (Object.keys(generated).length === 0) throw nonsense('sent an event that says nothing')
    this.#opening ??= head(generated, this.#call)
    const { id, created, model } = this.#opening
    const counted = usageOf(generated.usageMetadata)
    const wasDone = this.done
    const pieces = this.#piecesOf(generated)
    const chunk = (choices: Choice[]) => ({ id, created, model, object: 'chat.completion.chunk' as const, choices })
    const chunks: ChatChunk[] = pieces.map(choice => chunk([choice]))
    // An earlier count lacks what this event says.
    this.#usage = counted ?? (pieces.some(saysSomething) ? undefined : this.#usage)
    // Counts that arrive after the end replace the earlier ones.
    if (this.done && this.#usage && (counted || !wasDone)) chunks.push({ ...chunk([]), usage: this.#usage })
    return chunks
  }

  #piecesOf(generated: Generated): Choice[] {
    const progressOf = (index: number) => this.#progressOf(index)
    if (isBlocked(generated)) return blocked(this.#expected, progressOf)
    return (generated.candidates ?? []).flatMap((candidate, position) => {
      const index = candidate.index ?? position
      return candidateChoices(candidate, index, progressOf(index))
    })
  }

  #progressOf(index: number): Progress {
    const known = this.#choices.get(index)
    if (known) return known
    const progress: Progress = { started: false, produced: false, toolCalls: 0, finished: false }
    this.#choices.set(index, progress)
    return progress
  }
}

type Choice = ChatChunk['choices'][number]

/** One event's part of one choice: a delta when it says anything, then the end. */
function candidateChoices(candidate: Candidate, index: number, progress: Progress): Choice[] {
  const { text, reasoning, toolCalls, images } = piecesOf(candidate.content?.parts)
  const delta: ChatDelta = {
    ...(text && { content: text }),
    ...(reasoning && { reasoning_content: reasoning }),
    ...(toolCalls.length > 0 && {
      tool_calls: toolCalls.map((toolCall, position) => ({ index: progress.toolCalls + position, ...toolCall })),
    }),
    ...(images.length > 0 && { images }),
  }
  progress.toolCalls += toolCalls.length
  progress.produced ||= text !== '' || toolCalls.length > 0 || images.length > 0
  const logprobs = candidate.logprobsResult && { logprobs: logprobsOf(candidate.logprobsResult) }
  const choices: Choice[] = []
  const reason = candidate.finishReason
  const ends = reason !== undefined && !progress.finished
  // Before the first delta: an answer without anything must still be refusable.
  const end = ends ? finishReason(reason, { produced: progress.produced, called: progress.toolCalls > 0 }) : null
  if (Object.keys(delta).length > 0 || logprobs || (ends && !progress.started)) {
    choices.push({ index, delta: opened(progress, delta), ...logprobs, finish_reason: null })
  }
  if (end) choices.push(ended(index, progress, end))
  return choices
}

function blocked(expected: number, progressOf: (index: number) => Progress): Choice[] {
  return Array.from({ length: expected }, (_, index) => index).flatMap(index => {
    const progress = progressOf(index)
    if (progress.finished) return []
    const first: Choice[] = progress.started ? [] : [{ index, delta: opened(progress, {}), finish_reason: null }]
    return [...first, ended(index, progress, 'content_filter')]
  })
}

/** The role and, where nothing else is said, an empty text come with a choice's first delta. */
function opened(progress: Progress, delta: ChatDelta): ChatDelta {
  if (progress.started) return delta
  progress.started = true
  return { role: 'assistant', ...(Object.keys(delta).length > 0 ? delta : { content: '' }) }
}

function ended(index: number, progress: Progress, reason: FinishReason): Choice {
  progress.finished = true
  return { index, delta: {}, finish_reason: reason }
}

function saysSomething({ delta }: Choice): boolean {
  return Object.values(delta).some(said => said !== 'assistant' && said !== '')
}

function parse(data: string): unknown {
  try {
    return JSON.parse(data)
  } catch (cause) {
    throw nonsense('sent an event that is not JSON', cause)
  }
}

function nonsense(what: string, cause?: unknown): ProviderError {
  return new ProviderError('invalid_response', `Gemini ${what}`, { cause })
}
