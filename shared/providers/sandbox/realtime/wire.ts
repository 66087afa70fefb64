import type { WebSocket } from '../../../io/socket.ts'

/** Above this, reading from the client is paused until the outgoing buffer drains. */
const highWaterBytes = 1024 * 1024
/** Above this, responses wait. */
const lowWaterBytes = 256 * 1024

/**
 * A session's socket: outgoing events are numbered, and incoming frames are read only as fast as their results are
 * sent.
 */
export class Wire {
  readonly #socket: WebSocket
  readonly #handle: (frame: Buffer, isBinary: boolean) => void
  /** Frames that arrived after reading was paused: the rest of one chunk of the stream. */
  #inbox: [frame: Buffer, isBinary: boolean][] = []
  #waiting: (() => void)[] = []
  #full = false
  #sent = 0

  constructor(socket: WebSocket, handle: (frame: Buffer, isBinary: boolean) => void) {
    this.#socket = socket
    this.#handle = handle
    socket.on('message', (frame: Buffer, isBinary) => {
      if (this.#full) this.#inbox.push([frame, isBinary])
      else handle(frame, isBinary)
    })
    socket.once('close', () => {
      this.#inbox = []
      this.#release()
    })
  }

  send(type: string, fields: object): void {
    const socket = this.#socket
    if (socket.readyState !== socket.OPEN) return
    socket.send(JSON.stringify({ type, event_id: `event_${++this.#sent}`, ...fields }), () => this.#onDrain())
    if (this.#full || socket.bufferedAmount <= highWaterBytes) return
    this.#full = true
    socket.pause()
  }

  /** Resolves once most of the outgoing buffer is sent, or the client has disconnected. */
  async waitForDrain(): Promise<void> {
    if (this.#socket.bufferedAmount > lowWaterBytes) await new Promise<void>(resolve => this.#waiting.push(resolve))
  }

  #onDrain(): void {
    const isWaitedFor = this.#full || this.#waiting.length > 0
    if (isWaitedFor && this.#socket.bufferedAmount <= lowWaterBytes) this.#release()
  }

  #release(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
    if (!this.#full) return
    this.#full = false
    while (!this.#full && this.#inbox.length > 0) this.#handle(...this.#inbox.shift()!)
    if (!this.#full) this.#socket.resume()
  }
}
