import { drive } from '../drive.ts'
import { cpuUse } from '../lib/proc.ts'
import { chatBody } from '../lib/request.ts'
import type { Row } from '../report.ts'
import { added, type Bench, type Measurement, own, paired, plain, rowOf } from './measurement.ts'
import { behaviourOf } from './streams.ts'

const few = { streams: 200, interval: 1_000, chunks: 8, seconds: 4 }
const many = { ...few, streams: 3_500 }
/** Each round takes two processes through both shapes, which is a minute and a half. */
const maxMemoryRounds = 3
const readyMs = own('ready ms', 0, 'readyMs')
const readyCpu = own('CPU s', 2, 'cpuSeconds')

/** How long a process takes until it can serve. */
export const start: Measurement = { behaviours: [plain], measure: measureStart }

async function measureStart(bench: Bench): Promise<Row[]> {
  const { rig } = bench
  await rig.open()
  const run = async (name: string) => {
    const fromMs = performance.now()
    const subject = await rig.start(name)
    const figures = { readyMs: performance.now() - fromMs, cpuSeconds: cpuUse(subject.pids()).seconds }
    await subject.stop()
    return figures
  }
  const mode = {
    cases: ['process to ready'],
    columns: [readyMs, readyCpu, added('ms − bare', 'readyMs', 1)],
    warm: async (name: string) => {
      await run(name) // Reads the files into the system's cache.
    },
    measure: run,
  }
  const subjects = bench.subjects
  const slices = await paired(bench, 'start', mode, subjects)
  const work = 'web process to ready'
  return [
    rowOf(slices, subjects[0]!, readyMs.of, { work, unit: 'ms', decimals: 0, target: { max: 900 } }),
    // On a busy machine this tells more than the time.
    rowOf(slices, subjects[0]!, readyCpu.of, { work: `${work}, CPU`, unit: 's', decimals: 2, target: null }),
  ]
}

const rate = 200

/** What is added to a request's time by a process that has just started: in its first ten seconds, and in the five after these. */
export const fresh: Measurement = { behaviours: [plain], measure: measureFresh }

async function measureFresh(bench: Bench): Promise<Row[]> {
  const { rig, subjects } = bench
  const call = { body: chatBody(plain, false) }
  const run = async (name: string) => {
    const subject = await rig.start(name)
    // The driver leaves out its first second.
    const first = await drive(rig, subject, 'open', call, { rate, seconds: 10 })
    const then = await drive(rig, subject, 'open', call, { rate, seconds: 6 })
    await subject.stop()
    return {
      firstP50Us: first.addedP50Us!,
      firstP99Us: first.addedP99Us!,
      thenP50Us: then.addedP50Us!,
      thenP99Us: then.addedP99Us!,
      failed: first.failed! + then.failed!,
    }
  }
  const p99 = added('then p99 − bare ms', 'thenP99Us', 1e-3)
  const mode = {
    cases: [`${rate}/s from the start`],
    columns: [
      added('first p50 − bare ms', 'firstP50Us', 1e-3),
      added('first p99 − bare ms', 'firstP99Us', 1e-3),
      added('then p50 − bare ms', 'thenP50Us', 1e-3),
      p99,
      own('failed', 0, 'failed'),
    ],
    warm: async () => {},
    measure: run,
  }
  const slices = await paired(bench, 'after a start', mode, subjects)
  const work = `latency added to bare's at ${rate}/s, p99, ten seconds after the start`
  return [rowOf(slices, subjects[0]!, p99.of, { work, unit: 'ms', decimals: 2, target: { max: 2 } })]
}

/** What an open stream costs in memory: from few streams to many, in a process of its own. */
export const memory: Measurement = { behaviours: [behaviourOf(few)], measure: measureMemory }

async function measureMemory(bench: Bench): Promise<Row[]> {
  const { rig } = bench
  const call = { body: chatBody(behaviourOf(few), true) }
  const run = async (name: string) => {
    const subject = await rig.start(name)
    const first = await drive(rig, subject, 'streams', call, few)
    const second = await drive(rig, subject, 'streams', call, many)
    await subject.stop()
    return {
      kibPerStream: (second.residentKib! - first.residentKib!) / (second.held! - first.held!),
      fewKib: first.residentKib!,
      manyKib: second.residentKib!,
      maxKib: second.residentMostKib!,
      failed: first.failed! + second.failed!,
    }
  }
  const perStream = own('kB / stream', 1, 'kibPerStream')
  const inAll = own('RSS MB, many', 0, 'manyKib', 1 / 1024)
  const max = own('most RSS MB', 0, 'maxKib', 1 / 1024)
  const mode = {
    cases: [`${few.streams} to ${many.streams} streams`],
    columns: [perStream, own('RSS MB, few', 0, 'fewKib', 1 / 1024), inAll, max, own('failed', 0, 'failed')],
    warm: async () => {},
    measure: run,
  }
  const subjects = bench.subjects.slice(0, 1)
  const slices = await paired({ ...bench, rounds: Math.min(bench.rounds, maxMemoryRounds) }, 'memory', mode, subjects)
  return [
    rowOf(slices, subjects[0]!, perStream.of, {
      work: 'memory per open stream',
      unit: 'kB',
      decimals: 0,
      target: { max: 90 },
    }),
    rowOf(slices, subjects[0]!, inAll.of, {
      work: `resident memory with ${many.streams} streams`,
      unit: 'MB',
      decimals: 0,
      target: { max: 450 },
    }),
  ]
}
