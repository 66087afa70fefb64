import { BitWriter } from './bits.ts'
import { toneParts, toneRateHz } from './tone.ts'

/** FLAC (RFC 9639) of the tone, its samples as they are: one channel of 16 bits. */

const blockSamples = 2_400
const bitsPerSample = 16

/** The marker and the block that describes the stream. */
export function flacHead(samples: number): Buffer {
  const info = new BitWriter()
    .bits(0x80, 8) // The last block of metadata, of type STREAMINFO.
    .bits(34, 24)
    .bits(blockSamples, 16)
    .bits(blockSamples, 16)
    .bits(0, 24) // The sizes of frames and the MD5 sum are not told.
    .bits(0, 24)
    .bits(toneRateHz, 20)
    .bits(0, 3) // One channel.
    .bits(bitsPerSample - 1, 5)
    .bits(0, 4)
    .bits(samples >>> 16, 16)
    .bits(samples & 0xffff, 16)
    .bytes(new Uint8Array(16))
  return Buffer.concat([Buffer.from('fLaC', 'latin1'), info.written()])
}

/** Its frames, a second in each part. */
export function* flacParts(seconds: number): Generator<Buffer> {
  let number = 0
  for (const part of toneParts(seconds)) {
    const frames: Buffer[] = []
    for (let at = 0; at < part.length; at += blockSamples * 2)
      frames.push(frame(part.subarray(at, at + blockSamples * 2), number++))
    yield Buffer.concat(frames)
  }
}

function frame(samples: Buffer, number: number): Buffer {
  const head = new BitWriter()
    .bits(0xfff8, 16) // Blocks of one size.
    .bits(0b0111, 4) // Whose size follows in 16 bits,
    .bits(0b0111, 4) // at 24 kHz,
    .bits(0, 4) // of one channel,
    .bits(0b100, 3) // of 16 bits.
    .bits(0, 1)
    .bytes(Buffer.from(String.fromCodePoint(number), 'utf8')) // The number is coded as UTF-8 codes characters.
    .bits(samples.length / 2 - 1, 16)
    .written()
  const body = Buffer.concat([head, Buffer.of(crc(head, 8, 0x07)), Buffer.of(0b0000_0010), swapped(samples)])
  const sum = Buffer.alloc(2)
  sum.writeUInt16BE(crc(body, 16, 0x8005))
  return Buffer.concat([body, sum])
}

/** A verbatim subframe holds its samples with the most significant byte first. */
function swapped(samples: Buffer): Buffer {
  return Buffer.from(samples).swap16()
}

function crc(bytes: Uint8Array, width: 8 | 16, polynomial: number): number {
  const top = 1 << (width - 1)
  const mask = (1 << width) - 1
  let sum = 0
  for (const byte of bytes) {
    sum ^= byte << (width - 8)
    for (let bit = 0; bit < 8; bit++) sum = ((sum << 1) ^ (sum & top ? polynomial : 0)) & mask
  }
  return sum
}
