import { setTimeout as sleep } from 'node:timers/promises'
import type { WebSocket } from 'ws'

const frameBytes = 64 * 1024
const highWaterBytes = 1024 * 1024

/** Both directions of a session: who sends, and who is sent to. */
export const directions: [to: string, (ends: { client: WebSocket; upstream: WebSocket }) => Ends][] = [
  ['a client', ({ client, upstream }) => ({ from: upstream, to: client })],
  ['a provider', ({ client, upstream }) => ({ from: client, to: upstream })],
]
type Ends = { from: WebSocket; to: WebSocket }

/** Sends numbered frames through a socket as fast as they are taken, but never more than a few at a time. */
export class Flood {
  readonly #socket: WebSocket
  readonly frames: number
  sent = 0

  constructor(socket: WebSocket, frames: number) {
    this.#socket = socket
    this.frames = frames
  }

  get sentBytes(): number {
    return this.sent * frameBytes
  }

  /** Resolves once all frames are sent, or the socket is closed. */
  async run(): Promise<void> {
    for (; this.sent < this.frames && this.#socket.readyState === this.#socket.OPEN; this.sent++) {
      const frame = Buffer.alloc(frameBytes)
      frame.writeUInt32BE(this.sent)
      const sent = new Promise<void>(resolve => this.#socket.send(frame, () => resolve()))
      if (this.#socket.bufferedAmount >= highWaterBytes) await sent
    }
  }

  /** Waits until nothing more is taken. */
  async stuck(): Promise<void> {
    for (let before = -1, same = 0; same < 10; ) {
      same = this.sent === before ? same + 1 : 0
      before = this.sent
      await sleep(20)
    }
  }
}

/** Counts what a flood brings, without keeping it; null = a frame came out of turn. */
export function countFrames(socket: WebSocket): { frames: number | null } {
  const seen: { frames: number | null } = { frames: 0 }
  socket.removeAllListeners('message')
  socket.on('message', (data: Buffer) => {
    if (data.length !== frameBytes) return
    seen.frames = data.readUInt32BE() === seen.frames ? seen.frames + 1 : null
  })
  return seen
}
