import { firstOfOrganisations, makeManyOrganisations } from '../lib/many-keys.ts'
import { chatBody, slugOf } from '../lib/request.ts'
import type { Row } from '../report.ts'
import type { Slice } from '../rounds.ts'
import { divided, type Measurement, plain, rowOf } from './measurement.ts'
import { type Case, closed } from './more.ts'

/** How the cost of a request grows with what an installation has. */

const larger = [170, 2_000]
const body = chatBody(plain, false)
const autoBody = chatBody(plain, false, undefined, { model: 'auto' })

const catalogCases: Case[] = [
  { name: 'a named model', body },
  { name: '`auto`', body: autoBody, plainBody: body },
]

/** The catalog from forty to two thousand models, for a named one and for `auto`. */
export const catalogs: Measurement = {
  behaviours: [plain],
  measure(bench) {
    const subjects = ['gateway', ...larger.map(models => `gateway+${models}`)]
    return closed('catalogs', async () => catalogCases, rowsOfLarger).measure({ ...bench, subjects })
  },
}

function rowsOfLarger(slices: Slice[]): Row[] {
  return larger.flatMap(models =>
    catalogCases.map(({ name }) => {
      const ofCase = slices.filter(({ which }) => which === name)
      const work = `${name}, among ${models.toLocaleString('en')} models: CPU per request ÷ bare`
      const row = { work, unit: '', decimals: 2, target: null }
      return rowOf(ofCase, `gateway+${models}`, divided('cpuUsPerRequest'), row)
    }),
  )
}

/** Ten organisations and ten thousand, each with one key, in turn. */
export const organisations: Measurement = closed('organisations', async ({ rig }) => {
  const counts = [10, 10_000]
  await rig.open()
  await makeManyOrganisations(rig.stores!.env.DATABASE_URL!, counts.at(-1)!)
  return counts.map(keys => ({
    name: `${keys.toLocaleString('en')} organisations`,
    body,
    keys,
    firstKey: firstOfOrganisations,
  }))
})

const wholePolicy = Object.entries({
  'model-allowlist': slugOf(plain),
  scopes: 'chat',
  learning: 'true',
  'denied-service-tiers': 'flex,priority',
  provider: '{"data_collection":"allow","sort":"price"}',
  'expires-in-days': '30',
}).flatMap(([name, value]) => [`--${name}`, value])

/** A key with limits alone, and one with everything set that does not read texts or answer by itself. */
export const policies: Measurement = closed('policies', async ({ rig }) => {
  await rig.open()
  return [
    { name: 'a key with limits', body },
    { name: 'a key with everything set', body, key: await rig.stores!.createKey(wholePolicy) },
  ]
})
