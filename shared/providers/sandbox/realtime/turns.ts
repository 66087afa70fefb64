import { bytesPerSecond, type Encoding, loudness } from './sound.ts'

/** The position in the stream where speech began or stopped, in bytes. */
export type Turn = { speaking: boolean; atByte: number }
export type TurnLimits = { threshold: number; prefixMs: number; silenceMs: number }

const windowMs = 20
/** Minimum duration of speech; a click is shorter. */
const speechMs = 60
const maxTurnMs = 300_000
/** The levels of threshold 0 and 1, relative to full scale. */
const quietestDb = -60
const loudestDb = -20

/** Detects speech by its loudness alone, in windows of 20 ms. */
export class TurnDetector {
  readonly #encoding: Encoding
  readonly #limits: TurnLimits
  readonly #minLoudness: number
  readonly #windowBytes: number
  /** An incomplete window; it begins at `#atByte`. */
  #remainder: Buffer = Buffer.alloc(0)
  #atByte: number
  #earliestByte: number
  #speaking = false
  #startedByte = 0
  /** How long the windows have contradicted the current state. */
  #contradictedMs = 0

  /** `atByte`: the start position in the stream. */
  constructor(encoding: Encoding, limits: TurnLimits, atByte: number) {
    this.#encoding = encoding
    this.#limits = limits
    this.#minLoudness = 10 ** ((quietestDb + limits.threshold * (loudestDb - quietestDb)) / 20)
    this.#windowBytes = this.#bytesIn(windowMs)
    this.#atByte = atByte
    this.#earliestByte = atByte
  }

  get speaking(): boolean {
    return this.#speaking
  }

  /** The position before which the stream is no longer needed. */
  get neededByte(): number {
    if (this.#speaking) return this.#startedByte
    const beganByte = this.#atByte - this.#bytesIn(this.#contradictedMs)
    return Math.max(this.#earliestByte, beganByte - this.#bytesIn(this.#limits.prefixMs))
  }

  /** Analyses the next bytes and yields the detected turns. */
  *listen(bytes: Buffer): Generator<Turn> {
    const stream = this.#remainder.length > 0 ? Buffer.concat([this.#remainder, bytes]) : bytes
    let read = 0
    for (; read + this.#windowBytes <= stream.length; read += this.#windowBytes) {
      const isLoud = loudness(this.#encoding, stream.subarray(read, read + this.#windowBytes)) >= this.#minLoudness
      this.#atByte += this.#windowBytes
      this.#contradictedMs = isLoud === this.#speaking ? 0 : this.#contradictedMs + windowMs
      if (this.#speaking ? this.#hasStopped() : this.#contradictedMs >= speechMs) yield this.#turn()
    }
    this.#remainder = Buffer.from(stream.subarray(read))
  }

  #hasStopped(): boolean {
    const turnBytes = this.#atByte - this.#startedByte
    return (
      (this.#contradictedMs > 0 && this.#contradictedMs >= this.#limits.silenceMs) ||
      turnBytes >= this.#bytesIn(maxTurnMs)
    )
  }

  #turn(): Turn {
    const atByte = this.#speaking ? this.#atByte : this.neededByte
    if (this.#speaking) this.#earliestByte = atByte
    else this.#startedByte = atByte
    this.#speaking = !this.#speaking
    this.#contradictedMs = 0
    return { speaking: this.#speaking, atByte }
  }

  #bytesIn(ms: number): number {
    return (bytesPerSecond[this.#encoding] / 1_000) * ms
  }
}
