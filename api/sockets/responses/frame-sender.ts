import type { Duplex } from 'node:stream'
import type { WebSocket } from '../../../shared/io/socket.ts'

/**
 * Above the high-water mark of unsent bytes, the client is not read and its turn is paused until less than the low one
 * is left.
 */
const highWaterBytes = 1024 * 1024
const lowWaterBytes = 256 * 1024
const text = { binary: false }

/** Sends text frames to one client, with backpressure. */
export class FrameSender {
  readonly #socket: WebSocket
  readonly #connection: Duplex
  #drainListeners: (() => void)[] = []
  /** Whether the client is not read; until then each frame reports when it is sent, as any may be the last one. */
  #isFull = false

  constructor(socket: WebSocket, connection: Duplex) {
    this.#socket = socket
    this.#connection = connection
  }

  /** Sends frames in one write; false = wait for `onDrain` before the next. */
  send(...frames: (Buffer | string)[]): boolean {
    this.#connection.cork()
    const isReady = frames.map(frame => this.#send(frame)).every(Boolean)
    this.#connection.uncork()
    return isReady
  }

  /** Calls the listener once the client has read most of what was sent, or is gone. */
  onDrain(listener: () => void): void {
    this.#drainListeners.push(listener)
  }

  #send(frame: Buffer | string): boolean {
    const socket = this.#socket
    if (socket.readyState !== socket.OPEN) return true
    if (!this.#isFull && socket.bufferedAmount + frame.length < highWaterBytes) {
      socket.send(frame, text)
      return true
    }
    this.#isFull = true
    socket.pause()
    socket.send(frame, text, () => {
      if (socket.bufferedAmount > lowWaterBytes) return
      this.#isFull = false
      socket.resume()
      for (const listener of this.#drainListeners.splice(0)) listener()
    })
    return false
  }
}
