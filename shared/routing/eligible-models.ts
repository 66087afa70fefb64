import { GatewayError } from '../base/errors.ts'
import type { ModelRow } from '../catalog/schema.ts'
import { allowedModels, noAllowedModelError } from '../keys/allowlist.ts'
import { serves } from './model-selector.ts'
import type { RoutingContext } from './options.ts'
import { type UnmetRequirement, unmetAutoRequirement } from './requirements.ts'

/** The models `auto` may choose from. Throws 400 when none of them can accept the request. */
export function listEligibleModels({ world, policy, features, excluded: listed }: RoutingContext): ModelRow[] {
  const models: ModelRow[] = []
  const allowed = allowedModels(world.catalog, policy)
  const unmetRequirements: UnmetRequirement[] = []
  for (const model of world.catalog.models.values()) {
    if (model.disabled || !serves(model, 'chat')) continue
    const isDisallowed = allowed?.has(model.id) === false
    const missing = isDisallowed ? null : unmetAutoRequirement(model, features)
    if (missing) unmetRequirements.push(missing)
    const excluded = isDisallowed
      ? 'not in the key’s allowlist'
      : (missing?.why ?? (model.quality === null ? 'has no quality figure' : null))
    if (!excluded) models.push(model)
    else listed?.push({ ...unknown, model: model.id, quality: model.quality, excluded })
  }
  if (models.length === 0 && unmetRequirements.length === 0 && policy.allowlist)
    throw noAllowedModelError(policy.allowlist)
  if (models.length > 0 || unmetRequirements.length === 0) return models
  const [nearest] = unmetRequirements.sort((a, b) => nearness(b) - nearness(a) || (a.param < b.param ? -1 : 1))
  const message = 'No model that this key may use can take this request.'
  throw new GatewayError(nearest!.code, message, { param: nearest!.param })
}

/** How close a model is to accepting a request. Later checks imply the earlier ones passed. */
function nearness({ code, param }: UnmetRequirement): number {
  return param === 'max_tokens' ? 2 : code === 'context_length_exceeded' ? 1 : 0
}

const unknown = { provider: null, score: null, estimatedCostNano: null, latencyMs: null }
