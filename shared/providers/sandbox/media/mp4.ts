import { encode } from './h264.ts'

const framesPerSecond = 10
/** Long videos have fewer frames per second, to limit their size. */
const maxFrames = 1_200

export type VideoOptions = {
  /** Greater than 0. */
  seconds: number
  /** Pixels; rounded to even numbers. */
  width: number
  height: number
}

/** A playable MP4 of a grey picture, exactly `seconds` long, without sound. */
export async function videoFile({ seconds, width, height }: VideoOptions): Promise<Buffer> {
  // Only test keys use it, so it is loaded on first use.
  const { BufferTarget, EncodedPacket, EncodedVideoPacketSource, Mp4OutputFormat, Output } = await import('mediabunny')
  const even = (pixels: number) => Math.max(2, Math.round(pixels / 2) * 2)
  const codedWidth = even(width)
  const codedHeight = even(height)
  const count = Math.min(maxFrames, Math.max(1, Math.ceil(seconds * framesPerSecond)))
  const { codec, configuration, frames } = encode(codedWidth, codedHeight, count)
  const target = new BufferTarget()
  const output = new Output({ format: new Mp4OutputFormat({ fastStart: 'in-memory' }), target })
  const source = new EncodedVideoPacketSource('avc')
  output.addVideoTrack(source)
  await output.start()
  const meta = { decoderConfig: { codec, codedWidth, codedHeight, description: configuration } }
  for (const [i, frame] of frames.entries()) {
    const packet = new EncodedPacket(frame, i === 0 ? 'key' : 'delta', (i * seconds) / count, seconds / count)
    await source.add(packet, meta)
  }
  await output.finalize()
  return Buffer.from(target.buffer!)
}
