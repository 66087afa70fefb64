import { isAscii } from 'node:buffer'
import type { GatewayError } from '../base/errors.ts'
import type { ShownUsage, Usage } from '../base/usage.ts'
import { googleErrorInStream } from '../engine/google-error.ts'
import { EventCutter, parseEvent, splitEvents } from '../io/sse.ts'
import {
  chatFinishReason,
  endsAnswer,
  type GeminiAnswer,
  geminiUsage,
  googleSearchesIn,
  recordParts,
} from '../kinds/generate-content.ts'
import type { Call, DirectAdapter } from '../providers/contract.ts'
import type { StreamDecoder } from '../providers/stream-decoder.ts'
import type { StreamInfo } from './chat-format.ts'
import { ignoreIncomplete, parseOrThrow } from './choices-relay.ts'
import { EventRelay, TranslatedEvents } from './event-relay.ts'
import { asBytes } from './splice.ts'
import { type AnswerRelay, invalidResponse, truncatedError } from './stream-relay.ts'

type Info = Pick<StreamInfo<'generate_content'>, 'id' | 'model' | 'requestId' | 'request' | 'isBilled'>

/** Creates the relay of one streamed answer in Google's form. */
export function generateContentRelayFor(
  {
    adapter,
    call,
    requests,
  }: {
    adapter: DirectAdapter<'generate_content'>
    call: Call<'generate_content'>
    requests: readonly unknown[]
  },
  info: Info,
): AnswerRelay {
  const decoder = adapter.stream!(call)
  return adapter.native
    ? new PassingGenerateContentRelay(decoder, info)
    : new TranslatingGenerateContentRelay(decoder, info, requests.length)
}

/** The error that ends a stream which failed before anything of its answer was written. */
export function failedGenerateContent({ request, requestId }: Info, failure: GatewayError): string {
  const framing = new Framing(request.alt !== 'sse')
  return framing.add(JSON.stringify(googleErrorInStream(failure, requestId))) + framing.end()
}

/** Frames answers as the items of a JSON array, or as server-sent events. */
class Framing {
  readonly isArray: boolean
  #hasItems = false

  constructor(isArray: boolean) {
    this.isArray = isArray
  }

  add(json: string): string {
    if (!this.isArray) return `data: ${withoutSeparators(json)}\r\n\r\n`
    const before = this.#hasItems ? ',\r\n' : '['
    this.#hasItems = true
    return before + json
  }

  end(): string {
    if (!this.isArray) return ''
    return this.#hasItems ? '\n]' : '[]'
  }
}

/**
 * Escapes the line separators that JSON takes as they are. @google/generative-ai (`responseLineRE`) and the @google/genai
 * within gemini-cli 0.61 read an event by a regular expression, whose `.` does not match them: they would lose the stream.
 */
function withoutSeparators(json: string): string {
  return json.replace(/[\u2028\u2029]/g, separator => (separator === '\u2028' ? '\\u2028' : '\\u2029'))
}

/** An event, its text in its frame, and its text without a usage that cannot be true. */
type HeldEvent = { answer: GeminiAnswer; text(): string; sound(): string }

/**
 * Relays the events of a stream in Google's form. Nothing is written before there is output, until which another provider can
 * still take over. There is no event of the end, so the one that ends the answer is kept back until the answer is billed.
 */
abstract class GenerateContentRelay extends EventRelay {
  protected readonly decoder: StreamDecoder<GeminiAnswer>
  protected readonly framing: Framing
  readonly #info: Info
  /** What follows once the answer is billed. */
  #pending = ''
  /** The last event, whose usage may be replaced. */
  #ending: HeldEvent | null = null
  #hasCalls = false

  constructor(decoder: StreamDecoder<GeminiAnswer>, info: Info) {
    super()
    this.decoder = decoder
    this.framing = new Framing(info.request.alt !== 'sse')
    this.#info = info
  }

  /** The provider's usage; null until the answer is complete. */
  get usage(): Usage | null {
    return this.finishReason === null ? null : (this.decoder.usage ?? null)
  }

  /** The provider's latest usage. */
  get reported(): Usage | null {
    return this.decoder.usage ?? null
  }

  /** Ends the answer with what is billed, where its provider states something else. */
  restate(billed: ShownUsage): void {
    if (!this.#ending) return
    const { answer, text } = this.#ending
    const isBilled = this.#info.isBilled(this.usage, answer.usageMetadata, billed)
    this.#pending += isBilled ? text() : this.#format({ ...answer, usageMetadata: geminiUsage(billed) })
  }

  formatEnding(): string {
    return this.#pending + this.framing.end()
  }

  formatFailure(failure: GatewayError): string {
    return this.#format(googleErrorInStream(failure, this.#info.requestId)) + this.framing.end()
  }

  /**
   * Writes an event, or holds it once the answer is complete. `text`: the event in its frame. A usage that cannot be true is
   * left out until it is known what is billed.
   */
  protected add(answer: GeminiAnswer, text = () => this.#format(answer)): void {
    const { usageMetadata, ...rest } = answer
    const isSound = usageMetadata === undefined || this.#info.isBilled(this.decoder.usage, usageMetadata)
    const sound = isSound ? text : () => this.#format(rest)
    if (this.finishReason === null) this.pass(sound())
    else {
      if (this.#ending) this.#pending += this.#ending.sound()
      this.#ending = { answer, text, sound }
    }
  }

  /** Writes what is no event of the answer, or holds it once the answer is complete. */
  protected addText(text: string): void {
    if (this.finishReason === null) this.pass(text)
    else this.#pending += text
  }

  #format(event: object): string {
    const json = JSON.stringify(event)
    return this.framing.add(this.encoding === 'latin1' ? asBytes(json) : json)
  }

  /** Records what an event adds to the answer. */
  protected record(answer: GeminiAnswer): void {
    this.upstreamId ??= answer.responseId ?? ''
    this.upstreamModel ??= answer.modelVersion ?? null
    const { hasParts, hasCalls } = recordParts(answer, {
      text: text => this.output.addText(text),
      image: url => this.output.add({ choices: [{ delta: { images: [{ image_url: { url } }] } }] }),
    })
    this.output.webSearches = Math.max(this.output.webSearches, googleSearchesIn(answer))
    this.hasOutput ||= hasParts
    this.#hasCalls ||= hasCalls
    if (!this.decoder.done || !endsAnswer(answer)) return
    this.finishReason ??= chatFinishReason(answer, this.#hasCalls)
    this.hasOutput = true
  }

  /** Throws a ProviderError unless the answer is complete. */
  protected assertComplete(): void {
    if (this.finishReason !== null) return
    throw this.upstreamId === null ? invalidResponse('the provider sent no answer') : truncatedError()
  }
}

/** For native dialects: forwards the bytes of events unchanged, apart from what is around them in a JSON array. */
class PassingGenerateContentRelay extends GenerateContentRelay {
  readonly encoding = 'latin1'
  readonly #cutter = new EventCutter()

  feed(bytes: Buffer): void {
    this.#accept(parseOrThrow(() => this.#cutter.push(bytes.toString('latin1'))))
  }

  close(): void {
    const rest = this.#cutter.rest().trim()
    if (rest.endsWith('}')) ignoreIncomplete(() => this.#accept(`${rest}\r\n\r\n`))
    this.assertComplete()
  }

  /** `events`: complete events as latin1 text of their bytes. */
  #accept(events: string): void {
    for (const raw of splitEvents(events)) {
      const bytes = Buffer.from(raw, 'latin1')
      const event = parseEvent(isAscii(bytes) ? raw : bytes.toString())
      if (!event) {
        if (!this.framing.isArray) this.addText(raw)
        continue
      }
      for (const answer of this.decoder.push(event)) {
        this.record(answer)
        this.add(answer, () => (this.framing.isArray ? this.framing.add(asBytes(event.data)) : raw))
      }
    }
  }
}

/** For translated answers: writes the events that the decoder makes. */
class TranslatingGenerateContentRelay extends GenerateContentRelay {
  readonly encoding = 'utf8'
  readonly #events: TranslatedEvents<GeminiAnswer>
  readonly #id: string
  readonly #model: string

  constructor(decoder: StreamDecoder<GeminiAnswer>, info: Info, parts: number) {
    super(decoder, info)
    this.#events = new TranslatedEvents(this, decoder, parts, {
      write: answer => this.#write(answer),
      complete: () => {
        this.assertComplete()
        this.over = true
      },
    })
    this.#id = info.id
    this.#model = info.model
  }

  feed(bytes: Buffer, part?: number): void {
    this.#events.feed(bytes, part)
  }

  close(part?: number): void {
    this.#events.close(part)
  }

  #write(answer: GeminiAnswer): void {
    this.record(answer)
    this.add({ ...answer, modelVersion: this.#model, responseId: this.#id })
  }
}
