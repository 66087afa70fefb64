/**
 * The smallest H.264 video (ITU-T H.264, constrained baseline, CAVLC) of any frame size: a grey picture that is repeated.
 * It is written instead of stored, because the number of macroblocks and the codes depend on the size. No unit contains
 * two zero bytes before a byte of at most 3, so none needs emulation prevention bytes (7.4.1).
 */

export type Stream = { codec: string; configuration: Buffer; frames: Buffer[] }

const macroblock = 16
/** The smallest level by macroblocks per picture (table A-1). */
const levels = [
  [1_620, 30],
  [3_600, 31],
  [8_192, 40],
  [36_864, 51],
  [139_264, 60],
] as const
const constrainedBaseline = [66, 0xc0] as const

/** A video of this many frames; width and height are even numbers of pixels. */
export function encode(width: number, height: number, frames: number): Stream {
  const columns = Math.ceil(width / macroblock)
  const rows = Math.ceil(height / macroblock)
  const macroblocks = columns * rows
  const level = levels.find(([max]) => macroblocks <= max)?.[1]
  if (level === undefined) throw new RangeError(`${width}x${height} is larger than any level`)
  const profile = Buffer.of(...constrainedBaseline, level)
  const sequence = Buffer.concat([Buffer.of(0x67), profile, sequenceParameters(width, height)])
  return {
    codec: `avc1.${profile.toString('hex')}`,
    configuration: Buffer.concat([
      Buffer.of(1),
      profile,
      Buffer.of(0xff, 0xe1),
      sized(sequence, 2),
      Buffer.of(1),
      sized(picture, 2),
    ]),
    frames: Array.from({ length: frames }, (_, i) =>
      sized(i === 0 ? firstPicture(macroblocks) : repeatedPicture(macroblocks, i), 4),
    ),
  }
}

/** A sequence parameter set (7.3.2.1.1) after its level: one reference frame, output in the order of decoding. */
function sequenceParameters(width: number, height: number): Buffer {
  const columns = Math.ceil(width / macroblock)
  const rows = Math.ceil(height / macroblock)
  return toBytes([
    // Set 0, 4-bit frame numbers, picture order type 2, one reference frame, no gaps.
    ...[unsigned(0), unsigned(0), unsigned(2), unsigned(1), '0'],
    ...[unsigned(columns - 1), unsigned(rows - 1)],
    // Frames only, 8x8 inference, cropped: left, right, top, bottom in units of two pixels; no more parameters.
    ...['111', unsigned(0), unsigned((columns * macroblock - width) / 2)],
    ...[unsigned(0), unsigned((rows * macroblock - height) / 2), '0'],
  ])
}

/** The picture parameter set (7.3.2.2): CAVLC, one slice group, QP 26, no optional feature. */
const picture = Buffer.concat([Buffer.of(0x68), toBytes(['1', '1', '00', '111', '000', '111', '000'])])

/** Slice types (table 7-6) of pictures with one type of slice. */
const sliceTypes = { predicted: 5, intra: 7 }
/** An intra 16x16 macroblock, predicted as the mean of its neighbours, without coefficients (table 7-11). */
const greyMacroblock = `${unsigned(3)}${unsigned(0)}${unsigned(0)}1`

/** An IDR picture: without neighbours the mean is grey. */
function firstPicture(macroblocks: number): Buffer {
  const header = [unsigned(0), unsigned(sliceTypes.intra), unsigned(0), '0000', unsigned(0), '00', unsigned(0)]
  return Buffer.concat([Buffer.of(0x65), toBytes([...header, greyMacroblock.repeat(macroblocks)])])
}

/** A picture whose macroblocks are all skipped: a copy of the previous one. */
function repeatedPicture(macroblocks: number, frame: number): Buffer {
  const number = (frame % 16).toString(2).padStart(4, '0')
  const header = [unsigned(0), unsigned(sliceTypes.predicted), unsigned(0), number, '000', unsigned(0)]
  return Buffer.concat([Buffer.of(0x61), toBytes([...header, unsigned(macroblocks)])])
}

/** Unsigned Exp-Golomb code, `ue(v)` (9.1). */
function unsigned(value: number): string {
  const bits = (value + 1).toString(2)
  return bits.padStart(2 * bits.length - 1, '0')
}

/** Bits, terminated by a one and zeros up to a byte boundary (7.3.2.11). */
function toBytes(parts: string[]): Buffer {
  const bits = `${parts.join('')}1`
  const bytes = Buffer.alloc(Math.ceil(bits.length / 8))
  for (let i = 0; i < bits.length; i++) if (bits[i] === '1') bytes[i >> 3]! |= 0x80 >> (i & 7)
  return bytes
}

/** A unit after its length: 2 bytes in the decoder configuration record (ISO/IEC 14496-15, 5.3.3.1), 4 in a frame. */
function sized(unit: Buffer, lengthBytes: 2 | 4): Buffer {
  const length = Buffer.alloc(lengthBytes)
  length.writeUIntBE(unit.length, 0, lengthBytes)
  return Buffer.concat([length, unit])
}
