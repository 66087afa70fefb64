// Open loop: request i leaves at start + i / rate whether or not the earlier ones have ended, so that a stall is fully measured.
// Prints one line of JSON.
import { setTimeout as sleep } from 'node:timers/promises'
import { nowUs } from '../lib/clock.ts'
import { Connection } from '../lib/connection.ts'
import { readOptions } from '../lib/options.ts'
import { cpuUse } from '../lib/proc.ts'
import { eachStamp } from '../lib/request.ts'
import { readRequests } from '../lib/requests.ts'
import { Samples } from '../lib/statistics.ts'

const { values: o } = readOptions({ port: 0, requests: '', rate: 0, seconds: 0, pids: '' })
const pids = o.pids.split(',').map(Number)
const connections = 64
const warmupSeconds = 1
const drainWithinUs = 10e6
const tickMs = 1
const next = readRequests(o.requests)

const added = new Samples()
const lateness = new Samples()
const free: Connection[] = []
let failed = 0
let inFlight = 0
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
    if (!connection.closed) free.push(connection)
  },
}

function send(connection: Connection): void {
  inFlight++
  connection.counted = measuring
  connection.sentUs = nowUs()
  connection.send(next())
}

function fire(dueUs: number): void {
  let connection = free.pop()
  while (connection?.closed) connection = free.pop()
  send((connection ??= new Connection(o.port, listener)))
  if (measuring) lateness.push(connection.sentUs - dueUs)
}

free.push(...Array.from({ length: connections }, () => new Connection(o.port, listener)))
await Promise.all(free.map(connection => connection.ready))

const stepUs = 1e6 / o.rate
const beginUs = nowUs()
const fromUs = beginUs + warmupSeconds * 1e6
const untilUs = fromUs + o.seconds * 1e6
let usedSeconds = 0
for (let sent = 0; nowUs() < untilUs; await sleep(tickMs)) {
  const now = nowUs()
  if (!measuring && now >= fromUs) {
    measuring = true
    usedSeconds = -cpuUse(pids).seconds
  }
  for (let dueUs = beginUs + sent * stepUs; dueUs <= now; dueUs = beginUs + ++sent * stepUs) fire(dueUs)
}
usedSeconds += cpuUse(pids).seconds
for (const deadlineUs = nowUs() + drainWithinUs; inFlight > 0 && nowUs() < deadlineUs; ) await sleep(20)

const { p50, p99 } = added.quantiles()
const figures = {
  addedP50Us: p50,
  addedP99Us: p99,
  latenessP99Us: lateness.quantiles().p99,
  cpuUsPerRequest: (usedSeconds / added.count) * 1e6,
  failed: failed + inFlight,
}
console.log(JSON.stringify(figures))
process.exit(0)
