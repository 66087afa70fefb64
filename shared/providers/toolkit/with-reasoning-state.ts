import type { ChatChunk, ChatCompletion } from '../../kinds/chat.ts'
import type { ReasoningDetail } from '../../kinds/reasoning.ts'
import type { Call, DirectAdapter } from '../contract.ts'
import type { NativeEvent, SseEvent, StreamDecoder } from '../stream-decoder.ts'
import { DetailSealer, restoreReasoning } from './reasoning-details.ts'

/**
 * Carries reasoning state for a chat adapter: the adapter gives and takes `reasoning_details` with its provider's own
 * signatures and data, clients get and hand back sealed ones. Answers without details are passed on as they are.
 */
export function withReasoningState(chat: DirectAdapter<'chat'>): DirectAdapter<'chat'> {
  const { stream } = chat
  return {
    ...chat,
    request(call) {
      const { call: restored, sent, dropped } = restoreReasoning(call)
      const request = chat.request(restored)
      return sent || dropped ? { ...request, reasoningSent: sent, reasoningDropped: dropped } : request
    },
    answer(json, call) {
      const answer = chat.answer(json, call)
      return answer.choices.some(({ message }) => message.reasoning_details?.length) ? sealAnswer(answer, call) : answer
    },
    ...(stream && { stream: call => new SealingDecoder(stream(call), call) }),
  }
}

function sealAnswer(answer: ChatCompletion, call: Call<'chat'>): ChatCompletion {
  const sealer = new DetailSealer(call)
  const choices = answer.choices.map(choice => ({
    ...choice,
    message: sealed(choice.message, choice.index, call, sealer),
  }))
  return { ...answer, choices }
}

/** Seals the details in the chunks of a stream. */
class SealingDecoder implements StreamDecoder<ChatChunk> {
  readonly #decoder: StreamDecoder<ChatChunk>
  readonly #call: Call<'chat'>
  #sealer: DetailSealer | null = null

  constructor(decoder: StreamDecoder<ChatChunk>, call: Call<'chat'>) {
    this.#decoder = decoder
    this.#call = call
  }

  get done(): boolean {
    return this.#decoder.done
  }

  get over(): boolean {
    return this.#decoder.over === true
  }

  passes(event: NativeEvent): boolean {
    return this.#decoder.passes?.(event) ?? true
  }

  push(event: SseEvent, part?: number): ChatChunk[] {
    const chunks = this.#decoder.push(event, part)
    return chunks.some(hasDetails) ? chunks.map(chunk => this.#seal(chunk)) : chunks
  }

  #seal(chunk: ChatChunk): ChatChunk {
    this.#sealer ??= new DetailSealer(this.#call)
    const sealer = this.#sealer
    const choices = chunk.choices.map(choice => ({
      ...choice,
      delta: sealed(choice.delta, choice.index, this.#call, sealer),
    }))
    return { ...chunk, choices }
  }
}

function hasDetails({ choices }: ChatChunk): boolean {
  return choices.some(({ delta }) => delta.reasoning_details?.length)
}

/** A message or delta with sealed details; without any where state is not carried. */
function sealed<M extends { reasoning_details?: ReasoningDetail[] }>(
  message: M,
  choice: number,
  { reasoning }: Call<'chat'>,
  sealer: DetailSealer,
): M {
  const { reasoning_details: details, ...others } = message
  if (!details) return message
  const shown = reasoning ? sealer.seal(choice, details) : []
  return (shown.length > 0 ? { ...others, reasoning_details: shown } : others) as M
}
