import { GatewayError } from '../base/errors.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { ModelRow } from '../catalog/schema.ts'
import { allowedModels, noneAllowed } from '../keys/allowlist.ts'
import type { Policy } from '../keys/policy.ts'
import type { Target } from '../providers/contract.ts'

export type Choice = {
  /** The model that the body names, if it does. */
  slug: string | undefined
  /** The route that lists the models. */
  list: string
  /** Whether a model is served by the route. */
  serves(model: ModelRow): boolean
  /** Who serves it for this key's environment. */
  targets(model: ModelRow): Target[]
  /** Throws the GatewayError of a model that cannot take the input. */
  check(model: ModelRow): void
  /** Where the body names no model: whether those of every model that takes the input are wanted, or of the first. */
  every?: boolean
}

/**
 * Who can do some work, in the catalog's order: at the model that the body names, else at the first ones that take the input.
 * Throws the error of the named model, or of the first one that did not; 400 where the allowlist has none, 503 where nobody is
 * configured.
 */
export function chooseTargets(catalog: Catalog, policy: Policy, choice: Choice): Target[] {
  const { slug, list, serves, targets, check, every = false } = choice
  const named = slug && slug !== 'auto' ? catalog.find(slug) : null
  if (named === undefined || (named && (!serves(named) || named.disabled))) {
    throw new GatewayError(
      'model_not_found',
      `There is no model \`${slug}\` on this route. GET ${list} lists what there is.`,
      { param: 'model' },
    )
  }
  const allowed = allowedModels(catalog, policy)
  if (named && allowed?.has(named.id) === false)
    throw new GatewayError('model_not_allowed', `This key may not use \`${slug}\`.`, { param: 'model' })
  const isAllowed = (model: ModelRow) => serves(model) && !model.disabled && allowed?.has(model.id) !== false
  if (!named && policy.allowlist && ![...catalog.models.values()].some(isAllowed)) throw noneAllowed(policy.allowlist)
  let refusal: unknown = null
  const chosen: Target[] = []
  for (const model of named ? [named] : catalog.models.values()) {
    if (chosen.length > 0 && !every) break
    if (!isAllowed(model)) continue
    const found = targets(model)
    if (found.length === 0) continue
    try {
      check(model)
      chosen.push(...found)
    } catch (error) {
      refusal ??= error
    }
  }
  if (chosen.length > 0) return chosen
  if (refusal) throw refusal
  const what = named ? `\`${named.id}\`` : 'this route'
  throw new GatewayError('no_provider_available', `No configured provider serves ${what} for this key.`, {
    headers: { 'retry-after': '60' },
  })
}
