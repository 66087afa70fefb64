import { drive } from '../drive.ts'
import { residentKib } from '../lib/proc.ts'
import { chatBody } from '../lib/request.ts'
import type { Row } from '../report.ts'
import type { Column, Mode } from '../rounds.ts'
import { added, type Bench, type Measurement, own, paired, plain, ratio, rowOf } from './measurement.ts'
import { behaviourOf } from './streams.ts'

const closedShape = { connections: 64, seconds: 3 }
const openShape = { rate: 50, seconds: 4 }
const streamShape = { streams: 20, interval: 100, chunks: 30, seconds: 3 }
const which = 'chat and streams'

const columns: Column[] = [
  own('req/s', 0, 'requestsPerSecond'),
  ratio('req/s ÷ bare', 'requestsPerSecond'),
  own('CPU µs', 0, 'cpuUsPerRequest'),
  ratio('CPU ÷ bare', 'cpuUsPerRequest', 1),
  added(`p50 at ${openShape.rate}/s − bare ms`, 'addedP50Us', 1e-3),
  added(`p99 at ${openShape.rate}/s − bare ms`, 'addedP99Us', 1e-3),
  ratio(`CPU per chunk of ${streamShape.streams} streams ÷ bare`, 'cpuUsPerChunk', 1),
  own('RSS MB', 0, 'residentKib', 1 / 1024),
  own('failed', 0, 'failed'),
]

/** Gateways of others beside ours: whole answers in a closed loop, answers at a low rate, and streams, one after another in each round. */
export const peers: Measurement = { behaviours: [plain, behaviourOf(streamShape)], measure }

async function measure(bench: Bench): Promise<Row[]> {
  const { rig, warm } = bench
  const call = { body: chatBody(plain, false) }
  const streamCall = { body: chatBody(behaviourOf(streamShape), true) }
  const mode: Mode = {
    cases: [which],
    columns,
    warm: async name => {
      await drive(rig, await rig.subject(name), 'closed', call, { warm, 'warm-seconds': bench['warm-seconds'] })
      await drive(rig, await rig.subject(name), 'streams', streamCall, streamShape)
    },
    measure: async name => {
      const subject = await rig.subject(name)
      const closed = await drive(rig, subject, 'closed', call, closedShape)
      const open = await drive(rig, subject, 'open', call, openShape)
      const streams = await drive(rig, subject, 'streams', streamCall, streamShape)
      return {
        requestsPerSecond: closed.requestsPerSecond!,
        cpuUsPerRequest: closed.cpuUsPerRequest!,
        addedP50Us: open.addedP50Us!,
        addedP99Us: open.addedP99Us!,
        cpuUsPerChunk: streams.cpuUsPerChunk!,
        residentKib: residentKib(subject.pids()),
        failed: closed.failed! + open.failed! + streams.failed!,
      }
    },
  }
  const subjects = [...bench.subjects, ...bench.peers]
  const slices = await paired(bench, 'gateways', mode, subjects)
  return subjects.flatMap(subject =>
    columns.map(({ title, decimals, of }) =>
      rowOf(slices, subject, of, { work: `${subject}: ${title}`, unit: '', decimals, target: null }),
    ),
  )
}
