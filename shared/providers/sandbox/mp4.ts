import { encode } from './h264.ts'

const framesPerSecond = 10
/** Long videos have fewer frames a second, so that they stay small. */
const mostFrames = 1_200

export type VideoOptions = {
  /** More than 0. */
  seconds: number
  /** Pixels; rounded to even numbers. */
  width: number
  height: number
}

/** A playable MP4 of colour bars and a progress bar, exactly `seconds` long, without sound. */
export async function videoFile({ seconds, width, height }: VideoOptions): Promise<Buffer> {
  // Of use to test keys only, so loaded when the first of them needs it.
  const { BufferTarget, EncodedPacket, EncodedVideoPacketSource, Mp4OutputFormat, Output } = await import('mediabunny')
  const even = (pixels: number) => Math.max(2, Math.round(pixels / 2) * 2)
  const codedWidth = even(width)
  const codedHeight = even(height)
  const count = Math.min(mostFrames, Math.max(1, Math.ceil(seconds * framesPerSecond)))
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
