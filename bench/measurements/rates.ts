import { setTimeout as sleep } from 'node:timers/promises'
import { drive } from '../drive.ts'
import { chatBody } from '../lib/request.ts'
import type { Row } from '../report.ts'
import { type Rig, type Subject, subjectCpuSeconds } from '../rig.ts'
import type { Figures } from '../rounds.ts'
import { type Bench, divided, type Measurement, own, paired, plain, ratio, rowOf } from './measurement.ts'

const idleSeconds = 12
const cpu = 'cpuUsPerRequest'
const call = { body: chatBody(plain, false) }
type Slicing = (rig: Rig, subject: Subject) => Promise<Figures>
const openLoop =
  (rate: number, seconds: number): Slicing =>
  (rig, subject) =>
    drive(rig, subject, 'open', call, { rate, seconds })
const closedLoop: Slicing = (rig, subject) => drive(rig, subject, 'closed', call, { seconds: 2 })

const cases: Record<string, Slicing> = {
  '10/s': openLoop(10, 10),
  '50/s': openLoop(50, 6),
  '200/s': openLoop(200, 4),
  '64 connections': closedLoop,
  [`64 connections after ${idleSeconds} s without requests`]: async (rig, subject) => {
    const before = subjectCpuSeconds(subject)
    await sleep(idleSeconds * 1_000)
    const idleMsPerSecond = ((subjectCpuSeconds(subject) - before) * 1_000) / idleSeconds
    return { ...(await closedLoop(rig, subject)), idleMsPerSecond }
  },
}

/** What a request costs at a low rate, and after a pause, in which V8 tidies up. */
export const rates: Measurement = { behaviours: [plain], measure }

async function measure(bench: Bench): Promise<Row[]> {
  const { rig, warm, subjects } = bench
  const mode = {
    cases: Object.keys(cases),
    columns: [
      own('CPU µs', 0, cpu),
      ratio('CPU ÷ bare', cpu, 2),
      own('p50 ms', 2, 'addedP50Us', 1e-3),
      own('p99 ms', 2, 'addedP99Us', 1e-3),
      own('idle CPU ms/s', 1, 'idleMsPerSecond'),
      own('failed', 0, 'failed'),
    ],
    warm: async (name: string) => {
      await drive(rig, await rig.subject(name), 'closed', call, { warm, 'warm-seconds': bench['warm-seconds'] })
    },
    measure: async (name: string, which: string) => cases[which]!(rig, await rig.subject(name)),
  }
  const slices = await paired(bench, 'rates', mode, subjects)
  return subjects.flatMap(subject =>
    mode.cases.map(which =>
      rowOf(
        slices.filter(slice => slice.which === which),
        subject,
        divided(cpu),
        { work: `${subject}, ${which}: CPU per request ÷ bare`, unit: '', decimals: 2, target: null },
      ),
    ),
  )
}
