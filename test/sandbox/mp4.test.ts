import { fileTypeFromBuffer } from 'file-type'
import { BufferSource, EncodedPacketSink, Input, MP4 } from 'mediabunny'
import { readVideo } from '../../examples/files.ts'
import { encode } from '../../shared/providers/sandbox/media/h264.ts'
import { videoFile } from '../../shared/providers/sandbox/media/mp4.ts'
import { startBrowser } from '../support/io/chromium.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

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
const browser = use(test, startBrowser)

for (const [width, height] of sizes) {
  test.serial(`decoded: a browser shows the first and the last picture of ${width}x${height}`, async t => {
    const file = await videoFile({ seconds: 1.5, width, height })
    const page = await browser.newPage()
    const shown = await page.evaluate<Shown>(`(${showEnds})('data:video/mp4;base64,${file.toString('base64')}')`)
    await page.close()
    t.deepEqual([shown.width, shown.height], [width, height])
    t.true(Math.abs(shown.durationS - 1.5) < 0.001, `${shown.durationS} s`)
    for (const colours of shown.colours) t.deepEqual(colours, [130, 130, 130, 255])
  })
}

type Shown = { width: number; height: number; durationS: number; colours: number[][] }

/** Runs in the page: seeks to the start and close to the end, and reads the last pixel of each picture. */
const showEnds = `async source => {
  const video = document.createElement('video')
  const once = event =>
    new Promise((resolve, reject) => {
      video.addEventListener(event, resolve, { once: true })
      video.addEventListener('error', () => reject(new Error(video.error?.message)), { once: true })
    })
  const loaded = once('loadeddata')
  video.src = source
  await loaded
  const { videoWidth: width, videoHeight: height, duration: durationS } = video
  const canvas = new OffscreenCanvas(width, height)
  const colours = []
  for (const timeS of [0.01, durationS - 0.01]) {
    const sought = once('seeked')
    video.currentTime = timeS
    await sought
    const context = canvas.getContext('2d')
    // After the event, the picture itself may still be on its way: until then the canvas stays transparent.
    let colour = [0, 0, 0, 0]
    for (let tries = 0; colour[3] === 0 && tries < 200; tries++) {
      if (tries > 0) await new Promise(resolve => setTimeout(resolve, 50))
      context.drawImage(video, 0, 0)
      colour = [...context.getImageData(width - 1, height - 1, 1, 1).data]
    }
    context.clearRect(0, 0, width, height)
    colours.push(colour)
  }
  return { width, height, durationS, colours }
}`

test('written: no unit needs emulation prevention', t => {
  const counts = [1, 2, 7, 8, 15, 16, 31, 63, 64, 127, 128, 135, 240, 255, 256, 257]
  for (const columns of counts) {
    for (const rows of counts) {
      const { configuration, frames } = encode(columns * 16 - 14, rows * 16 - 2, 2)
      const sequence = configuration.subarray(8, 8 + configuration.readUInt16BE(6))
      for (const unit of [sequence, ...frames.map(frame => frame.subarray(4))]) {
        const at = unit.indexOf(Buffer.alloc(2))
        t.true(at === -1 || unit[at + 2]! > 3, `${columns} x ${rows} macroblocks`)
      }
    }
  }
})

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
