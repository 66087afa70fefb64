import type { MediaLength } from './media-file.ts'
import { MediaInstance, type Module, type ReadSync } from './media-module.ts'

/**
 * A length by packets. `isDoubtful`: the file is damaged, so that decoders may refuse some of its sound, of which there are
 * `decodedSeconds` in all tracks together.
 */
export type Measured = { length: MediaLength; isDoubtful: boolean; decodedSeconds: number }

/** Measures one audio or video file, with an instance of `ffmpeg/measure.wasm`. */
export class MediaMeasure {
  readonly #instance: MediaInstance<{ measure(bytes: number): number }>

  constructor(module: Module) {
    this.#instance = new MediaInstance(module)
  }

  /**
   * The length by the file's packets; null if it has none or cannot be parsed. A malicious file can keep the processor
   * busy for minutes, and throws where it breaks the parser. Called once.
   */
  length(bytes: number, read: ReadSync): Measured | null {
    this.#instance.open(bytes, read)
    const at = this.#instance.exports.measure(bytes)
    return at === 0 ? null : readLength(this.#instance.viewAt(at))
  }
}

/** The `Length` of measure.c. */
function readLength(view: DataView): Measured | null {
  const seconds = (at: number) => Math.round(view.getFloat64(at, true) * 1e6) / 1e6
  const flag = (at: number) => view.getInt32(at, true) !== 0
  const name = (at: number) =>
    Buffer.from(view.buffer, view.byteOffset + at, 32)
      .toString('latin1')
      .split('\0', 1)[0]!
  const times = { seconds: seconds(0), soundSeconds: seconds(8) }
  if (times.seconds <= 0) return null
  const length = { ...times, hasVideo: flag(16), hasAudio: flag(20), container: name(24), codec: name(56) || null }
  return { length, isDoubtful: flag(88), decodedSeconds: seconds(96) }
}
