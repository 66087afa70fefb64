import decode from 'audio-decode'
import type { MediaLength } from '../../../shared/io/media/media-file.ts'
import { measureMedia } from '../../../shared/io/media/media-processes.ts'
import type { SoundFormat } from '../../../shared/kinds/sound.ts'
import { soundFile } from '../../../shared/providers/sandbox/media/sounds.ts'

/** A sound file that really decodes, to about so many seconds; `pcm` is 24 kHz mono of 16 bits. */
export async function sound(format: SoundFormat, seconds: number): Promise<Buffer> {
  return soundFile(format, seconds)
}

/** The same as a WAV file, at once. */
export function wav(durationMs: number): Buffer {
  return soundFile('wav', durationMs / 1000)
}

/** What is in a media file, also one of a format that is not decoded here; null if it cannot be read. */
export function lengthIn(bytes: Buffer): Promise<MediaLength | null> {
  const file = { bytes: bytes.length, read: async (start: number, end: number) => bytes.subarray(start, end) }
  return measureMedia(file, 10_000, { organisationId: 'emulator', environment: 'live' })
}

const pcmBytesPerSecond = 48_000

/** How many seconds of sound a file gives when it is decoded; `pcm` has no header to tell it by. Throws where it cannot be. */
export async function decodedSeconds(bytes: Uint8Array, format?: SoundFormat): Promise<number> {
  if (format === 'pcm') return bytes.length / pcmBytesPerSecond
  const { channelData, sampleRate } = await decode(bytes)
  const [channel] = channelData
  if (!channel || channel.length === 0) throw new Error('there is no sound in the file')
  return channel.length / sampleRate
}
