import { readFile } from 'node:fs/promises'
import { LineCounter, parseDocument, stringify } from 'yaml'
import { z } from 'zod'
import { isObject } from '../../../shared/base/is-object.ts'
import { type Catalog, loadCatalog } from '../../../shared/catalog/catalog.ts'
import { familyOf } from '../../../shared/catalog/regions.ts'
import { deploymentParameters } from '../../../shared/catalog/request-additions.ts'
import type { Deployment } from '../../../shared/catalog/schema.ts'
import { decimal, lineAt } from '../apply/apply-file.ts'
import { type Command, command } from '../parse.ts'
import {
  inferMode,
  inferProvider,
  isAzure,
  isSameModel,
  providerNamed,
  serverAt,
  upstreamName,
} from './litellm-names.ts'
import reasons from './litellm-reasons.json' with { type: 'json' }

// The format of the file: docs.litellm.ai/docs/proxy/configs, docs.litellm.ai/docs/proxy/custom_pricing, and the examples in
// github.com/BerriAI/litellm, litellm/proxy/example_config_yaml.

type Members = Record<string, unknown>
type Path = readonly (string | number)[]
/** What was not carried over: never a value, which may be a secret. */
type Left = { place: string; line: number | null; reason: string }

type Offer = { provider: string; upstream_model: string; price?: Members; headers?: Members; parameters?: Members }
type Group = { name: string; offers: { offer: Offer; path: Path; info: Members; isOwn: boolean; row: string | null }[] }

/**
 * What a config is read with. `shipped`: the catalog with the deployments of clouds whose regions are not configured; `variable`
 * reads the environment, for addresses.
 */
type Source = { catalog: Catalog; shipped: Catalog; variable: (name: string) => string | undefined }

/** An apply file for a config of LiteLLM's proxy, and what it does not have of it. Throws an Error for a file that is no such config. */
export function importLiteLlm(text: string, source: Source): { file: Members; left: Left[] } {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, merge: true })
  if (document.errors.length > 0) throw new Error(`The file is not YAML: ${document.errors[0]!.message.split('\n')[0]}`)
  const config: unknown = document.toJS({ maxAliasCount: 100 })
  if (!isObject(config)) throw new Error('The file is not a config of LiteLLM: it has no members.')
  const importer = new Importer(source, path => lineAt(document, lines, path))
  importer.readAll(config)
  return { file: importer.file(), left: importer.left }
}

const modelTypes: Record<string, string> = { chat: 'chat', embedding: 'embeddings', rerank: 'rerank' }
/** Members of `litellm_params` that are read. */
const read = new Set([
  'model',
  'api_key',
  'api_base',
  'base_url',
  'extra_headers',
  'headers',
  'organization',
  'custom_llm_provider',
])
const costs = {
  input: 'input_cost_per_token',
  output: 'output_cost_per_token',
  cached_input: 'cache_read_input_token_cost',
  cache_write: 'cache_creation_input_token_cost',
}
const costNames: ReadonlySet<string> = new Set(Object.values(costs))
const environment = /^os\.environ\/(\w+)$/
/** The apply file’s reference to the variable. */
const reference = (_: string, name: string) => `\${${name}}`
const paramReasons: Record<string, string | undefined> = reasons.litellm_params
const sectionReasons: Record<string, string | undefined> = reasons.sections

class Importer {
  readonly left: Left[] = []
  readonly #catalog: Catalog
  readonly #shipped: Catalog
  readonly #variable: Source['variable']
  readonly #lineOf: (path: Path) => number | null
  readonly #providers = new Map<string, Members>()
  readonly #keys = new Map<string, Set<string>>()
  readonly #models: Members = {}
  readonly #aliases: Record<string, string> = {}
  /** The id of the model that a name of the config stands for. */
  readonly #ids = new Map<string, string>()

  constructor({ catalog, shipped, variable }: Source, lineOf: (path: Path) => number | null) {
    this.#catalog = catalog
    this.#shipped = shipped
    this.#variable = variable
    this.#lineOf = lineOf
  }

  file(): Members {
    const keys = Object.fromEntries([...this.#keys].map(([name, set]) => [name, [...set]]))
    const parts = {
      providers: Object.fromEntries(this.#providers),
      provider_keys: keys,
      models: this.#models,
      aliases: this.#aliases,
    }
    return {
      owner: 'litellm',
      ...Object.fromEntries(Object.entries(parts).filter(([, part]) => Object.keys(part).length > 0)),
    }
  }

  readAll(config: Members): void {
    const groups = new Map<string, Group>()
    const list = Array.isArray(config.model_list) ? config.model_list : []
    for (const [index, entry] of list.entries()) this.#readEntry(entry, ['model_list', index], groups)
    for (const group of groups.values()) this.#addGroup(group)
    for (const [section, value] of Object.entries(config))
      if (section !== 'model_list') this.#readSection(section, value)
  }

  #leave(path: Path, reason: string): void {
    this.left.push({ place: path.join('.'), line: this.#lineOf(path), reason })
  }

  #readEntry(entry: unknown, path: Path, groups: Map<string, Group>): void {
    if (!isObject(entry) || !isObject(entry.litellm_params) || typeof entry.model_name !== 'string')
      return void this.#leave(path, 'it has no model_name, or no litellm_params')
    const { model_name: name, litellm_params: params } = entry
    const info = isObject(entry.model_info) ? entry.model_info : {}
    const { model } = params
    if (typeof model !== 'string') return void this.#leave([...path, 'litellm_params', 'model'], 'it names no model')
    if (name.includes('*') || model.includes('*'))
      return void this.#leave(
        path,
        'patterns are not needed: every model of the catalog is served; add others one by one',
      )
    const target = this.#targetOf(params, model, path)
    if (!target) return
    for (const member of ['rpm', 'tpm'])
      if (entry[member] !== undefined) this.#leave([...path, member], paramReasons[member]!)
    const offer = this.#offerOf(params, info, target, path)
    const group = groups.get(name) ?? { name, offers: [] }
    groups.set(name, group)
    group.offers.push({ offer, path, info, isOwn: target.isOwn, row: target.row })
  }

  /** The provider of an entry, and the model of the catalog that it is there. */
  #targetOf(params: Members, model: string, path: Path) {
    const [, prefix, rest] = /^([^/]+)\/(.+)$/s.exec(model) ?? []
    const stated = typeof params.custom_llm_provider === 'string' ? params.custom_llm_provider : prefix
    const named = stated === undefined ? undefined : providerNamed(stated)
    const base = params.api_base ?? params.base_url
    const upstream = upstreamName(named, named !== undefined && prefix === stated ? rest! : model)
    const found = named === undefined ? this.#catalog.find(model) : undefined
    const provider = named ?? found?.providers[0]?.provider ?? inferProvider(model)
    if (provider === undefined && base === undefined) {
      this.#leave([...path, 'litellm_params', 'model'], 'there is no such provider, and no api_base')
      return null
    }
    if (typeof base === 'string') {
      const own = this.#ownProvider(base, provider, upstream, [...path, 'litellm_params', 'api_base'])
      if (own === null) return null
      this.#addKey(own, params.api_key, [...path, 'litellm_params', 'api_key'])
      const isShipped = this.#catalog.providers.has(own)
      return { provider: own, upstream, isOwn: !isShipped, row: isShipped ? this.#rowAt(own, upstream) : null }
    }
    this.#addKey(provider!, params.api_key, [...path, 'litellm_params', 'api_key'])
    const known = this.#rowAt(provider!, upstream) ?? this.#catalog.find(upstream)?.id ?? null
    const isThere =
      known !== null &&
      this.#shipped.models.get(known)?.providers.some(one => familyOf(one.provider) === familyOf(provider!))
    if (!isThere && !this.#catalog.providers.has(provider!)) {
      this.#leave(
        [...path, 'litellm_params', 'model'],
        `the catalog does not have it at ${provider}, whose regions are configured by its own variables`,
      )
      return null
    }
    return { provider: provider!, upstream, isOwn: false, row: isThere ? known : null }
  }

  /** The model whose deployment at a provider has a name, in any geography and version. */
  #rowAt(provider: string, upstream: string): string | null {
    const isIt = (one: Deployment) =>
      familyOf(one.provider) === familyOf(provider) && isSameModel(one.upstream_model, upstream)
    for (const row of this.#shipped.models.values()) if (row.providers.some(isIt)) return row.id
    return null
  }

  /** The provider with a base URL: a shipped one, or one that the file adds. */
  #ownProvider(base: string, like: string | undefined, upstream: string, path: Path): string | null {
    const [, variable] = environment.exec(base) ?? []
    const text = variable === undefined ? base : this.#variable(variable)
    if (text === undefined || !URL.canParse(text)) {
      const reason = 'an apply file has the address itself'
      this.#leave(path, variable ? `${reason}: set ${variable} where you import, and import again` : 'it is no URL')
      return null
    }
    const example = like === undefined ? undefined : this.#catalog.providers.get(like)
    const row = serverAt(text, { like: example, model: upstream })
    const shipped = [...this.#catalog.providers.values()].find(one => one.base_url === row.base_url)
    if (shipped) return shipped.name
    for (const [name, one] of this.#providers) if (one.base_url === row.base_url) return name
    const host = new URL(row.base_url).hostname.split('.').slice(0, 2).join('_')
    const begin = `litellm_${host}`
      .toLowerCase()
      .replaceAll(/[^a-z0-9_]/g, '_')
      .slice(0, 50)
    let name = begin
    for (let count = 2; this.#providers.has(name); count++) name = `${begin}_${count}`
    this.#providers.set(name, row)
    return name
  }

  #addKey(provider: string, key: unknown, path: Path): void {
    if (typeof key !== 'string' || key === '') {
      const row = this.#providers.get(provider)
      // A server without a key needs none.
      if (row && !this.#keys.has(provider)) row.auth = 'none'
      return
    }
    const own = this.#providers.get(provider)
    if (own?.auth === 'none') delete own.auth
    const [, variable] = environment.exec(key) ?? []
    const standard = `${provider.toUpperCase()}_API_KEY`
    // The gateway reads this variable itself.
    if (variable === standard && !own) return
    const keys = this.#keys.get(provider) ?? new Set<string>()
    this.#keys.set(provider, keys)
    if (variable !== undefined) return void keys.add(`\${${variable}}`)
    const name = keys.size === 0 ? standard : `${standard}_${keys.size + 1}`
    keys.add(`\${${name}}`)
    this.#leave(path, `the key is in the file itself: set ${name} to it where the apply file is applied`)
  }

  #offerOf(
    params: Members,
    info: Members,
    { provider, upstream }: { provider: string; upstream: string },
    path: Path,
  ): Offer {
    const offer: Offer = { provider, upstream_model: upstream }
    const at = (member: string) => [...path, 'litellm_params', member]
    const headers: Members = {}
    for (const source of ['headers', 'extra_headers'])
      for (const [name, value] of Object.entries(isObject(params[source]) ? params[source] : {}))
        headers[name] = typeof value === 'string' ? value.replace(environment, reference) : String(value)
    if (typeof params.organization === 'string')
      headers['openai-organization'] = params.organization.replace(environment, reference)
    if (Object.keys(headers).length > 0) offer.headers = headers
    const price = priceOf({ ...info, ...params })
    if (price) offer.price = price
    const defaults: Members = {}
    for (const [name, value] of Object.entries(params)) {
      if (read.has(name) || costNames.has(name)) continue
      const reason = paramReasons[name]
      if (reason !== undefined) this.#leave(at(name), reason)
      else if (deploymentParameters.safeParse({ default: { [name]: value } }).success) defaults[name] = value
      else this.#leave(at(name), 'it has no counterpart')
    }
    if (Object.keys(defaults).length > 0) offer.parameters = { default: defaults }
    return offer
  }

  #addGroup({ name, offers }: Group): void {
    const [first] = offers
    const own = this.#catalog.find(name)
    const rows = new Set(offers.map(({ row }) => row))
    const isPlain = offers.every(({ isOwn, row }) => !isOwn && row !== null) && rows.size === 1
    if (isPlain) return void this.#addAlias(name, first!.row!, offers)
    const id = this.#freeId(name, own !== undefined, first!.path)
    this.#ids.set(name, id)
    const { info } = first!
    const mode = String(info.mode ?? inferMode(first!.offer.upstream_model))
    const type = modelTypes[mode] ?? (mode === 'completion' ? 'chat' : null)
    if (type === null) {
      for (const { path } of offers)
        this.#leave(path, `models of the mode ${mode.slice(0, 40)} need a row of their own in MODEL_CATALOG`)
      return
    }
    const seen = new Set<string>()
    const providers = offers.flatMap(({ offer, path }) => {
      if (seen.has(offer.provider)) {
        this.#leave(path, 'a provider is there once in a model; its keys take turns')
        return []
      }
      seen.add(offer.provider)
      const price = offer.price ?? this.#knownPrice(offer, info, path)
      return [{ ...offer, ...(price && { price }) }]
    })
    this.#models[id] = {
      ...(type !== 'chat' && { type, output_modalities: ['embedding'] }),
      ...featuresOf(info),
      providers,
    }
  }

  #addAlias(name: string, row: string, offers: Group['offers']): void {
    this.#ids.set(name, row)
    this.#nameModel(name, row, offers[0]!.path)
    for (const { offer, path } of offers) {
      if (offer.headers)
        this.#leave(
          [...path, 'litellm_params'],
          `its headers would be those of every request to ${row}: add them below models.${row}.requests`,
        )
      if (offer.parameters)
        this.#leave([...path, 'litellm_params'], 'its settings belong into a preset, or below `requests` of the model')
      if (!offer.price) continue
      const model = (this.#models[row] ??= { prices: {} }) as { prices: Members }
      model.prices[offer.provider] = offer.price
    }
  }

  /**
   * The price of a model of the catalog with this name. If it is not known, a note, and 0 for a server of one's own, but null for a
   * provider that charges: `apply` refuses a model without a price, while one of 0 would be free.
   */
  #knownPrice({ provider, upstream_model: upstream }: Offer, info: Members, path: Path): Members | null {
    const base = typeof info.base_model === 'string' ? info.base_model.replace(/^[^/]+\//, '') : upstream
    const price = this.#catalog.find(base)?.providers[0]?.price
    if (price?.unit === 'token') {
      const { tiers: _, ...rates } = price
      return rates
    }
    const server = this.#providers.get(provider)
    const isFree = server ? !isAzure(String(server.base_url)) : this.#catalog.providers.get(provider)?.auth === 'none'
    const consequence = isFree ? 'its price is 0 in the apply file' : 'add its price to the apply file'
    this.#leave(path, `what it costs at ${provider} is not known: ${consequence}`)
    return isFree ? { unit: 'token', input: '0', output: '0' } : null
  }

  #freeId(name: string, isTaken: boolean, path: Path): string {
    const slug = slugOf(name)
    const id = isTaken ? `${slug}-litellm` : slug
    if (isTaken) this.#leave(path, `"${name}" names a model of the catalog: its deployments are the model "${id}"`)
    else if (id !== name) this.#leave(path, `"${name}" is no name of a model: it is "${id}"`)
    return id
  }

  /** Adds an alias of a model, unless the catalog has the name. */
  #nameModel(name: string, id: string, path: Path): void {
    const alias = slugOf(name).toLowerCase()
    if (alias !== name.toLowerCase()) this.#leave(path, `"${name}" is no name of a model: requests name "${alias}"`)
    const own = this.#catalog.find(alias)
    if (!own) this.#aliases[alias] = id
    else if (own.id !== id)
      this.#leave(path, `"${alias}" names ${own.id} in the catalog, not ${id}: requests name ${id} itself`)
  }

  #readSection(section: string, value: unknown): void {
    if (!isObject(value)) return void this.#leave([section], sectionReasons[section] ?? 'it has no counterpart')
    if (section === 'environment_variables') return void this.#leave([section], sectionReasons[section]!)
    for (const [name, member] of Object.entries(value)) {
      if (name === 'model_group_alias' && isObject(member)) this.#readAliases(member, [section, name])
      else this.#leave([section, name], sectionReasons[name] ?? 'it has no counterpart')
    }
  }

  #readAliases(aliases: Members, path: Path): void {
    for (const [alias, given] of Object.entries(aliases)) {
      const group = isObject(given) ? given.model : given
      const id = typeof group === 'string' ? (this.#ids.get(group) ?? this.#catalog.find(group)?.id) : undefined
      if (id === undefined) this.#leave([...path, alias], 'it names no model of the file or the catalog')
      else this.#nameModel(alias, id, [...path, alias])
    }
  }
}

/** A name as ids of models are written. */
function slugOf(name: string): string {
  const slug = name.replaceAll(/[^a-z0-9._:/@-]/gi, '-').replace(/^[^a-z0-9]+/i, '')
  return slug.slice(0, 90) || 'model'
}

const perMillion = 1_000_000

function priceOf(given: Members): Members | null {
  const rates = Object.entries(costs).flatMap(([rate, name]) => {
    const usd = Number(given[name])
    return given[name] !== undefined && Number.isFinite(usd) && usd >= 0 ? [[rate, decimal(usd * perMillion)]] : []
  })
  const price = Object.fromEntries(rates) as Members
  if (price.input === undefined && price.output === undefined) return null
  return { unit: 'token', input: '0', output: '0', ...price }
}

function featuresOf(info: Members): Members {
  const context = info.max_input_tokens
  const output = info.max_output_tokens ?? info.max_tokens
  const parameters = [
    ...(info.supports_function_calling === true ? ['tools'] : []),
    ...(info.supports_response_schema === true ? ['response_format', 'structured_outputs'] : []),
  ]
  return {
    ...(Number.isInteger(context) && { context_length: context }),
    ...(Number.isInteger(output) && { max_output_tokens: output }),
    ...(info.supports_vision === true && { input_modalities: ['text', 'image'] }),
    ...(parameters.length > 0 && { supported_parameters: parameters }),
  }
}

const maxBytes = 4 * 1024 * 1024

export const imports: Command[] = [
  command({
    name: 'import litellm',
    summary: 'Prints an apply file for a config.yaml of LiteLLM, and what it could not carry over.',
    help: 'FILE',
    flags: z.strictObject({ file: z.string().min(1) }),
    operand: 'file',
    async run({ catalog, config }, { file: path }) {
      const text = await readFile(path, 'utf8')
      if (text.length > maxBytes) throw new Error(`${path} is larger than ${maxBytes / 1024 / 1024} MiB.`)
      const { file, left } = importLiteLlm(text, {
        catalog,
        shipped: loadCatalog(config.modelCatalog ?? undefined),
        variable: config.readVariable,
      })
      const notes = left.map(
        ({ place, line, reason }) => `# ${line === null ? '' : `line ${line}: `}${place}: ${reason}`,
      )
      const head =
        notes.length > 0 ? [`# Not carried over (${notes.length}):`, ...notes] : ['# All of it is carried over.']
      return { data: { data: { file, left } }, text: `${stringify(file, { lineWidth: 0 })}\n${head.join('\n')}` }
    },
  }),
]
