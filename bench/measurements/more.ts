import { type Call, drive } from '../drive.ts'
import { makeManyKeys } from '../lib/many-keys.ts'
import { chatBody } from '../lib/request.ts'
import type { Row } from '../report.ts'
import type { Mode, Slice } from '../rounds.ts'
import { modelOf } from '../stores.ts'
import { closedColumns } from './chat.ts'
import { type Bench, divided, type Measurement, paired, plain, rowOf } from './measurement.ts'
import { behaviourOf, streamColumns } from './streams.ts'

/** A way to load the gateway, and `bare` beside it; where the two differ, `bare` gets `plainBody`. */
export type Case = Call & { name: string; connections?: number; seconds?: number }

const usualConnections = 64
const seconds = 1
const shape = { streams: 500, interval: 100, chunks: 50, seconds: 4 }
const warmShape = { streams: 300, interval: 20, chunks: 50, seconds: 4 }
const usualBody = chatBody(plain, false)
const pictureBytes = 100_000
/** Only its length counts: the gateway passes the pictures of requests on. */
const dataUrl = `data:image/png;base64,${'A'.repeat(Math.ceil(pictureBytes / 3) * 4)}`
const httpsUrl = 'https://example.com/picture.png'
const otherDialects = ['anthropic', 'gemini'] as const

/** From one caller to more than a process usually has. */
export const connections: Measurement = closed('connections', async () =>
  [1, 8, 64, 512].map(count => ({
    name: `${count} connection${count === 1 ? '' : 's'}`,
    body: usualBody,
    connections: count,
  })),
)

/** Keys in turn: those that a process remembers, and then many times as many, which would take their places. */
export const keys: Measurement = {
  behaviours: [plain],
  async measure(bench) {
    const { rig } = bench
    await rig.open()
    const { env, organisationId } = rig.stores!
    const all = 1_000_000
    await makeManyKeys(env.DATABASE_URL!, organisationId, all)
    const rows: Row[] = []
    for (const counts of [[100, 10_000], [all]]) {
      const cases = counts.map(count => ({ name: `${count.toLocaleString('en')} keys`, body: usualBody, keys: count }))
      rows.push(...(await closed('keys', async () => cases).measure(bench)))
    }
    return rows
  },
}

/** The size of a request. */
export const bodies: Measurement = closed('bodies', async () =>
  [1_000, 100_000, 1_000_000].map(bytes => ({
    name: `body of ${bytes / 1_000} kB`,
    body: chatBody(plain, false, bytes),
    ...(bytes === 1_000_000 && { connections: 8, seconds: 3 }),
  })),
)

const pinnedCase = 'a named model'
const autoCase = '`auto`'

/** The choice among forty models instead of a named one, and beside it. */
export const auto: Measurement = closed(
  'auto',
  async () => [
    { name: pinnedCase, body: usualBody },
    { name: autoCase, body: chatBody(plain, false, undefined, { model: 'auto' }), plainBody: usualBody },
  ],
  (slices, subject) => {
    const mine = slices.filter(slice => slice.subject === subject)
    const cpuUs = (which: string) =>
      mine.filter(slice => slice.which === which).map(slice => divided('cpuUsPerRequest')(slice.own, slice.reference))
    const pinned = cpuUs(pinnedCase)
    const values = cpuUs(autoCase).map((value, round) => value / pinned[round]!)
    return [{ work: '`auto`: CPU per request ÷ a named model', unit: '', decimals: 2, target: { max: 1.15 }, values }]
  },
)

/** Images in a request: their bytes, or an address, which goes to OpenAI's dialect as it is. */
export const images: Measurement = closed('images', async () => {
  const body = (imageUrl: string, model?: string) =>
    chatBody(plain, false, undefined, { imageUrl, ...(model && { model }) })
  const kilobytes = pictureBytes / 1_000
  return [
    { name: 'image at an https address', body: body(httpsUrl) },
    { name: `image of ${kilobytes} kB as data:`, body: body(dataUrl) },
    {
      name: `image of ${kilobytes} kB as data:, Gemini`,
      body: body(dataUrl, modelOf(plain, 'gemini')),
      plainBody: body(dataUrl),
    },
  ]
})

/** Providers whose answers must be translated, whole and streamed, against `bare` with OpenAI's. */
export const dialects: Measurement = {
  behaviours: [plain, behaviourOf(warmShape), behaviourOf(shape)],
  async measure(bench) {
    const whole = closed('dialects', async () =>
      otherDialects.map(dialect => ({
        name: `${dialect}, whole answers`,
        body: chatBody(plain, false, undefined, { model: modelOf(plain, dialect) }),
        plainBody: usualBody,
      })),
    )
    return [...(await whole.measure(bench)), ...(await streamed(bench))]
  },
}

/** A measurement of cases by a closed loop, with rows of its own beside those of each case. */
export function closed(
  title: string,
  casesOf: (bench: Bench) => Promise<Case[]>,
  moreRows: (slices: Slice[], subject: string) => Row[] = () => [],
): Measurement {
  const measure = async (bench: Bench) => {
    const { rig } = bench
    const cases = await casesOf(bench)
    const mode: Mode = {
      cases: cases.map(({ name }) => name),
      columns: closedColumns,
      warm: async subject => {
        const share = { warm: bench.warm / cases.length, 'warm-seconds': bench['warm-seconds'] / cases.length }
        for (const each of cases) {
          const options = { connections: each.connections ?? usualConnections, ...share }
          await drive(rig, await rig.subject(subject), 'closed', each, options)
        }
      },
      measure: async (subject, which) => {
        const each = cases.find(({ name }) => name === which)!
        const options = { connections: each.connections ?? usualConnections, seconds: each.seconds ?? seconds }
        return drive(rig, await rig.subject(subject), 'closed', each, options)
      },
    }
    const figures: [string, string][] = [
      ['requests/s', 'requestsPerSecond'],
      ['CPU per request', 'cpuUsPerRequest'],
    ]
    return rowsOf(bench, title, mode, figures, moreRows)
  }
  return { behaviours: [plain], measure }
}

function streamed(bench: Bench): Promise<Row[]> {
  const { rig } = bench
  const run = async (subject: string, dialect: (typeof otherDialects)[number], what: typeof shape) => {
    const behaviour = behaviourOf(what)
    const body = chatBody(behaviour, true, undefined, { model: modelOf(behaviour, dialect) })
    const call = { body, plainBody: chatBody(behaviour, true) }
    return drive(rig, await rig.subject(subject), 'streams', call, what)
  }
  const dialectOf = (which: string) => otherDialects.find(dialect => which.startsWith(dialect))!
  const mode: Mode = {
    cases: otherDialects.map(dialect => `${dialect}, ${shape.streams} streams`),
    columns: streamColumns,
    warm: async subject => {
      for (const dialect of otherDialects) await run(subject, dialect, warmShape)
    },
    measure: (subject, which) => run(subject, dialectOf(which), shape),
  }
  return rowsOf(bench, 'streams of other dialects', mode, [['CPU per chunk', 'cpuUsPerChunk']])
}

async function rowsOf(
  bench: Bench,
  title: string,
  mode: Mode,
  figures: [string, string][],
  moreRows: (slices: Slice[], subject: string) => Row[] = () => [],
): Promise<Row[]> {
  const subjects = bench.subjects
  const slices = await paired(bench, title, mode, subjects)
  const rows = mode.cases.flatMap(which => {
    const mine = slices.filter(slice => slice.which === which)
    return figures.map(([work, name]) =>
      rowOf(mine, subjects[0]!, divided(name), {
        work: `${which}: ${work} ÷ bare`,
        unit: '',
        decimals: 2,
        target: null,
      }),
    )
  })
  return [...rows, ...moreRows(slices, subjects[0]!)]
}
