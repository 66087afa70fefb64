import type { Usage } from '../base/usage.ts'

/** The formats in which sound is given. `pcm` is 16-bit little-endian mono at 24 kHz, without a header. */
export const soundFormats = ['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm'] as const
export type SoundFormat = (typeof soundFormats)[number]

export const soundTypes: Readonly<Record<SoundFormat, string>> = {
  mp3: 'audio/mpeg',
  opus: 'audio/ogg',
  aac: 'audio/aac',
  flac: 'audio/flac',
  wav: 'audio/wav',
  pcm: 'audio/pcm',
}

/** Sound as a provider gives it: on its way in the format that was asked for, or in a file behind an address. */
export type SoundOutput = {
  sound: { stream: AsyncIterable<Uint8Array> } | { url: string } | { bytes: Uint8Array }
  /** What the provider counted; asked for once the sound is whole. */
  usage(): Usage | null
}
