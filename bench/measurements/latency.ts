import { drive } from '../drive.ts'
import { chatBody } from '../lib/request.ts'
import type { Row } from '../report.ts'
import { added, type Bench, type Measurement, own, paired, plain, ratio, rowOf } from './measurement.ts'

const rate = 200
/** The first of them is not measured. */
const seconds = 6
const p50 = added('p50 − bare ms', 'addedP50Us', 1e-3)
const p99 = added('p99 − bare ms', 'addedP99Us', 1e-3)

/** What is added to a request's time at a constant rate, by an open loop, the upstream's own time left out. */
export const latency: Measurement = { behaviours: [plain], measure }

async function measure(bench: Bench): Promise<Row[]> {
  const { rig, warm } = bench
  const call = { body: chatBody(plain, false) }
  const columns = [own('p50 ms', 2, 'addedP50Us', 1e-3), own('p99 ms', 2, 'addedP99Us', 1e-3), p50, p99]
  const mode = {
    cases: [`${rate}/s`],
    columns: [...columns, ratio('CPU ÷ bare', 'cpuUsPerRequest', 2), own('failed', 0, 'failed')],
    warm: async (name: string) => {
      const options = { warm, 'warm-seconds': bench['warm-seconds'] }
      await drive(rig, await rig.subject(name), 'closed', call, options)
    },
    measure: async (name: string) => drive(rig, await rig.subject(name), 'open', call, { rate, seconds }),
  }
  const subjects = bench.subjects
  const slices = await paired(bench, 'added latency', mode, subjects)
  const row = (of: typeof p50, work: string, max: number) =>
    rowOf(slices, subjects[0]!, of.of, { work, unit: 'ms', decimals: 2, target: { max } })
  return [
    row(p50, `latency added to bare's at ${rate}/s, p50`, 0.4),
    row(p99, `latency added to bare's at ${rate}/s, p99`, 2),
  ]
}
