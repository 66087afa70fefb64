import type { WebSocket } from '../../io/socket.ts'

/** With so much on its way to the client nothing more is read from it, until it has taken most of it. */
const highWaterBytes = 1024 * 1024
/** With so much, answers wait. */
const lowWaterBytes = 256 * 1024

/** A session's socket: events go out numbered, frames come in no faster than what they bring about is taken. */
export class Wire {
  readonly #socket: WebSocket
  readonly #handle: (frame: Buffer, isBinary: boolean) => void
  /** What came when the client was no longer to be read from: the rest of one piece of the stream. */
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
    socket.send(JSON.stringify({ type, event_id: `event_${++this.#sent}`, ...fields }), () => this.#taken())
    if (this.#full || socket.bufferedAmount <= highWaterBytes) return
    this.#full = true
    socket.pause()
  }

  /** Resolves once the client has taken most of what was said, or is gone. */
  async room(): Promise<void> {
    if (this.#socket.bufferedAmount > lowWaterBytes) await new Promise<void>(resolve => this.#waiting.push(resolve))
  }

  #taken(): void {
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
