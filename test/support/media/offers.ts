import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import type { Deployment, ModelRow } from '../../../shared/catalog/schema.ts'
import { type SyncKind, syncKinds } from '../../../shared/kinds/index.ts'
import { described } from '../jobs/operator-models.ts'
import { operatorSounds } from '../jobs/operator-sounds.ts'

/** Every model of the catalog that makes images or sound while the caller waits, at every provider that it has. */

/** The kinds whose answer is an image, sound or the text of one. */
export type MadeKind = Exclude<SyncKind, 'rerank' | 'moderation' | 'ocr'>
export type Offer = { kind: MadeKind; row: ModelRow; deployment: Deployment }

/** Clouds, which are not configured here, have tests of their own. */
const shipped = [...loadCatalog(undefined, new Map()).models.values()].filter(({ disabled }) => !disabled)

function kindOf({ type, kind }: ModelRow): MadeKind | null {
  const { endpoints } = kind ?? {}
  if (Array.isArray(endpoints) && endpoints.includes(syncKinds.image.path)) return 'image'
  if (type === 'rerank' || type === 'moderation' || type === 'ocr') return null
  return Object.hasOwn(syncKinds, type) ? (type as MadeKind) : null
}

const openrouterRow = described('openrouter-image', 'openrouter', 'acme/pictures', {
  type: 'image',
  kind: { max_n: 4, qualities: ['low', 'high'] },
  price: { unit: 'token', input: '0.3', output: '2.5', image_output: '30' },
})
const operatorRows = [{ ...openrouterRow, input_modalities: ['text', 'image'] } as ModelRow, ...operatorSounds]

/** Of a model with several providers a row for each, since a request cannot say whom it is for. */
const copies = shipped
  .filter(row => kindOf(row) !== null && row.providers.length > 1)
  .flatMap(row =>
    row.providers.map(deployment => ({ ...row, id: `${row.id}.${deployment.provider}`, providers: [deployment] })),
  )

/** What a gateway must have as its `MODEL_CATALOG`. */
export const operatorCatalog = { models: [...operatorRows, ...copies] }

/** Enabled models that no provider has. */
export const unserved = shipped.filter(row => kindOf(row) !== null && row.providers.length === 0).map(({ id }) => id)

export const offers: Offer[] = [
  ...shipped.filter(({ providers }) => providers.length === 1),
  ...operatorCatalog.models,
].flatMap(row => {
  const kind = kindOf(row)
  return kind === null ? [] : [{ kind, row, deployment: row.providers[0]! }]
})
