import type { Readable, Writable } from 'node:stream'

/**
 * How the bytes of a body or message arrive. A sender chooses the size of its pieces (chunks of HTTP's chunked encoding,
 * packets), and each piece that is kept is an object of some hundred bytes.
 */

/** A sender of more pieces than this must send 64 bytes in each, of which the last ones may have less. */
const maxTinyPieces = 4_096
const minAverageBytes = 60
/** The first pieces are kept as they are: an ordinary body is one or a few. */
const maxLoosePieces = 16
/** Larger pieces are not worth copying. */
const minLooseBytes = 1_024
const maxBlockBytes = 64 * 1024
/** `pipeJoined` writes small pieces once they are so many bytes together, or the turn of the event loop ends. */
const joinedBytes = 16 * 1024

/** Counts the pieces of one sender. */
export class PieceCounter {
  readonly #maxTiny: number
  #pieces: number
  #bytes = 0

  /** `joined`: pieces that arrive as a part of the first one. */
  constructor({ maxTiny = maxTinyPieces, joined = 0 } = {}) {
    this.#maxTiny = maxTiny
    this.#pieces = joined
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Counts a piece; false once there are too many tiny ones. */
  add(bytes: number): boolean {
    this.#pieces++
    this.#bytes += bytes
    return this.#pieces <= this.#maxTiny || this.#bytes >= this.#pieces * minAverageBytes
  }

  /** Forgets a piece. */
  remove(bytes: number): void {
    this.#pieces--
    this.#bytes -= bytes
  }

  reset(): void {
    this.#pieces = 0
    this.#bytes = 0
  }
}

/**
 * Collects pieces. Large ones are kept, small ones are copied into growing blocks, so that memory is proportional to
 * the bytes, whatever the pieces.
 */
export class PieceCollector {
  #parts: Buffer[] = []
  #bytes = 0
  /** The block being filled: its bytes from `#start` to `#end` are not among the parts yet. */
  #block: Buffer | null = null
  #start = 0
  #end = 0

  get bytes(): number {
    return this.#bytes
  }

  add(piece: Buffer): void {
    this.#bytes += piece.length
    if (piece.length >= minLooseBytes || this.#parts.length < maxLoosePieces) {
      this.#seal()
      this.#parts.push(piece)
    } else this.#copy(piece)
  }

  /** Removes everything collected and returns it, without a copy if it is one piece. */
  take(): Buffer {
    this.#seal()
    const parts = this.#parts
    this.clear()
    return parts.length === 1 ? parts[0]! : Buffer.concat(parts)
  }

  clear(): void {
    this.#parts = []
    this.#bytes = 0
    this.#block = null
    this.#start = 0
    this.#end = 0
  }

  #copy(piece: Buffer): void {
    if (!this.#block || this.#end + piece.length > this.#block.length) {
      this.#seal()
      // No more than what was collected so far: a sender of few bytes costs few.
      this.#block = Buffer.allocUnsafeSlow(Math.min(Math.max(this.#bytes, minLooseBytes), maxBlockBytes))
      this.#start = 0
      this.#end = 0
    }
    piece.copy(this.#block, this.#end)
    this.#end += piece.length
  }

  #seal(): void {
    if (this.#end === this.#start) return
    this.#parts.push(this.#block!.subarray(this.#start, this.#end))
    this.#start = this.#end
  }
}

/**
 * Pipes a stream as `pipe` does, with small pieces joined, so that no queue behind it holds thousands of them. Calls
 * `refuse` and stops once there are too many tiny ones. Returns a function to stop.
 */
export function pipeJoined(source: Readable, target: Writable, counter: PieceCounter, refuse: () => void): () => void {
  const waiting = new PieceCollector()
  let flushing: NodeJS.Immediate | null = null
  const resume = () => source.resume()
  const write = (piece: Buffer) => {
    if (target.write(piece) || source.isPaused()) return
    source.pause()
    target.once('drain', resume)
  }
  const flush = () => {
    if (flushing) clearImmediate(flushing)
    flushing = null
    if (waiting.bytes > 0) write(waiting.take())
  }
  const add = (piece: Buffer) => {
    if (!counter.add(piece.length)) {
      stop()
      refuse()
    } else if (waiting.bytes === 0 && piece.length >= minLooseBytes) write(piece)
    else {
      waiting.add(piece)
      if (waiting.bytes >= joinedBytes) flush()
      else flushing ??= setImmediate(flush)
    }
  }
  const end = () => {
    flush()
    target.end()
  }
  const stop = () => {
    if (flushing) clearImmediate(flushing)
    source.off('data', add).off('end', end)
    target.off('drain', resume)
  }
  source.on('data', add).once('end', end)
  return stop
}
