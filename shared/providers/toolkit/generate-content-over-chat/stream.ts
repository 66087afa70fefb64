import type { Usage } from '../../../base/usage.ts'
import type { ChatChunk, ChatDelta, FinishReason } from '../../../kinds/chat.ts'
import {
  type GeminiAnswer,
  type GeminiAnswerPart,
  type GeminiCandidate,
  geminiUsage,
} from '../../../kinds/generate-content.ts'
import { maxCitations } from '../over-chat/citations.ts'
import { textTokens } from '../over-chat/estimate.ts'
import { callPart, finishReasonOf, groundingOf, imagePart, logprobsOf } from './answer.ts'
import { type CarriedReasoning, signatureOf } from './reasoning-state.ts'

type EncoderOptions = {
  /** Whether the request asked for the thoughts. */
  showsThoughts: boolean
  /** For providers that report no usage. */
  estimatedInputTokens: number
}

type StreamedCall = { id: string; name: string; args: string }
type ToolCallDelta = NonNullable<ChatDelta['tool_calls']>[number]

/** What a choice has had so far that is sent with its end: Google's function calls are whole. */
class OpenChoice {
  readonly calls: StreamedCall[] = []
  readonly reasoning: CarriedReasoning = { text: '', details: [] }
  refusal = ''
  annotations: NonNullable<ChatDelta['annotations']> = []
  /** The whole text, kept only for the places of citations. */
  text = ''
  finish: FinishReason | null = null
  /** The latest call of each index. */
  readonly #latest = new Map<number, StreamedCall>()

  /** Some providers count every call as the first one: another id begins another call. */
  addCall({ index = 0, id, function: fn }: ToolCallDelta): void {
    const known = this.#latest.get(index)
    if (known && (!id || id === known.id)) {
      known.name ||= fn?.name ?? ''
      known.args += fn?.arguments ?? ''
      return
    }
    const call = { id: id ?? '', name: fn?.name ?? '', args: fn?.arguments ?? '' }
    this.#latest.set(index, call)
    this.calls.push(call)
  }
}

/**
 * Encodes the chunks of a chat stream as the events of `streamGenerateContent`: `push` gives those of a chunk, `end` the last
 * one, with function calls, finish reasons and usage.
 */
export class GeminiEventEncoder {
  readonly #options: EncoderOptions
  readonly #choices = new Map<number, OpenChoice>()
  #head: Pick<GeminiAnswer, 'modelVersion' | 'responseId'> = {}
  #hasEnded = false
  #usage: Usage | undefined
  #outputTokens = 0

  constructor(options: EncoderOptions) {
    this.#options = options
  }

  /** What the provider has reported so far. Once the answer has ended, what was shown: an estimate if it reported none. */
  get usage(): Usage | undefined {
    return this.#usage
  }

  /** Whether there is an answer that can end: a finish reason, or at least output. */
  get hasAnswer(): boolean {
    return this.#outputTokens > 0 || [...this.#choices.values()].some(({ finish }) => finish !== null)
  }

  push(chunk: ChatChunk): GeminiAnswer[] {
    if (this.#hasEnded) return []
    if (chunk.id) this.#head = { modelVersion: chunk.model, responseId: chunk.id }
    if (chunk.usage) this.#usage = chunk.usage
    return chunk.choices.flatMap(({ index, delta, logprobs, finish_reason }) => {
      const choice = this.#choiceOf(index)
      if (finish_reason) choice.finish = finish_reason
      const parts = this.#partsOf(choice, delta)
      if (parts.length === 0) return []
      return [this.#event([{ index, content: { role: 'model', parts }, ...logprobsOf(logprobs) }])]
    })
  }

  /** The event that ends the answer; none on a second call. */
  end(): GeminiAnswer[] {
    if (this.#hasEnded) return []
    this.#hasEnded = true
    this.#usage ??= this.#estimatedUsage()
    const candidates = [...this.#choices].map(([index, choice]) => this.#ended(index, choice))
    return [{ ...this.#event(candidates), usageMetadata: geminiUsage(this.#usage) }]
  }

  #event(candidates: GeminiCandidate[]): GeminiAnswer {
    return { candidates, ...this.#head }
  }

  #choiceOf(index: number): OpenChoice {
    let choice = this.#choices.get(index)
    if (!choice) this.#choices.set(index, (choice = new OpenChoice()))
    return choice
  }

  #partsOf(choice: OpenChoice, delta: ChatDelta): GeminiAnswerPart[] {
    const { content, refusal, images, tool_calls: calls, reasoning_details: details } = delta
    const thoughts = delta.reasoning_content ?? (details ?? []).map(({ text }) => text ?? '').join('')
    const text = (content ?? '') + (refusal ?? '')
    choice.refusal += refusal ?? ''
    choice.text += text
    if (Array.isArray(delta.annotations))
      choice.annotations.push(...delta.annotations.slice(0, maxCitations - choice.annotations.length))
    choice.reasoning.text += thoughts
    if (details) choice.reasoning.details.push(...details)
    for (const call of calls ?? []) choice.addCall(call)
    const argsText = (calls ?? []).map(({ function: fn }) => `${fn?.name ?? ''}${fn?.arguments ?? ''}`).join('')
    this.#outputTokens += textTokens(thoughts + text + argsText)
    return [
      ...(thoughts !== '' && this.#options.showsThoughts ? [{ text: thoughts, thought: true as const }] : []),
      ...(text === '' ? [] : [{ text }]),
      ...(images ?? []).flatMap(imagePart),
    ]
  }

  #ended(index: number, { calls, reasoning, refusal, finish, annotations, text }: OpenChoice): GeminiCandidate {
    const signature = calls.length > 0 ? signatureOf(reasoning) : undefined
    const parts = calls.map((call, position) =>
      callPart(call, position === 0 ? signature : undefined, `${this.#head.responseId}_${position}`),
    )
    return {
      index,
      // Clients refuse a content without parts.
      content: { role: 'model', parts: parts.length > 0 ? parts : [{ text: '' }] },
      finishReason: finishReasonOf(finish ?? 'stop', refusal),
      ...groundingOf(annotations, text),
    }
  }

  #estimatedUsage(): Usage {
    const prompt_tokens = this.#options.estimatedInputTokens
    const completion_tokens = Math.ceil(this.#outputTokens)
    return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens, estimated: true }
  }
}
