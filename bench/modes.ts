import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ownCpuSeconds } from './lib/proc.ts'
import { output } from './lib/processes.ts'
import { type Behaviour, chatBody } from './lib/request.ts'
import { type Rig, type Subject, subjectCpuSeconds } from './rig.ts'
import type { Column, Figures, Mode } from './rounds.ts'

export type ModeOptions = {
  seconds: number
  connections: number
  rates: string
  latencies: string
  shapes: string
  memory: string
}

/** A mode before its rig is there: which behaviours of the upstream it needs, and then itself. */
export type Plan = { behaviours: Behaviour[]; mode(rig: Rig): Mode }

const heatRequests = 40_000
const heatStreams = { streams: 300, interval: 20, chunks: 50, seconds: 8 }
const plain: Behaviour = { latencyMs: 0, chunks: 1, intervalMs: 0 }
const numbers = (text: string, separator = ',') => text.split(separator).map(Number)

const own = (title: string, decimals: number, name: string, scale = 1): Column => ({
  title,
  decimals,
  of: figures => figures[name]! * scale,
})
const ratio = (title: string, name: string): Column => ({
  title,
  decimals: 3,
  of: (figures, reference) => figures[name]! / reference[name]!,
})
const added = (title: string, name: string, scale: number): Column => ({
  title,
  decimals: 2,
  of: (figures, reference) => (figures[name]! - reference[name]!) * scale,
})
const failed = own('failed', 0, 'failed')

/** The modes of the benchmark by name. */
export const plans: Record<string, (options: ModeOptions) => Plan> = { throughput, latency, streams, memory, start }

/** Runs a load driver against a subject and gives its figures. */
async function drive(driver: string, subject: Subject, options: Record<string, number>): Promise<Figures> {
  const numeric = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
  const target = [
    '--port',
    String(subject.port),
    '--header',
    subject.headers.join('|'),
    '--pids',
    subject.pids().join(','),
  ]
  return JSON.parse(await output([process.execPath, `bench/load/${driver}.ts`, ...target, ...numeric]))
}

/** How many requests of 1 kB a second, by a closed loop of wrk. */
function throughput({ seconds, connections }: ModeOptions): Plan {
  const mode = (rig: Rig): Mode => {
    const bodyFile = join(rig.folder, 'body.json')
    writeFileSync(bodyFile, chatBody(plain, false))
    return {
      cases: [`${connections} connections`],
      columns: [
        own('req/s', 0, 'requestsPerSecond'),
        ratio('req/s ÷ bare', 'requestsPerSecond'),
        own('CPU s / 1,000', 3, 'cpuPer1000'),
        ratio('CPU ÷ bare', 'cpuPer1000'),
        own('subject cores', 2, 'cores'),
        own('load cores', 2, 'loadCores'),
        failed,
      ],
      warm: async name => {
        await drive('open', await rig.subject(name), { heat: heatRequests })
      },
      measure: async name => wrk(await rig.subject(name), connections, seconds, bodyFile),
    }
  }
  return { behaviours: [plain], mode }
}

async function wrk(subject: Subject, connections: number, seconds: number, bodyFile: string): Promise<Figures> {
  const headers = subject.headers.flatMap(header => ['-H', header])
  const shape = ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', 'bench/load/chat.lua']
  const usedBefore = subjectCpuSeconds(subject)
  const allBefore = ownCpuSeconds()
  const text = await output(['wrk', ...shape, ...headers, `http://127.0.0.1:${subject.port}`, '--', bodyFile])
  const used = subjectCpuSeconds(subject) - usedBefore
  const all = ownCpuSeconds() - allBefore
  const done = JSON.parse(text.trimEnd().split('\n').at(-1)!) as { requests: number; seconds: number; failed: number }
  return {
    requestsPerSecond: done.requests / done.seconds,
    cpuPer1000: (used / done.requests) * 1000,
    cores: used / done.seconds,
    loadCores: (all - used) / done.seconds,
    failed: done.failed,
  }
}

/** What a subject adds to a request's time at a constant rate, by an open loop. */
function latency({ seconds, rates, latencies }: ModeOptions): Plan {
  const cases = numbers(latencies).flatMap(latencyMs => numbers(rates).map(rate => ({ rate, latencyMs })))
  const name = ({ rate, latencyMs }: { rate: number; latencyMs: number }) => `${rate}/s, upstream ${latencyMs} ms`
  const mode = (rig: Rig): Mode => ({
    cases: cases.map(name),
    columns: [
      own('p50 ms', 2, 'addedP50Us', 1e-3),
      own('p99 ms', 2, 'addedP99Us', 1e-3),
      added('p50 − bare ms', 'addedP50Us', 1e-3),
      added('p99 − bare ms', 'addedP99Us', 1e-3),
      ratio('CPU ÷ bare', 'cpuPer1000'),
      failed,
    ],
    warm: async subject => {
      await drive('open', await rig.subject(subject), { heat: heatRequests })
    },
    measure: async (subject, which) => {
      const { rate, latencyMs: latency } = cases.find(one => name(one) === which)!
      return drive('open', await rig.subject(subject), { rate, seconds, latency })
    },
  })
  const behaviours = cases.map(({ latencyMs }) => ({ ...plain, latencyMs }))
  return { behaviours: [plain, ...behaviours], mode }
}

type Shape = { streams: number; interval: number; chunks: number }

/** `<streams>x<milliseconds between chunks>x<chunks>`. */
function shapeOf(text: string): Shape {
  const [streams = 0, interval = 0, chunks = 50] = numbers(text, 'x')
  return { streams, interval, chunks }
}

const behaviourOf = ({ interval, chunks }: Shape): Behaviour => ({ latencyMs: 0, chunks, intervalMs: interval })

/** What a chunk of an event stream costs and how late it comes. */
function streams({ seconds, shapes }: ModeOptions): Plan {
  const cases = shapes.split(',')
  const mode = (rig: Rig): Mode => ({
    cases,
    columns: [
      own('chunks/s', 0, 'chunksPerSecond'),
      own('CPU µs / chunk', 1, 'cpuUsPerChunk'),
      ratio('CPU ÷ bare', 'cpuUsPerChunk'),
      added('first chunk p50 − bare ms', 'firstChunkP50Us', 1e-3),
      added('first chunk p99 − bare ms', 'firstChunkP99Us', 1e-3),
      added('chunk p99 − bare ms', 'delayP99Us', 1e-3),
      own('subject cores', 2, 'cores'),
      own('RSS MB', 0, 'residentKib', 1 / 1024),
      failed,
    ],
    warm: async name => {
      await drive('streams', await rig.subject(name), heatStreams)
    },
    measure: async (name, which) => drive('streams', await rig.subject(name), { ...shapeOf(which), seconds }),
  })
  return { behaviours: [heatStreams, ...cases.map(shapeOf)].map(behaviourOf), mode }
}

/** What an open stream costs in memory: from few streams to many, in a process of its own. */
function memory({ seconds, memory: shapes }: ModeOptions): Plan {
  const [few, many] = shapes.split(',').map(shapeOf)
  const mode = (rig: Rig): Mode => ({
    cases: [`${few!.streams} to ${many!.streams} streams`],
    columns: [
      own('kB / stream', 1, 'kibPerStream'),
      own('RSS MB, few', 0, 'fewKib', 1 / 1024),
      own('RSS MB, many', 0, 'manyKib', 1 / 1024),
      own('most RSS MB', 0, 'mostKib', 1 / 1024),
      own('subject cores', 2, 'cores'),
      failed,
    ],
    warm: async () => {},
    measure: async name => {
      const subject = await rig.start(name)
      const first = await drive('streams', subject, { ...few!, seconds })
      const second = await drive('streams', subject, { ...many!, seconds })
      await subject.stop()
      return {
        kibPerStream: (second.residentKib! - first.residentKib!) / (second.held! - first.held!),
        fewKib: first.residentKib!,
        manyKib: second.residentKib!,
        mostKib: second.residentMostKib!,
        cores: second.cores!,
        failed: first.failed! + second.failed!,
      }
    },
  })
  return { behaviours: [few!, many!].map(behaviourOf), mode }
}

/** How long a process takes until it can serve. */
function start(): Plan {
  const mode = (rig: Rig): Mode => ({
    cases: ['process to ready'],
    columns: [own('ms', 0, 'readyMs'), own('CPU s', 2, 'cpuSeconds'), added('ms − bare', 'readyMs', 1)],
    warm: async name => (await rig.start(name)).stop(), // Files are in the system's cache then, and compiled code in Node's.
    measure: async name => {
      const fromMs = performance.now()
      const subject = await rig.start(name)
      const figures = { readyMs: performance.now() - fromMs, cpuSeconds: subjectCpuSeconds(subject) }
      await subject.stop()
      return figures
    },
  })
  return { behaviours: [plain], mode }
}
