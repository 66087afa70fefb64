import * as media from 'mediabunny'

/** Small media files made from nothing: every packet is there and timed, though no picture or sound is in it. */

type Container = 'mp4' | 'mov' | 'webm' | 'mkv' | 'ogg'
const formats: Record<Container, () => media.OutputFormat> = {
  mp4: () => new media.Mp4OutputFormat(),
  mov: () => new media.MovOutputFormat(),
  webm: () => new media.WebMOutputFormat(),
  mkv: () => new media.MkvOutputFormat(),
  ogg: () => new media.OggOutputFormat(),
}

export type Tracks = { videoS?: number; audioS?: number }

const framesPerSecond = 25

/** A file with VP9 pictures and Opus sound, each so long, or only one of them. */
export async function movie(container: Container, tracks: Tracks): Promise<Buffer> {
  const output = new media.Output({ format: formats[container](), target: new media.BufferTarget() })
  const { videoS = 0, audioS = 0 } = tracks
  const video = new media.EncodedVideoPacketSource(container === 'mov' ? 'avc' : 'vp9')
  const audio = new media.EncodedAudioPacketSource('opus')
  if (videoS > 0) output.addVideoTrack(video, { frameRate: framesPerSecond })
  if (audioS > 0) output.addAudioTrack(audio)
  await output.start()
  const videoConfig = { codedWidth: 64, codedHeight: 64, ...(container === 'mov' ? avc : { codec: 'vp09.00.10.08' }) }
  for (let frame = 0; frame < videoS * framesPerSecond; frame++) {
    const packet = new media.EncodedPacket(
      picture,
      frame % 25 === 0 ? 'key' : 'delta',
      frame / framesPerSecond,
      1 / framesPerSecond,
    )
    await video.add(packet, { decoderConfig: { ...videoConfig, colorSpace } })
  }
  const audioConfig = { codec: 'opus', numberOfChannels: 2, sampleRate: 48_000, description: opusHead }
  for (let frame = 0; frame < audioS * 50; frame++)
    await audio.add(new media.EncodedPacket(opusFrame, 'key', frame / 50, 1 / 50), { decoderConfig: audioConfig })
  await output.finalize()
  return Buffer.from(output.target.buffer!)
}

const picture = new Uint8Array(200).fill(7)
const colorSpace = { primaries: 'bt709', transfer: 'bt709', matrix: 'bt709', fullRange: false } as const
/** Baseline profile, level 1, lengths in four bytes, one empty-handed parameter set of each kind. */
const avc = {
  codec: 'avc1.42000a',
  description: new Uint8Array([1, 0x42, 0, 10, 0xff, 0xe1, 0, 4, 0x67, 0x42, 0, 10, 1, 0, 2, 0x68, 0xce]),
}
/** Two channels, no pre-skip, 48 kHz. */
const opusHead = new Uint8Array([...Buffer.from('OpusHead'), 1, 2, 0, 0, 0x80, 0xbb, 0, 0, 0, 0, 0])
/** One frame of 20 ms (RFC 6716 §3.1: configuration 1, stereo, code 0). */
const opusFrame = new Uint8Array([0x0c, 1, 2, 3, 4, 5, 6, 7])

/** MPEG-1 layer III at 44.1 kHz, 1,152 samples a frame. `bitrates` are taken in turn, in kbit/s. */
export function mp3(frames: number, bitrates: readonly number[] = [128], xingFrames?: number): Buffer {
  const index = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320]
  const frame = (bitrate: number) => {
    const bytes = Buffer.alloc(Math.floor((144 * bitrate * 1000) / 44_100))
    bytes.set([0xff, 0xfb, index.indexOf(bitrate) << 4, 0])
    return bytes
  }
  const parts = Array.from({ length: frames }, (_, i) => frame(bitrates[i % bitrates.length]!))
  if (xingFrames !== undefined) {
    const head = frame(128)
    head.write('Xing', 36)
    head.writeUInt32BE(1, 40)
    head.writeUInt32BE(xingFrames, 44)
    parts.unshift(head)
  }
  return Buffer.concat(parts)
}
export const mp3FrameS = 1152 / 44_100

/** AAC-LC at 44.1 kHz, mono, in ADTS frames of 1,024 silent samples. */
export function adts(frames: number): Buffer {
  const size = 100
  const frame = Buffer.alloc(size)
  frame.set([0xff, 0xf1, 0x50, 0x40, size >> 3, ((size & 7) << 5) | 0x1f, 0xfc, ...silentBlock])
  return Buffer.concat(Array.from({ length: frames }, () => frame))
}
/** A channel without bands, and the end of the block. */
const silentBlock = [0, 0, 0, 7]
export const adtsFrameS = 1024 / 44_100

/** FLAC at 44.1 kHz, mono, 16 bits, in frames of 4,096 silent samples as they are. `statedSamples` is what the header says. */
export function flac(frames: number, statedSamples = frames * 4096): Buffer {
  const head = Buffer.alloc(42)
  head.write('fLaC')
  head.set([0x80, 0, 0, 34], 4)
  head.writeUInt16BE(4096, 8)
  head.writeUInt16BE(4096, 10)
  // 20 bits of sample rate, 3 of channels - 1, 5 of bits - 1, 36 of samples.
  head.writeBigUInt64BE((44_100n << 44n) | (0n << 41n) | (15n << 36n) | BigInt(statedSamples), 18)
  const parts: Buffer[] = [head]
  for (let i = 0; i < frames; i++) {
    const number = i < 128 ? [i] : [0xc0 | (i >> 6), 0x80 | (i & 63)]
    const start = [0xff, 0xf8, 0xc9, 0x08, ...number]
    const frame = [...start, crc(start, 8, 0x07), 0x02, ...silence]
    const check = crc(frame, 16, 0x8005)
    parts.push(Buffer.from([...frame, check >> 8, check & 255]))
  }
  return Buffer.concat(parts)
}
const silence = new Uint8Array(4096 * 2)
export const flacFrameS = 4096 / 44_100

function crc(bytes: readonly number[], bits: 8 | 16, polynomial: number): number {
  const top = 1 << (bits - 1)
  let value = 0
  for (const byte of bytes) {
    value ^= byte << (bits - 8)
    for (let i = 0; i < 8; i++)
      value = ((value & top ? (value << 1) ^ polynomial : value << 1) & ((1 << bits) - 1)) >>> 0
  }
  return value
}

/** 16-bit mono PCM. `stated` overrides what the header says. */
export function wav(
  seconds: number,
  stated: { dataBytes?: number; riffBytes?: number; byteRate?: number; blockAlign?: number } = {},
): Buffer {
  const rate = 8_000
  const data = Buffer.alloc(Math.round(seconds * rate) * 2)
  const header = Buffer.alloc(44)
  header.write('RIFF', 0)
  header.writeUInt32LE(stated.riffBytes ?? 36 + data.length, 4)
  header.write('WAVEfmt ', 8)
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(rate, 24)
  header.writeUInt32LE(stated.byteRate ?? rate * 2, 28)
  header.writeUInt16LE(stated.blockAlign ?? 2, 32)
  header.writeUInt16LE(16, 34)
  header.write('data', 36)
  header.writeUInt32LE(stated.dataBytes ?? data.length, 40)
  return Buffer.concat([header, data])
}

/** The eight signature bytes and header of a PNG, padded to a size. */
export function png(bytes = 100): Buffer {
  const file = Buffer.alloc(bytes)
  file.set([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13])
  file.write('IHDR', 12)
  file.writeUInt32BE(1, 16)
  file.writeUInt32BE(1, 20)
  file.set([8, 6, 0, 0, 0], 24)
  file.writeUInt32BE(0, 33)
  file.write('IDAT', 37)
  return file
}

/** An MP3 file of any size. */
export function mp3Of(bytes: number): Buffer {
  const one = mp3(1)
  return Buffer.concat([...Array.from({ length: Math.ceil(bytes / one.length) }, () => one)]).subarray(0, bytes)
}

/** An MP4 file of any size, which has nothing in it after its first box. */
export function mp4Of(bytes: number): Buffer {
  const file = Buffer.alloc(bytes)
  file.writeUInt32BE(24, 0)
  file.write('ftypisom', 4)
  file.write('isommp42', 16)
  file.writeUInt32BE(Math.max(8, bytes - 24), 24)
  file.write('mdat', 28)
  return file
}
