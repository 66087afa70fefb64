import type { Config } from '../base/config.ts'
import { GatewayError } from '../base/errors.ts'
import { parseWithCalls } from '../base/exact-numbers.ts'
import { withoutMark } from '../base/json.ts'
import { memberText } from '../base/json-member.ts'
import { ShutdownError } from '../base/shutdown.ts'
import { canReason } from '../catalog/traits.ts'
import { ClientGone } from '../engine/failures.ts'
import type { ResponseWriter } from '../engine/response-writer.ts'
import { PieceCollector } from '../io/byte-budget.ts'
import {
  type DisconnectedCalls,
  type Exchange,
  isSuccess,
  type ResponseHeaders,
  type ResponseSink,
  type TransportFault,
} from '../io/http.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Call, DirectAdapter, Protocol, Target, UpstreamRequest } from '../providers/contract.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { withParam } from '../providers/toolkit/error-param.ts'
import { classifyRefusal } from '../providers/toolkit/refusal.ts'
import type { Route, Upstreams } from '../providers/upstreams.ts'
import type { Features } from '../routing/features.ts'
import type { ReservationExtensions } from './reservation-extensions.ts'
import type { ChatRunInput } from './run-input.ts'

const maxAnswerBytes = 64 * 1024 * 1024
const maxErrorBytes = 64 * 1024

/** A call in progress. */
export type Attempt<K extends DirectKind> = {
  /** Where the run has the bytes of the request; absent for a call that is not part of a run. */
  input?: Pick<ChatRunInput<K>, 'raw' | 'releaseRaw'>
  upstreams: Upstreams
  route: Route
  adapter: DirectAdapter<K>
  protocol: Protocol
  call: Call<K>
  /** The requests the adapter produced for the call: one, or several. */
  requests: readonly UpstreamRequest[]
  client: ResponseWriter
  disconnectedCalls: DisconnectedCalls
  /** Whether the answer contains hidden output that only the provider's usage reports. */
  reasons: boolean
  /** Searches that the model may make by itself, which only the usage counts. */
  searches: number
  /** How long to read on for the usage after the client disconnected; 0 = abort at once. */
  readOnMs: number
  /** Aborted with the GatewayError that ends the call while its client is still connected. */
  signal: AbortSignal
  /** Called when the provider has received the request. */
  onSent(): void
  /** Called with the headers of its answer; absent where they say nothing more. */
  onHeaders?: ((headers: ResponseHeaders) => void) | undefined
  /** Reserves the output of a stream while it is delivered; null = all of it is reserved. */
  extensions: ReservationExtensions | null
}

/** A request translated for its target. */
export type PreparedCall<K extends DirectKind> = Pick<Attempt<K>, 'adapter' | 'protocol' | 'call' | 'requests'>

/**
 * Whether the call was stopped on behalf of its caller, who is charged for its usage. A restart of the gateway and a
 * store that is away count as failures.
 */
export function isStopped({ signal }: { signal: AbortSignal }, error: unknown): boolean {
  const isOurs =
    error instanceof ShutdownError || (error instanceof GatewayError && error.code === 'service_unavailable')
  return signal.aborted && error === signal.reason && !isOurs
}

/** Time per token of a slow model. */
const maxMsPerToken = 50

/**
 * How long to wait for a target's first output when another target is available: in a stream until its first token; for
 * a complete answer with an output limit until all of it must have been produced. Infinite for models that may work
 * silently: reasoning, images, audio, and the tier whose requests wait for free capacity.
 */
export function firstTokenTimeout(
  { firstTokenTimeoutMs }: Config['upstream'],
  { maxTokens, choices, outputs }: Features,
  stream: boolean,
): (target: Target) => number {
  const bufferedTokens = stream ? 0 : (maxTokens || Number.POSITIVE_INFINITY) * choices
  const maxMs = firstTokenTimeoutMs + bufferedTokens * maxMsPerToken
  const isSilentWork = outputs.image || outputs.audio
  return ({ deployment, tier }) =>
    isSilentWork || tier === 'flex' || canReason(deployment) ? Number.POSITIVE_INFINITY : maxMs
}

/**
 * How long a call continues without its client, so that its usage is known. One that reads pages or calls MCP servers continues
 * to its end: only then is known what they returned, which costs most.
 */
export function readOnTime({ readOnMs, upstream }: Config, { toolReads = 0 }: Features): number {
  return toolReads > 0 ? upstream.totalTimeoutMs : readOnMs
}

/**
 * Sends a call and resolves with the complete answer, or with a list of answers for several requests; `onFirstByte` is
 * called on the response head. Rejects with a ProviderError, or ClientGone.
 */
export function receiveAnswer<K extends DirectKind>(
  attempt: Attempt<K>,
  onFirstByte: () => void,
): Promise<ReceivedAnswer> {
  return new Promise((resolve, reject) => new WholeAnswer(attempt, { onFirstByte, resolve, reject }).start())
}

type AnswerHandlers = { onFirstByte(): void; resolve(answer: ReceivedAnswer): void; reject(error: unknown): void }

/** Receives the answer to a call, until it has ended. */
export abstract class AnswerReceiver implements PartsSink {
  protected readonly attempt: Attempt<DirectKind>
  protected status = 0
  protected finished = false
  #exchange: Exchange | null = null
  #unwatch: (() => void) | null = null
  protected headers: ResponseHeaders = {}
  /** What was received of a refusal's body. */
  #errorPieces: PieceCollector | null = null

  constructor(attempt: Attempt<DirectKind>) {
    this.attempt = attempt
  }

  /** Sends the requests of the call. `readOnMs`: how long to read on once the client has disconnected. */
  protected send(isWhole: boolean, readOnMs: () => number): void {
    const { upstreams, route, requests, client, disconnectedCalls, signal } = this.attempt
    client.beginWait?.()
    const send = (request: UpstreamRequest, sink: ResponseSink) => upstreams.send(route, request, sink, isWhole)
    const exchange = sendParts(send, requests, this)
    this.#exchange = exchange
    abortOnSignal(signal, exchange)
    const unwatch = disconnectedCalls.track(client, readOnMs, () => exchange.abort())
    if (this.finished) unwatch()
    else this.#unwatch = unwatch
  }

  abstract onData(chunk: Buffer, part: number): void
  abstract onPart(part: number, headers: ResponseHeaders): void
  abstract onEnd(): void
  abstract onError(fault: TransportFault, error: Error): void

  onSent(): void {
    this.attempt.onSent()
  }

  onHead(status: number, headers: ResponseHeaders): void {
    this.status = status
    this.headers = headers
    this.attempt.onHeaders?.(headers)
  }

  /** Adds to the body of a refusal. */
  protected addErrorText(chunk: Buffer): void {
    this.#errorPieces ??= new PieceCollector()
    if (this.#errorPieces.bytes < maxErrorBytes) this.#errorPieces.add(chunk)
  }

  /** The error that the provider's refusal stands for. */
  protected refusal(): ProviderError {
    const { protocol, requests } = this.attempt
    const body = this.#errorPieces ? textOf(this.#errorPieces) : ''
    const error = classifyRefusal(protocol, this.status, this.headers, body)
    const fieldOf = requests[0]?.fieldOf
    return fieldOf && error.param !== null ? withParam(error, fieldOf(error.param)) : error
  }

  protected pause(): void {
    this.#exchange?.pause()
  }

  protected resume(): void {
    this.#exchange?.resume()
  }

  protected abort(): void {
    this.#exchange?.abort()
  }

  protected finish(): void {
    if (!this.finished) this.attempt.client.endWait?.()
    this.finished = true
    this.#unwatch?.()
  }
}

class WholeAnswer extends AnswerReceiver {
  readonly #handlers: AnswerHandlers
  /** What was received for each request. */
  readonly #bodies: PieceCollector[]
  readonly #heads: ResponseHeaders[] = []
  #bytes = 0
  #timer: NodeJS.Timeout | undefined

  constructor(attempt: Attempt<DirectKind>, handlers: AnswerHandlers) {
    super(attempt)
    this.#handlers = handlers
    this.#bodies = attempt.requests.map(() => new PieceCollector())
  }

  start(): void {
    const { client, readOnMs, route } = this.attempt
    client.collect(0)
    // Some servers send the head of an answer at once.
    if (route.callerWithinMs !== undefined) this.#timer = setTimeout(() => this.#timeOut(), route.callerWithinMs)
    this.send(true, () => readOnMs)
  }

  #timeOut(): void {
    this.finish()
    this.#handlers.reject(new ProviderError('timeout', 'the provider gave no answer in time'))
    this.abort()
  }

  protected override finish(): void {
    clearTimeout(this.#timer)
    super.finish()
  }

  override onHead(status: number, headers: ResponseHeaders): void {
    super.onHead(status, headers)
    this.#handlers.onFirstByte()
  }

  onData(chunk: Buffer, part: number): void {
    if (!isSuccess(this.status)) {
      this.addErrorText(chunk)
      return
    }
    this.#bytes += chunk.length
    try {
      if (this.#bytes > maxAnswerBytes) throw new ProviderError('invalid_response', 'the answer is larger than 64 MB')
      this.attempt.client.collect(chunk.length)
      this.#bodies[part]!.add(chunk)
    } catch (error) {
      this.#handlers.reject(error)
      this.abort()
    }
  }

  onPart(part: number, headers: ResponseHeaders): void {
    this.#heads[part] = headers
  }

  onEnd(): void {
    this.finish()
    const { status } = this
    try {
      if (isSuccess(status)) this.#handlers.resolve(parseBodies(this.#bodies, this.attempt.requests, this.#heads))
      else this.#handlers.reject(this.refusal())
    } catch (cause) {
      if (cause instanceof ProviderError) this.#handlers.reject(cause)
      else this.#handlers.reject(new ProviderError('invalid_response', 'the answer is not JSON', { status, cause }))
    }
  }

  onError(fault: TransportFault, error: Error): void {
    this.finish()
    this.#handlers.reject(transportError(fault, error, this.attempt))
  }
}

/** The text of a body, whose characters may be split between chunks. */
const textOf = (pieces: PieceCollector): string => withoutMark(pieces.take()).toString()

/** Throws a SyntaxError for invalid JSON, or the ProviderError of a stream that is collected. `heads`: the headers of each answer. */
function parseBodies(
  bodies: readonly PieceCollector[],
  requests: readonly UpstreamRequest[],
  heads: readonly ResponseHeaders[],
): ReceivedAnswer {
  const texts = bodies.map(textOf)
  const collected = texts.map((text, part) => requests[part]!.collect?.(text, heads[part] ?? {}))
  const answers = texts.map((text, part) => collected[part] ?? parseWithCalls(text))
  if (answers.length > 1) return { json: answers, text: null }
  return { json: answers[0], text: collected[0] === undefined ? texts[0]! : null }
}

/** The signal belongs to the run and is collected with it; aborting a finished exchange has no effect. */
function abortOnSignal(signal: AbortSignal, exchange: Exchange): void {
  signal.addEventListener('abort', () => exchange.abort(), { once: true })
  if (signal.aborted) exchange.abort()
}

export function transportError(
  fault: TransportFault,
  cause: Error,
  { client, signal }: Pick<Attempt<DirectKind>, 'client' | 'signal'>,
): Error {
  if (fault === 'aborted' && signal.aborted) return signal.reason
  if (fault === 'aborted' && client.gone) return new ClientGone()
  if (cause instanceof ProviderError) return cause // The request could not be authorized.
  if (fault === 'timeout') return new ProviderError('timeout', 'the provider took too long', { cause })
  if (fault === 'coding') return new ProviderError('invalid_response', 'the answer cannot be decompressed', { cause })
  return new ProviderError('connection', 'the connection to the provider failed', { cause })
}

/** Maximum concurrent requests of one call. */
const maxParallel = 8

/** Combines the exchanges of one call: `onData` and `onPart` identify the request by its index. */
type PartsSink = Omit<ResponseSink, 'onData'> & {
  onData(chunk: Buffer, part: number): void
  /** The answer to one of the requests, with these headers, ended successfully. */
  onPart(part: number, headers: ResponseHeaders): void
}

/**
 * Sends the requests of one call as a single exchange. The head is reported once, and again if a later response is a
 * refusal, whose body then follows alone. The first refusal or error ends all.
 */
function sendParts<R>(
  send: (request: R, sink: ResponseSink) => Exchange,
  requests: readonly R[],
  sink: PartsSink,
): Exchange {
  if (requests.length === 1) return send(requests[0]!, new OnlyPart(sink))
  const open = new Map<number, Exchange>()
  let started = 0
  let hasHead = false
  let paused = false
  let isOver = false
  const abort = () => {
    for (const exchange of open.values()) exchange.abort()
  }
  /** Ignores and aborts the other requests. */
  const endOthers = (part: number) => {
    isOver = true
    for (const [other, exchange] of open) if (other !== part) exchange.abort()
  }
  const startNext = () => {
    const part = started++
    let refused = false
    let head: ResponseHeaders = {}
    const isIgnored = () => isOver && !refused
    const exchange = send(requests[part]!, {
      onSent: () => sink.onSent?.(),
      onHead(status, headers) {
        if (isIgnored()) return
        refused = !isSuccess(status)
        head = headers
        if (refused) endOthers(part)
        if (refused || !hasHead) sink.onHead(status, headers)
        hasHead = true
      },
      onData(chunk) {
        if (!isIgnored()) sink.onData(chunk, part)
      },
      onEnd() {
        if (isIgnored()) return
        open.delete(part)
        if (refused) return sink.onEnd()
        sink.onPart(part, head)
        if (started < requests.length) startNext()
        else if (open.size === 0) sink.onEnd()
      },
      onError(fault, error) {
        if (isIgnored()) return
        endOthers(part)
        sink.onError(fault, error)
      },
    })
    if (isOver && !refused) return exchange.abort()
    open.set(part, exchange)
    if (paused) exchange.pause()
  }
  for (let i = 0; i < Math.min(maxParallel, requests.length); i++) startNext()
  return {
    abort,
    pause() {
      paused = true
      for (const exchange of open.values()) exchange.pause()
    },
    resume() {
      paused = false
      for (const exchange of open.values()) exchange.resume()
    },
  }
}

/** Fast path for a call with a single request, the usual case. */
class OnlyPart implements ResponseSink {
  readonly #sink: PartsSink
  #refused = false
  #head: ResponseHeaders = {}

  constructor(sink: PartsSink) {
    this.#sink = sink
  }

  onSent(): void {
    this.#sink.onSent?.()
  }

  onHead(status: number, headers: ResponseHeaders): void {
    this.#refused = !isSuccess(status)
    this.#head = headers
    this.#sink.onHead(status, headers)
  }

  onData(chunk: Buffer): void {
    this.#sink.onData(chunk, 0)
  }

  onEnd(): void {
    if (!this.#refused) this.#sink.onPart(0, this.#head)
    this.#sink.onEnd()
  }

  onError(fault: TransportFault, error: Error): void {
    this.#sink.onError(fault, error)
  }
}

/** A provider's answer: the parsed body and its text; null for the answers to several requests. */
export type ReceivedAnswer = { json: unknown; text: string | null }

/** Below this size, serializing costs no more than finding the part to copy. */
const minCopiedCharacters = 4_000
const lineEnd = /[\n\r]/

/**
 * Serializes an answer for its client, on one line. If its choices or vectors are the received lists themselves, their text is copied as
 * the provider wrote it: numbers keep their digits, and a large answer is not serialized again. An answer that is the received one is
 * sent as it was received. Copying 64 vectors of 1,536 floats (2 MB) takes 5.0 ms instead of 12.6, a chat of 9 kB 14 µs instead of 19.
 *
 * Every answer is still parsed, checked and billed as a whole. The copied text keeps the provider's spaces and forms of numbers (`-0`,
 * `1e400`), and its duplicate fields, of which parsers read the last, which was checked and billed. The order of members may differ.
 */
export function serializeAnswer(answer: object, { json, text }: ReceivedAnswer): string {
  if (text !== null && answer === json) return text
  const member = text !== null && text.length >= minCopiedCharacters ? copyMember(answer, json, text) : null
  if (member === null) return JSON.stringify(answer)
  const others = JSON.stringify({ ...answer, [member.name]: undefined })
  return `${others.slice(0, -1)},"${member.name}":${member.written}}`
}

/** The largest member of an answer, if its text may be copied. */
function copyMember(answer: object, json: unknown, text: string): { name: string; written: string } | null {
  const name = 'choices' in answer ? 'choices' : 'data'
  if ((answer as Record<string, unknown>)[name] !== (json as Record<string, unknown> | null)?.[name]) return null
  const written = memberText(text, name)
  // Answers become lines of batch files, so text with line breaks is not copied.
  return written === null || lineEnd.test(written) ? null : { name, written }
}
