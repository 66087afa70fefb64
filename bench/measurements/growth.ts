import { firstOfOrganisations, makeManyOrganisations } from '../lib/many-keys.ts'
import { chatBody } from '../lib/request.ts'
import type { Slice } from '../rounds.ts'
import { divided, type Measurement, plain, rowOf } from './measurement.ts'
import { type Case, closed } from './more.ts'

/** How the cost of a request grows with what an installation has. */

const larger = [170, 2_000]
const body = chatBody(plain, false)
const autoBody = chatBody(plain, false, undefined, { model: 'auto' })

/** The catalog from forty to two thousand models, for a named one and for `auto`. */
export const catalogs: Measurement = {
  behaviours: [plain],
  async measure(bench) {
    const cases: Case[] = [
      { name: 'a named model', body },
      { name: '`auto`', body: autoBody, plainBody: body },
    ]
    const rowsOfLarger = (slices: Slice[]) =>
      larger.flatMap(models =>
        cases.map(({ name }) =>
          rowOf(
            slices.filter(({ which }) => which === name),
            `gateway+${models}`,
            divided('cpuUsPerRequest'),
            {
              ...{
                work: `${name}, among ${models.toLocaleString('en')} models: CPU per request ÷ bare`,
                unit: '',
                decimals: 2,
              },
              target: null,
            },
          ),
        ),
      )
    const subjects = ['gateway', ...larger.map(models => `gateway+${models}`)]
    return closed('catalogs', async () => cases, rowsOfLarger).measure({ ...bench, subjects })
  },
}

/** Ten organisations and ten thousand, each with one key, in turn. */
export const organisations: Measurement = closed('organisations', async ({ rig }) => {
  const counts = [10, 10_000]
  await rig.open()
  await makeManyOrganisations(rig.stores!.env.DATABASE_URL!, counts.at(-1)!)
  return counts.map(keys => ({
    name: `${keys.toLocaleString('en')} organisations`,
    ...{ body, keys, firstKey: firstOfOrganisations },
  }))
})

const wholePolicy = [
  ...[
    '--model-allowlist',
    'emu-*',
    '--scopes',
    'chat',
    '--learning',
    'true',
    '--denied-service-tiers',
    'flex,priority',
  ],
  ...['--provider', '{"data_collection":"allow","sort":"price"}', '--expires-in-days', '30'],
]

/** A key with limits alone, and one with everything set that does not read texts or answer by itself. */
export const policies: Measurement = closed('policies', async ({ rig }) => {
  await rig.open()
  return [
    { name: 'a key with limits', body },
    { name: 'a key with everything set', body, key: await rig.stores!.createKey(wholePolicy) },
  ]
})
