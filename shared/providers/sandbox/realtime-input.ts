import { Refused } from './realtime-refused.ts'
import { bytesPerSecond, type Encoding, type Sound } from './realtime-sound.ts'
import { type Turn, TurnDetector, type TurnLimits } from './realtime-turns.ts'

const mostBytes = 15 * 1024 * 1024
const shortestMs = 100

/** The sound that was sent and belongs to no item yet; positions count from the beginning of the session. */
export class InputBuffer {
  readonly encoding: Encoding
  /** How much was sent before in other formats. */
  readonly #earlierMs: number
  #chunks: Buffer[] = []
  #startByte = 0
  #endByte = 0
  #limits: TurnLimits | null
  #detector: TurnDetector | null

  constructor(encoding: Encoding, limits: TurnLimits | null, earlierMs: number) {
    this.encoding = encoding
    this.#earlierMs = earlierMs
    this.#limits = limits
    this.#detector = limits && new TurnDetector(encoding, limits, 0)
  }

  get endMs(): number {
    return this.msAt(this.#endByte)
  }

  get speaking(): boolean {
    return this.#detector?.speaking ?? false
  }

  /** A position in whole milliseconds since the session began. */
  msAt(atByte: number): number {
    return this.#earlierMs + Math.round((atByte * 1_000) / bytesPerSecond[this.encoding])
  }

  /** Listens for turns from now on, or no more. */
  detect(limits: TurnLimits | null): void {
    this.#limits = limits
    this.#detector = limits && new TurnDetector(this.encoding, limits, this.#endByte)
  }

  /** Adds sound; the turns that it tells of. What was said before a turn is forgotten. Throws when the buffer is full. */
  *append(bytes: Buffer): Generator<Turn> {
    if (this.#endByte - this.#startByte + bytes.length > mostBytes) {
      const message = `The buffer holds at most ${mostBytes} bytes. Commit or clear it.`
      throw new Refused('input_audio_buffer_full', message, 'audio')
    }
    this.#chunks.push(bytes)
    this.#endByte += bytes.length
    if (!this.#detector) return
    yield* this.#detector.listen(bytes)
    this.#forget(this.#detector.neededByte)
  }

  /** Takes what lies between two positions out of the buffer, and whatever lies before. */
  take(fromByte: number, toByte: number): Sound {
    const whole = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks)
    const bytes = Buffer.from(whole.subarray(fromByte - this.#startByte, toByte - this.#startByte))
    const rest = whole.subarray(toByte - this.#startByte)
    this.#chunks = rest.length > 0 ? [rest] : []
    this.#startByte = toByte
    return { encoding: this.encoding, bytes }
  }

  /** Takes all there is. Throws when that is too little. */
  takeAll(): Sound {
    const ms = ((this.#endByte - this.#startByte) * 1_000) / bytesPerSecond[this.encoding]
    if (ms < shortestMs) {
      const message = `Error committing input audio buffer: buffer too small. Expected at least ${shortestMs}ms of audio, but buffer only has ${ms.toFixed(2)}ms of audio.`
      throw new Refused('input_audio_buffer_commit_empty', message)
    }
    return this.takeRest()
  }

  /** The same, however little it is. */
  takeRest(): Sound {
    const sound = this.take(this.#startByte, this.#endByte)
    this.detect(this.#limits)
    return sound
  }

  clear(): void {
    this.#chunks = []
    this.#startByte = this.#endByte
    this.detect(this.#limits)
  }

  #forget(beforeByte: number): void {
    while (this.#chunks.length > 0 && this.#startByte + this.#chunks[0]!.length <= beforeByte)
      this.#startByte += this.#chunks.shift()!.length
  }
}
