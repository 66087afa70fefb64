import { BitWriter } from './bits.ts'
import { toneRateHz } from './tone.ts'

/**
 * MP3 and AAC of a tone: in each frame one line of the spectrum is ±1 and all others are 0. A tone at the edge of an odd line
 * turns by an odd number of half circles with each frame: nothing but the line's sign changes.
 */

const framesPerPart = 40

export function mp3Parts(seconds: number): Iterable<Buffer> {
  return parts(seconds, mp3Samples, mp3Frame)
}

export function aacParts(seconds: number): Iterable<Buffer> {
  return parts(seconds, aacSamples, aacFrame)
}

function* parts(seconds: number, frameSamples: number, frame: (sign: number) => Uint8Array): Generator<Buffer> {
  const frames = [frame(0), frame(1)]
  const count = Math.ceil((seconds * toneRateHz) / frameSamples)
  for (let at = 0; at < count; at += framesPerPart) {
    const length = Math.min(framesPerPart, count - at)
    yield Buffer.concat(Array.from({ length }, (_, i) => frames[(at + i) % 2]!))
  }
}

const mp3Samples = 576
const mp3Bytes = 96
/** Of the 576 lines of 12 kHz: 437.5 Hz. */
const mp3Line = 21
const mp3Gain = 200

/** MPEG-2 layer III (ISO/IEC 13818-3), 24 kHz mono at 32 kbit/s. */
function mp3Frame(sign: number): Uint8Array {
  const pairs = (mp3Line + 1) / 2
  const writer = new BitWriter()
    .bits(0xfff3, 16) // Layer III of MPEG-2, without a checksum.
    .bits(0x44, 8) // 32 kbit/s, 24 kHz.
    .bits(0xc0, 8) // One channel.
    .bits(0, 8) // The data begins in this frame.
    .bits(0, 1)
    .bits(pairs - 1 + 4, 12) // Bits of data.
    .bits(pairs, 9)
    .bits(mp3Gain, 8)
    .bits(0, 9) // No scale factors.
    .bits(0, 1) // The usual window.
    .bits(0b00001_00001_00001, 15) // Huffman table 1 in all regions.
    .bits(0, 4 + 3 + 1 + 1)
  for (let pair = 1; pair < pairs; pair++) writer.bits(1, 1) // (0, 0)
  const head = writer.bits(0b001, 3).bits(sign, 1).written() // (0, ±1)
  const frame = new Uint8Array(mp3Bytes)
  frame.set(head)
  return frame
}

const aacSamples = 1_024
/** Bands of four lines of the 1,024 of 12 kHz; the tone is the second line of the last one, at 433.6 Hz. */
const aacBands = 10
const aacGain = 190
/** Huffman codebook 1: (0, ±1, 0, 0). */
const aacLine = [0x13, 0x17]

/** AAC-LC (ISO/IEC 14496-3), 24 kHz mono, in an ADTS frame. */
function aacFrame(sign: number): Uint8Array {
  const raw = new BitWriter()
    .bits(0, 3 + 4) // A single channel, the first.
    .bits(aacGain, 8)
    .bits(0, 1 + 2 + 1) // One long window.
    .bits(aacBands, 6)
    .bits(0, 1) // No prediction.
    .bits(0, 4) // Codebook 0, of nothing but zeros,
    .bits(aacBands - 1, 5) // for all bands but the last,
    .bits(1, 4) // which has codebook 1.
    .bits(1, 5)
    .bits(0, 1) // Its scale factor is the gain.
    .bits(0, 1 + 1 + 1) // No pulses, no noise shaping, no gain control.
    .bits(aacLine[sign]!, 5)
    .bits(0b111, 3) // The end.
    .written()
  const bytes = 7 + raw.length
  return new BitWriter()
    .bits(0xfff1, 16) // MPEG-4, without a checksum.
    .bits(0b01, 2) // Low complexity,
    .bits(6, 4) // 24 kHz,
    .bits(0, 1)
    .bits(1, 3) // one channel.
    .bits(0, 4)
    .bits(bytes, 13)
    .bits(0x7ff, 11) // The bit rate varies.
    .bits(0, 2)
    .bytes(raw)
    .written()
}
