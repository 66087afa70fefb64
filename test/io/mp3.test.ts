import { mp3Frame } from '../../shared/io/media/mp3.ts'
import { test } from '../support/test.ts'

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
