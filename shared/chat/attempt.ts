import { Restarting } from '../base/shutdown.ts'
import type { Exchange, ResponseHeaders, ResponseSink, TransportFault } from '../io/http.ts'
import type { DirectKind } from '../kinds/index.ts'
import {
  type Call,
  type DirectAdapter,
  type Protocol,
  ProviderError,
  type UpstreamRequest,
} from '../providers/contract.ts'
import type { Route, Upstreams } from '../providers/upstreams.ts'
import type { Client } from './client.ts'
import type { Departures } from './departures.ts'
import type { Silent } from './keep-alive.ts'
import { type PartsSink, sendParts } from './parts.ts'
import type { Relay } from './relay.ts'
import type { Received } from './whole-text.ts'

const maxAnswerBytes = 64 * 1024 * 1024
const maxErrorBytes = 64 * 1024

/** A call on its way. */
export type Attempt<K extends DirectKind> = {
  upstreams: Upstreams
  route: Route
  adapter: DirectAdapter<K>
  protocol: Protocol
  call: Call<K>
  /** What the adapter makes of the call: one request, or several. */
  requests: readonly UpstreamRequest[]
  client: Client
  departures: Departures
  /** Whether the answer has output that is not shown, which only the provider's usage tells. */
  reasons: boolean
  /** How long a call goes on for its usage after its client left; 0 = it is cut at once. */
  readOnMs: number
  /** Aborted with the GatewayError that ends the call although its client waits. */
  signal: AbortSignal
  /** The provider has the request from now on. */
  onSent(): void
}

/** Once an answer is being shown, its thinking is over: what is left of it is not awaited for long. */
const maxShownReadOnMs = 2_000

/** Whether a call was ended on its caller's account, who owes what it used. A restart of ours is billed as a failure. */
export function isStopped({ signal }: { signal: AbortSignal }, error: unknown): boolean {
  return signal.aborted && error === signal.reason && !(error instanceof Restarting)
}

/** The client left while the provider worked. */
export class ClientGone extends Error {
  override name = 'ClientGone'
}

/**
 * Sends a call and resolves with the whole answer, of several requests with a list of them; `onFirstByte` hears of its head.
 * Rejects with a ProviderError, or ClientGone.
 */
export function wholeAnswer<K extends DirectKind>(attempt: Attempt<K>, onFirstByte: () => void): Promise<Received> {
  return new Promise((resolve, reject) => new WholeAnswer(attempt, { onFirstByte, resolve, reject }).start())
}

type Awaited = { onFirstByte(): void; resolve(received: Received): void; reject(error: unknown): void }

/** A whole answer that is being received. */
class WholeAnswer implements PartsSink {
  readonly #attempt: Attempt<DirectKind>
  readonly #awaited: Awaited
  #exchange: Exchange | null = null
  #forget: (() => void) | null = null
  #over = false
  #status = 0
  #headers: ResponseHeaders = {}
  #refusal = ''
  /** What came of the answer to each request. */
  readonly #bodies: Buffer[][]
  #bytes = 0

  constructor(attempt: Attempt<DirectKind>, awaited: Awaited) {
    this.#attempt = attempt
    this.#awaited = awaited
    this.#bodies = attempt.requests.map(() => [])
  }

  start(): void {
    const { upstreams, route, requests, client, departures, readOnMs, signal } = this.#attempt
    client.collect(0)
    const exchange = sendParts<UpstreamRequest>((request, sink) => upstreams.send(route, request, sink), requests, this)
    this.#exchange = exchange
    cutOn(signal, exchange)
    const forget = departures.watch(
      client,
      () => readOnMs,
      () => exchange.abort(),
    )
    if (this.#over) forget()
    else this.#forget = forget
  }

  onSent(): void {
    this.#attempt.onSent()
  }

  onHead(status: number, headers: ResponseHeaders): void {
    this.#status = status
    this.#headers = headers
    this.#awaited.onFirstByte()
  }

  onData(chunk: Buffer, part: number): void {
    if (!isSuccess(this.#status)) {
      if (this.#refusal.length < maxErrorBytes) this.#refusal += chunk.toString()
      return
    }
    this.#bytes += chunk.length
    try {
      if (this.#bytes > maxAnswerBytes) throw new ProviderError('invalid_response', 'the answer is larger than 64 MB')
      this.#attempt.client.collect(chunk.length)
      this.#bodies[part]!.push(chunk)
    } catch (error) {
      this.#awaited.reject(error)
      this.#exchange?.abort()
    }
  }

  onPart(): void {}

  onEnd(): void {
    this.#finish()
    const status = this.#status
    try {
      if (isSuccess(status)) this.#awaited.resolve(received(this.#bodies))
      else this.#awaited.reject(this.#attempt.protocol.failure(status, this.#headers, this.#refusal))
    } catch (cause) {
      this.#awaited.reject(new ProviderError('invalid_response', 'the answer is not JSON', { status, cause }))
    }
  }

  onError(fault: TransportFault, error: Error): void {
    this.#finish()
    this.#awaited.reject(transportError(fault, error, this.#attempt))
  }

  #finish(): void {
    this.#over = true
    this.#forget?.()
  }
}

function isSuccess(status: number): boolean {
  return status >= 200 && status <= 299
}

/** Throws a SyntaxError for what is not JSON. */
function received(bodies: readonly Buffer[][]): Received {
  const texts = bodies.map(chunks => (chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)).toString())
  const [text = ''] = texts
  return texts.length === 1 ? { json: JSON.parse(text), text } : { json: texts.map(one => JSON.parse(one)), text: null }
}

/** What a streaming attempt came to. Unless it was `answered`, the client has seen nothing of the answer. */
export type Streamed = { answered: boolean; error: Error | null }

/**
 * Sends a call and relays its events to the client as they come; `silent` hears of every sign of life. `open` is called
 * before every write, `onFirstByte` when the answer first says something. Resolves when the provider has finished or
 * failed.
 */
export function streamAnswer<K extends DirectKind>(
  attempt: Attempt<K>,
  relay: Relay,
  silent: Silent,
  open: () => void,
  onFirstByte: () => void,
): Promise<Streamed> {
  const { upstreams, route, protocol, requests, client, departures, reasons, readOnMs, signal, onSent } = attempt
  let forget: (() => void) | undefined
  return new Promise<Streamed>(resolve => {
    let status = 0
    let headers: ResponseHeaders = {}
    let errorBody = ''
    let answered = false
    let paused = false
    let finished = false
    const finish = (error: Error | null) => {
      finished = true
      clearTimeout(late)
      resolve({ answered, error })
    }
    const late = whenLate(route, () => {
      finish(new ProviderError('timeout', 'the provider sent no token in time'))
      exchange.abort()
    })
    const write = (text: string) => {
      if (text === '') return
      open()
      answered = true
      silent.ticks = 0
      if (client.write(text, relay.encoding) || paused) return
      paused = true
      exchange.pause()
      client.onDrain(() => {
        paused = false
        exchange.resume()
      })
    }
    /** Takes what came of the answer to one of the requests; null = that it has ended. */
    const step = (chunk: Buffer | null, part: number) => {
      if (finished) return
      try {
        const { speaks } = relay
        if (chunk) relay.feed(chunk, part)
        else relay.close(part)
        if (relay.speaks && !speaks) {
          clearTimeout(late)
          onFirstByte()
        }
        write(relay.flush())
        if (relay.over) finish(null)
      } catch (error) {
        // What came before the fault is the client's, unless another provider can still begin anew.
        if (answered) write(relay.flush())
        finish(error as Error)
        exchange.abort()
      }
    }
    const send = (request: UpstreamRequest, sink: ResponseSink) => upstreams.send(route, request, sink)
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
    cutOn(signal, exchange)
    forget = departures.watch(
      client,
      () => {
        // Nobody drains it any more.
        exchange.resume()
        if (!reasons) return 0
        return answered ? Math.min(readOnMs, maxShownReadOnMs) : readOnMs
      },
      () => exchange.abort(),
    )
  }).finally(() => forget?.())
}

/** A timer for a stream that brings no token for as long as its route allows. */
function whenLate({ tokenWithinMs }: Route, onLate: () => void): NodeJS.Timeout | undefined {
  return Number.isFinite(tokenWithinMs) ? setTimeout(onLate, tokenWithinMs) : undefined
}

/** The signal is the run's own and goes with it; an exchange that is over is not aborted any more. */
function cutOn(signal: AbortSignal, exchange: Exchange): void {
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
  return new ProviderError('connection', 'the connection to the provider failed', { cause })
}
