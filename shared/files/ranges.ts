import { readWhole } from '../io/bytes.ts'
import type { RangeFile } from '../io/media/media-file.ts'
import type { Blobs } from '../io/storage/blobs.ts'

/** A blob as a range-readable file. */
export function rangesOf(blobs: Blobs, storageKey: string, bytes: number): RangeFile {
  return {
    bytes,
    async read(start, end) {
      // In a truncated file, a requested range may start at its end.
      const length = Math.min(end, bytes) - start
      if (length <= 0) return new Uint8Array()
      const blob = await blobs.read(storageKey, { start, end: start + length - 1 })
      if (!blob) throw new Error('the file is no longer in storage')
      return readWhole(blob.stream, length)
    },
  }
}
