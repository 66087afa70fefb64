import { GatewayError } from '../base/errors.ts'
import { utcDateOf } from '../base/time.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Deployment, ModelRow } from '../catalog/schema.ts'
import { isRetired } from '../catalog/traits.ts'
import { allowedModels, noAllowedModelError } from '../keys/policy.ts'
import { capabilitiesOf, type UnmetRequirement, unmetAutoRequirement, unmetCapability, unmetLimit } from './features.ts'
import {
  estimateOption,
  exclusionReason,
  newOption,
  type Option,
  type RoutingContext,
  type RoutingInputs,
  serves,
} from './options.ts'
import { exclusionOf } from './provider-preferences.ts'

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
  const { inputs, preferences, features } = context
  const priced = { features, marginPpm: inputs.marginPpm }
  const listed: Option[][] = []
  for (const available of availableOptions(context)) {
    if (unmetLimit(available[0]!.target.model, features)) continue
    const options = preferences
      ? available.filter(({ target }) => !exclusionOf(preferences, target, priced))
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
  const { inputs, policy, kind, features } = context
  const known = knownOf(inputs)
  const allowlist = policy.allowlist ?? everything
  let lists = known.lists.get(allowlist)
  if (!lists) known.lists.set(allowlist, (lists = new Map()))
  const date = utcDateOf(inputs.clock.now())
  const key = `${date} ${policy.environment} ${kind} ${capabilitiesOf(features)} ${features.signedThinking}`
  let list = lists.get(key)
  if (!list) {
    list = findOptions(context, known.options, date)
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

function findOptions(context: RoutingContext, known: Known['options'], date: string): List {
  const { inputs, policy, features } = context
  const allowed = allowedModels(inputs.catalog, policy)
  const unrestricted = { ...context, preferences: null }
  const list: Option[][] = []
  for (const model of inputs.catalog.models.values()) {
    if (model.disabled || !serves(model, 'chat') || model.quality === null) continue
    if (isRetired(model, date) || allowed?.has(model.id) === false || unmetCapability(model, features)) continue
    const options: Option[] = []
    for (const { deployment, provider } of inputs.catalog.targets(model)) {
      const target = { model, deployment, provider }
      if (exclusionReason(inputs, unrestricted, target, true) !== null) continue
      let option = known.get(deployment)
      if (!option) known.set(deployment, (option = newOption(target, true)))
      options.push(option)
    }
    if (options.length > 0) list.push(options)
  }
  return list
}

/** The models `auto` may choose from, retired ones only if there are no others. Throws 400 when none of them can accept the request. */
export function listEligibleModels({ inputs, policy, features, excluded: listed }: RoutingContext): ModelRow[] {
  const models: ModelRow[] = []
  const allowed = allowedModels(inputs.catalog, policy)
  const unmetRequirements: UnmetRequirement[] = []
  const date = utcDateOf(inputs.clock.now())
  const retired: ModelRow[] = []
  for (const model of inputs.catalog.models.values()) {
    if (model.disabled || !serves(model, 'chat')) continue
    const isDisallowed = allowed?.has(model.id) === false
    const missing = isDisallowed ? null : unmetAutoRequirement(model, features)
    if (missing) unmetRequirements.push(missing)
    const excluded = isDisallowed
      ? 'not in the key’s allowlist'
      : (missing?.why ?? (model.quality === null ? 'has no quality figure' : null))
    if (!excluded) (isRetired(model, date) ? retired : models).push(model)
    else listed?.push({ ...unknown, model: model.id, quality: model.quality, excluded })
  }
  if (models.length === 0) models.push(...retired)
  else
    for (const { id, quality, expires_on } of retired)
      listed?.push({ ...unknown, model: id, quality, excluded: `was retired on ${expires_on}` })
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
