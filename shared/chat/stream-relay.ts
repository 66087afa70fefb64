import type { GatewayError } from '../base/errors.ts'
import type { ShownUsage, Usage } from '../base/usage.ts'
import { errorInStream } from '../engine/failures.ts'
import type { Encoding } from '../engine/response-writer.ts'
import type { ServerSentEvent } from '../io/sse.ts'
import type { ResponsesObject } from '../kinds/responses-answer.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { Choices, type ChunkChoice, emptyChoice, onlyFinish, withoutFinish } from './choices.ts'
import { DeliveredOutput } from './delivered-output.ts'

/** The members common to all chunks of one streamed answer; `model` is our own name. */
export type ChunkHead = { id: string; object: string; created: number; model: string; system_fingerprint?: unknown }

/** One chunk of a streamed answer, chat or completion. */
export type Chunk = ChunkHead & { choices: ChunkChoice[]; usage?: Usage | null; provider?: string }

/** The end of an answer: `usage` is what is shown and billed, `response` a response that differs from the relayed one. */
export type StreamEnding = { usage: ShownUsage; provider: string; response?: ResponsesObject }

/** Requested number of choices, and whether the usage comes in a separate chunk. */
export type StreamOptions = { choices: number; includeUsage: boolean }

/** What a run needs of the relay of one streamed answer, whatever its kind. */
export type AnswerRelay = Pick<
  StreamRelay,
  | 'encoding'
  | 'output'
  | 'upstreamId'
  | 'upstreamModel'
  | 'finishReason'
  | 'over'
  | 'usage'
  | 'reported'
  | 'feed'
  | 'close'
  | 'hasOutput'
  | 'flush'
  | 'formatEnding'
> & {
  /** Has the answer state what is billed, where its provider states something else. Absent where the ending always does. */
  restate?(billed: ShownUsage): void
  /** `response`: the failed response, if it differs from the relayed one. */
  formatFailure(failure: GatewayError, response?: ResponsesObject): string
  /** The response as the client sees it: complete or, with a failure, as it failed. Null for other kinds, and before it began. */
  response?(failure?: GatewayError): ResponsesObject | null
}

/** Maximum characters buffered before the first output. */
export const maxOpeningCharacters = 16 * 1024

/**
 * Relays a stream from a provider to the client. `feed` takes the provider's bytes, `flush` returns the text to write
 * now; the finishing chunk is kept back until its usage is known and comes with `formatEnding`.
 */
export abstract class StreamRelay {
  /** Encoding for writing the text: latin1 for bytes forwarded unchanged. */
  abstract readonly encoding: Encoding
  readonly output = new DeliveredOutput()
  upstreamId: string | null = null
  /** The provider's name of the model. */
  upstreamModel: string | null = null
  finishReason: string | null = null
  /** True once any chunk has arrived, even if still buffered. */
  hasChunks = false
  /** True once the provider has declared the end of the stream. */
  over = false
  protected readonly choices: Choices
  /** True once the provider has closed the connection: the remaining bytes may be half an event. */
  protected isClosing = false
  readonly #skipped = new SkippedEvents()
  readonly #provider: string
  readonly #model: string
  readonly #includeUsage: boolean
  #pendingText = ''
  #shape: ChunkHead
  #pendingChunk: Chunk | null = null
  #usage: Usage | null = null
  #lengthAtUsage = 0

  /** `shape`: default members until the provider sends its own. */
  constructor(provider: string, shape: ChunkHead, { choices, includeUsage }: StreamOptions) {
    this.#provider = provider
    this.#model = shape.model
    this.#includeUsage = includeUsage
    this.#shape = shape
    this.choices = new Choices(choices)
  }

  /** The provider's usage; null unless it covers everything delivered. */
  get usage(): Usage | null {
    return this.#isIncomplete || this.output.length > this.#lengthAtUsage ? null : this.#usage
  }

  /** The provider's latest usage, which may not include the latest output. */
  get reported(): Usage | null {
    return this.#usage
  }

  /**
   * Processes bytes of the answer to one of the call's requests. Throws a ProviderError; output before the error can
   * still be flushed.
   */
  abstract feed(bytes: Buffer, part?: number): void

  /**
   * Handles the end of the connection of one of the call's requests. Throws a ProviderError when the answer is
   * incomplete.
   */
  abstract close(part?: number): void

  /** True once there is output to write: until then another provider can still take over. */
  get hasOutput(): boolean {
    return this.output.length > 0 || this.finishReason !== null || this.#pendingText.length > maxOpeningCharacters
  }

  flush(): string {
    if (!this.hasOutput) return ''
    const text = this.#pendingText
    this.#pendingText = ''
    return text
  }

  /** Encodes text of ours in the stream's encoding. */
  protected abstract encode(text: string): string

  /** The end of a complete answer: the finishing chunk, the usage if requested, and the terminator. */
  formatEnding({ usage, provider }: StreamEnding): string {
    const last = this.#includeUsage
      ? formatEvent(this.#pendingChunk) + formatEvent({ ...this.#shape, choices: [], provider, usage })
      : formatEvent({ ...this.#pendingChunk, provider, usage })
    return this.encode(`${last}data: [DONE]\n\n`)
  }

  /** The end of an answer that failed after its first byte: the chunk that was kept back, then the error. */
  formatFailure(failure: GatewayError): string {
    return this.encode(
      (this.#pendingChunk ? formatEvent(withoutFinish(this.#pendingChunk)) : '') + errorEvent(this.#shape, failure),
    )
  }

  protected pass(text: string): void {
    this.#pendingText += text
  }

  /**
   * The chunks that `read` decodes from an event. Once the answer has output, a malformed event is skipped if nothing
   * is lost, or, with `canProveWhole`, if the end can prove that nothing was.
   */
  protected decode(event: ServerSentEvent, read: () => Chunk[], canProveWhole: boolean): Chunk[] {
    try {
      return read()
    } catch (error) {
      if (!this.hasOutput || this.isClosing) throw error
      this.#skipped.skip(event, error, canProveWhole)
      return []
    }
  }

  /** Records what a chunk adds to its choices. */
  protected record(chunk: Pick<Chunk, 'choices'>): void {
    this.output.add(chunk)
    for (const choice of chunk.choices) this.choices.record(choice)
  }

  /** Records a chunk, holds its usage and a finishing chunk; the rest is written. */
  protected accept(chunk: Chunk): void {
    const lengthBefore = this.output.length
    this.record(chunk)
    if (chunk.usage) {
      this.#usage = chunk.usage
      this.#lengthAtUsage = this.output.length
    }
    const isSilent = this.output.length === lengthBefore
    if (isSilent && chunk.choices.every(({ index }) => this.choices.hasFinished(index))) return
    const { usage: _usage, system_fingerprint, ...rest } = chunk
    const model = this.#model
    // Some clients reject a null there; all accept its absence.
    const fingerprint = system_fingerprint == null ? null : { system_fingerprint }
    const { id, object, created } = rest
    if (!this.hasChunks) this.#shape = { id, object, created, model, ...fingerprint }
    const provider = this.hasChunks ? null : { provider: this.#provider }
    // As in OpenAI's streams: either only the last chunk has a usage, or all have one.
    const noUsage = this.#includeUsage ? { usage: null } : null
    this.#write({ ...rest, model, ...fingerprint, ...provider, ...noUsage })
    this.hasChunks = true
  }

  /** Records the provider's id and model name, if sent. */
  protected recordSource({ id, model }: Chunk): void {
    this.upstreamId ??= id
    this.upstreamModel ??= model || null
  }

  /**
   * Throws a ProviderError unless the answer is complete: every choice has its finish reason. If the provider declared
   * the end (`isDeclaredDone`), an answer without any finish reasons is complete as well and receives the implied ones.
   * An answer with skipped events is complete if they cannot have contained part of it.
   */
  protected assertComplete(isDeclaredDone: boolean): void {
    const { fault, mayContainAnswer } = this.#skipped
    if (this.choices.areComplete(isDeclaredDone)) {
      if (this.#isIncomplete) throw fault
      return
    }
    const isImplied = isDeclaredDone && this.output.length > 0 && !mayContainAnswer
    const choices = isImplied ? this.choices.impliedFinishes(this.#shape.object) : []
    if (choices.length === 0)
      throw fault ?? (this.hasChunks ? truncatedError() : invalidResponse('the provider sent no answer'))
    this.accept({ ...this.#shape, choices })
  }

  /** Whether part of the answer may be lost: fewer chunks arrived than tokens were counted. */
  get #isIncomplete(): boolean {
    if (!this.#skipped.mayContainAnswer) return false
    const counted = this.#usage?.completion_tokens ?? 0
    return counted === 0 || this.output.additions < counted
  }

  #write(chunk: Chunk): void {
    const pendingChunk = this.#pendingChunk
    const isLate = pendingChunk && chunk.choices.some(({ index }) => this.choices.hasFinished(index))
    const out = chunk.choices.some(isFinishing)
      ? { ...chunk, choices: chunk.choices.map(choice => this.choices.finish(choice)) }
      : chunk
    const finish = out.choices.find(isFinishing)
    if (finish) {
      if (pendingChunk) this.pass(this.encode(formatEvent(pendingChunk)))
      this.#pendingChunk = out
      this.finishReason = finish.finish_reason!
      return
    }
    if (isLate) {
      // Output of a choice after its finish must follow the output sent with the finish.
      this.pass(this.encode(formatEvent(withoutFinish(pendingChunk))))
      this.#pendingChunk = onlyFinish(pendingChunk)
    }
    this.pass(this.encode(formatEvent(out)))
  }
}

/**
 * The error event that ends a failed stream (docs/errors.md). `error` is its first member: go-openai takes an event for an
 * error by `data: {"error":` (stream_reader.go), and the end of the stream after any other for that of a whole answer.
 */
export function errorEvent(shape: ChunkHead, failure: GatewayError): string {
  return formatEvent({ error: errorInStream(failure), ...shape, choices: [emptyChoice(shape.object, 'error')] })
}

function isFinishing({ finish_reason }: ChunkChoice): boolean {
  return finish_reason != null
}

function formatEvent(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`
}

/** The provider's answer is invalid. */
export function invalidResponse(message: string, cause?: unknown): ProviderError {
  return new ProviderError('invalid_response', message, { cause })
}

/** The provider's answer ends too early. */
export function truncatedError(): ProviderError {
  return new ProviderError('truncated', 'the provider ended the stream before the answer was whole')
}

/** More indicate a systematic fault. */
const maxEvents = 8
/** A text without any of these cannot be part of a JSON object. */
const partOfObject = /["{}[\]]/

/** The unreadable events of a stream that were skipped (see docs/decisions/failover.md). */
class SkippedEvents {
  /** The error of the first skipped event; null = none. */
  fault: ProviderError | null = null
  /** Whether a skipped event may have contained part of the answer. */
  mayContainAnswer = false
  #events = 0

  /** Skips an event that could not be read because of `error`; throws the error if the event must not be lost. */
  skip({ event, data }: ServerSentEvent, error: unknown, canProveWhole: boolean): void {
    const containsAnswer = partOfObject.test(data)
    const isMalformed = error instanceof ProviderError && error.reason === 'invalid_response' && !isJsonContainer(data)
    const isLost = event === 'error' || (containsAnswer && !canProveWhole)
    if (!isMalformed || isLost || ++this.#events > maxEvents) throw error
    this.fault ??= error
    this.mayContainAnswer ||= containsAnswer
  }
}

/** Valid JSON with wrong content is not a transport error. */
function isJsonContainer(data: string): boolean {
  try {
    const value: unknown = JSON.parse(data)
    return typeof value === 'object' && value !== null
  } catch {
    return false
  }
}
