import { bytesPerSecond, type Encoding, loudness } from './realtime-sound.ts'

/** Where in the stream somebody began to speak or stopped, in bytes. */
export type Turn = { speaking: boolean; atByte: number }
export type TurnLimits = { threshold: number; prefixMs: number; silenceMs: number }

const windowMs = 20
/** A click is no speech. */
const speechMs = 60
const longestTurnMs = 300_000
/** The threshold's 0 and 1 as levels below the loudest. */
const quietestDb = -60
const loudestDb = -20

/** Tells speech from silence by its loudness alone, a fiftieth of a second at a time. */
export class TurnDetector {
  readonly #encoding: Encoding
  readonly #limits: TurnLimits
  readonly #leastLoudness: number
  readonly #windowBytes: number
  /** What does not fill a window yet; it begins at `#atByte`. */
  #rest: Buffer = Buffer.alloc(0)
  #atByte: number
  #earliestByte: number
  #speaking = false
  #startedByte = 0
  /** How long it has been otherwise than it is taken to be. */
  #contraryMs = 0

  /** `atByte`: where in the stream it begins to listen. */
  constructor(encoding: Encoding, limits: TurnLimits, atByte: number) {
    this.#encoding = encoding
    this.#limits = limits
    this.#leastLoudness = 10 ** ((quietestDb + limits.threshold * (loudestDb - quietestDb)) / 20)
    this.#windowBytes = this.#bytesIn(windowMs)
    this.#atByte = atByte
    this.#earliestByte = atByte
  }

  get speaking(): boolean {
    return this.#speaking
  }

  /** From where on the stream may be needed. */
  get neededByte(): number {
    if (this.#speaking) return this.#startedByte
    const beganByte = this.#atByte - this.#bytesIn(this.#contraryMs)
    return Math.max(this.#earliestByte, beganByte - this.#bytesIn(this.#limits.prefixMs))
  }

  /** Listens to what comes next; the turns that it tells of. */
  *listen(bytes: Buffer): Generator<Turn> {
    const stream = this.#rest.length > 0 ? Buffer.concat([this.#rest, bytes]) : bytes
    let read = 0
    for (; read + this.#windowBytes <= stream.length; read += this.#windowBytes) {
      const isLoud = loudness(this.#encoding, stream.subarray(read, read + this.#windowBytes)) >= this.#leastLoudness
      this.#atByte += this.#windowBytes
      this.#contraryMs = isLoud === this.#speaking ? 0 : this.#contraryMs + windowMs
      if (this.#speaking ? this.#hasStopped() : this.#contraryMs >= speechMs) yield this.#turn()
    }
    this.#rest = Buffer.from(stream.subarray(read))
  }

  #hasStopped(): boolean {
    const turnBytes = this.#atByte - this.#startedByte
    return (
      (this.#contraryMs > 0 && this.#contraryMs >= this.#limits.silenceMs) || turnBytes >= this.#bytesIn(longestTurnMs)
    )
  }

  #turn(): Turn {
    const atByte = this.#speaking ? this.#atByte : this.neededByte
    if (this.#speaking) this.#earliestByte = atByte
    else this.#startedByte = atByte
    this.#speaking = !this.#speaking
    this.#contraryMs = 0
    return { speaking: this.#speaking, atByte }
  }

  #bytesIn(ms: number): number {
    return (bytesPerSecond[this.#encoding] / 1_000) * ms
  }
}
