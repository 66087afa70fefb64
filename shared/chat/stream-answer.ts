import type { GatewayError } from '../base/errors.ts'
import type { ResponseWriter } from '../engine/response-writer.ts'
import { isSuccess, type TransportFault } from '../io/http.ts'
import type { Heartbeat } from '../io/keep-alive.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { ResponsesObject } from '../kinds/responses-answer.ts'
import type { Target } from '../providers/contract.ts'
import { ProviderError } from '../providers/provider-error.ts'
import type { Route } from '../providers/upstreams.ts'
import { AnswerReceiver, type Attempt, transportError } from './attempt.ts'
import { isBilledAsStated, misreadError } from './bill.ts'
import type { StreamInfo } from './chat-format.ts'
import type { ChatRunInput, ResponseStorage } from './run-input.ts'
import type { AnswerRelay, StreamEnding } from './stream-relay.ts'

/** Once the answer is being streamed, its reasoning has ended: the rest is not awaited for long. */
const maxShownReadOnMs = 2_000

/** Result of a streaming attempt. Unless `answered`, the client has received nothing of the answer. */
type StreamResult = { answered: boolean; error: Error | null }

/** Where the events of a call go. `open` is called before every write, `onFirstByte` at the first output. */
type StreamSinks = { relay: AnswerRelay; heartbeat: Heartbeat; open(): void; onFirstByte(): void }

/**
 * Sends a call and relays its events to the client as they arrive; each write resets the ticks of the heartbeat. Resolves when the
 * provider has finished or failed.
 */
export function streamAnswer<K extends DirectKind>(attempt: Attempt<K>, sinks: StreamSinks): Promise<StreamResult> {
  return new StreamedAnswer(attempt, sinks).start()
}

/** Receives an answer that is relayed as it arrives. */
class StreamedAnswer extends AnswerReceiver {
  readonly #sinks: StreamSinks
  readonly #result = Promise.withResolvers<StreamResult>()
  readonly #comments: CommentWatch
  #tokenTimer: NodeJS.Timeout | undefined
  #answered = false
  #paused = false

  constructor(attempt: Attempt<DirectKind>, sinks: StreamSinks) {
    super(attempt)
    this.#sinks = sinks
    const onSilent = () => this.#timeOut('the provider sent only comments')
    this.#comments = new CommentWatch(attempt.upstreams.idleTimeoutMs, onSilent)
  }

  async start(): Promise<StreamResult> {
    const { route } = this.attempt
    this.#tokenTimer = startTokenTimer(route, () => this.#timeOut('the provider sent no token in time'))
    this.send(false, () => this.#readOnMs())
    return this.#result.promise
  }

  onData(chunk: Buffer, part: number): void {
    if (isSuccess(this.status)) this.#step(chunk, part)
    else this.addErrorText(chunk)
  }

  onPart(part: number): void {
    if (isSuccess(this.status)) this.#step(null, part)
  }

  onEnd(): void {
    this.#end(isSuccess(this.status) ? null : this.refusal())
  }

  onError(fault: TransportFault, error: Error): void {
    this.#end(transportError(fault, error, this.attempt))
  }

  /** Processes a chunk of the answer to one of the requests; null = end of that answer. */
  #step(chunk: Buffer | null, part: number): void {
    if (this.finished) return
    const { relay, onFirstByte } = this.#sinks
    try {
      const { hasOutput } = relay
      if (chunk) this.#comments.see(chunk)
      if (chunk) relay.feed(chunk, part)
      else relay.close(part)
      if (relay.hasOutput && !hasOutput) {
        clearTimeout(this.#tokenTimer)
        onFirstByte()
      }
      this.#write(relay.flush())
      if (relay.over) this.#end(null)
      else this.attempt.extensions?.recordOutput(relay.output)
    } catch (error) {
      // Output before the error is flushed, unless another provider can still take over.
      if (this.#answered) this.#write(relay.flush())
      this.#end(misreadError(error) as Error)
      this.abort()
    }
  }

  #write(text: string): void {
    if (text === '') return
    const { client } = this.attempt
    const { relay, heartbeat, open } = this.#sinks
    open()
    if (!this.#answered) this.#dropRequest()
    this.#answered = true
    heartbeat.ticks = 0
    if (client.write(text, relay.encoding) || this.#paused) return
    this.#paused = true
    this.#comments.stop()
    this.pause()
    client.onDrain(() => {
      this.#paused = false
      this.resume()
    })
  }

  /**
   * Drops the bytes of the request, as received and as sent: once the client has something of an answer, no other provider is asked. A
   * conversation of an agent has a megabyte of each, and its answer takes a minute.
   */
  #dropRequest(): void {
    const { input, call, requests } = this.attempt
    const [request, ...others] = requests
    // Others may not have been sent yet.
    if (others.length > 0) return
    request!.body = ''
    call.raw = null
    if (!input) return
    input.raw = null
    input.releaseRaw?.()
  }

  /** How long to read on for the usage, now that the client has disconnected. */
  #readOnMs(): number {
    const { reasons, searches, client, readOnMs } = this.attempt
    // No `drain` event follows once the client has disconnected.
    this.resume()
    if (!reasons && searches === 0 && !client.awaitsUsage) return 0
    return this.#answered ? Math.min(readOnMs, maxShownReadOnMs) : readOnMs
  }

  #timeOut(message: string): void {
    this.#end(new ProviderError('timeout', message))
    this.abort()
  }

  #end(error: Error | null): void {
    this.finish()
    clearTimeout(this.#tokenTimer)
    this.#comments.stop()
    this.#result.resolve({ answered: this.#answered, error })
  }
}

/** Ends a stream whose answer is whole, and stores the response if it is to be stored. */
export async function writeEnding(
  client: ResponseWriter,
  relay: AnswerRelay,
  ending: StreamEnding,
  storage: ResponseStorage | undefined,
): Promise<void> {
  relay.restate?.(ending.usage)
  const response = await store(relay, storage)
  client.write(relay.formatEnding({ ...ending, ...(response && { response }) }), relay.encoding)
  client.end()
}

/** Ends a stream with its failure, and stores the failed response if it is to be stored. */
export async function writeFailure(
  client: ResponseWriter,
  relay: AnswerRelay,
  failure: GatewayError,
  storage: ResponseStorage | undefined,
): Promise<void> {
  const response = await store(relay, storage, failure)
  client.write(relay.formatFailure(failure, response), relay.encoding)
  client.end()
}

/** Stores the response of a stream; returns it as the client is to see it, if that differs. */
async function store(
  relay: AnswerRelay,
  storage: ResponseStorage | undefined,
  failure?: GatewayError,
): Promise<ResponsesObject | undefined> {
  const response = storage && relay.response?.(failure)
  return response ? storage.store(response) : undefined
}

/** What the format of the streamed answer of a run depends on. */
export function streamInfoOf<K extends DirectKind>(
  { features, includeUsage, requestId, body, storage, leading }: ChatRunInput<K>,
  target: Target,
  id: string,
  startedMs: number,
): StreamInfo<K> {
  return {
    id,
    created: Math.floor(startedMs / 1000),
    model: target.model.id,
    choices: features.choices,
    includeUsage,
    requestId,
    request: body,
    isBilled: (stated, written, bill) => isBilledAsStated(stated, written, { target, features }, bill),
    ...(storage && { fields: storage.fields }),
    ...(leading && { leading }),
  }
}

/** Starts the timer for the first token of a stream, if its route has a limit. */
function startTokenTimer({ tokenWithinMs }: Route, onLate: () => void): NodeJS.Timeout | undefined {
  return Number.isFinite(tokenWithinMs) ? setTimeout(onLate, tokenWithinMs) : undefined
}

const colon = 0x3a
const newline = 0x0a
const carriageReturn = 0x0d

/**
 * Ends a stream in which a provider sends comments only, which keep the connection alive for as long as it likes: after
 * `idleMs` of them `onSilent` is called. A packet of data costs one look at its first and last byte.
 */
class CommentWatch {
  readonly #idleMs: number
  readonly #onSilent: () => void
  #timer: NodeJS.Timeout | undefined
  /** Where the next packet begins: at the start of a line, within a comment, or within other text. */
  #place: 'line' | 'comment' | 'data' = 'line'

  constructor(idleMs: number, onSilent: () => void) {
    this.#idleMs = idleMs
    this.#onSilent = onSilent
  }

  /** Looks at a packet of the stream. */
  see(packet: Buffer): void {
    if (this.#isSilent(packet)) this.#timer ??= setTimeout(this.#onSilent, this.#idleMs)
    else this.stop()
  }

  /** Stops waiting: data has come, or the stream has ended or been paused. */
  stop(): void {
    if (this.#timer === undefined) return
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** Whether a packet has nothing but comments and empty lines. */
  #isSilent(packet: Buffer): boolean {
    for (let at = 0; at < packet.length; at++) {
      const byte = packet[at]
      if (byte === newline || byte === carriageReturn) this.#place = 'line'
      else if (this.#place === 'line') this.#place = byte === colon ? 'comment' : 'data'
      if (this.#place !== 'data') continue
      this.#place = placeAfter(packet)
      return false
    }
    return true
  }
}

/** The place after a packet that has data. */
function placeAfter(packet: Buffer): 'line' | 'comment' | 'data' {
  const last = packet[packet.length - 1]
  if (last === newline || last === carriageReturn) return 'line'
  const start = Math.max(packet.lastIndexOf(newline), packet.lastIndexOf(carriageReturn)) + 1
  return start > 0 && packet[start] === colon ? 'comment' : 'data'
}
