import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { elapsedMs, preciseMonotonic } from '../../../base/time.ts'
import type { Tokenizer } from '../../../kinds/tokenizer.ts'
import { splitWords } from '../chat/response.ts'
import { argumentPieces } from '../chat/tools.ts'
import { findDirective, simulatedErrors } from '../directives.ts'
import type { Conversation } from './conversation.ts'
import { directiveText, generateOutput, type ResponseOutput, type ResponseRequest } from './generate-output.ts'
import { type Item, newId, type Part, presentItem, type Tokens, tokensOf, withoutContent } from './items.ts'
import { bytesPerSecond } from './sound.ts'
import type { Wire } from './wire.ts'

const pieceMs = 200
const outputIndex = 0
const contentIndex = 0
const rateLimits = [
  { name: 'requests', limit: 10_000, remaining: 9_999, reset_seconds: 0 },
  { name: 'tokens', limit: 1_000_000, remaining: 999_000, reset_seconds: 0 },
]

type ResponseDetails = ResponseRequest & {
  /** The conversation that receives the item; null = none. */
  conversation: Conversation | null
  /** The settings shown in the response's events. */
  shownSettings: object
}

/** The final states of a response. */
type EndState =
  | { status: 'completed' }
  | { status: 'cancelled'; reason: 'client_cancelled' | 'turn_detected' }
  | { status: 'incomplete'; reason: 'max_output_tokens' }
  | { status: 'failed'; error: { type: string; code: string; message: string } }

/** The environment of a response; `addItem` inserts its item into the conversation, `onEnd` is called at its end. */
type ResponseContext = {
  wire: Wire
  tokenizer: Tokenizer
  addItem(item: Item): void
  onEnd(response: RealtimeResponse): void
}

/** One response of the model, sent in pieces until it is complete or cancelled. */
export class RealtimeResponse {
  readonly id = newId('resp')
  readonly conversation: Conversation | null
  /** Duration of the audio sent. */
  sentMs = 0
  readonly #details: ResponseDetails
  readonly #context: ResponseContext
  readonly #output: ResponseOutput
  readonly #abort = new AbortController()
  #item: Item | null = null
  #sentBytes = 0
  #endState: EndState | null = null

  /** Throws when the request has no valid response. */
  constructor(details: ResponseDetails, context: ResponseContext) {
    this.conversation = details.conversation
    this.#details = details
    this.#context = context
    this.#output = generateOutput(details, context.tokenizer)
  }

  /** Starts the response, which continues asynchronously. */
  start(): void {
    this.#send('response.created', { response: { ...this.#summary('in_progress'), output: [] } })
    const directive = findDirective(directiveText(this.#details))
    if (directive?.word === 'fail' || directive?.word === 'rate_limit') this.#fail(directive.word)
    else if (directive?.word !== 'timeout') void this.#sendPieces(directive?.waitMs ?? 0)
  }

  /** Cancels it. */
  cancel(reason: 'client_cancelled' | 'turn_detected'): void {
    this.#end({ status: 'cancelled', reason })
  }

  /** Cancels it without events: the client has disconnected. */
  abandon(): void {
    this.#abort.abort()
  }

  /** Sends all pieces within `spreadMs`, no faster than real time. */
  async #sendPieces(spreadMs: number): Promise<void> {
    const { signal } = this.#abort
    this.#begin()
    const pieces = this.#pieces()
    const startedMs = preciseMonotonic.now()
    try {
      for (const [index, piece] of pieces.entries()) {
        const dueMs = (spreadMs * (index + 1)) / pieces.length - elapsedMs(startedMs, preciseMonotonic.now())
        if (dueMs > 0) await sleep(dueMs, undefined, { signal })
        else await nextTurn(undefined, { signal })
        await this.#context.wire.waitForDrain()
        if (signal.aborted) return
        piece()
      }
    } catch (error) {
      if (signal.aborted) return
      throw error
    }
    this.#end(this.#output.isCut ? { status: 'incomplete', reason: 'max_output_tokens' } : { status: 'completed' })
  }

  #begin(): void {
    const item = this.#newItem()
    this.#item = item
    this.#send('response.output_item.added', { ...this.#location(), item: presentItem(withoutContent(item)) })
    if (this.conversation) this.#context.addItem(item)
    if (item.type === 'message')
      this.#send('response.content_part.added', {
        ...this.#contentLocation(item),
        part: presentContent(item.content[0]!),
      })
  }

  #newItem(): Item {
    const head = { id: newId('item'), status: 'in_progress' as const }
    const output = this.#output
    if (output.kind === 'call')
      return { ...head, type: 'function_call', name: output.name, call_id: newId('call'), arguments: '' }
    const part: Part =
      output.kind === 'text'
        ? { type: 'output_text', text: '' }
        : { type: 'output_audio', sound: { ...output.sound, bytes: Buffer.alloc(0) }, transcript: '' }
    return { ...head, type: 'message', role: 'assistant', content: [part] }
  }

  /** All pieces to send, in order. */
  #pieces(): (() => void)[] {
    const output = this.#output
    if (output.kind === 'call') return [...argumentPieces(output.args)].map(piece => () => this.#addArguments(piece))
    if (output.kind === 'text') return [...splitWords(output.text)].map(word => () => this.#addText(word))
    const { bytes, encoding } = output.sound
    const pieceBytes = (bytesPerSecond[encoding] * pieceMs) / 1_000
    const chunks = Math.ceil(bytes.length / pieceBytes)
    const words = [...splitWords(output.transcript)]
    // The transcript runs slightly ahead of the audio.
    const perSound = Math.ceil(words.length / Math.max(1, chunks))
    const pieces: (() => void)[] = []
    for (let i = 0; i < Math.max(chunks, 1); i++) {
      const chunkWords = words.slice(i * perSound, (i + 1) * perSound)
      pieces.push(() => {
        for (const word of chunkWords) this.#addTranscript(word)
        const sound = bytes.subarray(i * pieceBytes, (i + 1) * pieceBytes)
        if (sound.length > 0) this.#addSound(sound)
      })
    }
    return pieces
  }

  #addArguments(delta: string): void {
    const item = this.#item as Extract<Item, { type: 'function_call' }>
    item.arguments += delta
    this.#send('response.function_call_arguments.delta', {
      ...this.#location(),
      item_id: item.id,
      call_id: item.call_id,
      delta,
    })
  }

  #addText(delta: string): void {
    const [item, part] = this.#content()
    if ('text' in part) part.text += delta
    this.#send('response.output_text.delta', { ...this.#contentLocation(item), delta })
  }

  #addTranscript(delta: string): void {
    const [item, part] = this.#content()
    if ('sound' in part) part.transcript += delta
    this.#send('response.output_audio_transcript.delta', { ...this.#contentLocation(item), delta })
  }

  #addSound(bytes: Buffer): void {
    const [item, part] = this.#content()
    const { sound } = this.#output as Extract<ResponseOutput, { kind: 'speech' }>
    this.#sentBytes += bytes.length
    this.sentMs = (this.#sentBytes * 1_000) / bytesPerSecond[sound.encoding]
    if ('sound' in part) part.sound = { ...sound, bytes: sound.bytes.subarray(0, this.#sentBytes) }
    this.#send('response.output_audio.delta', { ...this.#contentLocation(item), delta: bytes.toString('base64') })
  }

  #content(): [item: Extract<Item, { type: 'message' }>, part: Part] {
    const item = this.#item as Extract<Item, { type: 'message' }>
    return [item, item.content[0]!]
  }

  #fail(word: 'fail' | 'rate_limit'): void {
    const code = word === 'fail' ? 'server_error' : 'rate_limit_exceeded'
    const type = word === 'fail' ? 'server_error' : 'requests'
    this.#end({ status: 'failed', error: { type, code, message: simulatedErrors[word]().message } })
  }

  #end(ending: EndState): void {
    if (this.#endState) return
    this.#endState = ending
    this.#abort.abort()
    if (this.#item) this.#close(this.#item, ending.status === 'completed' ? 'completed' : 'incomplete')
    const { status, ...details } = ending
    const items = this.#item ? [this.#item] : []
    const usage = status === 'failed' ? noUsage() : usageOf(this.#details, items, this.#context.tokenizer)
    this.#send('response.done', {
      response: {
        ...this.#summary(status),
        ...(status !== 'completed' && { status_details: { type: status, ...details } }),
        output: items.map(item => presentItem(item)),
        usage,
      },
    })
    this.#send('rate_limits.updated', { rate_limits: rateLimits })
    this.#context.onEnd(this)
  }

  #close(item: Item, status: 'completed' | 'incomplete'): void {
    item.status = status
    if (item.type === 'message') this.#closeContent(item, item.content[0]!)
    else if (item.type === 'function_call') {
      const { id: item_id, call_id, name, arguments: args } = item
      this.#send('response.function_call_arguments.done', {
        ...this.#location(),
        item_id,
        call_id,
        name,
        arguments: args,
      })
    }
    this.#send('response.output_item.done', { ...this.#location(), item: presentItem(item) })
    if (this.conversation)
      this.#send('conversation.item.done', {
        previous_item_id: this.conversation.previousId(item),
        item: presentItem(item),
      })
  }

  #closeContent(item: Item, part: Part): void {
    const location = this.#contentLocation(item)
    if ('text' in part) this.#send('response.output_text.done', { ...location, text: part.text })
    else if ('sound' in part) {
      this.#send('response.output_audio.done', location)
      this.#send('response.output_audio_transcript.done', { ...location, transcript: part.transcript })
    }
    this.#send('response.content_part.done', { ...location, part: presentContent(part) })
  }

  #summary(status: EndState['status'] | 'in_progress'): object {
    return { object: 'realtime.response', id: this.id, status, ...this.#details.shownSettings }
  }

  #location() {
    return { response_id: this.id, output_index: outputIndex }
  }

  #contentLocation({ id }: Item) {
    return { ...this.#location(), item_id: id, content_index: contentIndex }
  }

  #send(type: string, fields: object): void {
    this.#context.wire.send(type, fields)
  }
}

/** A part in the format of its begin and end events, which have their own names. */
function presentContent(part: Part): object {
  return 'text' in part
    ? { type: 'text', text: part.text }
    : { type: 'audio', transcript: 'sound' in part ? part.transcript : '' }
}

/** The usage of a response: all input of the model, and the output until its end. */
function usageOf(request: ResponseRequest, output: readonly Item[], tokenizer: Tokenizer): object {
  const outputTokens = tokensOf(output, tokenizer)
  const inputTokens = tokensOf(request.items, tokenizer)
  inputTokens.text += tokenizer.count(request.instructions)
  if (request.tools.length > 0) inputTokens.text += tokenizer.count(JSON.stringify(request.tools))
  return presentUsage(inputTokens, outputTokens)
}

/** The usage of a response that failed before it began. */
function noUsage(): object {
  const nothing = { text: 0, audio: 0, image: 0 }
  return presentUsage(nothing, nothing)
}

function presentUsage(input: Tokens, output: Tokens): object {
  const inputTokens = input.text + input.audio + input.image
  const outputTokens = output.text + output.audio
  return {
    total_tokens: inputTokens + outputTokens,
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    input_token_details: {
      text_tokens: input.text,
      audio_tokens: input.audio,
      image_tokens: input.image,
      cached_tokens: 0,
      cached_tokens_details: { text_tokens: 0, audio_tokens: 0, image_tokens: 0 },
    },
    output_token_details: { text_tokens: output.text, audio_tokens: output.audio },
  }
}
