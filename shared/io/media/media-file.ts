/** A file to be measured, read in pieces. `end` is exclusive. */
export type RangeFile = { bytes: number; read(start: number, end: number): Promise<Uint8Array> }

/**
 * The contents of a media file. `seconds` is the longest of its tracks and `soundSeconds` the longest with sound, as
 * presented by a player. `container` and `codec` (of the sound, null without any) are FFmpeg's names.
 */
export type MediaLength = {
  seconds: number
  soundSeconds: number
  hasVideo: boolean
  hasAudio: boolean
  container: string
  codec: string | null
}
