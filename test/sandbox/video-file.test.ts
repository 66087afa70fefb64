import { fileTypeFromBuffer } from 'file-type'
import { BufferSource, EncodedPacketSink, Input, MP4 } from 'mediabunny'
import { readVideo } from '../../examples/files.ts'
import { videoFile } from '../../shared/providers/sandbox/media/video-file.ts'
import { test } from '../support/test.ts'

for (const [seconds, width, height] of [
  [5, 1280, 720],
  [3.217, 720, 1280],
  [0.05, 480, 480],
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
  using input = new Input({ source: new BufferSource(await videoFile({ seconds: 2.34 })), formats: [MP4] })
  const track = (await input.getPrimaryVideoTrack())!
  t.regex((await track.getCodecParameterString())!, /^avc1\./)
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

const closest = { '960x540': [854, 480], '16x16': [480, 480], '160x90': [854, 480], '7680x4320': [3840, 2160] }
for (const [size, expected] of Object.entries(closest)) {
  test(`open: a size without a recording, ${size}, is ${expected.join('x')}, of the same shape`, async t => {
    const [wide, high] = size.split('x').map(Number) as [number, number]
    const { width, height } = await readVideo(await videoFile({ seconds: 1, width: wide, height: high }))
    t.deepEqual([width, height], expected)
  })
}
