// Open loop: request i leaves at start + i / rate whatever became of the earlier ones, so that a stall shows in full.
// Prints one line of JSON. `--heat` requests in a closed loop come first, to warm up the subject's compiler.
import { setTimeout as sleep } from 'node:timers/promises'
import { nowUs } from '../lib/clock.ts'
import { Connection } from '../lib/connection.ts'
import { readOptions } from '../lib/options.ts'
import { cpuSeconds } from '../lib/proc.ts'
import { chatBody, chatRequest, eachStamp } from '../lib/request.ts'
import { Samples } from '../lib/statistics.ts'

const { values: o } = readOptions({ port: 0, rate: 0, seconds: 0, heat: 0, latency: 0, header: '', pids: '' })
const pids = o.pids.split(',').map(Number)
const connections = 64
const warmupSeconds = 1
const drainWithinUs = 10e6
const tickMs = 1
const behaviour = { latencyMs: o.latency, chunks: 1, intervalMs: 0 }
const request = chatRequest(o.header ? o.header.split('|') : [], chatBody(behaviour, false))

const added = new Samples()
const lateness = new Samples()
const free: Connection[] = []
let failed = 0
let inFlight = 0
let heatLeft = o.heat
let measuring = false

const listener = {
  onData(connection: Connection, buffer: Buffer, length: number) {
    eachStamp(buffer, length, (receivedUs, wroteUs) => {
      connection.heldUs = wroteUs - receivedUs
    })
  },
  onEnd(connection: Connection, error: Error | null) {
    inFlight--
    if (error || connection.status !== 200) failed++
    else if (connection.counted) added.push(nowUs() - connection.sentUs - connection.heldUs)
    if (connection.closed) return
    if (heatLeft > 0) heat(connection)
    else free.push(connection)
  },
}

function send(connection: Connection): void {
  inFlight++
  connection.counted = measuring
  connection.sentUs = nowUs()
  connection.send(request)
}

function heat(connection: Connection): void {
  heatLeft--
  send(connection)
}

function fire(dueUs: number): void {
  let connection = free.pop()
  while (connection?.closed) connection = free.pop()
  send((connection ??= new Connection(o.port, listener)))
  if (measuring) lateness.push(connection.sentUs - dueUs)
}

async function quiet(): Promise<void> {
  for (const deadlineUs = nowUs() + drainWithinUs; inFlight > 0 && nowUs() < deadlineUs; ) await sleep(20)
}

const first = Array.from({ length: connections }, () => new Connection(o.port, listener))
await Promise.all(first.map(connection => connection.ready))
if (heatLeft > 0) for (const connection of first) heat(connection)
else free.push(...first)
while (heatLeft > 0) await sleep(20)
await quiet()

const stepUs = 1e6 / Math.max(o.rate, 1)
const beginUs = nowUs()
const fromUs = beginUs + warmupSeconds * 1e6
const untilUs = fromUs + o.seconds * 1e6
let usedSeconds = 0
for (let sent = 0; o.rate > 0 && nowUs() < untilUs; await sleep(tickMs)) {
  const now = nowUs()
  if (!measuring && now >= fromUs) {
    measuring = true
    usedSeconds = -cpuSeconds(pids)
  }
  for (let dueUs = beginUs + sent * stepUs; dueUs <= now; dueUs = beginUs + ++sent * stepUs) fire(dueUs)
}
usedSeconds += cpuSeconds(pids)
await quiet()

const { p50, p99 } = added.quantiles()
const figures = {
  addedP50Us: p50,
  addedP99Us: p99,
  latenessP99Us: lateness.quantiles().p99,
  cpuPer1000: (usedSeconds / added.count) * 1000,
  failed: failed + inFlight,
}
console.log(JSON.stringify(figures))
process.exit(0)
