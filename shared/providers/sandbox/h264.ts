import { BitWriter } from './bits.ts'

/**
 * A very small H.264 encoder (ITU-T H.264, constrained baseline, CAVLC): colour bars with a progress bar at the bottom.
 * Of the first picture only the macroblocks in which a colour begins are sent as samples; the others are predicted from
 * their neighbours without a rest. The pictures after it repeat the one before and move the progress bar on.
 */

export type Stream = { codec: string; configuration: Uint8Array; frames: Uint8Array[] }

const macroblock = 16
/** Y, Cb, Cr of the bars from left to right (75 % bars of ITU-R BT.601), and of the progress bar's two ends. */
const bars = [
  [180, 128, 128],
  [162, 44, 142],
  [131, 156, 44],
  [112, 72, 58],
  [84, 184, 198],
  [65, 100, 212],
  [35, 212, 114],
] as const
type Colour = readonly [number, number, number]
const white: Colour = [235, 128, 128]
const dark: Colour = [24, 128, 128]

/** The smallest level by macroblocks in a picture (table A-1). */
const levels = [
  [1_620, 30],
  [3_600, 31],
  [8_192, 40],
  [36_864, 51],
  [139_264, 60],
] as const
const profile = 66
const constraints = 0xc0

/** A moving picture of so many frames; width and height are even numbers of pixels. */
export function encode(width: number, height: number, frames: number): Stream {
  const columns = Math.ceil(width / macroblock)
  const rows = Math.ceil(height / macroblock)
  const level = levels.find(([most]) => columns * rows <= most)?.[1]
  if (level === undefined) throw new RangeError(`${width}x${height} is larger than any level`)
  const sequence = unit(0x67, sequenceParameters(width, height, level))
  const picture = unit(0x68, pictureParameters())
  const hex = (byte: number) => byte.toString(16).padStart(2, '0')
  const filledAt = (frame: number) => 1 + Math.floor((frame * (columns - 1)) / Math.max(1, frames - 1))
  return {
    codec: `avc1.${hex(profile)}${hex(constraints)}${hex(level)}`,
    configuration: configurationOf(sequence, picture),
    frames: Array.from({ length: frames }, (_, i) =>
      framed(i === 0 ? firstPicture(columns, rows) : nextPicture(columns, rows, i, filledAt(i - 1), filledAt(i))),
    ),
  }
}

/** A sequence parameter set (7.3.2.1.1): one reference frame, output in the order of decoding. */
function sequenceParameters(width: number, height: number, level: number): Uint8Array {
  const columns = Math.ceil(width / macroblock)
  const rows = Math.ceil(height / macroblock)
  const bits = new BitWriter().bits(profile, 8).bits(constraints, 8).bits(level, 8)
  // Set 0, frame numbers of 4 bits, picture order type 2, one reference frame, no gaps.
  bits.unsigned(0).unsigned(0).unsigned(2).unsigned(1).bits(0, 1)
  bits.unsigned(columns - 1).unsigned(rows - 1)
  // Frames only, 8x8 inference, cropped: left, right, top, bottom in units of two pixels.
  bits.bits(0b111, 3).unsigned(0)
  bits.unsigned((columns * macroblock - width) / 2).unsigned(0)
  bits.unsigned((rows * macroblock - height) / 2)
  return bits.bits(0, 1).end()
}

/** A picture parameter set (7.3.2.2): CAVLC, one slice group, no deblocking unless a slice says so. */
function pictureParameters(): Uint8Array {
  const bits = new BitWriter().unsigned(0).unsigned(0).bits(0, 2)
  bits.unsigned(0).unsigned(0).unsigned(0).bits(0, 3)
  // QP 26 and its offsets, then: slices control the deblocking filter, the two other flags off.
  return bits.unsigned(0).unsigned(0).unsigned(0).bits(0b100, 3).end()
}

const sliceTypes = { intra: 7, predicted: 5 }

/** A slice header (7.3.3) up to its QP; what marks references differs, so it is handed in as bits. */
function slice(type: keyof typeof sliceTypes, frame: number, marking: (bits: BitWriter) => BitWriter): BitWriter {
  const bits = new BitWriter()
    .unsigned(0)
    .unsigned(sliceTypes[type])
    .unsigned(0)
    .bits(frame % 16, 4)
  // QP delta 0, deblocking off: what is predicted stays as it is.
  return marking(bits).unsigned(0).unsigned(1)
}

/** An IDR picture: bars from top to bottom, below them one white macroblock and dark ones. */
function firstPicture(columns: number, rows: number): Uint8Array {
  const bits = slice('intra', 0, header => header.unsigned(0).bits(0, 2))
  const barAt = (column: number) => bars[Math.floor((column * bars.length) / columns)]!
  const begins = (column: number) => column === 0 || barAt(column) !== barAt(column - 1)
  const last = rows - 1
  const sampled = (column: number, row: number) => (row === last ? column < 2 : row === 0 && begins(column))
  const sampledAt = (column: number, row: number) => (column < 0 || row < 0 ? null : sampled(column, row))
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      if (sampled(column, row)) {
        samples(bits, row === last ? [white, dark][column]! : barAt(column))
        continue
      }
      const from = row === 0 || row === last ? 'left' : 'above'
      predicted(bits, from, coefficientsNear(sampledAt(column - 1, row), sampledAt(column, row - 1)))
    }
  }
  return unit(0x65, bits.end())
}

/** A picture like the one before but for the progress bar, whose macroblocks `from` to `to` become white. */
function nextPicture(columns: number, rows: number, frame: number, from: number, to: number): Uint8Array {
  const bits = slice('predicted', frame, header => header.bits(0, 3))
  let skipped = columns * (rows - 1) + from
  for (let column = from; column < to; column++) {
    bits.unsigned(skipped)
    predicted(bits, 'left', 0, intraInPredicted)
    skipped = 0
  }
  skipped += columns - to
  return unit(0x61, (skipped > 0 ? bits.unsigned(skipped) : bits).end())
}

/** In a predicted slice the types of intra macroblocks come after five others (table 7-13). */
const intraInPredicted = 5
/** I_16x16 without coefficients by its prediction of luma, and the same direction for chroma (tables 7-11 and 8-5). */
const predictions = { above: { type: 1, chroma: 2 }, left: { type: 2, chroma: 1 } }

/** A macroblock that copies the edge of its neighbour. */
function predicted(bits: BitWriter, from: 'left' | 'above', near: number, typesBefore = 0): void {
  const { type, chroma } = predictions[from]
  bits
    .unsigned(type + typesBefore)
    .unsigned(chroma)
    .unsigned(0)
  // No coefficients; the code depends on how many the neighbours have (table 9-5).
  if (near >= 8) bits.bits(0b000011, 6)
  else bits.bits(1, 1)
}

/** The number of coefficients expected from those to the left and above (9.2.1): 16 in a sampled macroblock, else none. */
function coefficientsNear(left: boolean | null, above: boolean | null): number {
  const known = [left, above].filter(neighbour => neighbour !== null)
  const sum = known.reduce((total, neighbour) => total + (neighbour ? 16 : 0), 0)
  return known.length === 2 ? (sum + 1) >> 1 : sum
}

/** A macroblock of one colour, sent as samples (I_PCM). */
function samples(bits: BitWriter, [y, cb, cr]: Colour): void {
  const sampled = new Uint8Array(384).fill(y, 0, 256).fill(cb, 256, 320).fill(cr, 320)
  bits.unsigned(25).align().bytes(sampled)
}

/** A NAL unit: its header, and the payload with a 3 after any two zeros that a small byte follows (7.4.1). */
function unit(header: number, payload: Uint8Array): Uint8Array {
  const bytes = [header]
  let zeros = 0
  for (const byte of payload) {
    if (zeros >= 2 && byte <= 3) {
      bytes.push(3)
      zeros = 0
    }
    bytes.push(byte)
    zeros = byte === 0 ? zeros + 1 : 0
  }
  return Uint8Array.from(bytes)
}

/** A NAL unit behind its length, as it lies in an MP4 file. */
function framed(nal: Uint8Array): Uint8Array {
  const bytes = Buffer.alloc(4 + nal.length)
  bytes.writeUInt32BE(nal.length)
  bytes.set(nal, 4)
  return bytes
}

/** The decoder configuration record (ISO/IEC 14496-15, 5.3.3.1). */
function configurationOf(sequence: Uint8Array, picture: Uint8Array): Uint8Array {
  const [, profileByte, constraintByte, levelByte] = sequence
  const length = (nal: Uint8Array) => [nal.length >> 8, nal.length & 0xff]
  return Uint8Array.from([
    ...[1, profileByte!, constraintByte!, levelByte!, 0xff, 0xe1],
    ...[...length(sequence), ...sequence],
    ...[1, ...length(picture), ...picture],
  ])
}
