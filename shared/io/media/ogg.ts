import { FileWindow } from './file-window.ts'
import type { RangeFile } from './media-file.ts'

const headerBytes = 27
const isFirstFlag = 2
const isLastFlag = 4

/**
 * Whether the pages of an Ogg file (RFC 3533) are contiguous to its end, and all streams start at the beginning.
 * Players also play chained streams, and pages after other bytes or after an end of stream, which the demuxer ignores.
 * True for other formats.
 */
export async function isPlainOgg(file: RangeFile): Promise<boolean> {
  const window = new FileWindow(file)
  const ended = new Set<number>()
  let isBeginning = true
  for (let at = 0; at < file.bytes; ) {
    const header = await window.at(at, headerBytes)
    if (header.toString('latin1', 0, 4) !== 'OggS') return at === 0
    if (header.length < headerBytes) return false
    const flags = header[5]!
    const serial = header.readUInt32LE(14)
    const isFirst = (flags & isFirstFlag) !== 0
    if (ended.has(serial) || (isFirst && !isBeginning)) return false
    isBeginning &&= isFirst
    if (flags & isLastFlag) ended.add(serial)
    const segments = header[26]!
    const sizes = await window.at(at + headerBytes, segments)
    at += headerBytes + segments + sizes.reduce((sum, size) => sum + size, 0)
  }
  return true
}
