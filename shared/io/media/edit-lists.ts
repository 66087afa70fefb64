import type { RangeFile } from './media-file.ts'

const maxTopBoxes = 10_000
const maxMovieBytes = 16 * 1024 * 1024
const containers = new Set(['trak', 'edts'])

type Box = { name: string; content: Buffer }

/**
 * Returns the longest playing time in seconds that edit lists of several edits give a track of an MP4 or QuickTime file
 * (ISO/IEC 14496-12, 8.6.6): they may repeat the same part many times. 0 for files without such lists, and for other
 * formats. Throws if the length cannot be determined.
 */
export async function editedSeconds(file: RangeFile): Promise<number> {
  let max = 0
  let at = 0
  for (let boxes = 0; at + 8 <= file.bytes; boxes++) {
    const header = Buffer.from(await file.read(at, Math.min(at + 16, file.bytes)))
    const name = header.toString('latin1', 4, 8)
    const size32 = header.readUInt32BE(0)
    const isLong = size32 === 1 && header.length >= 16
    const size = size32 === 0 ? file.bytes - at : isLong ? Number(header.readBigUInt64BE(8)) : size32
    if (size < 8) break
    if (boxes > maxTopBoxes) throw new Error('too many boxes')
    if (name === 'moov') {
      if (size > maxMovieBytes) throw new Error('too large tables')
      const movie = Buffer.from(await file.read(at + (isLong ? 16 : 8), Math.min(at + size, file.bytes)))
      max = Math.max(max, movieSeconds(movie))
    }
    at += size
  }
  return max
}

function movieSeconds(movie: Buffer): number {
  const boxes = [...boxesOf(movie)]
  const mvhd = boxes.find(({ name }) => name === 'mvhd')?.content
  const timescale = mvhd && mvhd.length >= 24 ? mvhd.readUInt32BE(mvhd[0] === 1 ? 20 : 12) : 0
  if (timescale === 0) return 0
  const tracks = boxes.filter(({ name }) => name === 'trak').map(({ content }) => ticksOf(content))
  return Math.max(0, ...tracks) / timescale
}

/** The sum of all edits of a track. */
function ticksOf(track: Buffer): number {
  let ticks = 0
  for (const { name, content } of boxesOf(track)) {
    if (containers.has(name)) ticks += ticksOf(content)
    if (name !== 'elst' || content.length < 8) continue
    const isLong = content[0] === 1
    const entryBytes = isLong ? 20 : 12
    const edits: number[] = []
    for (let at = 8; at + entryBytes <= content.length; at += entryBytes) {
      const duration = isLong ? Number(content.readBigUInt64BE(at)) : content.readUInt32BE(at)
      const mediaTime = isLong ? Number(content.readBigInt64BE(at + 8)) : content.readInt32BE(at + 4)
      // An empty edit only delays the others.
      if (mediaTime >= 0) edits.push(duration)
    }
    if (edits.length < 2) continue
    // Duration 0 means "to the end of the track", which may repeat.
    if (edits.includes(0)) throw new Error('an edit without a duration beside others')
    ticks += edits.reduce((sum, duration) => sum + duration, 0)
  }
  return ticks
}

function* boxesOf(content: Buffer): Generator<Box> {
  for (let at = 0; at + 8 <= content.length; ) {
    const size32 = content.readUInt32BE(at)
    const isLong = size32 === 1 && at + 16 <= content.length
    const size = isLong ? Number(content.readBigUInt64BE(at + 8)) : size32 || content.length - at
    if (size < 8) return
    const start = at + (isLong ? 16 : 8)
    yield { name: content.toString('latin1', at + 4, at + 8), content: content.subarray(start, at + size) }
    at += size
  }
}
