import { crc } from './crc.ts'
import { toneParts } from './tone.ts'

/** FLAC (RFC 9639) of the tone with uncompressed samples: 24 kHz, mono, 16 bits, in blocks of 2,400 samples. */

const blockBytes = 2_400 * 2
/** The marker and the stream info block up to its number of samples; the MD5 sum after it is unknown. */
const headStart = Buffer.from('664c6143800000220960096000000000000005dc00f0', 'hex')
const md5Bytes = 16
/** A frame of a fixed block size, which follows the frame number: 24 kHz, mono, 16 bits. */
const frameStart = Buffer.from('fff87708', 'hex')
const verbatimSubframe = Buffer.of(0b0000_0010)

/** The marker and the stream info block. */
export function flacHead(samples: number): Buffer {
  return Buffer.concat([headStart, bigEndian(samples, 4), Buffer.alloc(md5Bytes)])
}

/** Its frames, one second per part. */
export function* flacParts(seconds: number): Generator<Buffer> {
  let number = 0
  for (const part of toneParts(seconds)) {
    const frames: Buffer[] = []
    for (let at = 0; at < part.length; at += blockBytes)
      frames.push(frame(part.subarray(at, at + blockBytes), number++))
    yield Buffer.concat(frames)
  }
}

function frame(samples: Buffer, number: number): Buffer {
  // The frame number is encoded like a UTF-8 character.
  const numbered = Buffer.from(String.fromCodePoint(number), 'utf8')
  const head = Buffer.concat([frameStart, numbered, bigEndian(samples.length / 2 - 1, 2)])
  const subframe = Buffer.concat([verbatimSubframe, Buffer.from(samples).swap16()])
  const body = Buffer.concat([head, Buffer.of(crc(head, 8, 0x07)), subframe])
  return Buffer.concat([body, bigEndian(crc(body, 16, 0x8005), 2)])
}

function bigEndian(value: number, length: 2 | 4): Buffer {
  const bytes = Buffer.alloc(length)
  bytes.writeUIntBE(value, 0, length)
  return bytes
}
