import type { Catalog } from '../catalog/catalog.ts'
import { allowedModels } from '../keys/allowlist.ts'
import type { Target } from '../providers/contract.ts'
import { serves } from './model-selector.ts'
import {
  exclusionReason,
  isExcludedByRequest,
  type Option,
  optionOf,
  type RoutingContext,
  type RoutingWorld,
} from './options.ts'
import { capabilitiesOf, unmetCapability, unmetLimit } from './requirements.ts'

/** Targets by model. */
type Lists = Map<string, readonly (readonly Target[])[]>

/** The lists of each version of a catalog, by its upstreams and by a policy's allowlist: they end with these. */
const cache = new WeakMap<Catalog['models'], WeakMap<RoutingWorld['upstreams'], WeakMap<ReadonlySet<string>, Lists>>>()
/** Stands for the allowlist of the policies without one. */
const everything: ReadonlySet<string> = new Set()
/** Maximum lists of one allowlist; requests differ in few of the needs that distinguish them. */
const maxLists = 64

/**
 * The options of every model that `auto` may choose from, by model, as `listEligibleModels` and `listOptions` give
 * them; but from the cache of available targets, without errors and without what is excluded.
 */
export function listAvailableOptions(context: RoutingContext): Option[][] {
  const { request, features } = context
  const listed: Option[][] = []
  for (const targets of availableTargets(context)) {
    if (unmetLimit(targets[0]!.model, features)) continue
    const options: Option[] = []
    for (const target of targets)
      if (!isExcludedByRequest(request, target.provider.name)) options.push(optionOf(context, target, true))
    if (options.length > 0) listed.push(options)
  }
  return listed
}

/**
 * The targets that `auto` may choose from, by model: all that can serve requests with the same needs under the same
 * allowlist. Whether the request exceeds a model's limits or excludes a provider, and live figures, are left to the
 * caller.
 */
function availableTargets(context: RoutingContext): readonly (readonly Target[])[] {
  const { world, policy, kind, features } = context
  const lists = listsOf(world, policy.allowlist ?? everything)
  const key = `${policy.environment} ${kind} ${capabilitiesOf(features)} ${features.signedThinking}`
  let list = lists.get(key)
  if (!list) {
    list = findTargets(context)
    if (lists.size >= maxLists) lists.clear()
    lists.set(key, list)
  }
  return list
}

function listsOf({ catalog, upstreams }: RoutingWorld, allowlist: ReadonlySet<string>): Lists {
  let byUpstreams = cache.get(catalog.models)
  if (!byUpstreams) cache.set(catalog.models, (byUpstreams = new WeakMap()))
  let byAllowlist = byUpstreams.get(upstreams)
  if (!byAllowlist) byUpstreams.set(upstreams, (byAllowlist = new WeakMap()))
  let lists = byAllowlist.get(allowlist)
  if (!lists) byAllowlist.set(allowlist, (lists = new Map()))
  return lists
}

function findTargets(context: RoutingContext): Target[][] {
  const { world, policy, request, features } = context
  const allowed = allowedModels(world.catalog, policy)
  const unrestricted = { ...context, request: { ...request, provider: undefined } }
  const list: Target[][] = []
  for (const model of world.catalog.models.values()) {
    if (model.disabled || !serves(model, 'chat') || model.quality === null) continue
    if (allowed?.has(model.id) === false || unmetCapability(model, features)) continue
    const targets = world.catalog
      .targets(model)
      .map(({ deployment, provider }) => ({ model, deployment, provider }))
      .filter(target => exclusionReason(world, unrestricted, target, true) === null)
    if (targets.length > 0) list.push(targets)
  }
  return list
}
