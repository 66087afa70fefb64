import type { Usage } from '../base/usage.ts'

/** Audio output formats. `pcm` is 16-bit little-endian mono at 24 kHz, without a header. */
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

/** Audio as returned by a provider: streamed in the requested format, as a URL, or as bytes. */
export type SoundOutput = {
  sound: { stream: AsyncIterable<Uint8Array> } | { url: string } | { bytes: Uint8Array }
  /** Usage as the provider counts it; called after the audio is complete. */
  usage(): Usage | null
}
