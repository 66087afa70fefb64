// Closed loop: so many connections, each sending its next request when the answer to the last one has come. Warms up by
// `--warm` requests (or `--warm-seconds`, whichever comes first), then measures. Prints one line of JSON.
import { setTimeout as sleep } from 'node:timers/promises'
import { nowUs } from '../lib/clock.ts'
import { Connection } from '../lib/connection.ts'
import { readOptions } from '../lib/options.ts'
import { cpuSeconds, cpuUse } from '../lib/proc.ts'
import { readRequests } from '../lib/requests.ts'

const { values: o } = readOptions({
  port: 0,
  requests: '',
  connections: 64,
  seconds: 0,
  warm: 0,
  'warm-seconds': 20,
  pids: '',
  'load-pids': '',
})
const numbers = (text: string) => (text === '' ? [] : text.split(',').map(Number))
const pids = numbers(o.pids)
const loadPids = [...numbers(o['load-pids']), process.pid]
const leadMs = 100
const pollMs = 5
const drainWithinUs = 10e6
const next = readRequests(o.requests)

let done = 0
let failed = 0
let failedStatus = 0
let inFlight = 0
let stopping = false

const listener = {
  onData() {},
  onEnd(connection: Connection, error: Error | null) {
    inFlight--
    if (error || connection.status !== 200) fail(connection)
    else done++
    if (stopping) return void connection.close()
    send(connection.closed ? new Connection(o.port, listener) : connection)
  },
}

function fail(connection: Connection): void {
  failed++
  failedStatus = connection.status
}

function send(connection: Connection): void {
  inFlight++
  connection.send(next())
}

const connections = Array.from({ length: o.connections }, () => new Connection(o.port, listener))
await Promise.all(connections.map(connection => connection.ready))
for (const connection of connections) send(connection)

const warmUntilUs = nowUs() + o['warm-seconds'] * 1e6
while (o.warm > done + failed && nowUs() < warmUntilUs) await sleep(pollMs)
await sleep(leadMs)

const loadBefore = loadPids.map(pid => cpuSeconds([pid]))
const before = { ...cpuUse(pids), done, atUs: nowUs() }
await sleep(o.seconds * 1_000)
const after = { ...cpuUse(pids), done, atUs: nowUs() }
// Of a process that ended meanwhile nothing is known any more.
const loadSeconds = loadPids.reduce((sum, pid, i) => sum + Math.max(0, cpuSeconds([pid]) - loadBefore[i]!), 0)
stopping = true
for (const deadlineUs = nowUs() + drainWithinUs; inFlight > 0 && nowUs() < deadlineUs; ) await sleep(pollMs)

const seconds = (after.atUs - before.atUs) / 1e6
const requests = after.done - before.done
const usedSeconds = after.seconds - before.seconds
const figures = {
  requests: done + failed,
  requestsPerSecond: requests / seconds,
  cpuUsPerRequest: (usedSeconds / requests) * 1e6,
  helperShare: (after.helperSeconds - before.helperSeconds) / usedSeconds,
  cores: usedSeconds / seconds,
  loadCores: loadSeconds / seconds,
  failed: failed + inFlight,
  failedStatus,
}
console.log(JSON.stringify(figures))
process.exit(0)
