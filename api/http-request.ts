import { IncomingMessage } from 'node:http'
import { PieceCollector, PieceCounter } from '../shared/io/pieces.ts'

/**
 * A request that joins the pieces of its body into blocks until a handler reads it. Node buffers up to 64 KiB of separate
 * pieces: as pieces of one byte, these take 20 MB.
 */
export class HttpRequest extends IncomingMessage {
  /** What arrived after the first piece and was not asked for yet. */
  #waiting: PieceCollector | null = null
  #isRead = false
  /** The pieces that waited together. */
  #joined = 0

  override push(piece: Buffer | null): boolean {
    if (this.#isRead || this.readableLength === 0) return super.push(piece)
    if (piece === null) {
      this.#flush()
      return super.push(null)
    }
    this.#waiting ??= new PieceCollector()
    this.#waiting.add(piece)
    this.#joined++
    return this.readableLength + this.#waiting.bytes < this.readableHighWaterMark
  }

  override _read(size: number): void {
    this.#isRead = true
    this.#flush()
    super._read(size)
  }

  /** Counts the pieces of a body for its reader, with those that it will get as one. */
  static countPieces(request: IncomingMessage): PieceCounter {
    return new PieceCounter({ joined: request instanceof HttpRequest ? request.#joined : 0 })
  }

  #flush(): void {
    const waiting = this.#waiting
    this.#waiting = null
    if (waiting) super.push(waiting.take())
  }
}
