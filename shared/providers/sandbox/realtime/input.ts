import { EventError } from './event-error.ts'
import type { SessionMemory } from './session-memory.ts'
import { bytesPerSecond, type Encoding, type Sound } from './sound.ts'
import { type Turn, TurnDetector, type TurnLimits } from './turns.ts'

const maxBytes = 15 * 1024 * 1024
const minMs = 100

/** Audio that was sent and belongs to no item yet; positions count from the start of the session. */
export class InputBuffer {
  readonly encoding: Encoding
  readonly #memory: SessionMemory
  /** Duration of the audio sent earlier in other formats. */
  readonly #earlierMs: number
  #chunks: Buffer[] = []
  #startByte = 0
  #endByte = 0
  #limits: TurnLimits | null
  #detector: TurnDetector | null

  constructor(memory: SessionMemory, encoding: Encoding, limits: TurnLimits | null, earlierMs = 0) {
    this.#memory = memory
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

  /** An empty buffer in its place, for audio in another format. */
  replace(encoding: Encoding, limits: TurnLimits | null): InputBuffer {
    this.clear()
    return new InputBuffer(this.#memory, encoding, limits, this.endMs)
  }

  /** A position in whole milliseconds since the start of the session. */
  msAt(atByte: number): number {
    return this.#earlierMs + Math.round((atByte * 1_000) / bytesPerSecond[this.encoding])
  }

  /** Starts, or with null stops, turn detection. */
  setTurnDetection(limits: TurnLimits | null): void {
    this.#limits = limits
    this.#detector = limits && new TurnDetector(this.encoding, limits, this.#endByte)
  }

  /** Adds audio and yields the detected turns. Audio before a turn is discarded. Throws when the buffer is full. */
  *append(bytes: Buffer): Generator<Turn> {
    if (this.#endByte - this.#startByte + bytes.length > maxBytes || this.#memory.isFull) {
      const message = `The buffer holds at most ${maxBytes} bytes, and less where many sessions are open. Commit or clear it.`
      throw new EventError('input_audio_buffer_full', message, 'audio')
    }
    this.#chunks.push(bytes)
    this.#memory.hold(bytes.length)
    this.#endByte += bytes.length
    if (!this.#detector) return
    yield* this.#detector.listen(bytes)
    this.#forget(this.#detector.neededByte)
  }

  /** Takes the audio between two positions, and discards everything before. */
  take(fromByte: number, toByte: number): Sound {
    const whole = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks)
    const bytes = Buffer.from(whole.subarray(fromByte - this.#startByte, toByte - this.#startByte))
    const rest = whole.subarray(toByte - this.#startByte)
    this.#memory.hold(rest.length - whole.length)
    this.#chunks = rest.length > 0 ? [rest] : []
    this.#startByte = toByte
    return { encoding: this.encoding, bytes }
  }

  /** Takes the whole buffer. Throws when it holds too little. */
  takeAll(): Sound {
    const ms = ((this.#endByte - this.#startByte) * 1_000) / bytesPerSecond[this.encoding]
    if (ms < minMs) {
      const message = `Error committing input audio buffer: buffer too small. Expected at least ${minMs}ms of audio, but buffer only has ${ms.toFixed(2)}ms of audio.`
      throw new EventError('input_audio_buffer_commit_empty', message)
    }
    return this.takeRest()
  }

  /** Takes the whole buffer, however short. */
  takeRest(): Sound {
    const sound = this.take(this.#startByte, this.#endByte)
    this.setTurnDetection(this.#limits)
    return sound
  }

  clear(): void {
    for (const { length } of this.#chunks) this.#memory.hold(-length)
    this.#chunks = []
    this.#startByte = this.#endByte
    this.setTurnDetection(this.#limits)
  }

  #forget(beforeByte: number): void {
    while (this.#chunks.length > 0 && this.#startByte + this.#chunks[0]!.length <= beforeByte) {
      const { length } = this.#chunks.shift()!
      this.#memory.hold(-length)
      this.#startByte += length
    }
  }
}
