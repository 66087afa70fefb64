const colon = 0x3a
const newline = 0x0a
const carriageReturn = 0x0d

/**
 * Ends a stream in which a provider sends comments only, which keep the connection alive for as long as it likes: after
 * `idleMs` of them `onSilent` is called. A packet of data costs one look at its first and last byte.
 */
export class CommentWatch {
  readonly #idleMs: number
  readonly #onSilent: () => void
  #timer: NodeJS.Timeout | undefined
  /** Where the next packet begins: at the start of a line, within a comment, or within other text. */
  #place: 'line' | 'comment' | 'data' = 'line'

  constructor(idleMs: number, onSilent: () => void) {
    this.#idleMs = idleMs
    this.#onSilent = onSilent
  }

  /** Looks at a packet of the stream. */
  see(packet: Buffer): void {
    if (this.#isSilent(packet)) this.#timer ??= setTimeout(this.#onSilent, this.#idleMs)
    else this.stop()
  }

  /** Stops waiting: data has come, or the stream has ended or been paused. */
  stop(): void {
    if (this.#timer === undefined) return
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** Whether a packet has nothing but comments and empty lines. */
  #isSilent(packet: Buffer): boolean {
    for (let at = 0; at < packet.length; at++) {
      const byte = packet[at]
      if (byte === newline || byte === carriageReturn) this.#place = 'line'
      else if (this.#place === 'line') this.#place = byte === colon ? 'comment' : 'data'
      if (this.#place !== 'data') continue
      this.#place = placeAfter(packet)
      return false
    }
    return true
  }
}

/** The place after a packet that has data. */
function placeAfter(packet: Buffer): 'line' | 'comment' | 'data' {
  const last = packet[packet.length - 1]
  if (last === newline || last === carriageReturn) return 'line'
  const start = Math.max(packet.lastIndexOf(newline), packet.lastIndexOf(carriageReturn)) + 1
  return start > 0 && packet[start] === colon ? 'comment' : 'data'
}
