import type { GatewayError } from '../base/errors.ts'
import type { ResponseWriter } from '../engine/response-writer.ts'
import type { ResponseHeaders, ResponseSink } from '../io/http.ts'
import type { Heartbeat } from '../io/keep-alive.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { ResponsesObject } from '../kinds/responses-answer.ts'
import type { Target, UpstreamRequest } from '../providers/contract.ts'
import { ProviderError } from '../providers/provider-error.ts'
import type { Route } from '../providers/upstreams.ts'
import { type Attempt, abortOnSignal, maxErrorBytes, sendParts, transportError } from './attempt.ts'
import { isBilledAsStated } from './bill.ts'
import type { StreamInfo } from './chat-format.ts'
import type { ChatRunInput, ResponseStorage } from './run-input.ts'
import type { AnswerRelay, StreamEnding } from './stream-relay.ts'

/** Once the answer is being streamed, its reasoning has ended: the rest is not awaited for long. */
const maxShownReadOnMs = 2_000

/** Result of a streaming attempt. Unless `answered`, the client has received nothing of the answer. */
type StreamResult = { answered: boolean; error: Error | null }

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
  const {
    upstreams,
    route,
    protocol,
    requests,
    client,
    disconnectedCalls,
    reasons,
    searches,
    readOnMs,
    signal,
    onSent,
    extensions,
  } = attempt
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
        else extensions?.recordDelivered(relay.output)
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
        attempt.onHeaders?.(head)
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
    unwatch = disconnectedCalls.track(
      client,
      () => {
        // No `drain` event follows once the client has disconnected.
        exchange.resume()
        if (!reasons && searches === 0 && !client.awaitsUsage) return 0
        return answered ? Math.min(readOnMs, maxShownReadOnMs) : readOnMs
      },
      () => exchange.abort(),
    )
  }).finally(() => unwatch?.())
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
