import { readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'

/** Recordings of colour bars (`files/make.sh`), one for each frame size: a picture, then 16 copies of it. */
const folder = new URL('./files/video/', import.meta.url)
const framesPerSecond = 10
/** Long videos have fewer frames per second, to limit their size. */
const maxFrames = 1_200

type VideoOptions = {
  /** Greater than 0. */
  seconds: number
  /** Pixels. */
  width?: number
  height?: number
}

/**
 * A playable MP4 of colour bars, exactly `seconds` long, without sound. Its frames have the size of the recording that
 * is closest in shape, then in area: the requested size for every model of the shipped catalog.
 */
export async function videoFile({ seconds, width = 640, height = 480 }: VideoOptions): Promise<Buffer> {
  // Only test keys use it, so it is loaded on first use.
  const { BufferTarget, EncodedPacket, EncodedVideoPacketSource, Mp4OutputFormat, Output } = await import('mediabunny')
  const { decoderConfig, picture, copies } = await readRecording(closestName(width, height))
  const target = new BufferTarget()
  const output = new Output({ format: new Mp4OutputFormat({ fastStart: 'in-memory' }), target })
  const source = new EncodedVideoPacketSource('avc')
  output.addVideoTrack(source)
  await output.start()
  const frames = Math.min(maxFrames, Math.max(1, Math.ceil(seconds * framesPerSecond)))
  for (let i = 0; i < frames; i++) {
    // The copies differ only in their frame number, which repeats after all of them.
    const [data, type] = i === 0 ? ([picture, 'key'] as const) : ([copies[(i - 1) % copies.length]!, 'delta'] as const)
    await source.add(new EncodedPacket(data, type, (i * seconds) / frames, seconds / frames), { decoderConfig })
  }
  await output.finalize()
  return Buffer.from(target.buffer!)
}

async function readRecording(name: string) {
  const { BufferSource, EncodedPacketSink, Input, MP4 } = await import('mediabunny')
  using input = new Input({ source: new BufferSource(await readFile(new URL(name, folder))), formats: [MP4] })
  const track = (await input.getPrimaryVideoTrack())!
  const packets: Uint8Array[] = []
  for await (const { data } of new EncodedPacketSink(track).packets()) packets.push(data)
  const [picture, ...copies] = packets
  return { decoderConfig: (await track.getDecoderConfig())!, picture: picture!, copies }
}

let names: string[] | undefined

function closestName(width: number, height: number): string {
  const distanceOf = (name: string) => {
    const [wide, high] = name.split(/[x.]/).map(Number) as [number, number]
    const shape = Math.abs(Math.log((wide * height) / (high * width)))
    return 100 * shape + Math.abs(Math.log((wide * high) / (width * height)))
  }
  names ??= readdirSync(folder)
  return names.reduce((closest, name) => (distanceOf(name) < distanceOf(closest) ? name : closest))
}
