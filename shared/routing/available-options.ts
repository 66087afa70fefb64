import type { Catalog } from '../catalog/catalog.ts'
import type { Deployment } from '../catalog/schema.ts'
import { allowedModels } from '../keys/allowlist.ts'
import { serves } from './model-selector.ts'
import {
  estimateOption,
  exclusionReason,
  isExcludedByRequest,
  newOption,
  type Option,
  type RoutingContext,
  type RoutingInputs,
} from './options.ts'
import { capabilitiesOf, unmetCapability, unmetLimit } from './requirements.ts'

/** Options by model. */
type List = readonly Option[][]
type Known = {
  /** One option of each deployment, which every request that considers it estimates anew. */
  options: Map<Deployment, Option>
  /** By a policy's allowlist, the lists by what requests need. */
  lists: WeakMap<ReadonlySet<string>, Map<string, List>>
}

/** What is known of each version of a catalog, by its upstreams: it ends with these. */
const cache = new WeakMap<Catalog['models'], WeakMap<RoutingInputs['upstreams'], Known>>()
/** Stands for the allowlist of the policies without one. */
const everything: ReadonlySet<string> = new Set()
/** Maximum lists of one allowlist; requests differ in few of the needs that distinguish them. */
const maxLists = 64

/**
 * The options of every model that `auto` may choose from, by model, as `listEligibleModels` and `listOptions` give
 * them; but from the cache of available options, without errors and without what is excluded. They are valid until the
 * next request's: a decision has a hundred options or more, and creating them would cost more than comparing them.
 */
export function listAvailableOptions(context: RoutingContext): Option[][] {
  const { request, features } = context
  const listed: Option[][] = []
  for (const available of availableOptions(context)) {
    if (unmetLimit(available[0]!.target.model, features)) continue
    const options = request.provider
      ? available.filter(({ target }) => !isExcludedByRequest(request, target.provider.name))
      : available
    for (const option of options) estimateOption(context, option)
    if (options.length > 0) listed.push(options)
  }
  return listed
}

/**
 * The options that `auto` may choose from, by model: all that can serve requests with the same needs under the same
 * allowlist. Whether the request exceeds a model's limits or excludes a provider, and live figures, are left to the
 * caller.
 */
function availableOptions(context: RoutingContext): List {
  const { world, policy, kind, features } = context
  const known = knownOf(world)
  const allowlist = policy.allowlist ?? everything
  let lists = known.lists.get(allowlist)
  if (!lists) known.lists.set(allowlist, (lists = new Map()))
  const key = `${policy.environment} ${kind} ${capabilitiesOf(features)} ${features.signedThinking}`
  let list = lists.get(key)
  if (!list) {
    list = findOptions(context, known.options)
    if (lists.size >= maxLists) lists.clear()
    lists.set(key, list)
  }
  return list
}

function knownOf({ catalog, upstreams }: RoutingInputs): Known {
  let byUpstreams = cache.get(catalog.models)
  if (!byUpstreams) cache.set(catalog.models, (byUpstreams = new WeakMap()))
  let known = byUpstreams.get(upstreams)
  if (!known) byUpstreams.set(upstreams, (known = { options: new Map(), lists: new WeakMap() }))
  return known
}

function findOptions(context: RoutingContext, known: Known['options']): List {
  const { world, policy, request, features } = context
  const allowed = allowedModels(world.catalog, policy)
  const unrestricted = { ...context, request: { ...request, provider: undefined } }
  const list: Option[][] = []
  for (const model of world.catalog.models.values()) {
    if (model.disabled || !serves(model, 'chat') || model.quality === null) continue
    if (allowed?.has(model.id) === false || unmetCapability(model, features)) continue
    const options: Option[] = []
    for (const { deployment, provider } of world.catalog.targets(model)) {
      const target = { model, deployment, provider }
      if (exclusionReason(world, unrestricted, target, true) !== null) continue
      let option = known.get(deployment)
      if (!option) known.set(deployment, (option = newOption(target, true)))
      options.push(option)
    }
    if (options.length > 0) list.push(options)
  }
  return list
}
