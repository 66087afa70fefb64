import test from 'ava'
import { fileTypeFromBuffer } from 'file-type'
import { BufferSource, EncodedPacketSink, Input, MP4 } from 'mediabunny'
import { readVideo } from '../examples/files.ts'
import { encode } from '../shared/providers/sandbox/h264.ts'
import { videoFile } from '../shared/providers/sandbox/mp4.ts'
import { decoded, pictureOf } from './support/h264.ts'

const sizes = [
  [1280, 720],
  [720, 1280],
  [1920, 1080],
  [3840, 2160],
  [5040, 2160],
  [854, 480],
  [256, 144],
  [100, 100],
  [16, 16],
] as const

for (const [width, height] of sizes) {
  test(`decoded: ${width}x${height} is bars over a progress bar that fills from the first picture to the last`, t => {
    const columns = Math.ceil(width / 16)
    const rows = Math.ceil(height / 16)
    for (const count of [1, 2, 37]) {
      const pictures = decoded(encode(width, height, count).frames, columns, rows)
      t.is(pictures.length, count)
      let filled = 0
      for (const { bar, rest } of pictures.map(picture => pictureOf(picture, columns))) {
        t.deepEqual(rest, pictureOf(pictures[0]!, columns).rest, 'the bars stay')
        t.true(bar >= filled && bar <= columns)
        filled = bar
      }
      t.is(filled, count === 1 ? 1 : columns, `the bar at the end of ${count} pictures`)
      t.is(pictureOf(pictures[0]!, columns).bar, 1)
      if (rows > 1) t.is(new Set(pictureOf(pictures[0]!, columns).rest).size, Math.min(7, columns))
    }
  })
}

for (const [seconds, width, height] of [
  [5, 1280, 720],
  [3.217, 720, 1280],
  [0.05, 256, 144],
  [10, 1920, 1080],
  [10, 3840, 2160],
  [600, 1280, 720],
] as const) {
  test(`open: an MP4 of ${seconds} s and ${width}x${height} with at most 100 kB`, async t => {
    const file = await videoFile({ seconds, width, height })
    t.true(file.length <= 100_000, `${file.length} bytes`)
    t.deepEqual(await fileTypeFromBuffer(file), { ext: 'mp4', mime: 'video/mp4' })
    const read = await readVideo(file)
    t.true(Math.abs(read.durationS - seconds) < 0.0005, `${read.durationS} s`)
    t.deepEqual([read.width, read.height], [width, height])
  })
}

test('open: packets lie in order without a gap, and only the first is a key frame', async t => {
  using input = new Input({
    source: new BufferSource(await videoFile({ seconds: 2.34, width: 64, height: 64 })),
    formats: [MP4],
  })
  const track = (await input.getPrimaryVideoTrack())!
  t.is(await track.getCodecParameterString(), 'avc1.42c01e')
  const packets = []
  for await (const packet of new EncodedPacketSink(track).packets()) packets.push(packet)
  t.deepEqual(
    packets.map(({ type }) => type),
    packets.map((_, i) => (i === 0 ? 'key' : 'delta')),
  )
  t.is(packets.length, 24)
  for (const [i, { timestamp, duration }] of packets.entries())
    t.true(Math.abs(timestamp + duration - (packets[i + 1]?.timestamp ?? 2.34)) < 0.0001)
})

test('refused: a picture larger than any level', t => {
  t.throws(() => encode(20_000, 20_000, 1), { instanceOf: RangeError })
})
