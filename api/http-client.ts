import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Client } from '../shared/chat/client.ts'
import type { Encoding } from '../shared/chat/relay.ts'
import type { HeldBytes } from '../shared/io/byte-budget.ts'

/** A file beyond this is sent as it comes, and not kept for its Idempotency-Key. */
const mostKeptBytes = 32 * 1024 * 1024

/**
 * How long clients may take to read: nothing at all for `stalledMs`, and the end of an answer for `leaveMs` and as long as its
 * bytes need at `bytesPerMs`. Other values are for tests.
 */
export type Patience = { stalledMs: number; leaveMs: number; bytesPerMs: number }
const usualPatience: Patience = { stalledMs: 5 * 60_000, leaveMs: 60_000, bytesPerMs: 32 }

const json = { 'content-type': 'application/json; charset=utf-8' }
const untyped = {}

/** Headers as Node takes them with the least work; no name is in two of the records. */
function flat(
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

/**
 * An HTTP response as the chat run sees its client. Streams are framed here and leave in one write per event: Node's own
 * chunked writer sends every chunk in three pieces, which costs more than all the rest of relaying it.
 */
export class HttpClient implements Client {
  gone = false
  /** Takes a whole answer instead of it being sent: the idempotency guard keeps it first. */
  onAnswer: ((status: number, headers: Record<string, string>, body: string | Buffer) => void) | null = null
  hold: Client['hold'] = null
  readonly #response: ServerResponse
  readonly baseHeaders: Record<string, string>
  #socket: Socket | null = null
  readonly #listeners: (() => void)[] = []
  /** A file that is kept instead of being sent, as far as it came. */
  #kept: { headers: Record<string, string>; parts: Uint8Array[]; bytes: number } | null = null
  #abandoned = false
  #onClosed: (() => void) | null = null
  #isEndWatched = false
  readonly #patience: Patience
  /** What the process holds of a whole answer until the client has taken it; absent where nobody is known to ask. */
  #held: HeldBytes | null = null

  /** A client that loses our patience while something waits for it has left. */
  constructor(response: ServerResponse, baseHeaders: Record<string, string>, patience = usualPatience) {
    this.#response = response
    this.baseHeaders = baseHeaders
    this.#patience = patience
    // A broken connection is noticed by its close; an unhandled error would end the process.
    response.on('error', ignore)
    response.on('close', () => {
      if (!response.writableEnded && !this.#abandoned) {
        this.gone = true
        for (const listener of this.#listeners) listener()
      }
      this.#onClosed?.()
    })
  }

  /** Has the client's patience watched, too, where others than this class write to the response. */
  watchOthers(): void {
    this.#response.once('pipe', () => this.#watchPiped())
    this.#response.once('prefinish', () => this.#watchEnd())
  }

  get keeps(): boolean {
    return this.#kept !== null
  }

  /** Counts this answer's bytes from now on: they are its organisation's. */
  countIn(held: HeldBytes): void {
    this.#held = held
  }

  collect(bytes: number): void {
    this.#held?.take(bytes)
  }

  /** Calls the listener, of which there is one, once the answer has left or never will; at once where that is so already. */
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

  /** Sends a whole body at once; JSON unless the headers say otherwise. */
  reply(status: number, headers: Record<string, string>, body: string | Buffer): void {
    const length = Buffer.byteLength(body)
    // What it was made of is gone.
    this.#held?.hold(length - this.#held.bytes)
    const isTyped = headers['content-type'] !== undefined
    this.#response.writeHead(status, flat(this.baseHeaders, isTyped ? untyped : json, headers, length))
    // Text without multi-byte characters needs no encoding, which would cost more than everything else here.
    this.#response.end(body, typeof body === 'string' && length === body.length ? 'latin1' : 'utf8')
    this.#watchEnd()
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
    // Our own framing needs the connection for itself: HTTP/1.1, and no earlier pipelined answer still leaving.
    if (isFile || !socket || !response.chunkedEncoding || response.writableLength > 0) return
    socket.cork()
    response.flushHeaders()
    process.nextTick(() => socket.uncork())
    this.#socket = socket
  }

  write(text: string, encoding: Encoding): boolean {
    if (this.gone) return true
    const socket = this.#socket
    if (!socket) return this.#response.write(text, encoding)
    const length = encoding === 'latin1' ? text.length : Buffer.byteLength(text)
    return socket.write(`${length.toString(16)}\r\n${text}\r\n`, encoding)
  }

  send(bytes: Uint8Array): boolean {
    const kept = this.#kept
    if (!kept) return this.gone || this.#response.write(bytes)
    kept.parts.push(bytes)
    kept.bytes += bytes.length
    this.#held?.hold(bytes.length)
    if (kept.bytes <= mostKeptBytes) return true
    this.#kept = null
    this.#open(kept.headers, true)
    return this.#response.write(Buffer.concat(kept.parts))
  }

  onDrain(listener: () => void): void {
    // Node closes the connection of a client that takes nothing for so long.
    const { socket } = this.#response
    socket?.setTimeout(this.#patience.stalledMs)
    ;(this.#socket ?? this.#response).once('drain', () => {
      socket?.setTimeout(0)
      listener()
    })
  }

  /** Cuts off a client that does not take what is left of an answer that has ended. What the system took at once needs no timer. */
  #watchEnd(): void {
    const waitingBytes = this.#response.socket?.writableLength ?? 0
    if (waitingBytes === 0 || this.#isEndWatched) return
    this.#isEndWatched = true
    const { leaveMs, bytesPerMs } = this.#patience
    const cut = setTimeout(() => this.#response.destroy(), leaveMs + waitingBytes / bytesPerMs)
    this.#response.once('close', () => clearTimeout(cut))
  }

  /** Cuts off a client that takes nothing of a file for `stalledMs`, whatever it sends meanwhile. */
  #watchPiped(): void {
    const { socket } = this.#response
    if (!socket) return
    let taken = socket.bytesWritten - socket.writableLength
    const look = setInterval(() => {
      const now = socket.bytesWritten - socket.writableLength
      if (now === taken && socket.writableLength > 0) this.#response.destroy()
      taken = now
    }, this.#patience.stalledMs)
    this.#response.once('close', () => clearInterval(look))
  }

  end(): void {
    const kept = this.#kept
    if (kept) this.onAnswer!(200, kept.headers, Buffer.concat(kept.parts))
    else {
      this.#response.end()
      this.#watchEnd()
    }
  }

  abandon(): boolean {
    const isUnseen = this.#kept !== null
    this.#kept = null
    this.#abandoned = !isUnseen
    if (isUnseen) return true
    // Without chunks, only a reset tells a broken answer from a whole one.
    if (this.#response.chunkedEncoding) this.#response.destroy()
    else this.#response.socket?.resetAndDestroy()
    return false
  }
}
