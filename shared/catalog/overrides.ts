import { z } from 'zod'
import { namesOf } from './aliases.ts'
import { type AliasArm, buildCatalog, type Catalog } from './catalog.ts'
import { type ProviderQuirks, servedTraits } from './provider-quirks.ts'
import { namesProvider, valueFor } from './regions.ts'
import {
  deployment,
  type ModelRow,
  modelRow,
  type ProviderRow,
  parametersFault,
  price,
  providerRow,
  takesParameters,
} from './schema.ts'
import serverDefaults from './server-defaults.json' with { type: 'json' }

const { shape: row } = modelRow
/** The protocol of the servers that are added at run time. */
export const serverProtocol = serverDefaults.protocol
const maxModels = 200

/** A change of one model: whether it is offered, its prices by provider, and what it adds to requests. */
export const modelOverride = z.strictObject({
  disabled: z.boolean().optional(),
  prices: z.record(z.string(), price).optional(),
  /** What requests to it carry, by provider. */
  requests: z.record(z.string(), deployment.pick({ headers: true, parameters: true })).optional(),
})

const maxArms = 10
/** The models that share the requests of an alias, by id; their percentages make 100. */
export const aliasArms = z
  .array(z.strictObject({ model: row.id, percent: z.number().positive().max(100) }))
  .min(2)
  .max(maxArms)
  .superRefine((arms, context) => {
    const sum = arms.reduce((total, { percent }) => total + percent, 0)
    if (Math.abs(sum - 100) > 0.001)
      context.addIssue({ code: 'custom', message: `The percentages make ${sum}, not 100.` })
  })

/** A further name of a model, or a name whose requests several models share. */
const aliasOverride = z.union([z.strictObject({ model: row.id }), z.strictObject({ arms: aliasArms })])

/** A model of a server that was added at run time. */
const serverModel = z.strictObject({
  id: row.id,
  name: row.name.min(1).max(200).optional(),
  type: z.enum(['chat', 'embeddings']).default('chat'),
  upstream_model: deployment.shape.upstream_model.max(200),
  context_length: row.context_length.default(null),
  max_output_tokens: row.max_output_tokens.default(null),
  input_modalities: row.input_modalities.default(['text']),
  supported_parameters: row.supported_parameters.default([]),
  quality: row.quality.default(null),
  quantization: servedTraits.quantization.optional(),
  price,
})

const maxKeys = 20
const providerKeyId = z.string().regex(/^[0-9a-f]{12}$/)

/** The API keys of a provider that were added at run time; they are stored beside it, encrypted, in the same order. */
const keysOverride = z.strictObject({
  keys: z
    .array(z.strictObject({ id: providerKeyId, last4: z.string().max(4), added_at: z.iso.datetime() }))
    .min(1)
    .max(maxKeys),
})

/** A provider of any protocol that was added at run time. Its API keys are an override of their own. */
export const providerOverride = providerRow
  .pick({ protocol: true, auth: true, quirks: true, profile: true })
  .extend({ base_url: providerRow.shape.base_url.refine(url => /^https?:/.test(url), 'must be an http or https URL') })

/** An OpenAI-compatible server that was added at run time. Its API key is stored beside it, encrypted. */
export const serverOverride = z.strictObject({
  base_url: providerRow.shape.base_url.refine(url => /^https?:/.test(url), 'must be an http or https URL'),
  /** What `provider.data_collection` and `provider.zdr` of requests ask for; without them, not known. */
  data_collection: servedTraits.data_collection.optional(),
  zdr: servedTraits.zdr.optional(),
  models: z.array(serverModel).max(maxModels),
})

export const overrideSchemas = {
  provider: providerOverride,
  server: serverOverride,
  /** A model that was added at run time, as a row of the catalog file. */
  row: modelRow,
  model: modelOverride,
  alias: aliasOverride,
  keys: keysOverride,
} as const
export type OverrideKind = keyof typeof overrideSchemas
export type ModelOverride = z.output<typeof modelOverride>
type ProviderOverride = z.output<typeof providerOverride>
export type ServerOverride = z.output<typeof serverOverride>
export type KeysOverride = z.output<typeof keysOverride>
export type AliasOverride = z.output<typeof aliasOverride>

/** A change of the catalog at run time, as it is stored. `name`: of the model, the alias, the server or the provider. */
export type Override = { name: string; hasKey: boolean } & (
  | { kind: 'provider'; value: ProviderOverride }
  | { kind: 'row'; value: ModelRow }
  | { kind: 'keys'; value: KeysOverride }
  | { kind: 'model'; value: ModelOverride }
  | { kind: 'alias'; value: AliasOverride }
  | { kind: 'server'; value: ServerOverride }
)

/** A server or provider that was added at run time, with its API keys; none = it needs none. */
export type Server = { row: ProviderRow; apiKeys: readonly string[] }

/** Why an override has no effect. */
export type OverrideFault = { kind: OverrideKind; name: string; field: string; message: string }

type Base = Pick<Catalog, 'models' | 'providers' | 'retired' | 'namedClouds'>

/**
 * Applies overrides to the catalog of the files: added providers, servers and models first, then changes of models, aliases, and
 * keys of providers. One that does not fit is left out and reported: the files may have changed since it was made. Unchanged rows stay the same objects.
 */
export function applyOverrides(
  base: Base,
  overrides: readonly Override[],
): { catalog: Catalog; faults: OverrideFault[] } {
  const state: State = { models: new Map(base.models), providers: new Map(base.providers), arms: new Map() }
  const faults: OverrideFault[] = []
  for (const kind of Object.keys(overrideSchemas)) {
    for (const override of overrides) {
      if (override.kind !== kind) continue
      const fault = applyOne(state, override)
      if (fault) faults.push({ kind, name: override.name, field: fault[0], message: fault[1] })
    }
  }
  const { models, providers, arms } = state
  return { catalog: buildCatalog(models, providers, base.retired, base.namedClouds, arms), faults }
}

type State = {
  models: Map<string, ModelRow>
  providers: Map<string, ProviderRow>
  arms: Map<string, readonly AliasArm[]>
}
/** The field and what is wrong with it. */
type Fault = [field: string, message: string]

/** Applies an override, or returns why it cannot be. */
function applyOne(state: State, override: Override): Fault | null {
  switch (override.kind) {
    case 'provider':
      return addProvider(state, override.name, override.value)
    case 'row':
      return addRow(state, override.value)
    case 'keys':
      return checkKeys(state, override.name)
    case 'server':
      return addServer(state, override.name, override.value, override.hasKey)
    case 'model':
      return changeModel(state, override.name, override.value)
    case 'alias':
      return 'arms' in override.value
        ? shareAlias(state, override.name, override.value.arms)
        : addAlias(state, override.name, override.value.model)
  }
}

function addServer({ models, providers }: State, name: string, server: ServerOverride, hasKey: boolean): Fault | null {
  const provider = providerRow.safeParse({
    name,
    protocol: serverProtocol,
    base_url: server.base_url,
    auth: hasKey ? 'bearer' : 'none',
    quirks: factsOf(server),
  })
  if (!provider.success) return ['name', 'must be lower-case letters, digits and underscores, beginning with a letter']
  if (providers.has(name)) return ['name', `There is another provider "${name}".`]
  const rows = server.models.map(model => serverRow(name, model))
  const names = namesTaken(models)
  for (const [index, { id }] of rows.entries()) {
    const slug = id.toLowerCase()
    if (slug === 'auto') return [`models.${index}.id`, '"auto" is the router’s own name.']
    if (names.has(slug)) return [`models.${index}.id`, `"${id}" already names ${names.get(slug)}.`]
    names.set(slug, id)
  }
  providers.set(name, provider.data)
  for (const row of rows) models.set(row.id, row)
  return null
}

function factsOf({ data_collection, zdr }: ServerOverride): Pick<ProviderQuirks, 'data_collection' | 'zdr'> {
  return { ...(data_collection !== undefined && { data_collection }), ...(zdr !== undefined && { zdr }) }
}

function addProvider({ providers }: State, name: string, value: ProviderOverride): Fault | null {
  if (providers.has(name)) return ['name', `There is another provider "${name}".`]
  const row = providerRow.safeParse({ name, ...value })
  if (!row.success) return ['name', 'must be lower-case letters, digits and underscores, beginning with a letter']
  providers.set(name, row.data)
  return null
}

function addRow({ models, providers }: State, row: ModelRow): Fault | null {
  const names = namesTaken(models)
  for (const name of [row.id, ...row.aliases]) {
    const slug = name.toLowerCase()
    if (slug === 'auto') return ['id', '"auto" is the router’s own name.']
    if (names.has(slug)) return ['id', `"${name}" already names ${names.get(slug)}.`]
  }
  if (row.providers.length === 0) return ['providers', 'A model needs at least one provider.']
  const unknown = row.providers.findIndex(({ provider }) => !providers.has(provider))
  if (unknown >= 0)
    return [`providers.${unknown}.provider`, `There is no provider "${row.providers[unknown]!.provider}".`]
  models.set(row.id, row)
  return null
}

/** Keys are of a provider of the files or of an added one, not of a server, whose key is its own. */
function checkKeys({ providers }: State, name: string): Fault | null {
  const named = [...providers.values()].filter(row => namesProvider(name, row.name))
  if (named.length === 0) return ['provider', `There is no provider "${name}".`]
  const isPlaced = named.some(({ base_url }) => !base_url.includes('{'))
  return isPlaced ? null : ['provider', `The regions of "${name}" are not configured.`]
}

function serverRow(
  provider: string,
  { upstream_model, price, name, quantization, ...model }: z.output<typeof serverModel>,
): ModelRow {
  return {
    ...model,
    aliases: [],
    name: name ?? model.id,
    owned_by: provider,
    created: 0,
    description: `${upstream_model} at the server ${provider}.`,
    output_modalities: model.type === 'embeddings' ? ['embedding'] : ['text'],
    expires_on: null,
    disabled: false,
    price_source: null,
    price_as_of: null,
    providers: [{ provider, upstream_model, price, ...(quantization && { traits: { quantization } }) }],
  }
}

function changeModel(
  { models }: State,
  id: string,
  { disabled, prices = {}, requests = {} }: ModelOverride,
): Fault | null {
  const row = models.get(id)
  if (!row) return ['model', `There is no model "${id}".`]
  for (const [provider, { parameters }] of Object.entries(requests))
    if (parameters && !takesParameters(row.type))
      return [`requests.${provider}.parameters`, `Parameters ${parametersFault}.`]
    else if (!row.providers.some(one => namesProvider(provider, one.provider)))
      return [`requests.${provider}`, `"${provider}" does not serve ${id}.`]
  for (const [provider, changed] of Object.entries(prices)) {
    const offer = row.providers.find(one => namesProvider(provider, one.provider))
    if (!offer) return [`prices.${provider}`, `"${provider}" does not serve ${id}.`]
    if (offer.price.unit !== changed.unit)
      return [`prices.${provider}.unit`, `This model is priced per ${offer.price.unit}.`]
  }
  if (disabled === false && row.providers.length === 0) return ['disabled', 'This model has no provider.']
  const providers = row.providers.map(offer => {
    const changed = valueFor(offer.provider, name => prices[name])
    const additions = valueFor(offer.provider, name => requests[name])
    if (!changed && !additions) return offer
    return { ...offer, ...(changed && { price: changed, price_source: 'operator' }), ...additions }
  })
  models.set(id, { ...row, providers, ...(disabled !== undefined && { disabled }) })
  return null
}

function addAlias({ models }: State, alias: string, id: string): Fault | null {
  const target = models.get(id)
  if (!target) return ['model', `There is no model "${id}". An alias names a model by its id.`]
  const fault = aliasFault(models, alias)
  if (fault) return fault
  models.set(id, { ...target, aliases: [...target.aliases, alias] })
  return null
}

/** Only requests of chat models are routed, so only these can be shared. */
function shareAlias({ models, arms: shared }: State, alias: string, arms: readonly AliasArm[]): Fault | null {
  for (const [index, { model }] of arms.entries()) {
    const type = models.get(model)?.type
    if (type === 'chat') continue
    const why = type === undefined ? `There is no model "${model}".` : `"${model}" is no chat model.`
    return [`arms.${index}.model`, why]
  }
  if (new Set(arms.map(({ model }) => model)).size < arms.length) return ['arms', 'Each model may be named once.']
  const fault = aliasFault(models, alias)
  if (fault) return fault
  shared.set(alias.toLowerCase(), arms)
  return null
}

function aliasFault(models: ReadonlyMap<string, ModelRow>, alias: string): Fault | null {
  if (!row.id.safeParse(alias).success) return ['alias', 'must be a model slug']
  const slug = alias.toLowerCase()
  const owner = slug === 'auto' ? 'the router' : namesTaken(models).get(slug)
  return owner === undefined ? null : ['alias', `"${alias}" already names ${owner}.`]
}

/** Every name that selects a model, in lower case, with the model's id. */
function namesTaken(models: ReadonlyMap<string, ModelRow>): Map<string, string> {
  const names = new Map<string, string>()
  for (const model of models.values()) {
    const { own, aliases } = namesOf(model)
    for (const name of [...own, ...aliases]) names.set(name, model.id)
  }
  return names
}
