import test from 'ava'
import fc from 'fast-check'
import type { RangeFile } from '../../shared/io/media/media-file.ts'
import { lengthByPackets } from '../../shared/io/media/media-packets.ts'
import { mp3Frame, mp3Length } from '../../shared/io/media/mp3.ts'
import { mp3, mp3FrameS, wav } from '../support/media/media-files.ts'

function fileOf(bytes: Buffer): RangeFile {
  return { bytes: bytes.length, read: async (start, end) => bytes.subarray(start, end) }
}
const secondsOf = async (bytes: Buffer) => (await mp3Length(fileOf(bytes)))?.seconds

function tag(bytes: number): Buffer {
  const size = [21, 14, 7, 0].map(shift => (bytes >> shift) & 127)
  return Buffer.concat([Buffer.from('ID3\x04\0\0', 'latin1'), Buffer.from(size), Buffer.alloc(bytes, 0xff)])
}

test('frames are as long as the standard says', t => {
  const cases: [header: number, bytes: number, samples: number, rateHz: number][] = [
    [0xfffb9000, 417, 1_152, 44_100],
    [0xfffb9200, 418, 1_152, 44_100],
    [0xfffb9400, 384, 1_152, 48_000],
    [0xfffbe800, 1_440, 1_152, 32_000],
    [0xfff38000, 208, 576, 22_050],
    [0xffe38800, 576, 576, 8_000],
  ]
  for (const [header, bytes, samples, rateHz] of cases) t.like(mp3Frame(header), { bytes, samples, rateHz })
  // No sync, a reserved version, layer II, free and bad bit rates, a reserved rate.
  for (const header of [0x7ffb9000, 0xffeb9000, 0xfffd9000, 0xfffb0000, 0xfffbf000, 0xfffb9c00])
    t.is(mp3Frame(header), null, header.toString(16))
})

test('tags before, between and behind the frames do not count', async t => {
  const sound = mp3(100)
  const half = Buffer.concat([mp3(50), Buffer.alloc(700, 0x11), mp3(50)])
  for (const file of [
    sound,
    Buffer.concat([tag(300_000), sound]),
    Buffer.concat([sound, Buffer.alloc(128, 'TAG')]),
    half,
  ])
    t.is(await secondsOf(file), Math.round(100 * mp3FrameS * 1e6) / 1e6)
})

test('null for a file that is shorter than its encoder says, or that has no frame', async t => {
  t.is(await mp3Length(fileOf(mp3(100, [128], 110))), null)
  const whole = mp3(100, [128, 320], 100)
  t.is(await secondsOf(whole), Math.round(100 * mp3FrameS * 1e6) / 1e6)
  t.is(await mp3Length(fileOf(whole.subarray(0, whole.length / 2))), null)
  t.is(await mp3Length(fileOf(mp3(1).subarray(0, 100))), null)
})

test('undefined for what is no MP3 file, or hardly one', async t => {
  for (const bytes of [Buffer.alloc(0), Buffer.alloc(4), wav(1), tag(10)])
    t.is(await mp3Length(fileOf(bytes)), undefined)
  const strange = Buffer.concat([mp3(2), Buffer.alloc(200_000, 0x11), mp3(2)])
  t.is(await mp3Length(fileOf(strange)), undefined)
})

test('the same length as by packets, whatever the bit rates', async t => {
  const rates = fc.array(fc.constantFrom(64, 128, 192, 320), { minLength: 1, maxLength: 5 })
  await t.notThrowsAsync(
    fc.assert(
      fc.asyncProperty(fc.integer({ min: 3, max: 1_500 }), rates, async (frames, kilobits) => {
        const file = fileOf(mp3(frames, kilobits))
        const [own, packets] = [await mp3Length(file), await lengthByPackets(file)]
        return Math.abs(own!.seconds - packets!.seconds) < 1e-3
      }),
      { numRuns: 40 },
    ),
  )
})
