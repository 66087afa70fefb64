import { Readable } from 'node:stream'
import { Client, type Dispatcher, errors, Pool } from 'undici'
import { PieceCollector } from './byte-budget.ts'
import { CodingError, ContentDecoder } from './content-coding.ts'
import { tunnelConnector } from './tunnel.ts'

/** The client drops a request of more bytes once it is sent, instead of keeping it until the response has ended. */
export const minReleasedBytes = 64 * 1024

/** Flushed at this size: receivers could already be working. */
const maxWaiting = 16

/**
 * Batches the writes of one event-loop turn and flushes them at its end. A sleeping receiver is woken once for all of
 * them, where other work between two writes (80 µs for a request) would let it fall asleep again: a wake-up costs as
 * much as the write itself, more on virtual machines. At 64 connections a request costs a fifth less processor time; on an
 * idle process it waits some microseconds. Chunks of a stream are held back by corking the socket instead.
 *
 * So `response.end()` is called after the handler has returned: code that asks whether an answer was given reads
 * `headersSent`, not `writableEnded`.
 */
export class WriteBurst<T> {
  readonly #write: (item: T) => void
  #waiting: T[] = []

  /** `write` must not throw: the other items of the batch would be lost. */
  constructor(write: (item: T) => void) {
    this.#write = write
  }

  add(item: T): void {
    const count = this.#waiting.push(item)
    if (count === 1) setImmediate(() => this.#flush())
    else if (count === maxWaiting) this.#flush()
  }

  #flush(): void {
    const items = this.#waiting
    this.#waiting = []
    for (const item of items) this.#write(item)
  }
}

export type { Dispatcher } from 'undici'
export type ResponseHeaders = Record<string, string | string[] | undefined>

export type Timeouts = {
  connectTimeoutMs: number
  firstByteTimeoutMs: number
  idleTimeoutMs: number
  totalTimeoutMs: number
}

/** The timeouts of an exchange that has one limit for all of it. */
export function timeoutsWithin(ms: number): Timeouts {
  return { connectTimeoutMs: ms, firstByteTimeoutMs: ms, idleTimeoutMs: ms, totalTimeoutMs: ms }
}

/** Where an exchange failed; determines what the caller may do about it. `coding`: its body cannot be decompressed. */
export type TransportFault = 'timeout' | 'connection' | 'aborted' | 'coding'

export type OutgoingRequest = {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  path: string
  headers: Record<string, string>
  body: string | Buffer | Readable | null
}

/** Callbacks of an exchange, in order: one head, any data, then exactly one of end and error. */
export type ResponseSink = {
  /** The request is being written: from now on the server may have received it. */
  onSent?(): void
  onHead(status: number, headers: ResponseHeaders): void
  onData(chunk: Buffer): void
  onEnd(): void
  onError(fault: TransportFault, error: Error): void
}

/** A running exchange. Every method may be called at any time; after the end they have no effect. */
export type Exchange = { abort(): void; pause(): void; resume(): void }

class Aborted extends Error {
  override name = 'Aborted'
}
class TotalTimeout extends Error {
  override name = 'TotalTimeout'
}

/** Opens a keep-alive connection pool for one origin, through a proxy if one is given. `connections` limits concurrent exchanges. */
export function openPool(
  origin: string,
  { connectTimeoutMs: timeoutMs }: Pick<Timeouts, 'connectTimeoutMs'>,
  connections: number,
  proxy: string | null = null,
): Dispatcher {
  return new ReleasingPool(origin, {
    connections,
    pipelining: 1,
    keepAliveTimeout: 60_000,
    connect: proxy === null ? { timeout: timeoutMs, noDelay: true } : tunnelConnector({ proxy, timeoutMs }),
    factory: (url, options) => new Client(url, options as Client.Options),
  })
}

/** A pool that drops large requests once they are sent. */
class ReleasingPool extends Pool {
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const { body, headers } = options
    const isLarge = (typeof body === 'string' || Buffer.isBuffer(body)) && body.length > minReleasedBytes
    if (!isLarge) return super.dispatch(options, handler)
    const bytes = typeof body === 'string' ? Buffer.from(body) : body
    // The form of the body does not show its length.
    const sent = { ...(headers as Record<string, string>), 'content-length': String(bytes.length) }
    return super.dispatch({ ...options, headers: sent, body: new OneTimeBody(bytes) as unknown as Readable }, handler)
  }
}

/** Can be iterated over once, and has nothing afterwards: a Buffer would be kept until the response has ended. */
class OneTimeBody implements Iterable<Buffer> {
  #bytes: Buffer | null

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  *[Symbol.iterator](): Generator<Buffer> {
    yield this.#take()
  }

  #take(): Buffer {
    const bytes = this.#bytes!
    this.#bytes = null
    return bytes
  }
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status <= 299
}

/** Sends one request and reports to `sink`. Does not follow redirects. Never throws. */
export function exchange(pool: Dispatcher, request: OutgoingRequest, timeouts: Timeouts, sink: ResponseSink): Exchange {
  const state = new ExchangeState(pool, request, timeouts, sink)
  starts.add(state)
  return state
}

const starts = new WriteBurst((state: ExchangeState) => state.start())

class ExchangeState implements Dispatcher.DispatchHandler, Exchange {
  readonly #pool: Dispatcher
  #request: OutgoingRequest | null
  readonly #timeouts: Timeouts
  readonly #sink: ResponseSink
  readonly #timer: NodeJS.Timeout
  #controller: Dispatcher.DispatchController | null = null
  #decoder: ContentDecoder | null = null
  #isPaused = false
  #abortWith: Error | null = null
  #isEnded = false

  constructor(pool: Dispatcher, request: OutgoingRequest, timeouts: Timeouts, sink: ResponseSink) {
    this.#pool = pool
    this.#request = request
    this.#timeouts = timeouts
    this.#sink = sink
    this.#timer = setTimeout(
      () => this.#stop(new TotalTimeout('the whole exchange took too long')),
      timeouts.totalTimeoutMs,
    )
  }

  start(): void {
    const { path, method, headers, body } = this.#request!
    // Does not retain the request body while waiting for the response.
    this.#request = null
    if (this.#isEnded) {
      if (body instanceof Readable) body.destroy()
      return
    }
    const { firstByteTimeoutMs: headersTimeout, idleTimeoutMs: bodyTimeout } = this.#timeouts
    try {
      this.#pool.dispatch({ path, method, headers, body, headersTimeout, bodyTimeout }, this)
    } catch (error) {
      this.fail(error as Error)
    }
  }

  abort(): void {
    this.#stop(new Aborted('aborted by the caller'))
  }

  pause(): void {
    this.#isPaused = true
    this.#decoder?.pause()
    this.#controller?.pause()
  }

  resume(): void {
    this.#isPaused = false
    this.#decoder?.resume()
    this.#controller?.resume()
  }

  fail(error: Error): void {
    if (this.#isEnded) return
    this.#finish()
    this.#sink.onError(transportFault(error), error)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#abortWith) controller.abort(this.#abortWith)
    else this.#sink.onSent?.()
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: ResponseHeaders): void {
    if (this.#isEnded || status < 200) return
    if (this.#isPaused) controller.pause()
    if (headers['content-encoding'] !== undefined) this.#decoder = this.#openDecoder(headers['content-encoding'])
    this.#sink.onHead(status, headers)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isEnded) return
    if (!this.#decoder) this.#sink.onData(chunk)
    else if (!this.#decoder.write(chunk)) controller.pause()
  }

  onResponseEnd(): void {
    if (this.#decoder) this.#decoder.end()
    else this.#end()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.fail(error)
  }

  #openDecoder(encoding: string | string[]): ContentDecoder | null {
    return ContentDecoder.for(encoding, {
      // What a listener of the decoder throws would end the process; undici catches what its handler throws.
      onData: chunk => {
        try {
          if (!this.#isEnded) this.#sink.onData(chunk)
        } catch (error) {
          this.#stop(error as Error)
        }
      },
      onEnd: () => this.#end(),
      onError: error => this.#stop(error),
      onDrain: () => {
        if (!this.#isPaused) this.#controller?.resume()
      },
    })
  }

  #end(): void {
    if (this.#isEnded) return
    this.#finish()
    try {
      this.#sink.onEnd()
    } catch (error) {
      // undici has no callback for an error after the end of the exchange.
      this.#sink.onError('connection', error as Error)
    }
  }

  #stop(reason: Error): void {
    if (this.#isEnded) return
    this.#abortWith = reason
    this.#controller?.abort(reason)
    // A request still queued in the pool has no controller: the pool drops it when it is dequeued.
    this.fail(reason)
  }

  #finish(): void {
    this.#isEnded = true
    clearTimeout(this.#timer)
    this.#decoder?.destroy()
  }
}

/** Classifies an undici error. */
export function transportFault(error: Error): TransportFault {
  if (error instanceof Aborted) return 'aborted'
  if (error instanceof CodingError) return 'coding'
  const timedOut =
    error instanceof TotalTimeout ||
    error instanceof errors.HeadersTimeoutError ||
    error instanceof errors.BodyTimeoutError ||
    error instanceof errors.ConnectTimeoutError
  return timedOut ? 'timeout' : 'connection'
}

const connectErrorCodes = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ERR_PROXY',
])

/** This machine has no file descriptor, port or memory left for a connection. */
const ownFaultCodes = new Set(['EMFILE', 'ENFILE', 'EADDRNOTAVAIL', 'ENOBUFS', 'ENOMEM'])

type SystemError = { code?: unknown; syscall?: unknown; errors?: readonly unknown[] }

/** True if this machine could not make a connection, which says nothing about the server. */
export function isOwnFault(error: unknown): boolean {
  const { code, errors } = (error ?? {}) as SystemError
  // One error for each address of a host.
  return Array.isArray(errors) ? errors.length > 0 && errors.every(isOwnFault) : ownFaultCodes.has(String(code))
}

/** True if no byte of a request can have reached the server: there was no connection. */
function isUnsent(error: Error): boolean {
  const { code: given, syscall, errors } = error as SystemError
  if (Array.isArray(errors)) return errors.length > 0 && errors.every(isUnsent)
  if (syscall === 'connect' || syscall === 'getaddrinfo') return true
  const code = String(given) // The code of an aborted request is a number.
  return connectErrorCodes.has(code) || ownFaultCodes.has(code) || code.startsWith('ERR_TLS_') || code.includes('CERT')
}

type CollectedResponse = { status: number; headers: ResponseHeaders; body: Buffer }

/** `hold` accounts for the memory of each piece of the answer; what it throws ends the exchange. */
type CollectOptions = { signal?: AbortSignal | undefined; hold?: (bytes: number) => void }

/**
 * Sends a request and collects a response of at most `maxBytes`; `signal` aborts it. Memory is proportional to the bytes, whatever the
 * pieces in which they come. Rejects with an `ExchangeError`, or what `hold` throws.
 */
export function collect(
  pool: Dispatcher,
  request: OutgoingRequest,
  timeouts: Timeouts,
  maxBytes: number,
  { signal, hold = () => {} }: CollectOptions = {},
): Promise<CollectedResponse> {
  const { promise, resolve, reject } = Promise.withResolvers<CollectedResponse>()
  const pieces = new PieceCollector()
  let head: Omit<CollectedResponse, 'body'> | null = null
  let isSent = false
  const running = exchange(pool, request, timeouts, {
    onSent: () => {
      isSent = true
    },
    onHead: (status, headers) => {
      head = { status, headers }
    },
    onData: piece => {
      try {
        if (pieces.bytes + piece.length > maxBytes)
          throw new ExchangeError('connection', new Error(`the answer is larger than ${maxBytes} bytes`))
        hold(piece.length)
        pieces.add(piece)
      } catch (error) {
        reject(error)
        running.abort()
      }
    },
    onEnd: () => resolve({ ...head!, body: pieces.take() }),
    onError: (fault, error) => reject(new ExchangeError(fault, error, !isSent)),
  })
  const abort = () => running.abort()
  signal?.addEventListener('abort', abort)
  if (signal?.aborted) abort()
  return promise.finally(() => signal?.removeEventListener('abort', abort))
}

/** A failed exchange: the fault, and whether the request can have had an effect. */
export class ExchangeError extends Error {
  override name = 'ExchangeError'
  readonly fault: TransportFault
  readonly unsent: boolean
  constructor(fault: TransportFault, cause: Error, unsent = isUnsent(cause)) {
    super(cause.message, { cause })
    this.fault = fault
    this.unsent = unsent
  }
}

/**
 * A client that may disconnect during a call. `leaving` is set if the client itself ends the request, so that the call
 * must not continue.
 */
type DisconnectableClient = { readonly leaving?: unknown; onGone(listener: () => void): void }

/**
 * Tracks calls whose clients disconnected. A provider bills every request it has received: such a call may continue for
 * a while, so that the provider can report usage, and is aborted after that. `close` aborts all of them.
 */
export class DisconnectedCalls {
  readonly #aborts = new Set<() => void>()
  #closed = false

  /**
   * Calls `abort` when the client has been gone for the `readOnMs()` milliseconds determined at its disconnect;
   * immediately if `leaving` is set. Returns a function that stops tracking, to be called when the call has ended.
   */
  track(client: DisconnectableClient, readOnMs: () => number, abort: () => void): () => void {
    let timer: NodeJS.Timeout | undefined
    let ended = false
    const forget = () => {
      ended = true
      clearTimeout(timer)
      this.#aborts.delete(abortOnce)
    }
    const abortOnce = () => {
      if (ended) return
      forget()
      abort()
    }
    client.onGone(() => {
      if (ended) return
      const delayMs = client.leaving || this.#closed ? 0 : readOnMs()
      if (delayMs === 0) return abortOnce()
      this.#aborts.add(abortOnce)
      timer = setTimeout(abortOnce, delayMs)
    })
    return forget
  }

  /** Aborts every call whose client is gone, and later ones as soon as their client disconnects. */
  close(): void {
    this.#closed = true
    for (const abort of this.#aborts) abort()
  }
}
