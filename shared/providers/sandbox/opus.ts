/** Silence as Opus (RFC 6716) in Ogg (RFC 3533, RFC 7845). */

const rateHz = 48_000
const packetSamples = 960
/** One channel, 20 ms, nothing to hear. */
const silence = Buffer.of(0xf8, 0xff, 0xfe)
const packetsPerPage = 50
/** What a decoder needs to settle; it is not played. */
const preSkip = 312
const serial = 1
const firstPage = 2
const lastPage = 4

/** The pages of a file, a second in each. */
export function* opusPages(seconds: number): Generator<Buffer> {
  yield page(0, firstPage, 0, [opusHead()])
  yield page(1, 0, 0, [opusTags()])
  const samples = preSkip + Math.round(seconds * rateHz)
  const packets = Math.ceil(samples / packetSamples)
  for (let at = 0, number = 2; at < packets; at += packetsPerPage, number++) {
    const length = Math.min(packetsPerPage, packets - at)
    const isLast = at + length === packets
    // The last position cuts off what the last packet has too much.
    const position = isLast ? samples : (at + length) * packetSamples
    yield page(
      number,
      isLast ? lastPage : 0,
      position,
      Array.from({ length }, () => silence),
    )
  }
}

function opusHead(): Buffer {
  const head = Buffer.alloc(19)
  head.write('OpusHead', 0, 'latin1')
  head[8] = 1
  head[9] = 1 // One channel.
  head.writeUInt16LE(preSkip, 10)
  head.writeUInt32LE(rateHz, 12)
  return head
}

function opusTags(): Buffer {
  const vendor = Buffer.from('headgate', 'latin1')
  const tags = Buffer.alloc(8 + 4 + vendor.length + 4)
  tags.write('OpusTags', 0, 'latin1')
  tags.writeUInt32LE(vendor.length, 8)
  vendor.copy(tags, 12)
  return tags
}

/** Packets of fewer than 255 bytes each. */
function page(number: number, flags: number, position: number, packets: readonly Buffer[]): Buffer {
  const head = Buffer.alloc(27)
  head.write('OggS', 0, 'latin1')
  head[5] = flags
  head.writeBigInt64LE(BigInt(position), 6)
  head.writeUInt32LE(serial, 14)
  head.writeUInt32LE(number, 18)
  head[26] = packets.length
  const whole = Buffer.concat([head, Buffer.from(packets.map(packet => packet.length)), ...packets])
  whole.writeUInt32LE(checksum(whole), 22)
  return whole
}

function checksum(bytes: Uint8Array): number {
  let sum = 0
  for (const byte of bytes) {
    sum ^= byte << 24
    for (let bit = 0; bit < 8; bit++) sum = (sum << 1) ^ (sum & 0x8000_0000 ? 0x04c1_1db7 : 0)
  }
  return sum >>> 0
}
