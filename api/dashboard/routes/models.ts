import type { Config } from '../../../shared/base/config.ts'
import { endpointOf } from '../../../shared/catalog/model-not-found.ts'
import { publicPricing } from '../../../shared/catalog/prices.ts'
import type { ModelRow } from '../../../shared/catalog/schema.ts'
import { collectsData, quantizationOf, retainsNothing, takenParameters } from '../../../shared/catalog/traits.ts'
import type { Platform } from '../../../shared/platform.ts'
import type { Target } from '../../../shared/providers/contract.ts'
import { listMarginPpm } from '../../../shared/routing/pricing.ts'
import { endpoint } from '../../endpoint.ts'
import type { CatalogModel, ModelProvider, ModelsAnswer } from '../wire/models.ts'

const listModels = endpoint({
  method: 'get',
  path: '/dashboard/api/organisations/{organisation}/models',
  tag: 'Dashboard',
  summary: 'List models with their providers and availability',
  access: { permission: 'use' },
  answers: { 200: { description: 'The models.' } },
  handle({ services }): ModelsAnswer {
    const models = [...services.catalog.models.values()].filter(({ disabled }) => !disabled)
    return { data: models.map(model => presentModel(services, model)) }
  },
})

function presentModel(services: Platform, model: ModelRow): CatalogModel {
  // For test keys every provider of the model counts, configured or not.
  const targets = services.upstreams.targets(model, 'test')
  const providers = targets.map(target => presentProvider(services, target))
  return {
    id: model.id,
    name: model.name,
    description: model.description,
    owned_by: model.owned_by,
    type: model.type,
    endpoint: endpointOf(model),
    context_length: model.context_length,
    max_output_tokens: model.max_output_tokens,
    input_modalities: model.input_modalities,
    output_modalities: model.output_modalities,
    supported_parameters: takenParameters(model, targets),
    quality: model.quality,
    task_qualities: model.task_qualities ?? {},
    expires_on: model.expires_on,
    available: providers.some(({ status }) => status !== 'not_configured'),
    providers,
    kind: model.kind ?? {},
  }
}

function presentProvider({ upstreams, config }: Platform, target: Target): ModelProvider {
  const { name } = target.provider
  const configured = upstreams.isConfigured(name, 'live')
  const isInCooldown = configured && upstreams.figures(target).cooldownMs > 0
  return {
    name,
    status: isInCooldown ? 'in_cooldown' : configured ? 'available' : 'not_configured',
    ...pricesOf(target, config),
    data_collection: collectsData(target),
    zdr: retainsNothing(target),
    quantization: quantizationOf(target),
    // Only these sessions accept initial settings.
    openai_events: upstreams.realtime(target, 'live')?.settings !== undefined,
  }
}

function pricesOf({ model, deployment: { price } }: Target, config: Config): Pick<ModelProvider, 'pricing' | 'above'> {
  const marginPpm = listMarginPpm(config, model.type === 'embeddings')
  const pricing = publicPricing(price, marginPpm)
  if (price.unit !== 'token' || !price.above) return { pricing, above: null }
  const { tokens, ...prices } = price.above
  return { pricing, above: { tokens, pricing: publicPricing({ unit: 'token', ...prices }, marginPpm) } }
}

export const modelsRoutes = [listModels]
