import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { Tokenizer } from '../../kinds/tokenizer.ts'
import { words } from './answer.ts'
import { failures, magicWordIn } from './magic.ts'
import { type Answer, answerTo, magicText, type Request } from './realtime-answer.ts'
import type { Conversation } from './realtime-conversation.ts'
import { emptied, type Item, newId, type Part, toldItem } from './realtime-items.ts'
import { bytesPerSecond } from './realtime-sound.ts'
import { noUsage, usageOf } from './realtime-usage.ts'
import type { Wire } from './realtime-wire.ts'
import { argumentPieces, newCallId } from './tools.ts'

const pieceMs = 200
const outputIndex = 0
const contentIndex = 0
const rateLimits = [
  { name: 'requests', limit: 10_000, remaining: 9_999, reset_seconds: 0 },
  { name: 'tokens', limit: 1_000_000, remaining: 999_000, reset_seconds: 0 },
]

export type ResponseDetails = Request & {
  /** The conversation it becomes part of; null = none. */
  conversation: Conversation | null
  /** What the response tells of its settings. */
  told: object
}

/** How a response can end. */
type Ending =
  | { status: 'completed' }
  | { status: 'cancelled'; reason: 'client_cancelled' | 'turn_detected' }
  | { status: 'incomplete'; reason: 'max_output_tokens' }
  | { status: 'failed'; error: { type: string; code: string; message: string } }

/** What a response works with; `added` puts its item into the conversation, `ended` is called once it is over. */
export type Surroundings = {
  wire: Wire
  tokenizer: Tokenizer
  added(item: Item): void
  ended(response: Response): void
}

/** One answer of the model, piece by piece until it is whole or somebody stops it. */
export class Response {
  readonly id = newId('resp')
  readonly conversation: Conversation | null
  /** How long its sound is that was sent. */
  sentMs = 0
  readonly #details: ResponseDetails
  readonly #around: Surroundings
  readonly #answer: Answer
  readonly #stop = new AbortController()
  #item: Item | null = null
  #sentBytes = 0
  #ending: Ending | null = null

  /** Throws when the request cannot be answered. */
  constructor(details: ResponseDetails, around: Surroundings) {
    this.conversation = details.conversation
    this.#details = details
    this.#around = around
    this.#answer = answerTo(details, around.tokenizer)
  }

  /** Begins to answer; it goes on by itself. */
  start(): void {
    this.#send('response.created', { response: { ...this.#head('in_progress'), output: [] } })
    const magic = magicWordIn(magicText(this.#details))
    if (magic?.word === 'fail' || magic?.word === 'rate_limit') this.#fail(magic.word)
    else if (magic?.word !== 'timeout') void this.#say(magic?.waitMs ?? 0)
  }

  /** Ends it before its time. */
  cancel(reason: 'client_cancelled' | 'turn_detected'): void {
    this.#end({ status: 'cancelled', reason })
  }

  /** Ends it without a word: nobody listens any more. */
  abandon(): void {
    this.#stop.abort()
  }

  /** Says all of it within `spreadMs`, no faster than it is heard. */
  async #say(spreadMs: number): Promise<void> {
    const { signal } = this.#stop
    this.#begin()
    const pieces = this.#pieces()
    const startedMs = performance.now()
    try {
      for (const [index, piece] of pieces.entries()) {
        const dueMs = startedMs + (spreadMs * (index + 1)) / pieces.length - performance.now()
        if (dueMs > 0) await sleep(dueMs, undefined, { signal })
        else await nextTurn(undefined, { signal })
        await this.#around.wire.room()
        if (signal.aborted) return
        piece()
      }
    } catch (error) {
      if (signal.aborted) return
      throw error
    }
    this.#end(this.#answer.isCut ? { status: 'incomplete', reason: 'max_output_tokens' } : { status: 'completed' })
  }

  #begin(): void {
    const item = this.#newItem()
    this.#item = item
    this.#send('response.output_item.added', { ...this.#place(), item: toldItem(emptied(item)) })
    if (this.conversation) this.#around.added(item)
    if (item.type === 'message')
      this.#send('response.content_part.added', { ...this.#contentPlace(item), part: toldContent(item.content[0]!) })
  }

  #newItem(): Item {
    const head = { id: newId('item'), status: 'in_progress' as const }
    const answer = this.#answer
    if (answer.kind === 'call')
      return { ...head, type: 'function_call', name: answer.name, call_id: newCallId('call'), arguments: '' }
    const part: Part =
      answer.kind === 'text'
        ? { type: 'output_text', text: '' }
        : { type: 'output_audio', sound: { ...answer.sound, bytes: Buffer.alloc(0) }, transcript: '' }
    return { ...head, type: 'message', role: 'assistant', content: [part] }
  }

  /** Everything that is to be said, in order. */
  #pieces(): (() => void)[] {
    const answer = this.#answer
    if (answer.kind === 'call') return argumentPieces(answer.args).map(piece => () => this.#addArguments(piece))
    if (answer.kind === 'text') return words(answer.text).map(word => () => this.#addText(word))
    const { bytes, encoding } = answer.sound
    const pieceBytes = (bytesPerSecond[encoding] * pieceMs) / 1_000
    const sounds = Math.ceil(bytes.length / pieceBytes)
    const said = words(answer.transcript)
    // The words keep a little ahead of the sound.
    const perSound = Math.ceil(said.length / Math.max(1, sounds))
    const pieces: (() => void)[] = []
    for (let i = 0; i < Math.max(sounds, 1); i++) {
      const spoken = said.slice(i * perSound, (i + 1) * perSound)
      pieces.push(() => {
        for (const word of spoken) this.#addTranscript(word)
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
      ...this.#place(),
      item_id: item.id,
      call_id: item.call_id,
      delta,
    })
  }

  #addText(delta: string): void {
    const [item, part] = this.#content()
    if ('text' in part) part.text += delta
    this.#send('response.output_text.delta', { ...this.#contentPlace(item), delta })
  }

  #addTranscript(delta: string): void {
    const [item, part] = this.#content()
    if ('sound' in part) part.transcript += delta
    this.#send('response.output_audio_transcript.delta', { ...this.#contentPlace(item), delta })
  }

  #addSound(bytes: Buffer): void {
    const [item, part] = this.#content()
    const { sound } = this.#answer as Extract<Answer, { kind: 'speech' }>
    this.#sentBytes += bytes.length
    this.sentMs = (this.#sentBytes * 1_000) / bytesPerSecond[sound.encoding]
    if ('sound' in part) part.sound = { ...sound, bytes: sound.bytes.subarray(0, this.#sentBytes) }
    this.#send('response.output_audio.delta', { ...this.#contentPlace(item), delta: bytes.toString('base64') })
  }

  #content(): [item: Extract<Item, { type: 'message' }>, part: Part] {
    const item = this.#item as Extract<Item, { type: 'message' }>
    return [item, item.content[0]!]
  }

  #fail(word: 'fail' | 'rate_limit'): void {
    const code = word === 'fail' ? 'server_error' : 'rate_limit_exceeded'
    const type = word === 'fail' ? 'server_error' : 'requests'
    this.#end({ status: 'failed', error: { type, code, message: failures[word]().message } })
  }

  #end(ending: Ending): void {
    if (this.#ending) return
    this.#ending = ending
    this.#stop.abort()
    if (this.#item) this.#close(this.#item, ending.status === 'completed' ? 'completed' : 'incomplete')
    const { status, ...details } = ending
    const items = this.#item ? [this.#item] : []
    const usage = status === 'failed' ? noUsage() : usageOf(this.#details, items, this.#around.tokenizer)
    this.#send('response.done', {
      response: {
        ...this.#head(status),
        ...(status !== 'completed' && { status_details: { type: status, ...details } }),
        output: items.map(item => toldItem(item)),
        usage,
      },
    })
    this.#send('rate_limits.updated', { rate_limits: rateLimits })
    this.#around.ended(this)
  }

  #close(item: Item, status: 'completed' | 'incomplete'): void {
    item.status = status
    if (item.type === 'message') this.#closeContent(item, item.content[0]!)
    else if (item.type === 'function_call') {
      const { id: item_id, call_id, name, arguments: args } = item
      this.#send('response.function_call_arguments.done', {
        ...this.#place(),
        item_id,
        call_id,
        name,
        arguments: args,
      })
    }
    this.#send('response.output_item.done', { ...this.#place(), item: toldItem(item) })
    if (this.conversation)
      this.#send('conversation.item.done', {
        previous_item_id: this.conversation.before(item),
        item: toldItem(item),
      })
  }

  #closeContent(item: Item, part: Part): void {
    const place = this.#contentPlace(item)
    if ('text' in part) this.#send('response.output_text.done', { ...place, text: part.text })
    else if ('sound' in part) {
      this.#send('response.output_audio.done', place)
      this.#send('response.output_audio_transcript.done', { ...place, transcript: part.transcript })
    }
    this.#send('response.content_part.done', { ...place, part: toldContent(part) })
  }

  #head(status: Ending['status'] | 'in_progress'): object {
    return { object: 'realtime.response', id: this.id, status, ...this.#details.told }
  }

  #place() {
    return { response_id: this.id, output_index: outputIndex }
  }

  #contentPlace({ id }: Item) {
    return { ...this.#place(), item_id: id, content_index: contentIndex }
  }

  #send(type: string, fields: object): void {
    this.#around.wire.send(type, fields)
  }
}

/** A part as the events of its beginning and end tell it, under names of their own. */
function toldContent(part: Part): object {
  return 'text' in part
    ? { type: 'text', text: part.text }
    : { type: 'audio', transcript: 'sound' in part ? part.transcript : '' }
}
