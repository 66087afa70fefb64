// What a web process takes to start, what it holds, and how fast its first answers are: `node bench/footprint.ts`, see README.md.
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { drive } from './drive.ts'
import { readOptions } from './lib/options.ts'
import { cpuUse, residentKib } from './lib/proc.ts'
import { pinSelf, root } from './lib/processes.ts'
import { chatBody, chatPath } from './lib/request.ts'
import { quartiles } from './lib/statistics.ts'
import type { Footprint } from './lib/write-footprint.ts'
import { Rig, type Subject } from './rig.ts'

const { values: options } = readOptions({ subjects: 'gateway', rounds: 5, requests: 20_000, rows: 25 })
const subjects = options.subjects.split(',')
const plain = { latencyMs: 0, chunks: 1, intervalMs: 0 }
const body = chatBody(plain, false)
const singleRequests = 100
const writtenWithinMs = 60_000
/** A request is settled after its answer. */
const settledAfterMs = 20
const mib = 1_024 * 1_024

type Figures = Record<string, number>

pinSelf('1')
const rig = new Rig({ behaviours: [plain], subjectProcessors: '0', profileFolder: null })
const preload = join(root, 'bench/lib/write-footprint.ts')
const inspected = new Rig({ behaviours: [plain], subjectProcessors: '0', profileFolder: null, preload })
try {
  await rig.open()
  for (const name of subjects) await (await rig.start(name)).stop() // Fills the compile cache.
  const rounds: Record<string, Figures[]> = {}
  for (let round = 0; round < options.rounds; round++)
    for (const name of subjects) (rounds[name] ??= []).push(await measure(name))
  printTable(rounds)
  await inspected.open()
  for (const name of subjects) await inspect(name)
} finally {
  await rig.close()
  await inspected.close()
}
process.exit(0)

/** Medians and quartiles: a line per figure, a column per subject. */
function printTable(rounds: Record<string, Figures[]>): void {
  const names = Object.keys(rounds)
  const figures = Object.keys(rounds[names[0]!]![0]!)
  const cell = (name: string, figure: string) => {
    const { median, lower, upper } = quartiles(rounds[name]!.map(own => own[figure]!))
    const decimals = Math.abs(median) < 10 ? 2 : 0
    return `${median.toFixed(decimals)} (${lower.toFixed(decimals)}–${upper.toFixed(decimals)})`
  }
  const lines = figures.map(figure => [figure, Object.fromEntries(names.map(name => [name, cell(name, figure)]))])
  console.table(Object.fromEntries(lines))
}

async function measure(name: string): Promise<Figures> {
  const fromMs = performance.now()
  const subject = await rig.start(name)
  const readyMs = performance.now() - fromMs
  const pids = subject.pids()
  const cpuS = cpuUse(pids).seconds
  const rssAtReady = residentKib(pids) / 1_024
  const pssAtReady = proportionalKib(pids) / 1_024
  const { millis, cpuMs } = await sendSingly(subject)
  const load = await drive(
    rig,
    subject,
    'closed',
    { body },
    { warm: options.requests, 'warm-seconds': 120, seconds: 0 },
  )
  await sleep(1_000)
  const afterLoad = residentKib(pids) / 1_024
  const cpuUsPerRequest = await cpuOf(subject)
  const figures = {
    'ready ms': readyMs,
    'CPU s': cpuS,
    'RSS MB ready': rssAtReady,
    'PSS MB ready': pssAtReady,
    'first ms': millis[0]!,
    'first CPU ms': cpuMs[0]!,
    '91st to 100th ms': quartiles(millis.slice(-10)).median,
    '91st to 100th CPU ms': quartiles(cpuMs.slice(-10)).median,
    'RSS MB after load': afterLoad,
    'max RSS MB': maxResidentKib(pids) / 1_024,
    'CPU us a request': cpuUsPerRequest,
    failed: load.failed!,
  }
  await subject.stop()
  return figures
}

async function cpuOf(subject: Subject): Promise<number> {
  const { cpuUsPerRequest } = await drive(rig, subject, 'closed', { body }, { seconds: 2 })
  return cpuUsPerRequest!
}

/** Milliseconds, and those of processor time, of each of the first requests, one after the other. */
async function sendSingly({ port, headers, pids }: Subject): Promise<{ millis: number[]; cpuMs: number[] }> {
  const url = `http://127.0.0.1:${port}${chatPath}`
  const lines = headers.map(line => line.split(': ') as [string, string])
  const request = {
    method: 'POST',
    headers: { ...Object.fromEntries(lines), 'content-type': 'application/json' },
    body,
  }
  const millis: number[] = []
  const cpuMs: number[] = []
  for (let i = 0; i < singleRequests; i++) {
    const before = cpuUse(pids()).seconds
    const fromMs = performance.now()
    const response = await fetch(url, request)
    const text = await response.text()
    if (response.status !== 200) throw new Error(text)
    millis.push(performance.now() - fromMs)
    await sleep(settledAfterMs)
    cpuMs.push((cpuUse(pids()).seconds - before) * 1_000)
  }
  return { millis, cpuMs }
}

function proportionalKib(pids: number[]): number {
  return pids.reduce((sum, pid) => sum + kibOf(`/proc/${pid}/smaps_rollup`, 'Pss'), 0)
}

function maxResidentKib(pids: number[]): number {
  return pids.reduce((sum, pid) => sum + kibOf(`/proc/${pid}/status`, 'VmHWM'), 0)
}

function kibOf(file: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(readFileSync(file, 'latin1'))![1])
}

/** Prints what one process holds when it is ready, and after load. */
async function inspect(name: string): Promise<void> {
  const file = join(inspected.folder, 'footprint.json')
  inspected.stores!.env.FOOTPRINT_FILE = file
  const subject = await inspected.start(name)
  const take = async () => {
    rmSync(file, { force: true })
    process.kill(subject.pids()[0]!, 'SIGUSR2')
    for (const deadline = Date.now() + writtenWithinMs; !existsSync(file); await sleep(50))
      if (Date.now() > deadline) throw new Error('the gateway did not write its footprint')
    return JSON.parse(readFileSync(file, 'utf8')) as Footprint
  }
  const ready = await take()
  await drive(inspected, subject, 'closed', { body }, { warm: options.requests, 'warm-seconds': 120, seconds: 0 })
  const loaded = await take()
  await subject.stop()
  printFootprint(`${name}, ready`, ready)
  printFootprint(`${name}, after ${options.requests} requests`, loaded)
}

function printFootprint(title: string, { spaces, usage, mallocedBytes, scripts }: Footprint): void {
  console.log(`\n${title}`)
  const mb = (bytes: number) => (bytes / mib).toFixed(1).padStart(7)
  for (const { name, usedBytes, bytes } of spaces)
    if (bytes > 0) console.log(`${mb(usedBytes)} of ${mb(bytes)} MB ${name}`)
  console.log(
    `${mb(usage.rss)} MB RSS; external ${mb(usage.external)}, array buffers ${mb(usage.arrayBuffers)}, malloced by V8 ${mb(mallocedBytes)}`,
  )
  const owners = new Map<string, { count: number; length: number }>()
  for (const { url, length } of scripts) {
    const sum = owners.get(ownerOf(url)) ?? { count: 0, length: 0 }
    owners.set(ownerOf(url), { count: sum.count + 1, length: sum.length + length })
  }
  const all = [...owners].sort(([, a], [, b]) => b.length - a.length)
  const total = all.reduce((sum, [, { length }]) => sum + length, 0)
  console.log(`${mb(total)} MB in ${scripts.length} scripts`)
  for (const [owner, { count, length }] of all.slice(0, options.rows))
    console.log(`${mb(length)} MB ${String(count).padStart(5)} ${owner}`)
}

function ownerOf(url: string): string {
  const pkg = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1]
  if (pkg) return pkg
  return /\/((?:api|shared|workers|bench)(?:\/[^/]+)?)\//.exec(url)?.[1] ?? url.replace(/:.*/s, ':')
}
