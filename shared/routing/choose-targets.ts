import { GatewayError } from '../base/errors.ts'
import { utcDateOf } from '../base/time.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { modelNotFoundError } from '../catalog/model-not-found.ts'
import type { ModelRow } from '../catalog/schema.ts'
import { isRetired } from '../catalog/traits.ts'
import { allowedModels, noAllowedModelError, type Policy } from '../keys/policy.ts'
import type { Target } from '../providers/contract.ts'
import { noOwnKeyError, ownKeyProviders } from './no-target-errors.ts'
import { allExcludedError, type Exclusion, type Preferences, permittedBy, placeOf } from './provider-preferences.ts'

type TargetQuery = {
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
  /** The preferences of the key's policy and of the request; null = none. */
  preferences: Preferences | null
  /** Parts per million that are charged beyond the provider's price. */
  marginPpm: bigint
  nowMs: number
  /** Without a named model: return the targets of all suitable models instead of the first. */
  allModels?: boolean
}

/**
 * The targets of a request, in the order of the preferences and of the catalog: those of the named model, else of the first model that
 * accepts the input, of the retired ones only where no other does.
 * Throws the error of the named model, or of the first unsuitable one; 400 when the allowlist excludes all models, or the
 * preferences all providers (403 when they are the key's), 503 when no provider is configured.
 */
export function chooseTargets(catalog: Catalog, policy: Policy, query: TargetQuery): Target[] {
  const { slug, list, serves, preferences, check, allModels = false, nowMs } = query
  const excluded = new Map<string, Exclusion>()
  const request = { features: null, marginPpm: query.marginPpm }
  const requested = slug && slug !== 'auto' ? catalog.find(slug) : null
  if (requested === undefined || (requested && (!serves(requested) || requested.disabled))) {
    throw modelNotFoundError(catalog, { slug: slug!, model: requested ?? null, list, serves, suggests: true })
  }
  const allowed = allowedModels(catalog, policy)
  if (requested && allowed?.has(requested.id) === false)
    throw new GatewayError('model_not_allowed', `This key may not use \`${slug}\`.`, { param: 'model' })
  const isAllowed = (model: ModelRow) => serves(model) && !model.disabled && allowed?.has(model.id) !== false
  const eligible = requested ? [requested] : [...catalog.models.values()].filter(isAllowed)
  if (eligible.length === 0 && policy.allowlist) throw noAllowedModelError(policy.allowlist)
  const date = utcDateOf(nowMs)
  const retiredLast = eligible.toSorted((a, b) => Number(isRetired(a, date)) - Number(isRetired(b, date)))
  let firstError: unknown = null
  const chosen: Target[] = []
  for (const model of retiredLast) {
    if (chosen.length > 0 && (!allModels || isRetired(model, date))) break
    const modelTargets = permittedBy(preferences, query.targets(model), request, excluded)
    if (modelTargets.length === 0) continue
    try {
      check(model)
      chosen.push(...modelTargets)
    } catch (error) {
      firstError ??= error
    }
  }
  if (chosen.length > 0) return preferences ? inOrder(chosen, preferences) : chosen
  if (firstError) throw firstError
  if (policy.ownKeys?.mode === 'own') throw noOwnKeyError(requested ? ownKeyProviders(catalog.targets(requested)) : [])
  if (excluded.size > 0) throw allExcludedError([...excluded])
  const subject = requested ? `\`${requested.id}\`` : 'this route'
  const message = `No enabled provider serves ${subject} for this key. The operator of this service has to enable one.`
  throw new GatewayError('no_provider_available', message, { headers: { 'retry-after': '60' } })
}

/** The targets in the order of the preferences, those that it does not have at the end. */
function inOrder(targets: Target[], preferences: Preferences): Target[] {
  const place = ({ provider }: Target) => placeOf(preferences, provider.name) ?? Number.MAX_SAFE_INTEGER
  const shared = ({ own }: Target) => (own ? 0 : 1)
  return preferences.order ? targets.toSorted((a, b) => shared(a) - shared(b) || place(a) - place(b)) : targets
}
