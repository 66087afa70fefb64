import { createHash, type Hash } from 'node:crypto'
import type { ChatChunk, ChatCompletion, ChatMessage } from '../../kinds/chat.ts'
import type { ReasoningDetail } from '../../kinds/reasoning.ts'
import type { Call, DirectAdapter } from '../contract.ts'
import { type NativeEvent, type SseEvent, type StreamDecoder, WrappingDecoder } from '../stream-decoder.ts'

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
class SealingDecoder extends WrappingDecoder<ChatChunk, ChatChunk> {
  readonly #call: Call<'chat'>
  #sealer: DetailSealer | null = null

  constructor(decoder: StreamDecoder<ChatChunk>, call: Call<'chat'>) {
    super(decoder)
    this.#call = call
  }

  passes(event: NativeEvent): boolean {
    return this.decoder.passes?.(event) ?? true
  }

  end(): ChatChunk[] {
    return this.decoder.end?.() ?? []
  }

  push(event: SseEvent, part?: number): ChatChunk[] {
    const chunks = this.decoder.push(event, part)
    return chunks.some(showsDetails) ? chunks.map(chunk => this.#seal(chunk)) : chunks
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

function showsDetails({ choices }: ChatChunk): boolean {
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

/** Streamed texts whose hash is kept until their signature arrives. */
const maxOpenTexts = 1_024
const digestCharacters = 22

/** What an envelope of chat contains: the signature of a reasoning text with the text's digest, or encrypted reasoning. */
type State = { type: 'signature'; digest: string; value: string } | { type: 'data'; value: string }

/**
 * Seals the state in the reasoning details of one answer. A signature is sealed with a digest of its text: a provider
 * refuses a conversation in which the two do not match.
 */
export class DetailSealer {
  readonly #call: Call<'chat'>
  /** Hashes of texts without a signature so far, by choice and index. */
  readonly #texts = new Map<string, Hash>()

  constructor(call: Call<'chat'>) {
    this.#call = call
  }

  /** The details as shown to the client. A state that cannot be sealed is left out. */
  seal(choice: number, details: readonly ReasoningDetail[]): ReasoningDetail[] {
    return details.flatMap(detail => this.#seal(choice, detail) ?? [])
  }

  #seal(choice: number, detail: ReasoningDetail): ReasoningDetail | null {
    const { signature, data } = detail
    if (detail.type === 'reasoning.text') {
      const digest = this.#digestOf(`${choice} ${detail.index ?? 0}`, detail.text ?? '', Boolean(signature))
      return signature
        ? { ...detail, signature: this.#envelope({ type: 'signature', digest, value: signature }) }
        : detail
    }
    if (typeof data !== 'string') return detail
    const envelope = this.#envelope({ type: 'data', value: data })
    return envelope === null ? null : { ...detail, data: envelope }
  }

  #envelope(state: State): string | null {
    const { target, reasoning } = this.#call
    if (!reasoning) return null
    const { sealer, credentialId } = reasoning
    const digest = state.type === 'signature' ? state.digest : ''
    const text = `${state.type} ${digest} ${state.value}`
    return sealer.seal({ provider: target.provider.name, credentialId, model: target.model.id, state: text })
  }

  /** Adds to a streamed text; its digest once it `ends`, else ''. */
  #digestOf(name: string, text: string, ends: boolean): string {
    const hash = this.#texts.get(name) ?? createHash('sha256')
    addTo(hash, text)
    if (!ends) {
      if (this.#texts.size < maxOpenTexts) this.#texts.set(name, hash)
      return ''
    }
    this.#texts.delete(name)
    return finish(hash)
  }
}

/**
 * The call with the reasoning details of its messages as its provider sent them. State of another account or model, and
 * state that was not sealed for this organisation, is removed with the text that it signs. `dropped` = there was some,
 * `sent` = there was valid state. A call without reasoning details is returned as it is.
 */
export function restoreReasoning(call: Call<'chat'>): { call: Call<'chat'>; sent: boolean; dropped: boolean } {
  const { body } = call
  if (!body.messages.some(hasDetails)) return { call, sent: false, dropped: false }
  let sent = false
  let dropped = false
  const messages = body.messages.map((message): ChatMessage => {
    if (!hasDetails(message)) return message
    const restored = restoreDetails(message.reasoning_details, call)
    sent ||= restored.sent
    dropped ||= restored.dropped
    return { ...message, reasoning_details: restored.details.length > 0 ? restored.details : undefined }
  })
  return { call: { ...call, body: { ...body, messages }, raw: null }, sent, dropped }
}

type WithDetails = Extract<ChatMessage, { role: 'assistant' }> & { reasoning_details: ReasoningDetail[] }

function hasDetails(message: ChatMessage): message is WithDetails {
  return message.role === 'assistant' && message.reasoning_details != null
}

/** Clients hand streamed pieces of a text back one by one or joined. */
function restoreDetails(
  details: readonly ReasoningDetail[],
  call: Call<'chat'>,
): { details: ReasoningDetail[]; sent: boolean; dropped: boolean } {
  const restored: ReasoningDetail[] = []
  /** Pieces of a text whose signature may follow. */
  let pieces: ReasoningDetail[] = []
  let sent = false
  let dropped = false
  for (const detail of details) {
    const envelope = stateIn(detail)
    const isText = detail.type === 'reasoning.text'
    if (!isText || (pieces.length > 0 && pieces[0]!.index !== detail.index)) {
      restored.push(...pieces)
      pieces = []
    }
    if (isText) pieces.push(detail)
    if (envelope === null) {
      if (!isText) restored.push(detail)
      continue
    }
    const state = openState(envelope, call)
    const isWhole = state?.type === 'data' || (isText && state?.digest === digestOf(pieces))
    if (state?.type === 'data')
      restored.push({ ...withoutText(detail), type: 'reasoning.encrypted', data: state.value })
    else if (state && isWhole) restored.push(...pieces.slice(0, -1), { ...detail, signature: state.value })
    sent ||= isWhole
    dropped ||= !isWhole
    pieces = []
  }
  return { details: [...restored, ...pieces], sent, dropped }
}

function stateIn({ type, signature, data }: ReasoningDetail): string | null {
  return (type === 'reasoning.text' ? signature : data) || null
}

/** A client may hand back encrypted reasoning in a place for signatures. */
function withoutText({ text: _text, signature: _signature, ...detail }: ReasoningDetail): ReasoningDetail {
  return detail
}

/** The state in an envelope of this call's organisation, account and model; null otherwise. */
function openState(envelope: string, { target, reasoning }: Call<'chat'>): State | null {
  const opened = reasoning?.refused ? null : reasoning?.sealer.open(envelope)
  if (!opened || opened.credentialId !== reasoning!.credentialId) return null
  if (opened.provider !== target.provider.name || opened.model !== target.model.id) return null
  const { state } = opened
  if (state.startsWith('data  ')) return { type: 'data', value: state.slice('data  '.length) }
  const start = 'signature '.length
  const end = start + digestCharacters
  return { type: 'signature', digest: state.slice(start, end), value: state.slice(end + 1) }
}

function digestOf(pieces: readonly ReasoningDetail[]): string {
  const hash = createHash('sha256')
  for (const { text } of pieces) addTo(hash, text ?? '')
  return finish(hash)
}

/** As UTF-16: a piece may end within a surrogate pair. */
function addTo(hash: Hash, text: string): void {
  hash.update(text, 'utf16le')
}

function finish(hash: Hash): string {
  return hash.digest('base64url').slice(0, digestCharacters)
}
