import type { Blobs } from '../io/blobs.ts'
import { wholeOf } from '../io/bytes.ts'
import type { RangeFile } from '../io/media-file.ts'

/** A blob as a file to be read in pieces. */
export function rangesOf(blobs: Blobs, storageKey: string, bytes: number): RangeFile {
  return {
    bytes,
    async read(start, end) {
      // Of a file that was cut off, a part may begin where it ends.
      const length = Math.min(end, bytes) - start
      if (length <= 0) return new Uint8Array()
      const blob = await blobs.read(storageKey, { start, end: start + length - 1 })
      if (!blob) throw new Error('the file is no longer in storage')
      return wholeOf(blob.stream, length)
    },
  }
}
