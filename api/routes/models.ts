import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { Config } from '../../shared/base/config.ts'
import { GatewayError } from '../../shared/base/errors.ts'
import type { Catalog } from '../../shared/catalog/catalog.ts'
import { endpointOf, replacementNote } from '../../shared/catalog/model-not-found.ts'
import { publicPricing } from '../../shared/catalog/prices.ts'
import { type ModelType, endpoints as routes } from '../../shared/catalog/schema.ts'
import { collectsData, quantizationOf, retainsNothing, takenParameters } from '../../shared/catalog/traits.ts'
import { allowedModels, type Policy } from '../../shared/keys/policy.ts'
import type { Platform } from '../../shared/platform.ts'
import type { Target } from '../../shared/providers/contract.ts'
import { listMarginPpm } from '../../shared/routing/pricing.ts'
import { type Context, endpoint, type Header } from '../endpoint.ts'
import { anthropicModel, anthropicModelList } from '../schemas/anthropic.ts'
import { modelList, modelRow } from '../schemas/models.ts'
import {
  anthropicPage,
  anthropicQuery,
  anthropicVersion,
  chatRows,
  isAnthropic,
  presentAnthropicModel,
} from './anthropic-models.ts'
import { codexModels } from './codex-models.ts'

const etagCharacters = 22
const ifNoneMatch: Header = {
  name: 'if-none-match',
  maxLength: 1_000,
  description: 'The `etag` of a list that the client has.',
}
const types = Object.keys(routes) as [ModelType, ...ModelType[]]

export const listModels = endpoint({
  method: 'get',
  path: '/v1/models',
  operationId: 'listModels',
  tag: 'Models',
  summary: 'List models',
  description:
    'Lists every model the key can use, of every kind. Live keys see models that a configured provider can serve; test keys see all models.',
  access: { scope: null },
  free: true,
  // Clients add parameters of their own, which are ignored.
  query: z.object({
    type: z.enum(types).optional().describe('Filter by model type.'),
    client_version: z.unknown().optional().meta({
      type: 'string',
      description: 'Any value adds `models`, the list in the format that Codex reads.',
    }),
    ...anthropicQuery,
  }),
  headers: [anthropicVersion, ifNoneMatch],
  answers: {
    200: {
      description: 'The models.',
      schema: z.union([modelList, anthropicModelList]),
      headers: ['etag', 'x-models-etag'],
    },
    304: {
      description: 'The list is the one of `if-none-match`.',
      contentType: null,
      headers: ['etag', 'x-models-etag'],
    },
  },
  async handle({ services, apiKey, query, headers, ctx }) {
    const rows = visibleModels(services, apiKey.policy, query.type)
    if (isAnthropic(headers)) return replyWithEtag(ctx, anthropicPage(chatRows(rows), query))
    replyWithEtag(ctx, query.client_version === undefined ? { object: 'list', data: rows } : codexList(rows))
  },
})

function codexList(rows: ReturnType<typeof visibleModels>) {
  return { object: 'list', data: rows, models: codexModels(rows) }
}

const codexEtags = new WeakMap<Catalog['models'], WeakMap<Platform, Partial<Record<Policy['environment'], string>>>>()

/**
 * The version of the list that Codex reads, which is computed once per catalog for all keys of an environment. Null for keys with an
 * allowlist, whose lists differ.
 */
export function codexEtag(services: Platform, policy: Policy): string | null {
  if (policy.allowlist) return null
  const { models } = services.catalog
  let byServices = codexEtags.get(models)
  if (!byServices) codexEtags.set(models, (byServices = new WeakMap()))
  let etags = byServices.get(services)
  if (!etags) byServices.set(services, (etags = {}))
  return (etags[policy.environment] ??= etagOf(JSON.stringify(codexList(visibleModels(services, policy, undefined)))))
}

function etagOf(text: string): string {
  return `"${createHash('sha256').update(text).digest('base64url').slice(0, etagCharacters)}"`
}

/** Responds with JSON and its version, or with 304 to a client that has this version. */
function replyWithEtag(ctx: Context, body: object): void {
  const text = JSON.stringify(body)
  const etag = etagOf(text)
  ctx.set({ etag, 'x-models-etag': etag })
  ctx.vary(['authorization', 'x-api-key', anthropicVersion.name])
  ctx.status = 200
  ctx.type = 'application/json'
  ctx.body = text
  // Not `ctx.fresh`: browsers' fetch adds `cache-control: no-cache`, which it obeys.
  const known = ctx.get(ifNoneMatch.name).split(',')
  if (!known.some(one => one.trim().replace(/^W\//, '') === etag)) return
  ctx.status = 304
  ctx.body = null
}

export const readModel = endpoint({
  method: 'get',
  path: '/v1/models/{model}',
  deep: true,
  operationId: 'getModel',
  tag: 'Models',
  summary: 'Retrieve a model',
  description: 'Retrieves one model by its id or one of its `aliases`.',
  access: { scope: null },
  free: true,
  headers: [anthropicVersion],
  answers: { 200: { description: 'The model.', schema: z.union([modelRow, anthropicModel]) } },
  errors: ['model_not_found'],
  async handle({ services, apiKey, params, headers }) {
    const slug = params.model!
    const id = services.catalog.find(slug)?.id ?? slug
    const rows = visibleModels(services, apiKey.policy, undefined)
    const row = (isAnthropic(headers) ? chatRows(rows) : rows).find(row => row.id === id)
    if (row) return isAnthropic(headers) ? presentAnthropicModel(row) : row
    throw modelNotFound(services.catalog, slug, '/v1/models')
  },
})

/** The 404 of a model that a key does not have; `list` has those that it does. */
export function modelNotFound(catalog: Catalog, slug: string, list: string): GatewayError {
  const what = replacementNote(catalog, slug) ?? `There is no model \`${slug}\` for this key.`
  return new GatewayError('model_not_found', `${what} GET ${list} lists the available models.`, { param: 'model' })
}

/** The catalog rows a key can use, `auto` first among chat models. */
export function visibleModels({ catalog, upstreams, config }: Platform, policy: Policy, type: ModelType | undefined) {
  const allowed = allowedModels(catalog, policy)
  const rows = []
  for (const model of catalog.models.values()) {
    if (model.disabled || (type && model.type !== type) || (allowed && !allowed.has(model.id))) continue
    const targets = upstreams.targets(model, policy.environment)
    if (targets.length > 0) rows.push(presentModel(config, targets))
  }
  return rows.some(row => row.endpoint === auto.endpoint) ? [auto, ...rows] : rows
}

const auto = {
  id: 'auto',
  object: 'model' as const,
  created: 0,
  owned_by: 'headgate',
  type: 'chat',
  endpoint: routes.chat,
  aliases: [] as string[],
  name: 'Auto',
  display_name: 'Auto',
  description: 'Routes each request to the most suitable model, according to the key’s mode.',
  context_length: null,
  context_window: null,
  max_output_tokens: null,
  input_modalities: ['text', 'image', 'audio', 'file'],
  output_modalities: ['text', 'image', 'audio'],
  supported_parameters: ['mode', 'models', 'provider'],
  pricing: {},
  providers: [] as string[],
  provider_terms: [] as ReturnType<typeof presentTerms>[],
  quality: null,
  task_qualities: {},
  expires_on: null,
}

/** What preferences in `provider` ask of a target; null = not known. */
function presentTerms(target: Target) {
  return {
    provider: target.provider.name,
    data_collection: collectsData(target),
    zdr: retainsNothing(target),
    quantization: quantizationOf(target),
  }
}

/** A model with its targets; the price shown is that of the first. */
function presentModel(config: Config, targets: Target[]) {
  const { model, deployment } = targets[0]!
  return {
    id: model.id,
    object: 'model' as const,
    created: model.created,
    owned_by: model.owned_by,
    type: model.type,
    endpoint: endpointOf(model),
    aliases: model.aliases,
    name: model.name,
    display_name: model.name,
    description: model.description,
    context_length: model.context_length,
    context_window: model.context_length,
    max_output_tokens: model.max_output_tokens,
    input_modalities: model.input_modalities,
    output_modalities: model.output_modalities,
    supported_parameters: takenParameters(model, targets),
    pricing: publicPricing(deployment.price, listMarginPpm(config, model.type === 'embeddings')),
    providers: targets.map(({ provider }) => provider.name),
    provider_terms: targets.map(presentTerms),
    quality: model.quality,
    task_qualities: model.task_qualities ?? {},
    expires_on: model.expires_on,
    ...model.kind,
  }
}
