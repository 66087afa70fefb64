import { crc } from './crc.ts'

/**
 * Silence as Opus (RFC 6716) in Ogg (RFC 3533, RFC 7845). Mediabunny's Ogg files have a random serial number; these are
 * the same on every request.
 */

const rateHz = 48_000
const packetSamples = 960
/** Mono, 20 ms of silence. */
const silence = Buffer.of(0xf8, 0xff, 0xfe)
const packetsPerPage = 50
/** Samples that a decoder skips to settle; the head page contains it. */
const preSkip = 312
const serial = 1
const lastPage = 4

/** The pages of OpusHead (mono, 48 kHz) and of OpusTags. */
const headPages = Buffer.from(
  '4f6767530002000000000000000001000000000000001c9ff5d901134f707573486561640101380180bb0000000000' +
    '4f67675300000000000000000000010000000100000006fe32b001184f70757354616773080000006865616467617465' +
    '00000000',
  'hex',
)

/** The pages of a file: the head, then one second each. */
export function* opusPages(seconds: number): Generator<Buffer> {
  yield headPages
  const samples = preSkip + Math.round(seconds * rateHz)
  const packets = Math.ceil(samples / packetSamples)
  for (let at = 0, number = 2; at < packets; at += packetsPerPage, number++) {
    const length = Math.min(packetsPerPage, packets - at)
    const isLast = at + length === packets
    // The final position trims the excess of the last packet.
    yield page(number, isLast ? lastPage : 0, isLast ? samples : (at + length) * packetSamples, length)
  }
}

function page(number: number, flags: number, position: number, packets: number): Buffer {
  const head = Buffer.alloc(27)
  head.write('OggS', 0, 'latin1')
  head[5] = flags
  head.writeBigInt64LE(BigInt(position), 6)
  head.writeUInt32LE(serial, 14)
  head.writeUInt32LE(number, 18)
  head[26] = packets
  const lengths = Buffer.alloc(packets, silence.length)
  const whole = Buffer.concat([head, lengths, Buffer.alloc(packets * silence.length, silence)])
  whole.writeUInt32LE(crc(whole, 32, 0x04c1_1db7), 22)
  return whole
}
