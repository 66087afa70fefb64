/** No larger piece is handed over. */
export const maxPieceBytes = 1024 * 1024
const unreadable = -1
const waiting = -2

/** A piece of a file that one thread hands to another, which waits for it. */
export class SharedPiece {
  readonly buffer: SharedArrayBuffer
  readonly #size: Int32Array
  readonly #bytes: Uint8Array

  constructor(buffer = new SharedArrayBuffer(4 + maxPieceBytes)) {
    this.buffer = buffer
    this.#size = new Int32Array(buffer, 0, 1)
    this.#bytes = new Uint8Array(buffer, 4)
  }

  /** Blocks this thread until the piece that `request` asks for is there; null if it cannot be read. */
  take(request: () => void): Uint8Array | null {
    Atomics.store(this.#size, 0, waiting)
    request()
    Atomics.wait(this.#size, 0, waiting)
    const size = Atomics.load(this.#size, 0)
    return size === unreadable ? null : this.#bytes.slice(0, size)
  }

  /** Hands over a piece; null if it cannot be read. */
  give(piece: Uint8Array | null): void {
    if (piece) this.#bytes.set(piece.subarray(0, maxPieceBytes))
    Atomics.store(this.#size, 0, piece ? Math.min(piece.length, maxPieceBytes) : unreadable)
    Atomics.notify(this.#size, 0)
  }
}
