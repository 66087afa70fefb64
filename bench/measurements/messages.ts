import { type Call, drive } from '../drive.ts'
import { chatBody, messagesBody, messagesPath, slugOf } from '../lib/request.ts'
import type { Row } from '../report.ts'
import type { Mode, Slice } from '../rounds.ts'
import { modelOf } from '../stores.ts'
import { closedColumns } from './chat.ts'
import { type Bench, divided, type Measurement, paired, plain, rowOf } from './measurement.ts'
import { behaviourOf, streamColumns } from './streams.ts'

const connections = 64
const seconds = 1
const shape = { streams: 500, interval: 100, chunks: 50, seconds: 4 }
const warmShape = { streams: 300, interval: 20, chunks: 50, seconds: 4 }

/** `messages` is native: the client's bytes to a target of the same protocol, as in `chat`. The third is
 * served by a target of OpenAI's protocol. */
const formats = ['chat', 'messages', 'messages over chat'] as const
type Format = (typeof formats)[number]

/** `/v1/messages` beside `/v1/chat/completions`, whole answers and streams. `bare` passes the native requests on. */
export const messages: Measurement = {
  behaviours: [plain, behaviourOf(warmShape), behaviourOf(shape)],
  async measure(bench) {
    return [...(await whole(bench)), ...(await streamed(bench))]
  },
}

/** A call in a format; the target behind it behaves as said. */
function callOf(format: Format, behaviour: typeof plain, stream: boolean): Call {
  if (format === 'chat') return { body: chatBody(behaviour, stream) }
  const model = modelOf(behaviour, format === 'messages' ? 'anthropic' : 'openai')
  const plainBody = messagesBody(slugOf(behaviour), stream)
  return { path: messagesPath, body: messagesBody(model, stream), plainBody }
}

async function whole(bench: Bench): Promise<Row[]> {
  const { rig, subjects } = bench
  const run = async (name: string, format: Format, options: Record<string, number>) =>
    drive(rig, await rig.subject(name), 'closed', callOf(format, plain, false), { connections, ...options })
  const mode: Mode = {
    cases: [...formats],
    columns: closedColumns,
    warm: async name => {
      const share = { warm: bench.warm / formats.length, 'warm-seconds': bench['warm-seconds'] / formats.length }
      for (const format of formats) await run(name, format, share)
    },
    measure: (name, which) => run(name, which as Format, { seconds }),
  }
  const slices = await paired(bench, 'messages, 1 kB', mode, subjects)
  const work = `messages, 1 kB body, ${connections} connections`
  return [
    rowOf(inCase(slices, 'messages'), subjects[0]!, divided('requestsPerSecond'), {
      work: `${work}: requests/s ÷ bare`,
      unit: '',
      decimals: 3,
      target: null,
    }),
    rowOf(inCase(slices, 'messages'), subjects[0]!, divided('cpuUsPerRequest'), {
      work: `${work}: CPU per request ÷ bare`,
      unit: '',
      decimals: 2,
      target: null,
    }),
    besideChat(slices, subjects[0]!, 'cpuUsPerRequest', `${work}: CPU per request ÷ chat`),
  ]
}

async function streamed(bench: Bench): Promise<Row[]> {
  const { rig, subjects } = bench
  const run = async (name: string, format: Format, what: typeof shape) =>
    drive(rig, await rig.subject(name), 'streams', callOf(format, behaviourOf(what), true), what)
  const mode: Mode = {
    cases: [...formats],
    columns: streamColumns,
    warm: async name => {
      for (const format of formats) await run(name, format, warmShape)
    },
    measure: (name, which) => run(name, which as Format, shape),
  }
  const slices = await paired(bench, 'streams of messages', mode, subjects)
  const work = `messages, ${shape.streams} streams, a chunk each ${shape.interval} ms`
  return [
    rowOf(inCase(slices, 'messages'), subjects[0]!, divided('cpuUsPerChunk'), {
      work: `${work}: CPU per chunk ÷ bare`,
      unit: '',
      decimals: 2,
      target: null,
    }),
    besideChat(slices, subjects[0]!, 'cpuUsPerChunk', `${work}: CPU per chunk ÷ chat`),
  ]
}

const inCase = (slices: Slice[], format: Format) => slices.filter(({ which }) => which === format)

/** A subject's figure for native messages, divided by that for chat in the same round. */
function besideChat(slices: Slice[], subject: string, figure: string, work: string): Row {
  const chat = inCase(slices, 'chat').filter(slice => slice.subject === subject)
  const values = inCase(slices, 'messages')
    .filter(slice => slice.subject === subject)
    .map(({ own, round }) => own[figure]! / chat.find(slice => slice.round === round)!.own[figure]!)
  return { work, unit: '', decimals: 2, target: { max: 1 }, values }
}
