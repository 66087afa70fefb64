import { IncomingMessage } from 'node:http'
import { PieceCollector } from '../shared/io/pieces.ts'

/**
 * A request whose body waits in blocks until somebody reads it. Node keeps each piece, up to 64 KiB of them: in pieces of
 * one byte, these take 20 MB.
 */
export class HttpRequest extends IncomingMessage {
  /** What arrived after the first piece and was not asked for yet. */
  #waiting: PieceCollector | null = null
  #isRead = false

  override push(piece: Buffer | null): boolean {
    if (this.#isRead || this.readableLength === 0) return super.push(piece)
    if (piece === null) {
      this.#flush()
      return super.push(null)
    }
    this.#waiting ??= new PieceCollector()
    this.#waiting.add(piece)
    return this.readableLength + this.#waiting.bytes < this.readableHighWaterMark
  }

  override _read(size: number): void {
    this.#isRead = true
    this.#flush()
    super._read(size)
  }

  #flush(): void {
    const waiting = this.#waiting
    this.#waiting = null
    if (waiting) super.push(waiting.take())
  }
}
