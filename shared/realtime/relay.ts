import type { Clock } from '../base/time.ts'
import { trafficOf, type WebSocket } from '../io/socket.ts'

/** Above this many bytes on their way to one side, the other one is not read from any more; below the lower, it is again. */
const highWaterBytes = 1024 * 1024
const lowWaterBytes = 256 * 1024
const pingEveryMs = 25_000
/** A side that takes nothing of what waits for it for so long, for each `highWaterBytes` of it, is gone. */
const stalledMs = 60_000
const binary = { binary: true }
const text = { binary: false }

export type Side = 'client' | 'upstream'
/** How one side ended: the code and reason of its close, as the other side may be told. `broken`: it gave none, its connection broke. */
export type Closed = { side: Side; code: number | null; reason: string; broken: boolean }

export type RelayEvents = {
  /** A frame on its way to the provider: `pass` sends one in its place. Not called where none is to be sent. */
  fromClient(frame: Buffer, pass: (frame: Buffer) => void): void
  /** A frame of the provider, also once the client has left. */
  fromUpstream(frame: Buffer): void
  /** A side closed. Each side once. */
  closed(closed: Closed): void
}

class Leg {
  readonly socket: WebSocket
  /** How much had come from it at the last ping, and how many pings in a row brought nothing. */
  readBytes = -1
  missed = 0
  /** How much it had taken when it was last seen to take something, or nothing waited for it. */
  takenBytes = 0
  takenMs: number
  over = false
  /** What is wrong with what it sent, as a close code; null = nothing. */
  fault: number | null = null
  constructor(socket: WebSocket, nowMs: number) {
    this.socket = socket
    this.takenMs = nowMs
  }
}

/**
 * Two sockets joined: every frame of one is sent to the other, unchanged and in order, no faster than it is taken. Knows
 * when a side is gone without a word. What the frames mean, and what is to be done about an end, is others' business.
 */
export class Relay {
  readonly #client: Leg
  readonly #upstream: Leg
  readonly #events: RelayEvents
  #pingMs: number

  /** `upstream` is paused. */
  constructor(client: WebSocket, upstream: WebSocket, events: RelayEvents, clock: Clock) {
    this.#pingMs = clock.now()
    this.#client = new Leg(client, this.#pingMs)
    this.#upstream = new Leg(upstream, this.#pingMs)
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
  get over(): boolean {
    return this.#client.over && this.#upstream.over
  }

  /** To be called every second or so: pings, and cuts whoever is gone without a word. */
  beat(nowMs: number): void {
    const pings = nowMs - this.#pingMs >= pingEveryMs
    if (pings) this.#pingMs = nowMs
    for (const leg of [this.#client, this.#upstream]) {
      if (leg.over) continue
      if (stalls(leg, nowMs)) leg.socket.terminate()
      else if (pings) ping(leg)
    }
  }

  /** Sends one side a frame of our own, after all that waits for it. */
  send(side: Side, frame: string): void {
    const { socket } = this.#leg(side)
    if (socket.readyState === socket.OPEN) socket.send(frame)
  }

  /** Closes one side, after all that waits for it; without a code as one that gave none. */
  close(side: Side, code: number | null, reason: string): void {
    const { socket } = this.#leg(side)
    // It must be read to its close.
    socket.resume()
    if (code === null) socket.close()
    else socket.close(code, fitting(reason))
  }

  /** Nothing of the client's is passed on any more. */
  deafen(): void {
    this.#client.socket.removeAllListeners('message')
    this.#upstream.socket.resume()
  }

  /** Reads no further from the client for now; what was read already still comes. */
  pause(): void {
    this.#client.socket.pause()
  }

  resume(): void {
    this.#client.socket.resume()
  }

  /** Cuts both sides. */
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
    // The close that follows says the rest.
    socket.on('error', error => {
      leg.fault ??= faultOf(error)
    })
    socket.on('close', (code, reason) => {
      leg.over = true
      const broken = code === noClose || leg.fault !== null
      this.#events.closed({ side, code: passedOn(leg.fault ?? code), reason: reason.toString(), broken })
    })
  }
}

/** Whether a side has stopped taking what waits for it. */
function stalls(leg: Leg, nowMs: number): boolean {
  const { bufferedAmount } = leg.socket
  const traffic = trafficOf(leg.socket)
  if (!traffic) return false
  if (bufferedAmount === 0 || traffic.takenBytes !== leg.takenBytes) {
    leg.takenBytes = traffic.takenBytes
    leg.takenMs = nowMs
  }
  // Of one large message it is only known when all of it was taken.
  return nowMs - leg.takenMs >= stalledMs * Math.max(1, Math.floor(bufferedAmount / highWaterBytes))
}

/** Pings a side; one that has answered nothing to the last two is cut. */
function ping(leg: Leg): void {
  const { socket } = leg
  const readBytes = trafficOf(socket)?.readBytes
  // It may be sending one large message still; it cannot answer what it has not got; and who is not read from is not heard.
  const isSilent = readBytes === leg.readBytes && socket.bufferedAmount === 0 && !socket.isPaused
  leg.missed = isSilent ? leg.missed + 1 : 0
  leg.readBytes = readBytes ?? -1
  if (leg.missed >= 2) socket.terminate()
  else if (socket.readyState === socket.OPEN) socket.ping()
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

/** The code that the other side is closed with (RFC 6455, 7.4.1); null = without one, as this side gave none. */
function passedOn(code: number): number | null {
  if (code === noStatus) return null
  const isPassed = code === 1000 || code === 1001 || code === 1003 || (code >= 1007 && code <= 1014)
  return isPassed || (code >= 3000 && code <= 4999) ? code : 1011
}

const mostReasonBytes = 123

/** A reason as a close frame can carry it. */
function fitting(reason: string): Buffer {
  const bytes = Buffer.from(reason)
  if (bytes.length <= mostReasonBytes) return bytes
  // A character cut in two would make the whole frame invalid.
  let end = mostReasonBytes
  while ((bytes[end]! & 0xc0) === 0x80) end--
  return bytes.subarray(0, end)
}
