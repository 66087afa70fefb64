import { GatewayError } from '../base/errors.ts'
import { ShutdownError } from '../base/shutdown.ts'
import { ClientGone } from '../engine/failures.ts'
import type { ResponseWriter } from '../engine/response-writer.ts'
import type { DisconnectedCalls } from '../io/disconnected-calls.ts'
import type { Exchange, ResponseHeaders, ResponseSink, TransportFault } from '../io/http.ts'
import type { Heartbeat } from '../io/keep-alive.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Call, DirectAdapter, Protocol, UpstreamRequest } from '../providers/contract.ts'
import { ProviderError } from '../providers/provider-error.ts'
import type { Route, Upstreams } from '../providers/upstreams.ts'
import { CommentWatch } from './comment-watch.ts'
import { type PartsSink, sendParts } from './parts.ts'
import type { ReceivedAnswer } from './serialize-answer.ts'
import type { AnswerRelay } from './stream-relay.ts'
import type { Stretches } from './stretches.ts'

const maxAnswerBytes = 64 * 1024 * 1024
const maxErrorBytes = 64 * 1024

/** A call in progress. */
export type Attempt<K extends DirectKind> = {
  upstreams: Upstreams
  route: Route
  adapter: DirectAdapter<K>
  protocol: Protocol
  call: Call<K>
  /** The requests the adapter produced for the call: one, or several. */
  requests: readonly UpstreamRequest[]
  client: ResponseWriter
  departures: DisconnectedCalls
  /** Whether the answer contains hidden output that only the provider's usage reports. */
  reasons: boolean
  /** How long to read on for the usage after the client disconnected; 0 = abort at once. */
  readOnMs: number
  /** Aborted with the GatewayError that ends the call while its client is still connected. */
  signal: AbortSignal
  /** Called when the provider has received the request. */
  onSent(): void
  /** Reserves the output of a stream while it is delivered; null = all of it is reserved. */
  stretches: Stretches | null
}

/** Once the answer is being streamed, its reasoning has ended: the rest is not awaited for long. */
const maxShownReadOnMs = 2_000

/**
 * Whether the call was stopped on behalf of its caller, who is charged for its usage. A restart of the gateway and a
 * store that is away count as failures.
 */
export function isStopped({ signal }: { signal: AbortSignal }, error: unknown): boolean {
  const isOurs =
    error instanceof ShutdownError || (error instanceof GatewayError && error.code === 'service_unavailable')
  return signal.aborted && error === signal.reason && !isOurs
}

/**
 * Sends a call and resolves with the complete answer, or with a list of answers for several requests; `onFirstByte` is
 * called on the response head. Rejects with a ProviderError, or ClientGone.
 */
export function receiveAnswer<K extends DirectKind>(
  attempt: Attempt<K>,
  onFirstByte: () => void,
): Promise<ReceivedAnswer> {
  return new Promise((resolve, reject) => new AnswerReceiver(attempt, { onFirstByte, resolve, reject }).start())
}

type AnswerHandlers = { onFirstByte(): void; resolve(answer: ReceivedAnswer): void; reject(error: unknown): void }

/** Receives a complete answer. */
class AnswerReceiver implements PartsSink {
  readonly #attempt: Attempt<DirectKind>
  readonly #handlers: AnswerHandlers
  #exchange: Exchange | null = null
  #unwatch: (() => void) | null = null
  #finished = false
  #status = 0
  #headers: ResponseHeaders = {}
  #errorBody = ''
  /** The chunks received for each request. */
  readonly #bodies: Buffer[][]
  #bytes = 0

  constructor(attempt: Attempt<DirectKind>, handlers: AnswerHandlers) {
    this.#attempt = attempt
    this.#handlers = handlers
    this.#bodies = attempt.requests.map(() => [])
  }

  start(): void {
    const { upstreams, route, requests, client, departures, readOnMs, signal } = this.#attempt
    client.collect(0)
    client.beginWait?.()
    const send = (request: UpstreamRequest, sink: ResponseSink) => upstreams.send(route, request, sink, true)
    const exchange = sendParts(send, requests, this)
    this.#exchange = exchange
    abortOnSignal(signal, exchange)
    const unwatch = departures.track(
      client,
      () => readOnMs,
      () => exchange.abort(),
    )
    if (this.#finished) unwatch()
    else this.#unwatch = unwatch
  }

  onSent(): void {
    this.#attempt.onSent()
  }

  onHead(status: number, headers: ResponseHeaders): void {
    this.#status = status
    this.#headers = headers
    this.#handlers.onFirstByte()
  }

  onData(chunk: Buffer, part: number): void {
    if (!isSuccess(this.#status)) {
      if (this.#errorBody.length < maxErrorBytes) this.#errorBody += chunk.toString()
      return
    }
    this.#bytes += chunk.length
    try {
      if (this.#bytes > maxAnswerBytes) throw new ProviderError('invalid_response', 'the answer is larger than 64 MB')
      this.#attempt.client.collect(chunk.length)
      this.#bodies[part]!.push(chunk)
    } catch (error) {
      this.#handlers.reject(error)
      this.#exchange?.abort()
    }
  }

  onPart(): void {}

  onEnd(): void {
    this.#finish()
    const status = this.#status
    try {
      if (isSuccess(status)) this.#handlers.resolve(parseBodies(this.#bodies))
      else this.#handlers.reject(this.#attempt.protocol.failure(status, this.#headers, this.#errorBody))
    } catch (cause) {
      this.#handlers.reject(new ProviderError('invalid_response', 'the answer is not JSON', { status, cause }))
    }
  }

  onError(fault: TransportFault, error: Error): void {
    this.#finish()
    this.#handlers.reject(transportError(fault, error, this.#attempt))
  }

  #finish(): void {
    if (!this.#finished) this.#attempt.client.endWait?.()
    this.#finished = true
    this.#unwatch?.()
  }
}

function isSuccess(status: number): boolean {
  return status >= 200 && status <= 299
}

/** Throws a SyntaxError for invalid JSON. */
function parseBodies(bodies: readonly Buffer[][]): ReceivedAnswer {
  const texts = bodies.map(chunks => (chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)).toString())
  const [text = ''] = texts
  return texts.length === 1 ? { json: JSON.parse(text), text } : { json: texts.map(one => JSON.parse(one)), text: null }
}

/** Result of a streaming attempt. Unless `answered`, the client has received nothing of the answer. */
export type StreamResult = { answered: boolean; error: Error | null }

/**
 * Sends a call and relays its events to the client as they arrive; each write resets the ticks of `heartbeat`. `open`
 * is called before every write, `onFirstByte` at the first output. Resolves when the provider has finished or failed.
 */
export function streamAnswer<K extends DirectKind>(
  attempt: Attempt<K>,
  relay: AnswerRelay,
  heartbeat: Heartbeat,
  open: () => void,
  onFirstByte: () => void,
): Promise<StreamResult> {
  const { upstreams, route, protocol, requests, client, departures, reasons, readOnMs, signal, onSent, stretches } =
    attempt
  let unwatch: (() => void) | undefined
  return new Promise<StreamResult>(resolve => {
    let status = 0
    let headers: ResponseHeaders = {}
    let errorBody = ''
    let answered = false
    let paused = false
    let finished = false
    const finish = (error: Error | null) => {
      if (!finished) client.endWait?.()
      finished = true
      clearTimeout(tokenTimer)
      comments.stop()
      resolve({ answered, error })
    }
    const timeOut = (message: string) => {
      finish(new ProviderError('timeout', message))
      exchange.abort()
    }
    const tokenTimer = startTokenTimer(route, () => timeOut('the provider sent no token in time'))
    const comments = new CommentWatch(upstreams.idleTimeoutMs, () => timeOut('the provider sent only comments'))
    const write = (text: string) => {
      if (text === '') return
      open()
      answered = true
      heartbeat.ticks = 0
      if (client.write(text, relay.encoding) || paused) return
      paused = true
      comments.stop()
      exchange.pause()
      client.onDrain(() => {
        paused = false
        exchange.resume()
      })
    }
    /** Processes a chunk of the answer to one of the requests; null = end of that answer. */
    const step = (chunk: Buffer | null, part: number) => {
      if (finished) return
      try {
        const { hasOutput } = relay
        if (chunk) comments.see(chunk)
        if (chunk) relay.feed(chunk, part)
        else relay.close(part)
        if (relay.hasOutput && !hasOutput) {
          clearTimeout(tokenTimer)
          onFirstByte()
        }
        write(relay.flush())
        if (relay.over) finish(null)
        else stretches?.recordDelivered(relay.tally)
      } catch (error) {
        // Output before the error is flushed, unless another provider can still take over.
        if (answered) write(relay.flush())
        finish(error as Error)
        exchange.abort()
      }
    }
    const send = (request: UpstreamRequest, sink: ResponseSink) => upstreams.send(route, request, sink, false)
    client.beginWait?.()
    const exchange = sendParts(send, requests, {
      onSent,
      onHead(code, head) {
        status = code
        headers = head
      },
      onData(chunk, part) {
        if (status === 200) step(chunk, part)
        else if (errorBody.length < maxErrorBytes) errorBody += chunk.toString()
      },
      onPart(part) {
        if (status === 200) step(null, part)
      },
      onEnd() {
        finish(status === 200 ? null : protocol.failure(status, headers, errorBody))
      },
      onError: (fault, error) => finish(transportError(fault, error, attempt)),
    })
    abortOnSignal(signal, exchange)
    unwatch = departures.track(
      client,
      () => {
        // No `drain` event follows once the client has disconnected.
        exchange.resume()
        if (!reasons && !client.awaitsUsage) return 0
        return answered ? Math.min(readOnMs, maxShownReadOnMs) : readOnMs
      },
      () => exchange.abort(),
    )
  }).finally(() => unwatch?.())
}

/** Starts the timer for the first token of a stream, if its route has a limit. */
function startTokenTimer({ tokenWithinMs }: Route, onLate: () => void): NodeJS.Timeout | undefined {
  return Number.isFinite(tokenWithinMs) ? setTimeout(onLate, tokenWithinMs) : undefined
}

/** The signal belongs to the run and is collected with it; aborting a finished exchange has no effect. */
function abortOnSignal(signal: AbortSignal, exchange: Exchange): void {
  signal.addEventListener('abort', () => exchange.abort(), { once: true })
  if (signal.aborted) exchange.abort()
}

function transportError(
  fault: TransportFault,
  cause: Error,
  { client, signal }: Pick<Attempt<DirectKind>, 'client' | 'signal'>,
): Error {
  if (fault === 'aborted' && signal.aborted) return signal.reason
  if (fault === 'aborted' && client.gone) return new ClientGone('the client went away')
  if (fault === 'timeout') return new ProviderError('timeout', 'the provider took too long', { cause })
  if (fault === 'coding') return new ProviderError('invalid_response', 'the answer cannot be decompressed', { cause })
  return new ProviderError('connection', 'the connection to the provider failed', { cause })
}
