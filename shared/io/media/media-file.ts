/** A file to be measured, read in pieces. `end` is exclusive. */
export type RangeFile = { bytes: number; read(start: number, end: number): Promise<Uint8Array> }

/** The contents of a media file. `seconds` is the longest of its tracks, by their packets. */
export type MediaLength = { seconds: number; hasVideo: boolean; hasAudio: boolean }
