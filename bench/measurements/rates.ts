import { setTimeout as sleep } from 'node:timers/promises'
import { drive } from '../drive.ts'
import { cpuSeconds } from '../lib/proc.ts'
import { chatBody } from '../lib/request.ts'
import type { Row } from '../report.ts'
import type { Figures } from '../rounds.ts'
import { type Bench, divided, type Measurement, own, paired, plain, ratio, rowOf } from './measurement.ts'

const idleSeconds = 12
const measuredSeconds = { '10/s': 10, '50/s': 6, '200/s': 4, '64 connections': 2 }
type Case = keyof typeof measuredSeconds | typeof idle
const idle = `64 connections after ${idleSeconds} s without requests`
const cpu = 'cpuUsPerRequest'

/** What a request costs at a low rate, and after a pause, in which V8 tidies up. */
export const rates: Measurement = { behaviours: [plain], measure }

async function measure(bench: Bench): Promise<Row[]> {
  const { rig, warm, subjects } = bench
  const call = { body: chatBody(plain, false) }
  const run = async (name: string, which: Case): Promise<Figures> => {
    const subject = await rig.subject(name)
    if (which !== idle && which !== '64 connections') {
      const seconds = measuredSeconds[which]
      return drive(rig, subject, 'open', call, { rate: Number.parseInt(which, 10), seconds })
    }
    const idleCpu = which === idle ? await useOf(subject.pids(), () => sleep(idleSeconds * 1_000)) : 0
    const figures = await drive(rig, subject, 'closed', call, { seconds: measuredSeconds['64 connections'] })
    return { ...figures, idleMsPerSecond: (idleCpu * 1_000) / idleSeconds }
  }
  const mode = {
    cases: [...Object.keys(measuredSeconds), idle],
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
    measure: (name: string, which: string) => run(name, which as Case),
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

/** The CPU seconds that processes use during `work`. */
async function useOf(pids: number[], work: () => Promise<unknown>): Promise<number> {
  const before = cpuSeconds(pids)
  await work()
  return cpuSeconds(pids) - before
}
