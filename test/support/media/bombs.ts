import zlib from 'node:zlib'

/** Files of a few hundred bytes or kilobytes that state, or hold, far more than they look like. */

const u16 = (value: number) => {
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16BE(value)
  return bytes
}
const u32 = (...values: number[]) => {
  const bytes = Buffer.alloc(4 * values.length)
  for (const [i, value] of values.entries()) bytes.writeUInt32BE(value >>> 0, 4 * i)
  return bytes
}
const box = (name: string, ...parts: Buffer[]) => {
  const body = Buffer.concat(parts)
  return Buffer.concat([u32(8 + body.length), Buffer.from(name, 'latin1'), body])
}
const full = (name: string, ...parts: Buffer[]) => box(name, u32(0), ...parts)

/** An MP4 of some 650 bytes with one sound track, one of whose tables states `count` entries: offsets of samples, or samples of a chunk. */
export function mp4Bomb(table: 'ctts' | 'stsc', count = 0xffffffff): Buffer {
  const isChunk = table === 'stsc'
  const ftyp = box('ftyp', Buffer.from('isom'), u32(512), Buffer.from('isomiso2mp41'))
  const matrix = u32(0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
  const esds = Buffer.from([
    3, 25, 0, 1, 0, 4, 17, 0x40, 0x15, 0, 0, 0, 0, 0, 0xfa, 0, 0, 0, 0xfa, 0, 5, 2, 0x12, 0x10, 6, 1, 2,
  ])
  const rate = u32(44_100 * 65_536)
  const mp4a = box('mp4a', Buffer.alloc(6), u16(1), Buffer.alloc(8), u16(2), u16(16), u32(0), rate, full('esds', esds))
  const stbl = box(
    'stbl',
    full('stsd', u32(1), mp4a),
    full('stts', u32(1, isChunk ? 2 : count, 1_000)),
    ...(isChunk ? [] : [full('ctts', u32(1, 1, 0))]),
    isChunk ? full('stsz', u32(0, 2, 8, 8)) : full('stsz', u32(8, count)),
    full('stsc', u32(1, 1, isChunk ? count : 2, 1)),
    full('stco', u32(1, ftyp.length + 8)),
  )
  const dinf = box('dinf', full('dref', u32(1), box('url ', u32(1))))
  const minf = box('minf', full('smhd', u32(0)), dinf, stbl)
  const head = [u32(7, 0, 0, 1, 0, 1_000), Buffer.alloc(8), u16(0), u16(0), u16(0x0100), u16(0), matrix, u32(0, 0)]
  const mdhd = full('mdhd', u32(0, 0, 1_000, 1_000), u16(0x55c4), u16(0))
  const hdlr = full('hdlr', u32(0), Buffer.from('soun'), Buffer.alloc(12), Buffer.from('x\0'))
  const trak = box('trak', box('tkhd', ...head), box('mdia', mdhd, hdlr, minf))
  const mvhd = full(
    'mvhd',
    u32(0, 0, 1_000, 1_000, 0x10000),
    u16(0x0100),
    Buffer.alloc(10),
    matrix,
    Buffer.alloc(24),
    u32(2),
  )
  return Buffer.concat([ftyp, box('mdat', Buffer.alloc(64, 0x21)), box('moov', mvhd, trak)])
}

export type PngShape = { width: number; height: number; bits?: 8 | 16; interlaced?: boolean }

/** A PNG of transparent black with an alpha channel. */
export function blankPng({ width, height, bits = 8, interlaced = false }: PngShape): Buffer {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([bits, 6, 0, 0, Number(interlaced)], 8)
  const rowBytes = (columns: number) => (columns === 0 ? 0 : 1 + (columns * 4 * bits) / 8)
  const passes = interlaced ? adam7 : [[0, 0, 1, 1]]
  const sizes = passes.map(([x = 0, y = 0, dx = 1, dy = 1]) => {
    return Math.ceil((height - y) / dy) * rowBytes(Math.ceil((width - x) / dx))
  })
  const pixels = Buffer.alloc(sizes.reduce((sum, size) => sum + size, 0))
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  return Buffer.concat([
    signature,
    chunk('IHDR', header),
    chunk('IDAT', zlib.deflateSync(pixels, { level: 1 })),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** Where each pass begins, and its steps. */
const adam7 = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
]

function chunk(type: string, data: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const framed = Buffer.alloc(8 + named.length)
  framed.writeUInt32BE(data.length, 0)
  named.copy(framed, 4)
  framed.writeUInt32BE(zlib.crc32(named), 4 + named.length)
  return framed
}

/** An interlaced PNG of 16 bits, all black: some hundred kilobytes that decode to hundreds of megabytes. */
export function pngBomb(side = 7_000): Buffer {
  return blankPng({ width: side, height: side, bits: 16, interlaced: true })
}

/** A WAV file that is nothing but empty chunks. */
export function wavOfChunks(bytes: number): Buffer {
  const head = Buffer.from(
    'RIFF\xff\xff\xff\x7fWAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0',
    'latin1',
  )
  return Buffer.concat([head, Buffer.alloc(bytes, 'JUNK\0\0\0\0', 'latin1')])
}

/** A JSON schema of so many bytes: every option of it stands for all of its other keywords. */
export function schemaBomb(bytes: number): object {
  const keywords = Object.fromEntries(Array.from({ length: bytes / 2 / 9 }, (_, i) => [`k${i.toString(36)}`, 0]))
  return { anyOf: Array.from({ length: bytes / 2 / 3 }, () => ({})), ...keywords }
}

/** Text without a word, which is hard to divide into tokens; the same at every run. */
export function noise(characters: number): string {
  let state = 1
  let text = ''
  while (text.length < characters) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    text += state.toString(36)
  }
  return text.slice(0, characters)
}
