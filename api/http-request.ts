import { IncomingMessage } from 'node:http'
import { newId } from '../shared/base/ids.ts'
import { PieceCollector, PieceCounter } from '../shared/io/byte-budget.ts'

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

/** The request id: a valid inbound one, otherwise a new one. */
export function requestIdOf(inbound: unknown): string {
  return typeof inbound === 'string' && validRequestId.test(inbound) ? inbound : newId('req')
}

const validRequestId = /^[A-Za-z0-9._:-]{1,128}$/

/** A URL whose path has single slashes: a base URL that ends in one makes two of them. */
export function withSingleSlashes(url: string): string {
  if (!url.includes('//')) return url
  const pathEnd = url.indexOf('?')
  const path = pathEnd < 0 ? url : url.slice(0, pathEnd)
  return path.replace(/\/{2,}/g, '/') + url.slice(path.length)
}

/** Whether the responses of a path have the format of Anthropic's API. */
export function isMessagesPath(path: string): boolean {
  return path === '/v1/messages' || path.startsWith('/v1/messages/')
}

/** Whether the responses of a path have the format of OpenAI's Responses API. */
export function isResponsesPath(path: string): boolean {
  return path === '/v1/responses' || path.startsWith('/v1/responses/')
}
