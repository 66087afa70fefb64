import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { elapsedMs, preciseMonotonic } from '../shared/base/time.ts'
import type { ContentCopy } from '../shared/content-log/content-copy.ts'
import type { Encoding, ResponseWriter } from '../shared/engine/response-writer.ts'
import type { HeldBytes } from '../shared/io/byte-budget.ts'
import { WriteBurst } from '../shared/io/http.ts'
import type { Trace } from '../shared/traces/trace.ts'

/** Larger files are streamed and not kept for their Idempotency-Key. */
const maxKeptBytes = 32 * 1024 * 1024

/**
 * Read timeouts of clients: `stalledMs` without any progress; `leaveMs` plus the remaining bytes at `bytesPerMs` for
 * the end of a response. Other values are for tests.
 */
type ReadTimeouts = { stalledMs: number; leaveMs: number; bytesPerMs: number }
const defaultTimeouts: ReadTimeouts = { stalledMs: 5 * 60_000, leaveMs: 60_000, bytesPerMs: 32 }

/** An answer takes this many times its bytes: as the text that is collected, and as the bytes that are written. */
const answerCopies = 2

const json = { 'content-type': 'application/json; charset=utf-8' }
const noHeaders = {}

/** Headers as a flat list, Node's cheapest form; no name is in two of the records. */
function flattenHeaders(
  base: Record<string, string>,
  type: Record<string, string>,
  own: Record<string, string>,
  length: number,
): string[] {
  const list = ['content-length', String(length)]
  for (const name in base) list.push(name, base[name]!)
  for (const name in type) list.push(name, type[name]!)
  for (const name in own) list.push(name, own[name]!)
  return list
}

function ignore(): void {}

const pendingFlushes = new WriteBurst((client: HttpResponse) => client.flush())

/**
 * The HTTP implementation of ResponseWriter. Streams are framed here with one write per event: Node's own chunked
 * writer sends every chunk in three pieces, which costs more than the rest of relaying it. Writes within one turn of
 * the event loop are flushed together at its end (`WriteBurst`).
 */
export class HttpResponse implements ResponseWriter {
  gone = false
  /** Receives a complete response instead of sending it: the idempotency guard stores it first. */
  onAnswer: ((status: number, headers: Record<string, string>, body: string | Buffer) => void) | null = null
  defer: ResponseWriter['defer'] = null
  /** Measures the gateway's own time; null = not measured. */
  time: OwnTime | null = null
  /** The trace of the request; null = none. */
  trace: Trace | null = null
  /** Copies what is sent, for the log of input and output; null = not logged. */
  copy: ContentCopy | null = null
  readonly #response: ServerResponse
  readonly baseHeaders: Record<string, string>
  #socket: Socket | null = null
  readonly #listeners: (() => void)[] = []
  /** The part received so far of a file that is stored instead of sent. */
  #kept: { headers: Record<string, string>; parts: Uint8Array[]; bytes: number } | null = null
  #abandoned = false
  #onClosed: (() => void) | null = null
  #isEndWatched = false
  /** The connection while writes to it are corked. */
  #corked: Socket | null = null
  /** A complete response that is about to be sent. */
  #body: string | Buffer | null = null
  #encoding: Encoding = 'latin1'
  readonly #timeouts: ReadTimeouts
  /** The budget that counts this response's unsent bytes; absent if the caller is not identified. */
  #held: HeldBytes | null = null

  /** A client that exceeds a read timeout while data waits for it is treated as disconnected. */
  constructor(response: ServerResponse, baseHeaders: Record<string, string>, timeouts = defaultTimeouts) {
    this.#response = response
    this.baseHeaders = baseHeaders
    this.#timeouts = timeouts
    // The `close` event reports a broken connection; an unhandled error would end the process.
    response.on('error', ignore)
    response.on('close', () => {
      if (!response.writableEnded && !this.#abandoned) {
        this.gone = true
        for (const listener of this.#listeners) listener()
      }
      this.#onClosed?.()
    })
  }

  /** Applies the read timeouts to responses that other code writes. */
  watchForeignWrites(): void {
    this.#response.once('pipe', () => this.#watchPiped())
    this.#response.once('prefinish', () => this.#watchEnd())
  }

  /** Whether the response is complete, although the connection may not have taken all of it yet. */
  get isComplete(): boolean {
    return this.#body !== null || this.#response.writableEnded
  }

  get keeps(): boolean {
    return this.#kept !== null
  }

  /** Charges the unsent bytes of this response to its organisation's budget from now on. */
  chargeTo(held: HeldBytes): void {
    this.#held = held
  }

  beginWait(): void {
    if (!this.time) return
    this.time.hasCalls = true
    this.time.beginWait()
  }

  endWait(): void {
    this.time?.endWait()
  }

  /** The gateway's own part of the request so far; null before the first call to a provider. */
  get ownMs(): number | null {
    return this.time?.hasCalls ? this.time.ms : null
  }

  collect(bytes: number): void {
    this.#held?.grow(bytes * answerCopies)
  }

  /** Calls the single listener once the response was sent or has failed; immediately if that is already so. */
  onClosed(listener: () => void): void {
    if (this.#response.closed) listener()
    else this.#onClosed = listener
  }

  onGone(listener: () => void): void {
    this.#listeners.push(listener)
    if (this.gone) listener()
  }

  answer(headers: Record<string, string>, body: string): void {
    if (this.onAnswer) this.onAnswer(200, headers, body)
    else this.reply(200, headers, body)
  }

  /** Sends a complete body at once; JSON unless the headers say otherwise. */
  reply(status: number, headers: Record<string, string>, body: string | Buffer): void {
    this.copy?.answer(body)
    const length = Buffer.byteLength(body)
    // Releases the request's data.
    this.#held?.hold(length * answerCopies - this.#held.bytes)
    const isTyped = headers['content-type'] !== undefined
    this.#response.writeHead(status, flattenHeaders(this.baseHeaders, isTyped ? noHeaders : json, headers, length))
    // Text without multi-byte characters needs no encoding, which would be the largest cost here.
    this.#encoding = typeof body === 'string' && length === body.length ? 'latin1' : 'utf8'
    this.#body = body
    pendingFlushes.add(this)
  }

  /** Corks the connection: writes from now on are flushed at the end of the turn. */
  #cork(): void {
    const { socket } = this.#response
    if (this.#corked || !socket) return
    this.#corked = socket
    socket.cork()
    pendingFlushes.add(this)
  }

  /** Sends what is held back. */
  flush(): void {
    if (this.#body !== null) {
      this.#response.end(this.#body, this.#encoding)
      this.#body = null
      this.#watchEnd()
    }
    this.#corked?.uncork()
    this.#corked = null
  }

  open(headers: Record<string, string>): void {
    const isFile = headers['content-type'] !== undefined
    if (isFile && this.onAnswer) this.#kept = { headers, parts: [], bytes: 0 }
    else this.#open(headers, isFile)
  }

  #open(headers: Record<string, string>, isFile: boolean): void {
    const response = this.#response
    response.writeHead(200, {
      ...this.baseHeaders,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      ...headers,
    })
    const { socket } = response
    // Own framing needs exclusive use of the connection: HTTP/1.1, and no earlier pipelined response in progress.
    if (isFile || !socket || !response.chunkedEncoding || response.writableLength > 0) return
    this.#socket = socket
    this.#cork()
    response.flushHeaders()
  }

  write(text: string, encoding: Encoding): boolean {
    if (this.gone) return true
    this.copy?.write(text, encoding)
    const socket = this.#socket
    if (!socket) return this.#response.write(text, encoding)
    const length = encoding === 'latin1' ? text.length : Buffer.byteLength(text)
    this.#cork()
    return socket.write(`${length.toString(16)}\r\n${text}\r\n`, encoding)
  }

  send(bytes: Uint8Array): boolean {
    const kept = this.#kept
    if (!kept) return this.gone || this.#response.write(bytes)
    kept.parts.push(bytes)
    kept.bytes += bytes.length
    this.#held?.hold(bytes.length * answerCopies)
    if (kept.bytes <= maxKeptBytes) return true
    this.#kept = null
    this.#open(kept.headers, true)
    return this.#response.write(Buffer.concat(kept.parts))
  }

  onDrain(listener: () => void): void {
    // Node closes the connection after this time without progress.
    const { socket } = this.#response
    socket?.setTimeout(this.#timeouts.stalledMs)
    ;(this.#socket ?? this.#response).once('drain', () => {
      socket?.setTimeout(0)
      listener()
    })
  }

  /**
   * Disconnects a client that does not read the rest of a finished response. Needs no timer if the kernel took
   * everything at once.
   */
  #watchEnd(): void {
    const waitingBytes = this.#response.socket?.writableLength ?? 0
    if (waitingBytes === 0 || this.#isEndWatched) return
    this.#isEndWatched = true
    const { leaveMs, bytesPerMs } = this.#timeouts
    const timer = setTimeout(() => this.#response.destroy(), leaveMs + waitingBytes / bytesPerMs)
    this.#response.once('close', () => clearTimeout(timer))
  }

  /** Disconnects a client that reads nothing of a file for `stalledMs`, whatever it sends meanwhile. */
  #watchPiped(): void {
    const { socket } = this.#response
    if (!socket) return
    let readBytes = socket.bytesWritten - socket.writableLength
    const timer = setInterval(() => {
      const now = socket.bytesWritten - socket.writableLength
      if (now === readBytes && socket.writableLength > 0) this.#response.destroy()
      readBytes = now
    }, this.#timeouts.stalledMs)
    this.#response.once('close', () => clearInterval(timer))
  }

  end(): void {
    const kept = this.#kept
    if (kept) this.onAnswer!(200, kept.headers, Buffer.concat(kept.parts))
    else {
      // Node uncorks the connection here.
      this.#response.end()
      this.#watchEnd()
    }
  }

  abandon(): boolean {
    this.flush()
    const isUnseen = this.#kept !== null
    this.#kept = null
    this.#abandoned = !isUnseen
    if (isUnseen) return true
    // Without chunked framing, only a reset distinguishes a truncated response from a complete one.
    if (this.#response.chunkedEncoding) this.#response.destroy()
    else this.#response.socket?.resetAndDestroy()
    return false
  }
}

/** Measures the gateway's own part of a request: its duration without the time spent waiting for others. */
export class OwnTime {
  readonly #startedMs = preciseMonotonic.now()
  #waitedMs = 0
  #waitingSinceMs = this.#startedMs
  /** Whether its waits for providers are measured: those of media requests are not. */
  hasCalls = false

  beginWait(): void {
    this.#waitingSinceMs = preciseMonotonic.now()
  }

  endWait(): void {
    this.#waitedMs += elapsedMs(this.#waitingSinceMs, preciseMonotonic.now())
  }

  /** The gateway's own time so far. */
  get ms(): number {
    return elapsedMs(this.#startedMs, preciseMonotonic.now()) - this.#waitedMs
  }
}

/** The headers of every response; pages of any origin may call /v1 and read every header. */
export function baseHeaders(requestId: string, isPublic: boolean): Record<string, string> {
  if (!isPublic) return { 'x-request-id': requestId }
  return {
    'x-request-id': requestId,
    'access-control-allow-origin': '*',
    'access-control-expose-headers': '*',
  }
}

/** Whether the responses of a path have the format of Anthropic's API. */
export function isMessagesPath(path: string): boolean {
  return path === '/v1/messages' || path.startsWith('/v1/messages/')
}

/** Whether the responses of a path have the format of OpenAI's Responses API. */
export function isResponsesPath(path: string): boolean {
  return path === '/v1/responses' || path.startsWith('/v1/responses/')
}
