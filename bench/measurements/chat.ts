import { drive } from '../drive.ts'
import { chatBody } from '../lib/request.ts'
import type { Row } from '../report.ts'
import { type Column, pairs } from '../rounds.ts'
import { type Bench, divided, type Measurement, own, paired, plain, ratio, rowOf } from './measurement.ts'

const connections = 64
const seconds = 1
const portkey = 'portkey'

export const closedColumns: Column[] = [
  own('req/s', 0, 'requestsPerSecond'),
  ratio('req/s ÷ bare', 'requestsPerSecond'),
  own('CPU µs', 1, 'cpuUsPerRequest'),
  ratio('CPU ÷ bare', 'cpuUsPerRequest', 2),
  own('helpers %', 0, 'helperShare', 100),
  own('subject cores', 2, 'cores'),
  own('load cores', 2, 'loadCores'),
  own('failed', 0, 'failed'),
]

/** Whole answers to requests of 1 kB in a closed loop. */
export const chat: Measurement = { behaviours: [plain], measure }

async function measure(bench: Bench): Promise<Row[]> {
  const { rig, subjects, peers, warm } = bench
  const call = { body: chatBody(plain, false) }
  const mode = {
    cases: [`${connections} connections`],
    columns: closedColumns,
    warm: async (name: string) => {
      const { requests } = await drive(rig, await rig.subject(name), 'closed', call, {
        warm,
        'warm-seconds': bench['warm-seconds'],
      })
      console.error(`${name} is warmed up by ${requests} requests`)
    },
    measure: async (name: string) => drive(rig, await rig.subject(name), 'closed', call, { connections, seconds }),
  }
  const slices = await paired(bench, 'chat, 1 kB', mode, [...subjects, ...peers])
  const [subject] = subjects as [string]
  const perSecond = divided('requestsPerSecond')
  const common = { unit: '', decimals: 2 }
  return [
    rowOf(slices, subject, perSecond, {
      ...common,
      work: `chat, 1 kB body, ${connections} connections: requests/s ÷ bare`,
      decimals: 3,
      target: { min: 0.45 },
    }),
    {
      ...common,
      work: 'the same ÷ Portkey',
      target: { min: 7 },
      values: pairs(slices, [subject, portkey], perSecond),
    },
    rowOf(slices, subject, divided('cpuUsPerRequest'), {
      ...common,
      work: 'CPU per request ÷ bare',
      target: { max: 2.2 },
    }),
  ]
}
