// Holds many event streams open at once; one that ends is replaced after a random pause, and the first ones start spread
// over the length of a stream, so that streams stay as independent as real callers. Prints one line of JSON.
import { setTimeout as sleep } from 'node:timers/promises'
import { nowUs } from '../lib/clock.ts'
import { Connection } from '../lib/connection.ts'
import { readOptions } from '../lib/options.ts'
import { cpuUse, residentKib } from '../lib/proc.ts'
import { eachStamp } from '../lib/request.ts'
import { readRequests } from '../lib/requests.ts'
import { Samples } from '../lib/statistics.ts'

const { values: o } = readOptions({ port: 0, requests: '', streams: 0, interval: 0, chunks: 0, seconds: 0, pids: '' })
const pids = o.pids.split(',').map(Number)
const connectAtOnce = 100
const settleMs = 1_000
const memoryEveryMs = 250
const next = readRequests(o.requests)
const lengthMs = o.chunks * o.interval

const firstChunk = new Samples()
const delay = new Samples()
let measuring = false
let stopping = false
let open = 0
let chunks = 0
let failed = 0

const listener = {
  onData(connection: Connection, buffer: Buffer, length: number) {
    const readUs = nowUs()
    eachStamp(buffer, length, (receivedUs, wroteUs) => {
      // Both ways through the subject, without the time the upstream took itself.
      if (++connection.chunks === 1 && connection.counted)
        firstChunk.push(receivedUs - connection.sentUs + readUs - wroteUs)
      if (!measuring) return
      chunks++
      delay.push(readUs - wroteUs)
    })
  },
  onEnd(connection: Connection, error: Error | null) {
    open--
    if (error || connection.status !== 200 || connection.chunks < o.chunks * 0.9) failed++
    if (stopping) return void connection.close()
    const next = connection.closed ? new Connection(o.port, listener) : connection
    setTimeout(begin, Math.random() * 2 * o.interval, next)
  },
}

function begin(connection: Connection): void {
  if (stopping) return void connection.close()
  open++
  connection.counted = measuring
  connection.sentUs = nowUs()
  connection.send(next())
}

for (let i = 0; i < o.streams; i += connectAtOnce) {
  const some = Array.from({ length: Math.min(connectAtOnce, o.streams - i) }, () => new Connection(o.port, listener))
  await Promise.all(some.map(connection => connection.ready))
  for (const [k, connection] of some.entries()) setTimeout(begin, ((i + k) / o.streams) * lengthMs, connection)
}
await sleep(lengthMs + settleMs)

measuring = true
const fromUs = nowUs()
const before = cpuUse(pids)
const memory = new Samples()
for (let untilUs = fromUs + o.seconds * 1e6; nowUs() < untilUs; await sleep(memoryEveryMs))
  memory.push(residentKib(pids))
measuring = false
const seconds = (nowUs() - fromUs) / 1e6
const after = cpuUse(pids)
const usedSeconds = after.seconds - before.seconds
stopping = true
const held = open
for (const deadlineUs = nowUs() + (lengthMs * 2 + 5_000) * 1e3; open > 0 && nowUs() < deadlineUs; ) await sleep(20)

const resident = memory.quantiles()
const figures = {
  held,
  chunksPerSecond: chunks / seconds,
  cpuUsPerChunk: (usedSeconds / chunks) * 1e6,
  helperShare: (after.helperSeconds - before.helperSeconds) / usedSeconds,
  cores: usedSeconds / seconds,
  firstChunkP50Us: firstChunk.quantiles().p50,
  firstChunkP99Us: firstChunk.quantiles().p99,
  delayP50Us: delay.quantiles().p50,
  delayP99Us: delay.quantiles().p99,
  residentKib: resident.p50,
  residentMostKib: resident.max,
  failed: failed + open,
}
console.log(JSON.stringify(figures))
process.exit(0)
