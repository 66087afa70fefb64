import type { Config } from '../base/config.ts'
import { GatewayError } from '../base/errors.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { ModelRow } from '../catalog/schema.ts'
import { allowedModels, noneAllowed } from '../keys/allowlist.ts'
import type { Mode, Policy } from '../keys/policy.ts'
import type { Features } from '../kinds/features.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Target } from '../providers/contract.ts'
import type { Upstreams } from '../providers/upstreams.ts'
import type { Candidate } from '../wallet/routing-record.ts'
import { reasonOf } from './explain.ts'
import { withLarger } from './larger.ts'
import { nobody, nobodyNow } from './nobody.ts'
import {
  exclusionOf,
  type Inquiry,
  inOrderOf,
  type Option,
  optionsOf,
  type RoutingRequest,
  type RoutingWorld,
  refusalNoted,
  refusalOf,
  type Sort,
  tie,
  type Wish,
} from './options.ts'
import { type Unmet, unmet, unmetByChoice } from './requirements.ts'
import { choose } from './score.ts'

/** Where a session was served before: what its provider has in its prompt cache. */
export type Home = { model: string; provider: string; credentialId: string | null }

/**
 * Where a request goes: the targets to try in order, and why. `overflow` is the error of a request that is too long for the
 * model it asks for, where larger ones of its `models` are tried instead.
 */
export type Decision = {
  mode: Mode
  reason: string
  targets: Target[]
  candidates: Candidate[]
  overflow: GatewayError | null
}

/** Targets one request may be sent to, the first included, and those of one named model. */
export const mostTargets = 5
const mostPerModel = 3
const mostOfBestModel = 2
/** A session leaves its model only for one that is better by this much. */
const qualityToMoveFor = 10

type Asking = { policy: Policy; kind: DirectKind; request: RoutingRequest; features: Features; home?: Home | null }

type Worldly = { catalog: Catalog; upstreams: Upstreams; config: Pick<Config, 'patience'> }

/**
 * Decides where a request goes: hard requirements first, then a score. Pure: the same question asked of the same world has
 * the same answer. The reason is given with up to `mostListed` candidates, neither where that is 0. Throws a GatewayError: 400 when the named model cannot
 * take the request, or its own preferences or the allowlist leave nobody, 403 outside the allowlist, 404 unknown, 503 when nobody
 * configured serves it now.
 */
export function route(world: RoutingWorld, asking: Asking, mostListed = 0): Decision {
  const { policy, kind, request, features, home = null } = asking
  const mode = request.mode ?? policy.mode
  const only = mostListed === 0 ? onlyTarget(world, asking) : null
  if (only) return { mode, reason: '', targets: [only], candidates: [], overflow: null }
  const candidates: Candidate[] = []
  const inquiry: Inquiry = {
    world,
    policy,
    kind,
    mode,
    request,
    features,
    candidates: mostListed > 0 ? candidates : null,
    overflow: null,
    considered: [],
  }
  const options: Option[] = []
  const wishes = new Map<ModelRow, Wish>()
  for (const slug of new Set([request.model, ...(request.models ?? [])])) {
    try {
      const wish = wishOf(world.catalog, slug, kind)
      const more = wish.auto ? automatic(inquiry, wish, home) : pinned(inquiry, wish, home)
      const fresh = more.filter(({ target }) => !wishes.has(target.model))
      for (const { target } of fresh) wishes.set(target.model, wish)
      options.push(...fresh)
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      // A fallback that cannot take the request is passed over; the first model's fault is the caller's to know.
      if (slug !== request.model) continue
      if (error.code !== 'context_length_exceeded') throw error
      inquiry.overflow = error
    }
  }
  const { overflow } = inquiry
  if (options.length === 0) throw overflow ?? nobody(inquiry)
  const chosen = rested(inquiry, options).slice(0, mostTargets)
  const targets = chosen.map(({ target }) => target)
  if (mostListed === 0) return { mode, reason: '', targets, candidates, overflow }
  const reason = reasonOf(inquiry, wishes.get(targets[0]!.model)!, chosen[0]!, home)
  return { mode, reason, targets, candidates: listed(chosen, candidates, mostListed), overflow }
}

/**
 * The one target of a request that names a model with one provider, where that can serve it now: there is nothing to weigh.
 * Null where there may be more to decide, or to refuse.
 */
function onlyTarget(world: RoutingWorld, asking: Asking): Target | null {
  const { policy, kind, request, features } = asking
  const model = request.models ? undefined : world.catalog.find(request.model)
  if (!model || model.disabled || !serves(model, kind)) return null
  const [served, other] = world.catalog.targets(model)
  if (!served || other || allowedModels(world.catalog, policy)?.has(model.id) === false || unmet(model, features))
    return null
  const target = { model, deployment: served.deployment, provider: served.provider }
  if (exclusionOf(world, asking, target, false) || world.figures(target).restMs > 0) return null
  return target
}

/** The world as a process knows it now. */
export function worldOf({ catalog, upstreams, config }: Worldly, marginPpm: bigint): RoutingWorld {
  const { pauseMs: mostPauseMs } = config.patience
  return { catalog, upstreams, figures: target => upstreams.figures(target), marginPpm, mostPauseMs }
}

/** Only those that need no rest; where all do, those that are back soon enough to wait for. Throws 503 where none is. */
function rested({ world, policy, overflow }: Inquiry, options: readonly Option[]): Option[] {
  // The sandbox, which serves test keys, never rests.
  const ready = options.filter(({ figures }) => figures.restMs === 0)
  const soonest = [...options].sort((a, b) => a.figures.restMs - b.figures.restMs)
  const chosen = ready.length > 0 ? ready : soonest
  const [first] = chosen as [Option]
  const { restMs } = first.figures
  if (restMs > world.mostPauseMs && policy.environment === 'live') throw overflow ?? nobodyNow(restMs, options.length)
  for (const { candidate } of chosen) if (candidate) candidate.excluded = null
  return chosen
}

const suffixes: readonly [suffix: string, sort: Sort][] = [
  [':floor', 'price'],
  [':nitro', 'speed'],
]

/** What a slug asks for. A model whose id ends like a suffix is that model. */
export function wishOf(catalog: Catalog, slug: string, kind: DirectKind): Wish {
  const model = catalog.find(slug) ?? null
  const auto = kind === 'chat'
  if (model || slug === 'auto') return { slug, auto: !model && auto, model, sort: 'score' }
  for (const [suffix, sort] of suffixes) {
    if (!slug.endsWith(suffix)) continue
    const base = slug.slice(0, -suffix.length)
    return { slug, auto: auto && base === 'auto', model: catalog.find(base) ?? null, sort }
  }
  return { slug, auto: false, model: null, sort: 'score' }
}

function pinned(inquiry: Inquiry, { slug, model, sort }: Wish, home: Home | null): Option[] {
  const { world, policy, kind, request, features, candidates } = inquiry
  if (!model || model.disabled || !serves(model, kind)) {
    throw new GatewayError(
      'model_not_found',
      `There is no model \`${slug}\` on this route. GET /v1/models lists what there is.`,
      { param: 'model' },
    )
  }
  if (allowedModels(world.catalog, policy)?.has(model.id) === false) {
    throw new GatewayError('model_not_allowed', `This key may not use \`${slug}\`.`, { param: 'model' })
  }
  const missing = unmet(model, features)
  if (missing) throw new GatewayError(missing.code, `\`${model.id}\` ${missing.why}.`, { param: missing.param })
  const options = optionsOf(inquiry, model, sort, null)
  const settled = sort === 'score' && options.find(option => isHome(option, home) && isPreferred(option, options))
  if (settled) options.sort((a, b) => Number(b === settled) - Number(a === settled))
  // That the only target cannot express the request is found out by the call to it, which comes to the same.
  const [only] = options
  const lone = !candidates && !request.models && options.length === 1 && only!.figures.restMs === 0
  const able = lone ? options : options.filter(option => !refusalNoted(inquiry, option))
  if (only && able.length === 0) throw refusalOf(world.upstreams, kind, only.target, request)!
  return able.slice(0, fallsBack(request) ? mostPerModel : 1)
}

/** False when only one provider may be tried: a caller who names an order allows every provider in it. */
function fallsBack({ provider }: RoutingRequest): boolean {
  return provider?.allow_fallbacks !== false || provider.order !== undefined
}

/** The options of a chat that leaves the choice to us: the best model's first two providers, then the next best models. */
function automatic(inquiry: Inquiry, { sort }: Wish, home: Home | null): readonly Option[] {
  const { features, request } = inquiry
  const difficulty = features.difficulty()
  const able = (option: Option) => !refusalNoted(inquiry, option)
  const groups = choosable(inquiry)
    .map(model => optionsOf(inquiry, model, sort, difficulty))
    // Whoever cannot express the request must not stand before others in the caller's own order.
    .map(group => (request.provider?.order ? group.filter(able) : group))
    .filter(group => group.length > 0)
  const compare = inOrderOf(sort)
  groups.sort(([a], [b]) => compare(a!, b!))
  const winner = winnerOf(inquiry, groups, sort, home)
  const chosen: Option[] = []
  if (winner) {
    const own = groups.find(group => group.includes(winner))!
    groups.splice(groups.indexOf(own), 1)
    const others = own.filter(option => option !== winner && able(option))
    chosen.push(winner, ...others.slice(0, mostOfBestModel - 1))
  }
  const most = request.provider?.allow_fallbacks === false ? 1 : mostTargets
  for (const group of groups) {
    if (chosen.length >= most) break
    const first = group.find(able)
    if (first) chosen.push(first)
  }
  const among = (isFit: (option: Option) => boolean) => groups.flat().find(option => isFit(option) && able(option))
  return withLarger(chosen.slice(0, most), features, among)
}

/** The option to begin with, among those that rest least: mostly, not at all. Null without any that can take the request. */
function winnerOf(inquiry: Inquiry, groups: readonly Option[][], sort: Sort, home: Home | null): Option | null {
  const able = (option: Option) => !refusalNoted(inquiry, option)
  const rests = new Set(groups.flatMap(group => group.map(({ figures }) => figures.restMs)))
  for (const restMs of [...rests].sort((a, b) => a - b)) {
    const open = groups.flatMap(group =>
      group.filter(option => option.figures.restMs === restMs && isPreferred(option, group)),
    )
    const best = sort === 'score' ? choose(open, inquiry.mode, tie, able) : open.sort(inOrderOf(sort)).find(able)
    if (!best) continue
    const settled = sort === 'score' && open.find(option => isHome(option, home) && able(option))
    return settled && best.quality < settled.quality + qualityToMoveFor ? settled : best
  }
  return null
}

function isHome({ target, figures }: Option, home: Home | null): boolean {
  return home?.model === target.model.id && home.provider === target.provider.name && figures.restMs === 0
}

/** True when none of a model's providers that comes earlier in the request's own order is back as soon. */
function isPreferred({ preference, figures }: Option, group: readonly Option[]): boolean {
  return group.every(other => other.preference >= preference || other.figures.restMs > figures.restMs)
}

/** What was considered, each once: the chosen as they are tried, then the best others, no more than `most` in all. */
function listed(chosen: readonly Option[], candidates: readonly Candidate[], most: number): Candidate[] {
  const list = chosen.slice(0, most).map(({ candidate }) => candidate!)
  for (const candidate of candidates) {
    let at = list.length
    while (at > chosen.length && isBefore(candidate, list[at - 1]!)) at--
    // Of well over a hundred candidates most end here.
    if (at >= most || list.some(one => one.model === candidate.model && one.provider === candidate.provider)) continue
    list.splice(at, 0, candidate)
    if (list.length > most) list.pop()
  }
  return list
}

/** By score, those without one last; then by name. */
function isBefore(a: Candidate, b: Candidate): boolean {
  if (a.score !== b.score) return b.score === null || (a.score !== null && a.score > b.score)
  return a.model === b.model ? (a.provider ?? '') < (b.provider ?? '') : a.model < b.model
}

/** The models `auto` may choose among. Throws the 400 of a request that none of them can take. */
function choosable({ world, policy, features, candidates }: Inquiry): ModelRow[] {
  const models: ModelRow[] = []
  const allowed = allowedModels(world.catalog, policy)
  const lacks: Unmet[] = []
  for (const model of world.catalog.models.values()) {
    if (model.disabled || !serves(model, 'chat')) continue
    const outside = allowed?.has(model.id) === false
    const lack = outside ? null : unmetByChoice(model, features)
    if (lack) lacks.push(lack)
    const excluded = outside
      ? 'not in the key’s allowlist'
      : (lack?.why ?? (model.quality === null ? 'has no quality figure' : null))
    if (!excluded) models.push(model)
    else candidates?.push({ ...unknown, model: model.id, quality: model.quality, excluded })
  }
  if (models.length === 0 && lacks.length === 0 && policy.allowlist) throw noneAllowed(policy.allowlist)
  if (models.length > 0 || lacks.length === 0) return models
  const [least] = lacks.sort((a, b) => nearness(b) - nearness(a) || (a.param < b.param ? -1 : 1))
  const message = 'No model that this key may use can take this request.'
  throw new GatewayError(least!.code, message, { param: least!.param })
}

/** How close a model comes to taking a request: what is checked last is all it lacks. */
function nearness({ code, param }: Unmet): number {
  return param === 'max_tokens' ? 2 : code === 'context_length_exceeded' ? 1 : 0
}

const unknown = { provider: null, score: null, estimatedCostNano: null, latencyMs: null }

/** Whether a model is served on a kind's route. */
export function serves(model: ModelRow, kind: DirectKind): boolean {
  if (kind === 'embedding') return model.type === 'embeddings'
  if (kind === 'chat') return model.type === 'chat' && !model.endpoint
  return model.type === 'chat'
}
