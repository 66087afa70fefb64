import { parseWithCalls } from '../../../base/exact-numbers.ts'
import type { Usage } from '../../../base/usage.ts'
import type { ChatChunk, ChatDelta, FinishReason } from '../../../kinds/chat.ts'
import type { Call } from '../../contract.ts'
import { ProviderError } from '../../provider-error.ts'
import type { SseEvent, StreamDecoder } from '../../stream-decoder.ts'
import { finishReason, head, isBlocked, logprobsOf, piecesOf, usageOf } from './answer.ts'
import { type Generated, readGenerated } from './wire.ts'

type Candidate = NonNullable<Generated['candidates']>[number]
/** The output of a choice so far. */
type Progress = { started: boolean; produced: boolean; toolCalls: number; finished: boolean }

/** The decoder of one streamed response. */
export function chatStream(call: Call<'chat'>): StreamDecoder<ChatChunk> {
  return new GeneratedDecoder(call)
}

/**
 * Decodes `streamGenerateContent?alt=sse`: every event has the format of a complete response and carries the next
 * parts; function calls are complete. There is no end marker: the response is complete when every choice has a finish
 * reason. Counts are cumulative, so those of the last event are sent, in a chunk without choices.
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
    const reportedUsage = usageOf(generated.usageMetadata)
    const wasDone = this.done
    const pieces = this.#piecesOf(generated)
    const chunk = (choices: Choice[]) => ({ id, created, model, object: 'chat.completion.chunk' as const, choices })
    const chunks: ChatChunk[] = pieces.map(choice => chunk([choice]))
    // An earlier count excludes the output of this event.
    this.#usage = reportedUsage ?? (pieces.some(hasContent) ? undefined : this.#usage)
    // Counts that arrive after the end replace the earlier ones.
    if (this.done && this.#usage && (reportedUsage || !wasDone)) chunks.push({ ...chunk([]), usage: this.#usage })
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
    const existing = this.#choices.get(index)
    if (existing) return existing
    const progress: Progress = { started: false, produced: false, toolCalls: 0, finished: false }
    this.#choices.set(index, progress)
    return progress
  }
}

type Choice = ChatChunk['choices'][number]

/** Converts one choice of an event: a delta if it has content, then the finish reason. */
function candidateChoices(candidate: Candidate, index: number, progress: Progress): Choice[] {
  const { text, reasoning, details, toolCalls, images } = piecesOf(candidate.content?.parts)
  const delta: ChatDelta = {
    ...(text && { content: text }),
    ...(reasoning && { reasoning_content: reasoning }),
    ...(details.length > 0 && { reasoning_details: details }),
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
  // Before the first delta: an empty response must still be reportable as an error.
  const end = ends ? finishReason(reason, { produced: progress.produced, called: progress.toolCalls > 0 }) : null
  if (Object.keys(delta).length > 0 || logprobs || (ends && !progress.started)) {
    choices.push({ index, delta: withRole(progress, delta), ...logprobs, finish_reason: null })
  }
  if (end) choices.push(finalChoice(index, progress, end))
  return choices
}

function blocked(expected: number, progressOf: (index: number) => Progress): Choice[] {
  return Array.from({ length: expected }, (_, index) => index).flatMap(index => {
    const progress = progressOf(index)
    if (progress.finished) return []
    const first: Choice[] = progress.started ? [] : [{ index, delta: withRole(progress, {}), finish_reason: null }]
    return [...first, finalChoice(index, progress, 'content_filter')]
  })
}

/** Adds the role, and an empty text if there is no other content, to a choice's first delta. */
function withRole(progress: Progress, delta: ChatDelta): ChatDelta {
  if (progress.started) return delta
  progress.started = true
  return { role: 'assistant', ...(Object.keys(delta).length > 0 ? delta : { content: '' }) }
}

function finalChoice(index: number, progress: Progress, reason: FinishReason): Choice {
  progress.finished = true
  return { index, delta: {}, finish_reason: reason }
}

function hasContent({ delta }: Choice): boolean {
  return Object.values(delta).some(value => value !== 'assistant' && value !== '')
}

function parse(data: string): unknown {
  try {
    return parseWithCalls(data)
  } catch (cause) {
    throw nonsense('sent an event that is not JSON', cause)
  }
}

function nonsense(what: string, cause?: unknown): ProviderError {
  return new ProviderError('invalid_response', `Gemini ${what}`, { cause })
}
