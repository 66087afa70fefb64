import { crc32, deflateSync } from 'node:zlib'

const sampleRateHz = 24_000

/** A PNG of one colour (24-bit RGB), `side` pixels wide and high. */
export function png(side: number): Buffer {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(side, 0)
  header.writeUInt32BE(side, 4)
  header.set([8, 2, 0, 0, 0], 8)
  const row = Buffer.alloc(1 + side * 3, 0x66)
  row[0] = 0
  const pixels = Buffer.concat(Array.from({ length: side }, () => row))
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  return Buffer.concat([
    signature,
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(pixels)),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

function chunk(type: string, data: Buffer): Buffer {
  const framed = Buffer.alloc(12 + data.length)
  framed.writeUInt32BE(data.length, 0)
  framed.write(type, 4, 'latin1')
  framed.set(data, 8)
  framed.writeUInt32BE(crc32(framed.subarray(4, 8 + data.length)), 8 + data.length)
  return framed
}

/** A quiet 440 Hz tone: 24 kHz mono samples of 16 bits, little-endian. */
export function pcm16(durationMs: number): Buffer {
  const samples = Math.round((sampleRateHz * durationMs) / 1000)
  const bytes = Buffer.alloc(samples * 2)
  for (let i = 0; i < samples; i++) {
    bytes.writeInt16LE(Math.round(6000 * Math.sin((2 * Math.PI * 440 * i) / sampleRateHz)), i * 2)
  }
  return bytes
}

/** The same tone as a WAV file. */
export function wav(durationMs: number): Buffer {
  const samples = pcm16(durationMs)
  const header = Buffer.alloc(44)
  header.write('RIFF', 0, 'latin1')
  header.writeUInt32LE(36 + samples.length, 4)
  header.write('WAVEfmt ', 8, 'latin1')
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(sampleRateHz, 24)
  header.writeUInt32LE(sampleRateHz * 2, 28)
  header.writeUInt16LE(2, 32)
  header.writeUInt16LE(16, 34)
  header.write('data', 36, 'latin1')
  header.writeUInt32LE(samples.length, 40)
  return Buffer.concat([header, samples])
}
