import type { Duplex } from 'node:stream'
import { GatewayError } from '../../shared/base/errors.ts'
import { publicError } from '../../shared/engine/failures.ts'
import { type HeldBytes, PieceCounter } from '../../shared/io/byte-budget.ts'
import type { WebSocket } from '../../shared/io/socket.ts'

/** The memory of a piece of a message beside its bytes. */
const pieceBytes = 512
/** The head of a client's control frame, and the largest such frame. */
const controlHeadBytes = 6
const maxControlBytes = controlHeadBytes + 125
/** The close code of RFC 6455 for a peer that breaks a rule of this server. */
export const policyViolation = 1008

/**
 * Limits how the messages of a client's WebSocket arrive: what is held of an incomplete one counts against the memory
 * budget of its organisation, and the pieces of a message may not all be tiny.
 */
export class FrameReader {
  readonly #socket: WebSocket
  readonly #held: HeldBytes
  readonly #counter = new PieceCounter()
  readonly #refuse: (failure: GatewayError, code?: number) => void
  #isRefused = false
  /** Pieces since the latest message that may be a control frame. */
  #smallPieces = 0

  /** `refuse` must close the WebSocket: with the code, or with that of the error. */
  constructor(
    socket: WebSocket,
    connection: Duplex,
    held: HeldBytes,
    refuse: (failure: GatewayError, code?: number) => void,
  ) {
    this.#socket = socket
    this.#held = held
    this.#refuse = refuse
    // Before the WebSocket itself reads them.
    connection.prependListener('data', (piece: Buffer) => this.#count(piece.length))
    socket.on('message', () => this.#reset())
    socket.on('ping', data => this.#forgetControl(data.length))
    socket.on('pong', data => this.#forgetControl(data.length))
    socket.on('close', () => held.release())
  }

  #count(bytes: number): void {
    if (this.#isRefused) return
    try {
      if (!this.#counter.add(bytes)) this.#end(tinyPiecesError(), policyViolation)
      else this.#held.take(bytes + pieceBytes)
      if (bytes <= maxControlBytes) this.#smallPieces++
    } catch (error) {
      this.#end(publicError(error))
    }
  }

  #reset(): void {
    this.#counter.reset()
    this.#held.hold(-this.#held.bytes)
    this.#smallPieces = 0
  }

  /** Control frames are no part of a message; a session may have them alone for hours. */
  #forgetControl(payloadBytes: number): void {
    if (this.#smallPieces === 0 || this.#isRefused) return
    this.#smallPieces--
    const bytes = controlHeadBytes + payloadBytes
    this.#counter.remove(bytes)
    this.#held.hold(-Math.min(this.#held.bytes, bytes + pieceBytes))
  }

  #end(failure: GatewayError, code?: number): void {
    this.#isRefused = true
    this.#refuse(failure, code)
    // What it still sends must not be kept.
    this.#socket.pause()
  }
}

function tinyPiecesError(): GatewayError {
  const message = 'A message came in thousands of tiny pieces. Send at least 64 bytes in each packet.'
  return new GatewayError('invalid_request', message)
}
