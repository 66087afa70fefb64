import { connect, type Socket } from 'node:net'

/** Where a connection reports: what of an answer was read into `buffer`, and that the answer is over. */
export type Listener = {
  onData(connection: Connection, buffer: Buffer, length: number): void
  onEnd(connection: Connection, error: Error | null): void
}

// All connections read into one buffer: their listeners run before the next read.
const readBuffer = Buffer.alloc(256 * 1024)
const headEnd = '\r\n\r\n'
const lastChunk = '\r\n0\r\n\r\n'

/**
 * A kept-alive HTTP/1.1 connection for load drivers, one request at a time, with next to no cost per chunk: an answer is
 * over when its Content-Length is reached or the last chunk has come, and is not parsed any further.
 */
export class Connection {
  status = 0
  closed = false
  /** Free for the driver: when the request was sent and was due, how many chunks came. */
  sentUs = 0
  heldUs = 0
  chunks = 0
  counted = false
  readonly ready: Promise<void>
  readonly #listener: Listener
  readonly #socket: Socket
  #busy = false
  #head = ''
  /** Bytes of the body still to come; null for a chunked one. */
  #left: number | null = null
  #tail = ''
  #error: Error | null = null

  constructor(port: number, listener: Listener) {
    this.#listener = listener
    const onread = { buffer: readBuffer, callback: (length: number) => this.#read(length) }
    this.#socket = connect({ host: '127.0.0.1', port, noDelay: true, onread })
    this.ready = new Promise((resolve, reject) => this.#socket.once('connect', resolve).once('error', reject))
    this.ready.catch(() => {}) // Waiters receive it; others do through `onEnd`.
    this.#socket.on('error', error => {
      this.#error = error
    })
    this.#socket.on('close', () => {
      this.closed = true
      if (this.#busy) this.#end(this.#error ?? new Error('the connection was closed'))
    })
  }

  send(request: string): void {
    this.#busy = true
    this.#head = ''
    this.#tail = ''
    this.status = 0
    this.chunks = 0
    this.#socket.write(request, 'latin1')
  }

  close(): void {
    this.#socket.destroy()
  }

  #read(length: number): boolean {
    let bodyLength = length
    if (!this.#head.endsWith(headEnd)) {
      const before = this.#head.length
      const text = this.#head + readBuffer.toString('latin1', 0, length)
      const end = text.indexOf(headEnd)
      this.#head = end < 0 ? text : text.slice(0, end + headEnd.length)
      if (end < 0) return true
      this.#begin()
      bodyLength = before + length - this.#head.length
    }
    this.#listener.onData(this, readBuffer, length)
    this.#body(length, bodyLength)
    return true
  }

  #begin(): void {
    this.status = Number(this.#head.slice(9, 12))
    const contentLength = /\r\ncontent-length: *(\d+)/i.exec(this.#head)?.[1]
    this.#left = contentLength === undefined ? null : Number(contentLength)
  }

  #body(length: number, bodyLength: number): void {
    if (this.#left !== null) {
      this.#left -= bodyLength
      if (this.#left <= 0) this.#end(null)
      return
    }
    const last = readBuffer.toString('latin1', Math.max(0, length - lastChunk.length), length)
    this.#tail = (this.#tail + last).slice(-lastChunk.length)
    if (this.#tail === lastChunk) this.#end(null)
  }

  #end(error: Error | null): void {
    this.#busy = false
    this.#listener.onEnd(this, error)
  }
}
