/**
 * Reads back the little of H.264 (ITU-T H.264) that the sandbox writes, strictly: anything else throws. A picture is the
 * luma of its macroblocks, row by row; every macroblock has one colour.
 */

type Macroblock = { luma: number; coefficients: number }
const [vertical, horizontal] = [0, 1]

class BitReader {
  readonly #bytes: Uint8Array
  #at = 0
  readonly #end: number

  constructor(nal: Uint8Array) {
    const bytes: number[] = []
    let zeros = 0
    for (const byte of nal) {
      if (zeros < 2 || byte !== 3) bytes.push(byte)
      if (zeros >= 2 && byte < 3) throw new Error('a start code inside a unit')
      zeros = byte === 0 ? zeros + 1 : 0
    }
    this.#bytes = Uint8Array.from(bytes)
    const last = this.#bytes.at(-1)!
    this.#end = this.#bytes.length * 8 - 1 - Math.log2(last & -last)
  }

  get more(): boolean {
    return this.#at < this.#end
  }

  bit(): number {
    if (this.#at >= this.#end) throw new Error('the unit is too short')
    return (this.#bytes[this.#at >> 3]! >> (7 - (this.#at++ & 7))) & 1
  }

  bits(count: number): number {
    let value = 0
    for (let i = 0; i < count; i++) value = value * 2 + this.bit()
    return value
  }

  unsigned(): number {
    let zeros = 0
    while (this.bit() === 0) zeros++
    return 2 ** zeros - 1 + this.bits(zeros)
  }

  /** Samples from the next whole byte on; throws unless they are all the same. */
  samples(count: number): number {
    while (this.#at & 7) if (this.bit() !== 0) throw new Error('the alignment is not zero')
    const [first, ...rest] = Array.from({ length: count }, () => this.bits(8))
    if (rest.some(sample => sample !== first)) throw new Error('samples differ')
    return first!
  }
}

function is(expected: number, value: number, what: string): void {
  if (value !== expected) throw new Error(`${what} is ${value}, not ${expected}`)
}

/** The pictures of a stream of pictures of one slice each. */
export function decoded(frames: Uint8Array[], columns: number, rows: number): Macroblock[][] {
  const pictures: Macroblock[][] = []
  for (const [i, frame] of frames.entries()) {
    const { buffer, byteOffset, length } = frame
    is(length - 4, new DataView(buffer, byteOffset).getUint32(0), 'length')
    is(i === 0 ? 0x65 : 0x61, frame[4]!, 'header')
    const reader = new BitReader(frame.subarray(5))
    is(0, reader.unsigned(), 'first macroblock')
    is(i === 0 ? 7 : 5, reader.unsigned(), 'slice type')
    is(0, reader.unsigned(), 'parameter set')
    is(i % 16, reader.bits(4), 'frame number')
    if (i === 0) is(0, reader.unsigned(), 'IDR id')
    is(0, reader.bits(i === 0 ? 2 : 3), 'references')
    is(0, reader.unsigned(), 'QP delta')
    is(1, reader.unsigned(), 'deblocking')
    pictures.push(i === 0 ? intra(reader, columns, columns * rows) : predicted(reader, columns, pictures[i - 1]!))
  }
  return pictures
}

function intra(reader: BitReader, columns: number, count: number): Macroblock[] {
  const picture: Macroblock[] = []
  while (picture.length < count) picture.push(macroblock(reader, reader.unsigned(), picture, picture.length, columns))
  if (reader.more) throw new Error('more than a picture')
  return picture
}

function predicted(reader: BitReader, columns: number, before: Macroblock[]): Macroblock[] {
  const picture: Macroblock[] = []
  while (reader.more) {
    const skipped = reader.unsigned()
    for (let i = 0; i < skipped; i++) picture.push({ ...before[picture.length]!, coefficients: 0 })
    if (!reader.more) break
    picture.push(macroblock(reader, reader.unsigned() - 5, picture, picture.length, columns))
  }
  is(before.length, picture.length, 'macroblocks of a picture')
  return picture
}

/** One intra macroblock of a type as it is counted in an intra slice. */
function macroblock(reader: BitReader, type: number, picture: Macroblock[], at: number, columns: number): Macroblock {
  if (type === 25) {
    const luma = reader.samples(256)
    reader.samples(64)
    reader.samples(64)
    return { luma, coefficients: 16 }
  }
  if (type !== 1 + vertical && type !== 1 + horizontal) throw new Error(`macroblock type ${type}`)
  const left = at % columns === 0 ? undefined : picture[at - 1]
  const above = picture[at - columns]
  const from = type === 1 + vertical ? above : left
  if (!from) throw new Error('predicted from outside the picture')
  is(type === 1 + vertical ? 2 : 1, reader.unsigned(), 'chroma prediction')
  is(0, reader.unsigned(), 'QP delta')
  // How many coefficients the neighbours have chooses the table of the code for none (clause 9.2.1, table 9-5).
  const known = [left, above].filter(found => found !== undefined)
  const near = Math.ceil(known.reduce((sum, { coefficients }) => sum + coefficients, 0) / known.length)
  const none = near >= 8 ? '000011' : near >= 4 ? '1111' : near >= 2 ? '11' : '1'
  for (const bit of none) is(Number(bit), reader.bit(), 'coefficients')
  return { luma: from.luma, coefficients: 0 }
}

const white = 235

/** How many macroblocks of the last row are filled, and the luma of the first row; throws when a column is not of one colour. */
export function pictureOf(picture: Macroblock[], columns: number): { bar: number; rest: number[] } {
  const luma = picture.map(macroblock => macroblock.luma)
  const last = luma.slice(-columns)
  const bar = last.filter(value => value === white).length
  if (last.some((value, i) => (value === white) !== i < bar)) throw new Error('the progress bar has holes')
  const rest = luma.slice(0, columns)
  for (let i = 0; i < luma.length - columns; i++) is(rest[i % columns]!, luma[i]!, `macroblock ${i}`)
  return { bar, rest }
}
