import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { heardLength } from '../../shared/io/media/media-conversion.ts'
import { MediaMeasure } from '../../shared/io/media/media-length.ts'
import { loadModule } from '../../shared/io/media/media-module.ts'
import { damaged } from '../support/media/damage.ts'
import { test } from '../support/test.ts'

const folder = join(import.meta.dirname, '../fixtures/media')
/** What ffmpeg decodes of the files damaged by the seeds from 0 on, as `fuzz.ts` there does. */
const { files, decodedSeconds } = JSON.parse(readFileSync(join(folder, 'damaged.json'), 'utf8')) as {
  files: string[]
  decodedSeconds: number[]
}
const toleranceS = 0.08
const maxCpuMs = 10_000

test('damaged files: never shorter than ffmpeg decodes, and rarely longer', async t => {
  const [module, decoders] = await Promise.all([loadModule('measure'), loadModule('convert')])
  const whole = files.map(name => ({ name, bytes: readFileSync(join(folder, name)) }))
  const longer: string[] = []
  for (const [seed, decodedS] of decodedSeconds.entries()) {
    const { name, bytes, how } = damaged(whole, seed)
    const read = (start: number, end: number) => bytes.subarray(start, end)
    const measured = new MediaMeasure(module).length(bytes.length, read)
    const length = measured?.isDoubtful
      ? heardLength(decoders, measured, { bytes: bytes.length, read, maxCpuMs })
      : measured?.length
    const seconds = length?.soundSeconds ?? 0
    const about = `${name}, ${how}, seed ${seed}: ${seconds} of ${decodedS} s`
    // What cannot be read is refused.
    if (length) t.true(seconds >= decodedS - toleranceS, about)
    if (seconds > decodedS * 1.012 + 0.2) longer.push(about)
  }
  t.true(longer.length <= decodedSeconds.length * 0.02, longer.join('\n'))
})
