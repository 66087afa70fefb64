import type { MediaLength } from './media-file.ts'
import type { Measured } from './media-length.ts'
import { MediaInstance, type Module, type ReadSync } from './media-module.ts'

type Functions = { convert(bytes: number, maxBytes: number): number; decoded(bytes: number): number }
/** A FLAC file, or why there is none. */
export type Conversion = { flac: Uint8Array } | 'unreadable' | 'too large'

/** Converts the sound of a file to FLAC of at most `maxBytes`, with an instance of `ffmpeg/convert.wasm`. */
export function convertSound(
  module: Module,
  { bytes, read, maxBytes }: { bytes: number; read: ReadSync; maxBytes: number },
): Conversion {
  const instance = new MediaInstance<Functions>(module)
  instance.open(bytes, read)
  const at = instance.exports.convert(bytes, maxBytes)
  if (at === 0) return 'unreadable'
  // The `Converted` of convert.c.
  const view = instance.viewAt(at)
  if (view.getInt32(8, true) !== 0) return 'too large'
  return { flac: new Uint8Array(view.buffer as ArrayBuffer, view.getUint32(0, true), view.getInt32(4, true)) }
}

/** Several times what decoders take, beside what starts them. */
const cpuMsPerSecond = 3
const startCpuMs = 200

/**
 * The length of a damaged file, whose decoder may refuse some of what was counted: never more than that. As it was counted if
 * decoding may take longer than the file has.
 */
export function heardLength(
  module: Module,
  { length: counted, decodedSeconds }: Measured,
  { bytes, read, maxCpuMs }: { bytes: number; read: ReadSync; maxCpuMs: number },
): MediaLength | null {
  const { soundSeconds, hasAudio, hasVideo } = counted
  if (!hasAudio || isPlayedWhole(counted)) return counted
  if (startCpuMs + decodedSeconds * cpuMsPerSecond > maxCpuMs) return counted
  const heardSeconds = decode(module, bytes, read)
  if (heardSeconds === null || heardSeconds >= soundSeconds) return counted
  if (heardSeconds === 0) return hasVideo ? { ...counted, soundSeconds: 0, hasAudio: false, codec: null } : null
  return { ...counted, soundSeconds: heardSeconds, seconds: hasVideo ? counted.seconds : heardSeconds }
}

/** Samples of PCM are all valid. Of AMR, ffmpeg's decoders leave out the frames of silence, which others play. */
function isPlayedWhole({ codec, container }: MediaLength): boolean {
  return codec!.startsWith('amr_') || (codec!.startsWith('pcm_') && !container.startsWith('matroska'))
}

/** The seconds of sound that decoders give; null if that cannot be told. */
function decode(module: Module, bytes: number, read: ReadSync): number | null {
  const instance = new MediaInstance<Functions>(module)
  instance.open(bytes, read)
  try {
    const seconds = instance.exports.decoded(bytes)
    return seconds < 0 ? null : Math.round(seconds * 1e6) / 1e6
  } catch {
    return null
  }
}
