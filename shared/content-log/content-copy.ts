/** Bytes that copies and waiting records of a process hold. */
export class HeldContent {
  readonly #maxBytes: number
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Takes bytes; false if they do not fit. */
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#maxBytes) return false
    this.#bytes += bytes
    return true
  }

  give(bytes: number): void {
    this.#bytes -= bytes
  }
}

type Part = { text: string | Buffer; encoding: 'latin1' | 'utf8' }

/** The events of a stream are several times as long as the text in them. */
const maxStreamBytes = 4 * 1024 * 1024
/** The largest input or output that is kept. */
export const maxContentBytes = 1024 * 1024

/** The input with its values masked, and the placeholders of these, which the copy of the answer gets as well. */
type MaskedContent = { input: Buffer; placeholders: ReadonlyMap<string, string> }

/** A copy of what is sent to a client, for the log of input and output. Bounded; it must be released. */
export class ContentCopy {
  readonly #held: HeldContent
  /** Whether what is sent is text that is kept; the files of media are not. */
  readonly #isKept: boolean
  #parts: Part[] = []
  #bytes = 0
  /** Whether a part did not fit. */
  isTruncated = false
  /** Whether what was sent is a stream of events. */
  isStream = false
  /** What is logged where guardrails masked texts of the request; null = as it was received and sent. */
  masked: MaskedContent | null = null

  constructor(held: HeldContent, isKept: boolean) {
    this.#held = held
    this.#isKept = isKept
  }

  /** Copies a whole answer. */
  answer(body: string | Buffer): void {
    this.#add({ text: body, encoding: 'utf8' }, maxContentBytes)
  }

  /** Copies a part of a stream of events. */
  write(text: string, encoding: Part['encoding']): void {
    this.isStream = true
    this.#add({ text, encoding }, maxStreamBytes)
  }

  #add({ text, encoding }: Part, maxBytes: number): void {
    if (!this.#isKept || this.isTruncated) return
    const room = maxBytes - this.#bytes
    this.isTruncated = text.length > room
    // A slice would keep the whole text alive.
    const kept = this.isTruncated ? Buffer.from(text.slice(0, room) as string, encoding) : text
    if (this.#held.take(kept.length)) {
      this.#parts.push({ text: kept, encoding })
      this.#bytes += kept.length
    } else this.isTruncated = true
  }

  /** What was copied; null if nothing was, or nothing is kept. */
  text(): string | null {
    if (this.#parts.length === 0) return null
    const bytes = this.#parts.map(({ text, encoding }) =>
      typeof text === 'string' ? Buffer.from(text, encoding) : text,
    )
    return Buffer.concat(bytes).toString()
  }

  /** Gives up the copy and what it holds. Idempotent. */
  release(): void {
    this.#held.give(this.#bytes)
    this.#parts = []
    this.#bytes = 0
  }
}
