import type { Readable, Writable } from 'node:stream'
import { GatewayError } from '../base/errors.ts'
import type { LoadLimits } from '../base/load-limits.ts'

/** One owner may hold at most half of a budget, so that no single owner can exhaust it. */
const ownerShare = 0.5
/** What owners that hold less than a share may hold in addition, all together: two large ones leave nothing of the budget itself. */
const modestShare = 1 / 64
const modestExtra = 1 / 8
const retryAfterS = 1
/** Up to this many idle owners are kept: removing and re-adding an owner on each request costs more. */
const maxIdleOwners = 10_000

/** Provider webhooks and sign-ins have kilobytes, and their senders are unauthenticated. */
const maxPublicBodyBytes = 16 * 1024 * 1024

/**
 * Memory budgets of requests: bodies of authenticated callers, bodies of unauthenticated callers, buffered responses,
 * conversations that open connections can continue, files that are read or fetched for requests, and answers of customers' guards.
 */
export type Budgets = {
  [name in 'bodies' | 'publicBodies' | 'answers' | 'conversations' | 'remoteFiles' | 'guardAnswers']: ByteBudget
}

export function openBudgets({ maxBodyBytes, maxResponseBytes }: LoadLimits): Budgets {
  return {
    bodies: new ByteBudget(maxBodyBytes, 'request bodies'),
    publicBodies: new ByteBudget(maxPublicBodyBytes, 'request bodies'),
    answers: new ByteBudget(maxResponseBytes, 'answers'),
    conversations: new ByteBudget(maxBodyBytes, 'conversations'),
    remoteFiles: new ByteBudget(maxBodyBytes, 'uploads and files behind URLs'),
    guardAnswers: new ByteBudget(maxBodyBytes / 2, 'answers of guards'),
  }
}

/** Limits the bytes that a process holds for one purpose, in total and per owner (an organisation, an address). */
export class ByteBudget {
  readonly #maxBytes: number
  readonly #what: string
  readonly #owners = new Map<string, number>()
  #bytes = 0
  #forgetAbove = maxIdleOwners

  /** `what` names the bytes in messages: "request bodies". */
  constructor(maxBytes: number, what: string) {
    this.#maxBytes = maxBytes
    this.#what = what
  }

  /** Total bytes currently held. */
  get bytes(): number {
    return this.#bytes
  }

  /** Starts accounting for the bytes of one request. The result must be released. */
  open(owner: string): HeldBytes {
    return new HeldBytes(this, owner)
  }

  /**
   * Throws 503 `service_unavailable` if the process holds too much, 429 `rate_limit_exceeded` if the owner does; neither
   * if nothing else is held than `own`, the bytes of the same request.
   */
  check(owner: string, bytes: number, own = -1): void {
    const held = this.#owners.get(owner) ?? 0
    const isModest = held + bytes <= this.#maxBytes * modestShare
    const roomBytes = this.#maxBytes * (isModest ? 1 + modestExtra : 1)
    if (this.#bytes + bytes > roomBytes && this.#bytes !== own) {
      const headers = { 'retry-after': String(retryAfterS) }
      const message = `The service has too many bytes of ${this.#what} under way. Try again shortly.`
      throw new GatewayError('service_unavailable', message, { headers })
    }
    if (held + bytes > this.#maxBytes * ownerShare && held !== own) {
      const headers = { 'retry-after': String(retryAfterS) }
      const message = `You have too many bytes of ${this.#what} under way. Send fewer large requests at a time.`
      throw new GatewayError('rate_limit_exceeded', message, { headers })
    }
  }

  /** Adjusts the bytes an owner holds. */
  add(owner: string, bytes: number): void {
    const held = (this.#owners.get(owner) ?? 0) + bytes
    this.#bytes += bytes
    this.#owners.set(owner, held)
    if (this.#owners.size > this.#forgetAbove) this.#forgetIdle()
  }

  #forgetIdle(): void {
    for (const [owner, held] of this.#owners) if (held === 0) this.#owners.delete(owner)
    // Scanning all owners again on each request would cost more than keeping them.
    this.#forgetAbove = this.#owners.size + maxIdleOwners
  }
}

/** The bytes of a budget held by one request. */
export class HeldBytes {
  readonly #budget: ByteBudget
  readonly #owner: string
  #bytes = 0
  #released = false

  constructor(budget: ByteBudget, owner: string) {
    this.#budget = budget
    this.#owner = owner
  }

  get bytes(): number {
    return this.#bytes
  }

  /**
   * Acquires bytes; 0 checks whether any are available. Throws 503 or 429, without acquiring, if the budget is
   * exhausted.
   */
  take(bytes: number): void {
    this.#budget.check(this.#owner, bytes)
    this.hold(bytes)
  }

  /**
   * Acquires the memory that a request takes beyond its bytes. Throws as `take` does, except for the
   * only request of the owner or of the process, which other limits bound.
   */
  grow(bytes: number): void {
    this.#budget.check(this.#owner, bytes, this.#bytes)
    this.hold(bytes)
  }

  /** Acquires bytes that are already in memory, even beyond the budget. */
  hold(bytes: number): void {
    if (this.#released) return
    this.#bytes += bytes
    this.#budget.add(this.#owner, bytes)
  }

  /** Releases all bytes. */
  release(): void {
    if (this.#bytes > 0) this.#budget.add(this.#owner, -this.#bytes)
    this.#bytes = 0
    this.#released = true
  }
}

/** A sender of more pieces than this must send 64 bytes in each, of which the last ones may have less. */
const maxTinyPieces = 4_096
const minAverageBytes = 60
/** The first pieces are kept as they are: an ordinary body is one or a few. */
const maxLoosePieces = 16
/** Larger pieces are not worth copying. */
const minLooseBytes = 1_024
const maxBlockBytes = 64 * 1024
/** `pipeJoined` writes small pieces once they reach this size together, or the turn of the event loop ends. */
const joinedBytes = 16 * 1024

/** Limits how many pieces a sender may split a body or message into: each kept piece is an object of some hundred bytes. */
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
