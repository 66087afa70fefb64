import type { MonotonicClock, MonotonicMs } from '../base/time.ts'
import { truncateReason, type WebSocket } from '../io/socket.ts'
import { SocketLiveness } from '../io/socket-liveness.ts'

/**
 * Reading from one side pauses above the high-water mark of bytes buffered for the other, and resumes below the low
 * one.
 */
const highWaterBytes = 1024 * 1024
const lowWaterBytes = 256 * 1024
const binary = { binary: true }
const text = { binary: false }

type Side = 'client' | 'upstream'
/**
 * How one side closed: the code and reason to forward to the other side. `broken`: the connection was lost without a
 * close frame.
 */
export type SideClosed = { side: Side; code: number | null; reason: string; broken: boolean }

type RelayEvents = {
  /** A client frame for the provider: call `pass` with its replacement, or not at all to drop it. */
  fromClient(frame: Buffer, pass: (frame: Buffer) => void): void
  /** A provider frame, also after the client has disconnected. */
  fromUpstream(frame: Buffer): void
  /** A side closed; called once per side. */
  closed(closed: SideClosed): void
}

class Leg {
  readonly socket: WebSocket
  readonly liveness: SocketLiveness
  isClosed = false
  /** Close code of a protocol error in its frames; null = none. */
  fault: number | null = null
  constructor(socket: WebSocket, nowMs: MonotonicMs) {
    this.socket = socket
    this.liveness = new SocketLiveness(socket, nowMs)
  }
}

/**
 * Joins two sockets: forwards every frame of one to the other, unchanged and in order, with backpressure. Detects dead
 * connections. Interprets no frames; the session handles the end of either side.
 */
export class SocketRelay {
  readonly #client: Leg
  readonly #upstream: Leg
  readonly #events: RelayEvents

  /** `upstream` must be paused. */
  constructor(client: WebSocket, upstream: WebSocket, events: RelayEvents, monotonic: MonotonicClock) {
    const nowMs = monotonic.now()
    this.#client = new Leg(client, nowMs)
    this.#upstream = new Leg(upstream, nowMs)
    this.#events = events
    this.#listen(this.#client, 'client')
    this.#listen(this.#upstream, 'upstream')
    client.on('message', (frame: Buffer, isBinary) => {
      events.fromClient(frame, sent => this.#pass(this.#client, this.#upstream, sent, isBinary))
    })
    upstream.on('message', (frame: Buffer, isBinary) => {
      this.#pass(this.#upstream, this.#client, frame, isBinary)
      events.fromUpstream(frame)
    })
    upstream.resume()
  }

  /** True once both sides are closed. */
  get isClosed(): boolean {
    return this.#client.isClosed && this.#upstream.isClosed
  }

  /** Must be called about every second: sends pings, and terminates dead or stalled sides. */
  checkLiveness(nowMs: MonotonicMs): void {
    for (const leg of [this.#client, this.#upstream]) if (!leg.isClosed) leg.liveness.check(nowMs)
  }

  /** Sends a frame of ours to one side, after all buffered frames. */
  send(side: Side, frame: string): void {
    const { socket } = this.#leg(side)
    if (socket.readyState === socket.OPEN) socket.send(frame)
  }

  /** Closes one side, after all buffered frames; null = without a code. */
  close(side: Side, code: number | null, reason: string): void {
    const { socket } = this.#leg(side)
    // The close frame must be read.
    socket.resume()
    if (code === null) socket.close()
    else socket.close(code, truncateReason(reason))
  }

  /** Stops forwarding client frames. */
  ignoreClient(): void {
    this.#client.socket.removeAllListeners('message')
    this.#upstream.socket.resume()
  }

  /** Stops reading from the client for now; frames already read are still delivered. */
  pause(): void {
    this.#client.socket.pause()
  }

  resume(): void {
    this.#client.socket.resume()
  }

  /** Terminates both sides. */
  terminate(): void {
    this.#client.socket.terminate()
    this.#upstream.socket.terminate()
  }

  #leg(side: Side): Leg {
    return side === 'client' ? this.#client : this.#upstream
  }

  #pass(from: Leg, to: Leg, frame: Buffer, isBinary: boolean): void {
    const { socket } = to
    if (socket.readyState !== socket.OPEN) return
    const options = isBinary ? binary : text
    if (socket.bufferedAmount + frame.length < highWaterBytes) {
      socket.send(frame, options)
      return
    }
    from.socket.pause()
    socket.send(frame, options, () => {
      if (socket.bufferedAmount <= lowWaterBytes) from.socket.resume()
    })
  }

  #listen(leg: Leg, side: Side): void {
    const { socket } = leg
    // The subsequent close event carries the details.
    socket.on('error', error => {
      leg.fault ??= faultOf(error)
    })
    socket.on('close', (code, reason) => {
      leg.isClosed = true
      const broken = code === noClose || leg.fault !== null
      this.#events.closed({ side, code: closeCodeFor(leg.fault ?? code), reason: reason.toString(), broken })
    })
  }
}

const faults: Record<string, number> = {
  WS_ERR_UNSUPPORTED_MESSAGE_LENGTH: 1009,
  WS_ERR_UNSUPPORTED_DATA_PAYLOAD_LENGTH: 1009,
  WS_ERR_TOO_MANY_BUFFERED_PARTS: 1008,
  WS_ERR_INVALID_UTF8: 1007,
}

function faultOf(error: Error): number | null {
  return faults[(error as { code?: string }).code ?? ''] ?? null
}

const noStatus = 1005
const noClose = 1006

/** The close code for the other side (RFC 6455, 7.4.1); null = no code, as on this side. */
function closeCodeFor(code: number): number | null {
  if (code === noStatus) return null
  const isForwardable = code === 1000 || code === 1001 || code === 1003 || (code >= 1007 && code <= 1014)
  return isForwardable || (code >= 3000 && code <= 4999) ? code : 1011
}
