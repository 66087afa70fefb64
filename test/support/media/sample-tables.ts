/** MP4 sound files of a few hundred bytes whose tables state what they do not contain. */

/** Which table states `count` samples of a sound that has two. */
export type Overstated = 'none' | 'stts' | 'ctts' | 'stsc'

/** A block of AAC: two channels without bands, and its end. */
const silentBlock = Buffer.from([0x21, 0, 0, 0, 0, 0x1c, 0, 0])

/** An MP4 file with one track of AAC sound. Its edit list plays the two seconds so many times. */
export function mp4Stating(table: Overstated, count: number, edits = 0): Buffer {
  const ftyp = box('ftyp', Buffer.from('isom'), u32(512), Buffer.from('isomiso2mp41'))
  const mdat = box('mdat', Buffer.alloc(64, silentBlock))
  const trak = track(table, count, ftyp.length + 8, edits)
  const mvhd = full(
    'mvhd',
    u32(0),
    u32(0),
    u32(1_000),
    u32(1_000),
    u32(0x10000),
    Buffer.alloc(12),
    matrix,
    Buffer.alloc(24),
    u32(2),
  )
  return Buffer.concat([ftyp, mdat, box('moov', mvhd, trak)])
}

function track(table: Overstated, count: number, dataAt: number, edits: number): Buffer {
  const tkhd = box('tkhd', u32(7), u32(0), u32(0), u32(1), u32(0), u32(1_000), Buffer.alloc(16), matrix, u32(0), u32(0))
  const mdhd = full('mdhd', u32(0), u32(0), u32(1_000), u32(1_000), u32(0x55c40000))
  const hdlr = full('hdlr', u32(0), Buffer.from('soun'), Buffer.alloc(12), Buffer.from('x\0'))
  const minf = box(
    'minf',
    full('smhd', u32(0)),
    box('dinf', full('dref', u32(1), box('url ', u32(1)))),
    tables(table, count, dataAt),
  )
  const entries = Array.from({ length: edits }, () => Buffer.concat([u32(2_000), u32(0), u32(0x10000)]))
  const edts = edits > 0 ? [box('edts', full('elst', u32(edits), ...entries))] : []
  return box('trak', tkhd, ...edts, box('mdia', mdhd, hdlr, minf))
}

function tables(table: Overstated, count: number, dataAt: number): Buffer {
  const samples = table === 'stts' || table === 'ctts' ? count : 2
  const stts = full('stts', u32(1), u32(samples), u32(1_000))
  const ctts = table === 'ctts' ? [full('ctts', u32(1), u32(count), u32(0))] : []
  const stsz = table === 'stsc' ? full('stsz', u32(0), u32(2), u32(8), u32(8)) : full('stsz', u32(8), u32(samples))
  const stsc = full('stsc', u32(1), u32(1), u32(table === 'stsc' ? count : 2), u32(1))
  return box('stbl', full('stsd', u32(1), aac), stts, ...ctts, stsz, stsc, full('stco', u32(1), u32(dataAt)))
}

const matrix = Buffer.concat([0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000].map(u32))
/** AAC-LC, 44.1 kHz, two channels. */
const descriptor = [3, 25, 0, 1, 0, 4, 17, 0x40, 0x15, 0, 0, 0, 0, 0, 0xfa, 0, 0, 0, 0xfa, 0, 5, 2, 0x12, 0x10, 6, 1, 2]
const aac = box(
  'mp4a',
  Buffer.alloc(6),
  u16(1),
  Buffer.alloc(8),
  u16(2),
  u16(16),
  u32(0),
  u32(44_100 << 16),
  full('esds', Buffer.from(descriptor)),
)

function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16BE(value)
  return bytes
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value >>> 0)
  return bytes
}

function box(name: string, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts)
  return Buffer.concat([u32(8 + body.length), Buffer.from(name, 'latin1'), body])
}

/** A box with a version and flags, all zero. */
function full(name: string, ...parts: Buffer[]): Buffer {
  return box(name, u32(0), ...parts)
}
