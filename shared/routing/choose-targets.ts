import { GatewayError } from '../base/errors.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { modelNotFoundError } from '../catalog/model-not-found.ts'
import type { ModelRow } from '../catalog/schema.ts'
import { allowedModels, noAllowedModelError, type Policy } from '../keys/policy.ts'
import type { Target } from '../providers/contract.ts'

export type TargetQuery = {
  /** The model named in the body, if any. */
  slug: string | undefined
  /** The path that lists the models. */
  list: string
  /** Whether the route serves a model. */
  serves(model: ModelRow): boolean
  /** The targets of a model in this key's environment. */
  targets(model: ModelRow): Target[]
  /** Throws a GatewayError if the model cannot accept the input. */
  check(model: ModelRow): void
  /** Without a named model: return the targets of all suitable models instead of the first. */
  allModels?: boolean
}

/**
 * The targets of a request, in catalog order: those of the named model, else of the first model that accepts the input.
 * Throws the error of the named model, or of the first unsuitable one; 400 when the allowlist excludes all models, 503
 * when no provider is configured.
 */
export function chooseTargets(catalog: Catalog, policy: Policy, query: TargetQuery): Target[] {
  const { slug, list, serves, targets, check, allModels = false } = query
  const requested = slug && slug !== 'auto' ? catalog.find(slug) : null
  if (requested === undefined || (requested && (!serves(requested) || requested.disabled))) {
    throw modelNotFoundError(catalog, { slug: slug!, model: requested ?? null, list, serves, suggests: true })
  }
  const allowed = allowedModels(catalog, policy)
  if (requested && allowed?.has(requested.id) === false)
    throw new GatewayError('model_not_allowed', `This key may not use \`${slug}\`.`, { param: 'model' })
  const isAllowed = (model: ModelRow) => serves(model) && !model.disabled && allowed?.has(model.id) !== false
  if (!requested && policy.allowlist && ![...catalog.models.values()].some(isAllowed))
    throw noAllowedModelError(policy.allowlist)
  let firstError: unknown = null
  const chosen: Target[] = []
  for (const model of requested ? [requested] : catalog.models.values()) {
    if (chosen.length > 0 && !allModels) break
    if (!isAllowed(model)) continue
    const modelTargets = targets(model)
    if (modelTargets.length === 0) continue
    try {
      check(model)
      chosen.push(...modelTargets)
    } catch (error) {
      firstError ??= error
    }
  }
  if (chosen.length > 0) return chosen
  if (firstError) throw firstError
  const subject = requested ? `\`${requested.id}\`` : 'this route'
  const message = `No enabled provider serves ${subject} for this key. The operator of this service has to enable one.`
  throw new GatewayError('no_provider_available', message, { headers: { 'retry-after': '60' } })
}
