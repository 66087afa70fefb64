import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Client } from '../shared/chat/client.ts'
import type { Encoding } from '../shared/chat/relay.ts'

/**
 * An HTTP response as the chat run sees its client. Streams are framed here and leave in one write per event: Node's own
 * chunked writer sends every chunk in three pieces, which costs more than all the rest of relaying it.
 */
export class HttpClient implements Client {
  gone = false
  /** Takes a whole answer instead of it being sent: the idempotency guard keeps it first. */
  onAnswer: ((status: number, headers: Record<string, string>, body: string) => void) | null = null
  readonly #response: ServerResponse
  readonly #baseHeaders: Record<string, string>
  #socket: Socket | null = null
  #listener: (() => void) | null = null

  constructor(response: ServerResponse, baseHeaders: Record<string, string>) {
    this.#response = response
    this.#baseHeaders = baseHeaders
    response.on('close', () => {
      if (response.writableEnded) return
      this.gone = true
      this.#listener?.()
    })
  }

  onGone(listener: () => void): void {
    this.#listener = listener
    if (this.gone) listener()
  }

  answer(headers: Record<string, string>, body: string): void {
    if (this.onAnswer) this.onAnswer(200, headers, body)
    else this.send(200, headers, body)
  }

  /** Sends a JSON body at once. */
  send(status: number, headers: Record<string, string>, body: string): void {
    const length = Buffer.byteLength(body)
    this.#response.writeHead(status, {
      ...this.#baseHeaders,
      ...headers,
      'content-type': 'application/json; charset=utf-8',
      'content-length': String(length),
    })
    // Text without multi-byte characters needs no encoding, which would cost more than everything else here.
    this.#response.end(body, length === body.length ? 'latin1' : 'utf8')
  }

  open(headers: Record<string, string>): void {
    const response = this.#response
    response.writeHead(200, {
      ...this.#baseHeaders,
      ...headers,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
    })
    const { socket } = response
    // Our own framing needs the connection for itself: HTTP/1.1, and no earlier pipelined answer still leaving.
    if (!socket || !response.chunkedEncoding || response.writableLength > 0) return
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

  onDrain(listener: () => void): void {
    ;(this.#socket ?? this.#response).once('drain', listener)
  }

  end(): void {
    this.#response.end()
  }
}
