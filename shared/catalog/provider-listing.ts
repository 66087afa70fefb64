import { isObject } from '../base/is-object.ts'

/** A price of the listing in USD per million tokens, by the field of the catalog's token prices. */
type ListedPrices = Partial<Record<'input' | 'output' | 'cached_input' | 'cache_write', string>>

/** A model as a provider lists it; what the provider does not state is null. */
export type ListedModel = {
  id: string
  /** Other names of the same model. */
  aliases: string[]
  contextLength: number | null
  prices: ListedPrices | null
  /** The announced end, a date. */
  endsOn: string | null
}

/** The models of a provider, and whether the saved pages end before the list does. */
export type ProviderListing = { models: ListedModel[]; isPartial: boolean }

/** The text is no listing of models; the message says why. */
export class ListingError extends Error {
  override name = 'ListingError'
}

const maxModels = 20_000
const maxIdCharacters = 300
type Json = Record<string, unknown>

/**
 * Reads a saved answer of a provider's `GET /v1/models`: OpenAI's form (`data`), that of Google, Cohere and Ollama (`models`),
 * Together's bare array, or several such pages, one after the other or as an array. Throws a ListingError.
 */
export function parseListing(text: string): ProviderListing {
  const pages = documentsOf(text).flatMap(document => (isArrayOfPages(document) ? document : [document]))
  const rows = pages.flatMap(rowsOf)
  if (rows.length === 0) throw new ListingError('The list has no models.')
  if (rows.length > maxModels) throw new ListingError(`The list has more than ${maxModels} models.`)
  const models = new Map<string, ListedModel>()
  for (const [index, row] of rows.entries()) {
    const model = readModel(row, index)
    if (model) models.set(model.id.toLowerCase(), model)
  }
  return { models: [...models.values()], isPartial: hasNextPage(pages.at(-1)) }
}

/** The JSON documents of a text: one, or several after each other, as `curl … >> file` writes pages. */
function documentsOf(text: string): unknown[] {
  const json = text.replace(/^\ufeff/, '')
  try {
    return [JSON.parse(json)]
  } catch {
    return splitDocuments(json).map(part => {
      try {
        return JSON.parse(part)
      } catch (error) {
        throw new ListingError(`It is not JSON: ${error instanceof Error ? error.message.slice(0, 200) : ''}`)
      }
    })
  }
}

/** Splits a text at the ends of its outermost objects and arrays. */
function splitDocuments(text: string): string[] {
  const parts: string[] = []
  let depth = 0
  let start = 0
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]]/gs)) {
    if (token === '{' || token === '[') depth += 1
    else if (token === '}' || token === ']') depth -= 1
    else continue
    if (depth > 0) continue
    parts.push(text.slice(start, index + 1))
    start = index + 1
    depth = 0
  }
  const rest = text.slice(start)
  return rest.trim() === '' && parts.length > 0 ? parts : [...parts, rest]
}

function isArrayOfPages(document: unknown): document is unknown[] {
  return Array.isArray(document) && document.length > 0 && document.every(page => listIn(page) !== null)
}

/** The array of models in a page. llama.cpp's has both members, with the ids in `data`. */
function listIn(page: unknown): unknown[] | null {
  if (!isObject(page)) return null
  for (const list of [page.data, page.models]) if (Array.isArray(list)) return list
  return null
}

function rowsOf(page: unknown): unknown[] {
  const rows = Array.isArray(page) ? page : listIn(page)
  if (rows) return rows
  const { error, message } = isObject(page) ? page : {}
  const said = isObject(error) ? error.message : (error ?? message)
  throw new ListingError(
    typeof said === 'string'
      ? `It is an error of the provider: ${printable(said).slice(0, 300)}`
      : 'It is no list of models: neither an array nor an object with `data` or `models`.',
  )
}

/** Whether a page says that another one follows: Anthropic's and Google's ways, and Cohere's. */
function hasNextPage(page: unknown): boolean {
  if (!isObject(page)) return false
  return page.has_more === true || [page.nextPageToken, page.next_page_token].some(token => !!token)
}

/** Control characters would reach the operator's terminal. */
function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, ' ')
}

/** Null for a model that the provider lists as switched off (Groq’s `active`). */
function readModel(row: unknown, index: number): ListedModel | null {
  const fields = isObject(row) ? row : {}
  const id = [fields.id, fields.name, fields.key, fields.model].find(name => typeof name === 'string' && name !== '')
  if (typeof id !== 'string' || id.length > maxIdCharacters || printable(id) !== id)
    throw new ListingError(`The model at position ${index} has no id.`)
  if (fields.active === false) return null
  return {
    id: withoutPrefix(id),
    aliases: strings(fields.aliases).map(withoutPrefix),
    contextLength: contextOf(fields),
    prices: pricesOf(fields),
    endsOn: endOf(fields),
  }
}

/** Google's names begin with `models/`. */
function withoutPrefix(name: string): string {
  return name.replace(/^models\//, '')
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter(one => typeof one === 'string') : []
}

/** OpenRouter and Together; Groq; Mistral and LM Studio; Google; vLLM; Anthropic; Fireworks; DeepInfra. */
const contextFields = [
  'context_length',
  'context_window',
  'max_context_length',
  'inputTokenLimit',
  'max_model_len',
  'max_input_tokens',
  'contextLength',
]

function contextOf(fields: Json): number | null {
  const metadata = isObject(fields.metadata) ? fields.metadata.context_length : undefined
  const found = [...contextFields.map(name => fields[name]), metadata]
  const length = found.find(value => typeof value === 'number' && Number.isInteger(value) && value > 0)
  return typeof length === 'number' ? length : null
}

/** OpenAI; Mistral; OpenRouter; Anthropic. */
function endOf({ shutdown_date, deprecation, expiration_date, retires_at }: Json): string | null {
  const end = [shutdown_date, deprecation, expiration_date, retires_at].find(value => typeof value === 'string')
  const day = typeof end === 'string' ? /^\d{4}-\d{2}-\d{2}/.exec(end)?.[0] : undefined
  return day ?? null
}

/** The names of a form of prices, and the factor to USD per million tokens. */
type PriceForm = { factor: number; names: Record<keyof ListedPrices, string> }

/** USD per token (OpenRouter), per million (Together), per million (DeepInfra), cents per 100 million (xAI). */
const openRouterForm: PriceForm = {
  factor: 1e6,
  names: { input: 'prompt', output: 'completion', cached_input: 'input_cache_read', cache_write: 'input_cache_write' },
}
const togetherForm: PriceForm = {
  factor: 1,
  names: { input: 'input', output: 'output', cached_input: 'cached_input', cache_write: 'cache_write' },
}
const deepInfraForm: PriceForm = {
  factor: 1,
  names: {
    input: 'input_tokens',
    output: 'output_tokens',
    cached_input: 'cache_read_tokens',
    cache_write: 'cache_write_tokens',
  },
}
const xaiForm: PriceForm = {
  factor: 1e-4,
  names: {
    input: 'prompt_text_token_price',
    output: 'completion_text_token_price',
    cached_input: 'cached_prompt_text_token_price',
    cache_write: 'cache_write_text_token_price',
  },
}

function pricesOf(fields: Json): ListedPrices | null {
  const pricing = isObject(fields.pricing) ? fields.pricing : {}
  const metadata = isObject(fields.metadata) && isObject(fields.metadata.pricing) ? fields.metadata.pricing : {}
  const sources: [Json, PriceForm][] = [
    [pricing, openRouterForm],
    [pricing, togetherForm],
    [metadata, deepInfraForm],
    [fields, xaiForm],
  ]
  const [source, form] = sources.find(([given, { names }]) => given[names.input] !== undefined) ?? []
  if (!source || !form) return null
  const prices: ListedPrices = {}
  for (const [field, name] of Object.entries(form.names) as [keyof ListedPrices, string][]) {
    const usd = decimal(source[name], form.factor)
    // A zero beside other prices says that the class is not priced, and a negative price that it varies.
    if (usd !== null && (usd !== '0' || field === 'input' || field === 'output')) prices[field] = usd
  }
  return prices.input === undefined || prices.output === undefined ? null : prices
}

function decimal(value: unknown, factor: number): string | null {
  const amount = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  if (typeof amount !== 'number' || !Number.isFinite(amount) || amount < 0) return null
  return (amount * factor).toFixed(9).replace(/\.?0+$/, '')
}
