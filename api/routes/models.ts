import { z } from 'zod'
import type { Config } from '../../shared/base/config.ts'
import { GatewayError } from '../../shared/base/errors.ts'
import { publicPricing } from '../../shared/catalog/prices.ts'
import { type ModelType, endpoints as routes } from '../../shared/catalog/schema.ts'
import { allowedModels } from '../../shared/keys/allowlist.ts'
import type { Policy } from '../../shared/keys/policy.ts'
import type { Target } from '../../shared/providers/contract.ts'
import type { Services } from '../../shared/services.ts'
import { modelList, modelRow } from '../answers.ts'
import { endpoint } from '../endpoint.ts'
import { admitFree } from '../middleware/key.ts'

const types = Object.keys(routes) as [ModelType, ...ModelType[]]

export const listModels = endpoint({
  method: 'get',
  path: '/v1/models',
  operationId: 'listModels',
  tag: 'Models',
  summary: 'List models',
  description:
    'Every model this key can use, of every kind. A live key sees what a configured provider can serve, a test key everything.',
  access: { scope: null },
  // Clients add parameters of their own, as `client_version`.
  query: z.object({ type: z.enum(types).optional().describe('Only models of this type.') }),
  answers: { 200: { description: 'The models.', schema: modelList } },
  async handle({ services, known, query, ctx }) {
    ctx.set(await admitFree(services, known))
    return { object: 'list', data: visibleModels(services, known.policy, query.type) }
  },
})

export const readModel = endpoint({
  method: 'get',
  path: '/v1/models/{model}',
  deep: true,
  operationId: 'getModel',
  tag: 'Models',
  summary: 'Retrieve a model',
  description: 'The row of one model of the list, by its id or one of its `aliases`.',
  access: { scope: null },
  answers: { 200: { description: 'The model.', schema: modelRow } },
  errors: ['model_not_found'],
  async handle({ services, known, params, ctx }) {
    ctx.set(await admitFree(services, known))
    const slug = params.model!
    const id = services.catalog.find(slug)?.id ?? slug
    const row = visibleModels(services, known.policy, undefined).find(row => row.id === id)
    if (row) return row
    const message = `There is no model \`${slug}\` for this key. GET /v1/models lists what there is.`
    throw new GatewayError('model_not_found', message, { param: 'model' })
  },
})

/** The rows of the catalog a key can use, `auto` first among chat rows. */
function visibleModels({ catalog, upstreams, config }: Services, policy: Policy, type: ModelType | undefined) {
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
  object: 'model',
  created: 0,
  owned_by: 'headgate',
  type: 'chat',
  endpoint: routes.chat,
  aliases: [] as string[],
  name: 'Auto',
  display_name: 'Auto',
  description: 'Routes each request to the model that fits it, by the key’s mode.',
  context_length: null,
  context_window: null,
  max_output_tokens: null,
  input_modalities: ['text', 'image', 'audio', 'file'],
  output_modalities: ['text', 'image', 'audio'],
  supported_parameters: ['mode', 'models', 'provider'],
  pricing: {},
  providers: [] as string[],
  quality: null,
  expires_on: null,
}

/** What is added to the providers' prices of models of a type. */
export function marginOf(config: Config, type: ModelType): bigint {
  return type === 'embeddings' ? config.embeddingsSurchargePpm : config.marginPpm
}

/** A model with those who can serve it, of whom the first is shown as the price. */
function presentModel(config: Config, targets: Target[]) {
  const { model, deployment } = targets[0]!
  return {
    id: model.id,
    object: 'model',
    created: model.created,
    owned_by: model.owned_by,
    type: model.type,
    endpoint: model.endpoint ?? routes[model.type],
    aliases: model.aliases,
    name: model.name,
    display_name: model.name,
    description: model.description,
    context_length: model.context_length,
    context_window: model.context_length,
    max_output_tokens: model.max_output_tokens,
    input_modalities: model.input_modalities,
    output_modalities: model.output_modalities,
    supported_parameters: model.supported_parameters,
    pricing: publicPricing(deployment.price, marginOf(config, model.type)),
    providers: targets.map(({ provider }) => provider.name),
    quality: model.quality,
    expires_on: model.expires_on,
    ...model.kind,
  }
}
