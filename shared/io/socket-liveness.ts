import { elapsedMs, type MonotonicMs } from '../base/time.ts'
import { trafficOf, type WebSocket } from './socket.ts'

const pingEveryMs = 25_000
/** Write-stall timeout per MiB that is buffered; a peer that accepts nothing for longer is terminated. */
const stalledMs = 60_000
const stallUnitBytes = 1024 * 1024

/** Detects a peer that has stopped reading or no longer answers pings, and terminates its socket. */
export class SocketLiveness {
  readonly #socket: WebSocket
  #lastPingMs: MonotonicMs
  /** Bytes received at the last ping, and the number of consecutive pings without new bytes. */
  #readBytes = -1
  #missed = 0
  /** Bytes written when progress was last observed or the buffer was empty. */
  #takenBytes = 0
  #takenMs: MonotonicMs

  constructor(socket: WebSocket, nowMs: MonotonicMs) {
    this.#socket = socket
    this.#lastPingMs = nowMs
    this.#takenMs = nowMs
  }

  /** Must be called about every second while the socket is open. */
  check(nowMs: MonotonicMs): void {
    const pings = elapsedMs(this.#lastPingMs, nowMs) >= pingEveryMs
    if (pings) this.#lastPingMs = nowMs
    if (this.#hasStalled(nowMs)) this.#socket.terminate()
    else if (pings) this.#ping()
  }

  /** Whether the peer has stopped accepting its buffered bytes. */
  #hasStalled(nowMs: MonotonicMs): boolean {
    const { bufferedAmount } = this.#socket
    const traffic = trafficOf(this.#socket)
    if (!traffic) return false
    if (bufferedAmount === 0 || traffic.takenBytes !== this.#takenBytes) {
      this.#takenBytes = traffic.takenBytes
      this.#takenMs = nowMs
    }
    // A large message reports progress only when all of it was written.
    return elapsedMs(this.#takenMs, nowMs) >= stalledMs * Math.max(1, Math.floor(bufferedAmount / stallUnitBytes))
  }

  /** Pings the peer; terminates it after two unanswered pings. */
  #ping(): void {
    const socket = this.#socket
    const readBytes = trafficOf(socket)?.readBytes
    // Inconclusive while it sends a large message, while our ping is still buffered, or while reading is paused.
    const isSilent = readBytes === this.#readBytes && socket.bufferedAmount === 0 && !socket.isPaused
    this.#missed = isSilent ? this.#missed + 1 : 0
    this.#readBytes = readBytes ?? -1
    if (this.#missed >= 2) socket.terminate()
    else if (socket.readyState === socket.OPEN) socket.ping()
  }
}
