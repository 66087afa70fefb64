import { open } from 'node:fs/promises'
import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import type { Catalog } from '../../shared/catalog/catalog.ts'
import {
  type ListedModel,
  ListingError,
  type ProviderListing,
  parseListing,
} from '../../shared/catalog/provider-listing.ts'
import type { Deployment, ModelRow } from '../../shared/catalog/schema.ts'
import { type Command, command, UsageError } from './parse.ts'

/** OpenRouter's list, the longest known, has less than 2 MB. */
const maxListingBytes = 32 * 1024 * 1024
const differencesFound = 2

type Offer = { model: ModelRow; deployment: Deployment }
type NewModel = Pick<ListedModel, 'id' | 'prices'> & {
  context_length: number | null
  /** What the catalog says of the name: the row of this name is disabled, or the name is retired. */
  note: 'disabled' | 'retired' | null
}
type Change = {
  id: string
  upstream_model: string
  field: string
  catalog: string | number | null
  listed: string | number
}
type Differences = { new: NewModel[]; gone: { id: string; type: string; upstream_model: string }[]; changed: Change[] }

export const catalogDiff: Command[] = [
  command({
    name: 'catalog diff',
    summary: 'Compares the models that a provider lists, or those of a file, with the catalog.',
    help: '--provider P [FILE]',
    operand: 'file',
    flags: z.strictObject({ provider: z.string().min(1).max(100), file: z.string().min(1).optional() }),
    async run({ catalog }, { provider, file = '-' }) {
      if (!catalog.providers.has(provider)) {
        const known = [...catalog.providers.keys()].join(', ')
        throw new GatewayError('invalid_request', `There is no provider \`${provider}\`; there are ${known}.`)
      }
      const listing = await readListing(file)
      const found = compareListing(catalog, provider, listing)
      const counts = { listed: listing.models.length, partial: listing.isPartial }
      const isSame = Object.values(found).every(list => list.length === 0)
      return {
        data: { data: { provider, ...counts, ...found } },
        text: describe(provider, counts, found),
        exitCode: isSame ? 0 : differencesFound,
      }
    },
  }),
]

/** Reads a saved listing; `-` is the standard input. */
async function readListing(file: string): Promise<ProviderListing> {
  const name = file === '-' ? 'The standard input' : file
  try {
    return parseListing(file === '-' ? await readInput() : await readBounded(file))
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw new Error(`${name}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

async function readInput(): Promise<string> {
  if (process.stdin.isTTY) throw new UsageError('Name the file with the list of the provider, or pipe it in.')
  return readText(process.stdin)
}

async function readBounded(file: string): Promise<string> {
  const handle = await open(file)
  return readText(handle.createReadStream())
}

async function readText(stream: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stream) {
    bytes += chunk.length
    if (bytes > maxListingBytes) throw new ListingError(`It has more than ${maxListingBytes / 1024 / 1024} MiB.`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** What a provider's listing and the catalog's offers at this provider differ in. */
function compareListing(catalog: Catalog, provider: string, { models, isPartial }: ProviderListing): Differences {
  const offers = [...catalog.models.values()].flatMap(model =>
    model.providers.filter(one => one.provider === provider).map((deployment): Offer => ({ model, deployment })),
  )
  const listed = new Map<string, ListedModel>()
  for (const model of models) for (const alias of model.aliases) listed.set(alias.toLowerCase(), model)
  for (const model of models) listed.set(model.id.toLowerCase(), model)
  const listedAs = ({ deployment }: Offer) => listed.get(deployment.upstream_model.toLowerCase())
  const enabled = offers.filter(({ model }) => !model.disabled)
  // Some lists leave out whole kinds: OpenRouter's has no video models, xAI's none of realtime.
  const listedTypes = new Set(['chat', ...offers.filter(listedAs).map(({ model }) => model.type)])
  const missing = enabled.filter(offer => !listedAs(offer) && listedTypes.has(offer.model.type))
  return {
    new: models.flatMap(model => newModel(catalog, offers, model)).sort((a, b) => (a.id < b.id ? -1 : 1)),
    gone: isPartial ? [] : missing.map(goneModel),
    changed: enabled.flatMap(offer => changesOf(offer, listedAs(offer))),
  }
}

function goneModel({ model, deployment }: Offer) {
  return { id: model.id, type: model.type, upstream_model: deployment.upstream_model }
}

/** A listed model that the catalog does not offer at this provider. */
function newModel(catalog: Catalog, offers: readonly Offer[], listed: ListedModel): NewModel[] {
  const names = [listed.id, ...listed.aliases].map(name => name.toLowerCase())
  const ofName = offers.find(({ deployment }) => names.includes(deployment.upstream_model.toLowerCase()))
  const row = ofName?.model ?? catalog.find(listed.id)
  const isOffered = row !== undefined && !row.disabled && (ofName || offers.some(({ model }) => model === row))
  if (isOffered) return []
  const note = row?.disabled ? 'disabled' : catalog.retired.has(listed.id.toLowerCase()) ? 'retired' : null
  return [{ id: listed.id, context_length: listed.contextLength, prices: listed.prices, note }]
}

function changesOf({ model, deployment }: Offer, listed: ListedModel | undefined): Change[] {
  if (!listed) return []
  const { price, traits, upstream_model } = deployment
  const of = (field: string, catalog: string | number | null, now: string | number): Change[] =>
    catalog === now ? [] : [{ id: model.id, upstream_model, field, catalog, listed: now }]
  const prices = price.unit === 'token' ? Object.entries(listed.prices ?? {}) : []
  const context = traits?.context_length ?? model.context_length
  return [
    ...prices.flatMap(([field, usd]) => {
      const own = price.unit === 'token' ? (price[field as keyof ListedModel['prices']] ?? null) : null
      return own !== null && Number(own) === Number(usd) ? [] : of(`price.${field}`, own, usd)
    }),
    ...(listed.contextLength === null ? [] : of('context_length', context, listed.contextLength)),
    ...(listed.endsOn === null ? [] : of('expires_on', model.expires_on, listed.endsOn)),
  ]
}

function describe(
  provider: string,
  { listed, partial }: { listed: number; partial: boolean },
  found: Differences,
): string {
  const priced = ({ prices }: NewModel) => (prices ? `  $${prices.input} in, $${prices.output} out` : '')
  const length = ({ context_length: tokens }: NewModel) => (tokens ? `  ${tokens} tokens` : '')
  const noted = ({ note }: NewModel) => (note ? `  (${note} in the catalog)` : '')
  return [
    `${provider}: ${listed} listed, ${found.new.length} new, ${found.gone.length} gone, ${found.changed.length} changed`,
    ...(partial ? ['The list goes on after its last page: what is gone is not known.'] : []),
    ...found.new.map(model => `new      ${model.id}${priced(model)}${length(model)}${noted(model)}`),
    ...found.gone.map(({ id, upstream_model: name }) => `gone     ${id}${name === id ? '' : `  (${name})`}`),
    ...found.changed.map(one => `changed  ${one.id}  ${one.field}: ${one.catalog ?? 'none'} → ${one.listed}`),
  ].join('\n')
}
