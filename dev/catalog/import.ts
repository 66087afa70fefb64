import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import type { Deployment, ModelRow, Price } from '../../shared/catalog/schema.ts'

/**
 * Recomputes prices from a LiteLLM price file (`model_prices_and_context_window.json`, MIT):
 *
 *     node dev/catalog/import.ts <price file> [model id …]
 *
 * Prints one JSON line per deployment of the named models (all of them by default) whose catalog price is from LiteLLM:
 * `{"id","provider","price","same"}`, where `same` says whether the catalog has the same price; and one line with `alias` for
 * every alias that the file prices as well. Exit code 1 when one differs.
 */

type Entry = Record<string, unknown>

const prefixes: Record<string, string> = {
  openai: '',
  anthropic: '',
  gemini: 'gemini/',
  xai: 'xai/',
  mistral: 'mistral/',
  deepseek: 'deepseek/',
  groq: 'groq/',
  together: 'together_ai/',
  fireworks: 'fireworks_ai/',
  openrouter: 'openrouter/',
  elevenlabs: 'elevenlabs/',
  deepgram: 'deepgram/',
  fal: 'fal_ai/',
  runway: 'runwayml/',
}

const tokenFields = {
  input: 'input_cost_per_token',
  output: 'output_cost_per_token',
  cached_input: 'cache_read_input_token_cost',
  cache_write: 'cache_creation_input_token_cost',
  cache_write_1h: 'cache_creation_input_token_cost_above_1hr',
  audio_input: 'input_cost_per_audio_token',
  cached_audio_input: 'cache_read_input_audio_token_cost',
  audio_output: 'output_cost_per_audio_token',
  image_input: 'input_cost_per_image_token',
  image_output: 'output_cost_per_image_token',
} as const

const bounds = [128, 200, 256, 272]

/** Multiplies a JSON number by `factor` as an exact decimal string, without floating-point error. */
function decimal(value: unknown, factor = 1): string | undefined {
  if (typeof value !== 'number') return undefined
  const [, digits = '', fraction = '', exponent = '0'] = /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(value)) ?? []
  const scale = fraction.length - Number(exponent)
  const integer = (BigInt(digits + fraction) * BigInt(factor)).toString().padStart(scale + 1, '0')
  if (scale <= 0) return integer + '0'.repeat(-scale)
  return `${integer.slice(0, -scale)}.${integer.slice(-scale)}`.replace(/\.?0+$/, '')
}

function tokenRates(entry: Entry, suffix = ''): Record<string, string> {
  const rates: Record<string, string> = {}
  for (const [name, field] of Object.entries(tokenFields)) {
    const usd = decimal(entry[field + suffix], 1_000_000)
    // A zero here means "not priced separately", not "free".
    if (usd !== undefined && (usd !== '0' || name === 'input' || name === 'output')) rates[name] = usd
  }
  return rates
}

function tokenPrice(entry: Entry): Entry {
  const rates = tokenRates(entry)
  rates.output ??= rates.image_output ?? '0'
  // Realtime rows use these names for the prices of cached audio tokens and image tokens.
  const realtime = entry.mode === 'realtime'
  const cachedAudio = decimal(entry.cache_creation_input_audio_token_cost, 1_000_000)
  const image = decimal(entry.input_cost_per_image, 1_000_000)
  if (realtime && cachedAudio) rates.cached_audio_input ??= cachedAudio
  if (realtime && image) rates.image_input ??= image
  // The image models accept no audio, although the file prices it.
  if (entry.mode === 'image_generation') delete rates.audio_input
  const price: Entry = { unit: 'token', ...rates }
  for (const bound of bounds) {
    const above = tokenRates(entry, `_above_${bound}k_tokens`)
    if (!above.input) continue
    const known = Object.entries(above).filter(([name]) => name in rates)
    price.above = { tokens: bound * 1000, ...rates, ...Object.fromEntries(known) }
  }
  return price
}

/** The file's price of a deployment, in the catalog's unit. */
function derive(entry: Entry, price: Price): Entry {
  const usd = (...fields: string[]) => fields.map(field => decimal(entry[field])).find(value => value !== undefined)
  switch (price.unit) {
    case 'token':
      return tokenPrice(entry)
    case 'character':
      return { unit: 'character', usd: decimal(entry.input_cost_per_character, 1_000_000) }
    case 'minute':
      return { unit: 'minute', usd: decimal(entry.input_cost_per_second, 60) }
    case 'page': {
      const annotated = decimal(entry.annotation_cost_per_page)
      return { unit: 'page', usd: decimal(entry.ocr_cost_per_page), ...(annotated && { annotated }) }
    }
    case 'second': {
      const base = usd('output_cost_per_second', 'output_cost_per_video_per_second')
      const full = usd('output_cost_per_second_1080p')
      return { unit: 'second', usd: base, ...(full && { by_resolution: { '720p': base, '1080p': full } }) }
    }
    default:
      return { unit: price.unit, usd: usd('output_cost_per_image') }
  }
}

function check(row: ModelRow, deployment: Deployment, file: Record<string, Entry>): boolean {
  const { provider } = deployment
  const entryOf = (name: string) => file[`${prefixes[provider] ?? `${provider}/`}${name}`]
  const compare = (entry: Entry | undefined, alias?: string) => {
    const price = entry ? withOwnCachedInput(derive(entry, deployment.price), deployment) : null
    const same =
      price !== null && canonical(price) === canonical({ ...deployment.price, web_search: undefined, tiers: undefined })
    console.log(JSON.stringify({ id: row.id, ...(alias && { alias }), provider, price, same }))
    return same
  }
  const aliases = row.aliases.filter(alias => entryOf(alias) !== undefined)
  const checked = [compare(entryOf(deployment.upstream_model)), ...aliases.map(alias => compare(entryOf(alias), alias))]
  return checked.every(Boolean)
}

/** A price of cached input that has another source is not the file's. */
function withOwnCachedInput(price: Entry, { price: own, cached_input_source: source }: Deployment): Entry {
  if (own.unit !== 'token' || own.cached_input === undefined || source === undefined) return price
  return { ...price, cached_input: own.cached_input }
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner) =>
    inner && typeof inner === 'object'
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  )
}

function main() {
  const { positionals } = parseArgs({ allowPositionals: true })
  const [path, ...ids] = positionals
  if (!path) throw new Error('usage: node dev/catalog/import.ts <LiteLLM price file> [model id …]')
  const file = JSON.parse(readFileSync(path, 'utf8')) as Record<string, Entry>
  const catalog = loadCatalog()
  for (const id of ids) if (!catalog.models.has(id)) throw new Error(`no model "${id}" in the catalog`)
  let differences = 0
  for (const row of catalog.models.values()) {
    if (ids.length > 0 && !ids.includes(row.id)) continue
    for (const deployment of row.providers) {
      const source = deployment.price_source ?? row.price_source
      if (source === 'litellm' && !check(row, deployment, file)) differences += 1
    }
  }
  process.exitCode = differences > 0 ? 1 : 0
}

if (import.meta.main) main()
