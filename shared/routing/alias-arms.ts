import type { AliasArm, Catalog } from '../catalog/catalog.ts'
import { allowedModels } from '../keys/policy.ts'
import type { AliasDraw, RoutingPolicy, RoutingRequest } from './options.ts'
import { drawWeighted } from './provider-preferences.ts'

type Query = {
  policy: RoutingPolicy
  request: RoutingRequest
  session?: string | null
  sticky?: { model: string } | null
}

/**
 * A request that names an alias which several models share, as one that names the drawn model and then the others, so that they
 * are its fallbacks; null for any other. A session stays with the model that has served it. Others are drawn by the session, or
 * else by the caller: the key and the end user that it names. Models that the key may not use, and disabled ones, are not drawn.
 */
export function withDrawnModels(
  catalog: Catalog,
  { policy, request, session, sticky }: Query,
): { request: RoutingRequest; draw: AliasDraw } | null {
  const asked = armsOf(catalog, request.model)
  if (!asked) return null
  const { alias, suffix, arms } = asked
  const allowed = allowedModels(catalog, policy)
  const usable = arms.filter(({ model }) => allowed?.has(model) !== false && !catalog.models.get(model)?.disabled)
  // Where the key may use none, the refusal names the first.
  const offered = usable.length > 0 ? usable : arms
  const draws = offered.map(({ model, percent }) => ({ name: model, weight: percent }))
  const drawn = drawWeighted(draws, `${session ?? callerOf(policy, request)}\n${alias}`)!
  const kept = sticky && offered.find(({ model }) => model === sticky.model)
  const first = kept?.model ?? drawn.name
  const others = offered.filter(({ model }) => model !== first).map(({ model }) => `${model}${suffix}`)
  const models = [...others, ...(request.models ?? [])]
  return {
    request: { ...request, model: `${first}${suffix}`, ...(models.length > 0 && { models }) },
    draw: { name: alias, model: first, percent: shareOf(first, arms) },
  }
}

/** Whether a request names an alias that several models share. */
export function isShared(catalog: Catalog, slug: string): boolean {
  return armsOf(catalog, slug) !== null
}

/** The draw with the model that serves, where that is one of the alias: another one if the drawn model cannot. */
export function servedBy({ name }: AliasDraw, arms: Catalog['arms'], model: string): { alias?: AliasDraw } {
  const percent = shareOf(model, arms.get(name) ?? [])
  return percent > 0 ? { alias: { name, model, percent } } : {}
}

function shareOf(model: string, arms: readonly AliasArm[]): number {
  return arms.find(arm => arm.model === model)?.percent ?? 0
}

type Asked = { alias: string; suffix: string; arms: readonly AliasArm[] }

/** What an alias with or without a suffix, as `:floor`, stands for. */
function armsOf({ arms }: Catalog, slug: string): Asked | null {
  const name = slug.toLowerCase()
  const [, base = name, suffix = ''] = /^(.*)(:floor|:nitro)$/.exec(name) ?? []
  const own = arms.get(name)
  if (own) return { alias: name, suffix: '', arms: own }
  const found = suffix === '' ? undefined : arms.get(base)
  return found ? { alias: base, suffix, arms: found } : null
}

/** The caller: the key, and the end user that OpenAI's and Anthropic's formats name. */
function callerOf({ keyId }: RoutingPolicy, request: RoutingRequest): string {
  const { user, safety_identifier: identifier, metadata } = request as Record<string, unknown>
  const ofMessages = (metadata as { user_id?: unknown } | null | undefined)?.user_id
  const endUser = [user, identifier, ofMessages].find(one => typeof one === 'string') ?? ''
  return `${keyId}\n${endUser}`
}
