import type { Readable } from 'node:stream'
import { Client, type Dispatcher, errors, Pool } from 'undici'

export type { Dispatcher } from 'undici'
export type ResponseHeaders = Record<string, string | string[] | undefined>

export type Timeouts = {
  connectTimeoutMs: number
  firstByteTimeoutMs: number
  idleTimeoutMs: number
  totalTimeoutMs: number
}

/** Where an exchange failed: what a caller may do about it depends on that. */
export type TransportFault = 'timeout' | 'connection' | 'aborted'

export type OutgoingRequest = {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  path: string
  headers: Record<string, string>
  body: string | Buffer | Readable | null
}

/** What an exchange tells its caller, in order: one head, any data, then exactly one of end and error. */
export type ResponseSink = {
  /** The request is being written: from now on the other side may have it. */
  onSent?(): void
  onHead(status: number, headers: ResponseHeaders): void
  onData(chunk: Buffer): void
  onEnd(): void
  onError(fault: TransportFault, error: Error): void
}

/** An exchange under way. Every method may be called at any time; after the end they do nothing. */
export type Exchange = { abort(): void; pause(): void; resume(): void }

class Aborted extends Error {
  override name = 'Aborted'
}
class TotalTimeout extends Error {
  override name = 'TotalTimeout'
}

/** Kept-alive connections to one origin. `connections` bounds how many exchanges run at once. */
export function openPool(origin: string, timeouts: Timeouts, connections: number): Dispatcher {
  return new Pool(origin, {
    connections,
    pipelining: 1,
    keepAliveTimeout: 60_000,
    connect: { timeout: timeouts.connectTimeoutMs, noDelay: true },
    factory: (url, options) => new Client(url, options as Client.Options),
  })
}

/** Sends one request and reports to `sink`. Redirects are not followed. Never throws. */
export function exchange(pool: Dispatcher, request: OutgoingRequest, timeouts: Timeouts, sink: ResponseSink): Exchange {
  const state = new ExchangeState(timeouts, sink)
  try {
    pool.dispatch(
      {
        path: request.path,
        method: request.method,
        headers: request.headers,
        body: request.body,
        headersTimeout: timeouts.firstByteTimeoutMs,
        bodyTimeout: timeouts.idleTimeoutMs,
      },
      state,
    )
  } catch (error) {
    state.fail(error as Error)
  }
  return state
}

class ExchangeState implements Dispatcher.DispatchHandler, Exchange {
  readonly #sink: ResponseSink
  readonly #timer: NodeJS.Timeout
  #controller: Dispatcher.DispatchController | null = null
  #abortWith: Error | null = null
  #over = false

  constructor(timeouts: Timeouts, sink: ResponseSink) {
    this.#sink = sink
    this.#timer = setTimeout(
      () => this.#stop(new TotalTimeout('the whole exchange took too long')),
      timeouts.totalTimeoutMs,
    )
  }

  abort(): void {
    this.#stop(new Aborted('aborted by the caller'))
  }

  pause(): void {
    this.#controller?.pause()
  }

  resume(): void {
    this.#controller?.resume()
  }

  fail(error: Error): void {
    if (this.#over) return
    this.#finish()
    this.#sink.onError(transportFault(error), error)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#abortWith) controller.abort(this.#abortWith)
    else this.#sink.onSent?.()
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: ResponseHeaders): void {
    if (!this.#over && status >= 200) this.#sink.onHead(status, headers)
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#over) this.#sink.onData(chunk)
  }

  onResponseEnd(): void {
    if (this.#over) return
    this.#finish()
    this.#sink.onEnd()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.fail(error)
  }

  #stop(reason: Error): void {
    if (this.#over) return
    this.#abortWith = reason
    this.#controller?.abort(reason)
    // A request still queued in the pool has no controller: it is dropped when its turn comes.
    this.fail(reason)
  }

  #finish(): void {
    this.#over = true
    clearTimeout(this.#timer)
  }
}

/** Which kind of failure an undici error is. */
export function transportFault(error: Error): TransportFault {
  if (error instanceof Aborted) return 'aborted'
  const timedOut =
    error instanceof TotalTimeout ||
    error instanceof errors.HeadersTimeoutError ||
    error instanceof errors.BodyTimeoutError ||
    error instanceof errors.ConnectTimeoutError
  return timedOut ? 'timeout' : 'connection'
}

const beforeSending = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
])

/** True when no byte of a request can have reached the other side: there never was a connection. */
export function neverSent(error: Error): boolean {
  const code = String((error as { code?: unknown }).code) // That of an aborted request is a number.
  return beforeSending.has(code) || code.startsWith('ERR_TLS_') || code.includes('CERT')
}

export type Collected = { status: number; headers: ResponseHeaders; body: Buffer }

/** The whole answer of at most `maxBytes`, unless `signal` is aborted before. Rejects with an `ExchangeError`. */
export function collect(
  pool: Dispatcher,
  request: OutgoingRequest,
  timeouts: Timeouts,
  maxBytes: number,
  signal?: AbortSignal,
): Promise<Collected> {
  const { promise, resolve, reject } = Promise.withResolvers<Collected>()
  const parts: Buffer[] = []
  let bytes = 0
  let head: Omit<Collected, 'body'> | null = null
  const running = exchange(pool, request, timeouts, {
    onHead: (status, headers) => {
      head = { status, headers }
    },
    onData: part => {
      bytes += part.length
      if (bytes <= maxBytes) return void parts.push(part)
      running.abort()
      reject(new ExchangeError('connection', new Error(`the answer is larger than ${maxBytes} bytes`)))
    },
    onEnd: () => resolve({ ...head!, body: Buffer.concat(parts) }),
    onError: (fault, error) => reject(new ExchangeError(fault, error)),
  })
  const abort = () => running.abort()
  signal?.addEventListener('abort', abort)
  if (signal?.aborted) abort()
  return promise.finally(() => signal?.removeEventListener('abort', abort))
}

/** An exchange that did not end well: how, and whether its request can have had an effect. */
export class ExchangeError extends Error {
  override name = 'ExchangeError'
  readonly fault: TransportFault
  readonly unsent: boolean
  constructor(fault: TransportFault, cause: Error) {
    super(cause.message, { cause })
    this.fault = fault
    this.unsent = neverSent(cause)
  }
}
