import { GatewayError } from '../base/errors.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { modelNotFoundError } from '../catalog/model-not-found.ts'
import type { ModelRow } from '../catalog/schema.ts'
import type { QualityOffsets } from '../feedback/offsets.ts'
import { allowedModels, type Mode } from '../keys/policy.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Target } from '../providers/contract.ts'
import { isOwnKeyId } from '../providers/own-accounts.ts'
import { type Candidate, maxCandidates } from '../wallet/routing-record.ts'
import { isShared, servedBy, withDrawnModels } from './alias-arms.ts'
import { listAvailableOptions, listEligibleModels } from './available-options.ts'
import { reasonOf, topCandidates } from './explain.ts'
import { type Features, type UnmetRequirement, unmetRequirement } from './features.ts'
import { addLargerContext } from './larger-context.ts'
import { noTargetError, noTargetNowError } from './no-target-errors.ts'
import {
  type AliasDraw,
  exclusionReason,
  listOptions,
  type ModelSelector,
  markIfUnsupported,
  missingParameterError,
  type Option,
  parseModelSelector,
  type RoutingContext,
  type RoutingInputs,
  type RoutingPolicy,
  type RoutingRequest,
  serves,
  unsupportedError,
} from './options.ts'
import { assertTierAllowed, expectedUse, keepTier, targetOf } from './pricing.ts'
import { type Arm, drawArm, type Preferences, preferencesOf, type Sort } from './provider-preferences.ts'
import { breakTie, bringForward, byCooldown, compareBy, joined, rankProviders } from './rank-providers.ts'
import { requestFormats } from './request-formats.ts'
import { chooseBest, scaleOf } from './score.ts'
import { taskOf } from './task.ts'

/**
 * The target that last served a session and may hold its prompt in cache. `madeState`: it made the reasoning state in the
 * request, which no other target can continue.
 */
export type StickyTarget = { model: string; provider: string; credentialId: string | null; madeState?: true }

/**
 * A routing decision: the targets in order of attempt, and the reason. `overflow` is the error of a request that
 * exceeds the context of the model it names, when larger ones of its `models` are tried instead.
 */
export type Decision = {
  mode: Mode
  reason: string
  targets: Target[]
  candidates: Candidate[]
  overflow: GatewayError | null
  /** The provider that the weights of the key's policy drew, and its share in percent; absent without weights. */
  arm?: Arm
  /** The alias that the request names, and which of the models that share it serves; absent for other names. */
  alias?: AliasDraw
}

/** Maximum targets of a request including the first, and maximum targets of one named model. */
export const maxTargets = 5
const maxPerModel = 3
const maxOfBestModel = 2
/** A session moves to another model only if its quality is higher by this much. */
const qualityToMoveFor = 10

/**
 * How much of a decision is explained: nothing, for a request that names its model; for the request log the reason and
 * the best candidates; for a preview all candidates, also those that cannot serve the request.
 */
export type Explain = 'no' | 'log' | 'preview'

type RoutingQuery = {
  policy: RoutingPolicy
  kind: DirectKind
  request: RoutingRequest
  features: Features
  sticky?: StickyTarget | null
  /** What the feedback of the key taught; used for `auto` only. */
  learned?: QualityOffsets | null
  /** By which weights draw: the session, so that it stays with its share, or a name of the request alone. */
  seed?: string
  /** By which an alias draws its model; without it, the caller does. */
  session?: string | null
}

/** Whether a request leaves the choice of its model to the gateway, which then says why: `auto`, or an alias that several share. */
export function choosesModel(catalog: Catalog, slug: string, kind: DirectKind): boolean {
  return parseModelSelector(catalog, slug, kind).auto || (catalog.arms.size > 0 && isShared(catalog, slug))
}

/**
 * Routes a request: hard requirements first, then a score. Equal inputs give equal decisions, and nothing outside is
 * changed: the steps record what they find in a `RoutingContext` of this decision. Throws a GatewayError: 400 when the
 * named model cannot accept the request, or when its preferences or the allowlist exclude all targets, 403 outside the
 * allowlist, 404 for an unknown model, 503 when no configured provider can serve it now.
 */
export function route(inputs: RoutingInputs, query: RoutingQuery, explain: Explain = 'no'): Decision {
  const { policy, kind, features, sticky = null, learned = null } = query
  const split = inputs.catalog.arms.size > 0 ? withDrawnModels(inputs.catalog, query) : null
  const { request, draw } = split ?? { request: query.request, draw: null }
  assertTierAllowed(policy, features)
  const mode = request.mode ?? policy.mode
  const preferences = policy.provider || request.provider ? preferencesOf(policy.provider, request.provider) : null
  const only = explain === 'no' && !draw ? onlyTarget(inputs, { ...query, preferences }) : null
  if (only) return { mode, reason: '', targets: [only], candidates: [], overflow: null }
  const context: RoutingContext = {
    inputs,
    policy,
    kind,
    mode,
    request,
    preferences,
    features,
    use: expectedUse(features, inputs.marginPpm),
    task: 'general',
    learned,
    explains: explain !== 'no',
    compared: [],
    excluded: explain === 'preview' ? [] : null,
    difficulty: null,
    overflow: null,
    considered: [],
    seed: query.seed ?? '',
    arm: null,
    draw,
    emulatesFormat: true,
  }
  const { options, selectors } = selectOptions(context, sticky)
  const { overflow } = context
  const chosen = excludeCoolingDown(context, keepTier(options, features)).slice(0, maxTargets)
  const targets = chosen.map(({ target }) => target)
  const arm = context.arm && targets[0]!.provider.name === context.arm.provider ? { arm: context.arm } : {}
  const drawn = { ...arm, ...(draw && servedBy(draw, inputs.catalog.arms, targets[0]!.model.id)) }
  if (explain === 'no') return { mode, reason: '', targets, candidates: [], overflow, ...drawn }
  const reason = reasonOf(context, selectors.get(targets[0]!.model)!, chosen, sticky)
  const candidates = topCandidates(context, chosen, explain === 'log' ? maxCandidates : Number.POSITIVE_INFINITY)
  return { mode, reason, targets, candidates, overflow, ...drawn }
}

/**
 * The options of the models that a request names, in its order, and by which of its names each model was selected.
 * Throws the error of the first model, or a 503, when there are none.
 */
function selectOptions(
  context: RoutingContext,
  sticky: StickyTarget | null,
): { options: Option[]; selectors: ReadonlyMap<ModelRow, ModelSelector> } {
  const { inputs, kind, request, preferences, draw } = context
  const options: Option[] = []
  const selectors = new Map<ModelRow, ModelSelector>()
  let refusal: GatewayError | null = null
  for (const slug of request.models ? new Set([request.model, ...request.models]) : [request.model]) {
    try {
      const selector = preferredSelector(parseModelSelector(inputs.catalog, slug, kind), preferences)
      const selected = selector.auto
        ? selectAutomatically(context, selector, sticky)
        : selectPinned(context, selector, sticky)
      const added = selected.filter(({ target }) => !selectors.has(target.model))
      for (const { target } of added) selectors.set(target.model, selector)
      options.push(...added)
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      // A fallback model that cannot accept the request is skipped; the first model's error is reported.
      if (slug !== request.model) continue
      if (error.code === 'context_length_exceeded') context.overflow = error
      // The other models of an alias serve what the drawn one cannot.
      else if (draw) refusal = error
      else throw error
    }
  }
  if (options.length === 0) throw context.overflow ?? refusal ?? noTargetError(context)
  if (preferences && request.models) joinModels(options, preferences)
  return { options, selectors }
}

/**
 * Fast path: the only target of a request that names a model with one available provider. Null when there may be more
 * to decide or to reject.
 */
function onlyTarget(inputs: RoutingInputs, query: RoutingQuery & { preferences: Preferences | null }): Target | null {
  const { policy, kind, request, preferences, features } = query
  if (request.models || preferences?.requiresParameters || policy.ownKeys) return null
  const model = inputs.catalog.find(request.model)
  if (!model || model.disabled || !serves(model, kind)) return null
  const [served, other] = inputs.catalog.targets(model)
  if (
    !served ||
    other ||
    allowedModels(inputs.catalog, policy)?.has(model.id) === false ||
    unmetRequirement(model, features)
  )
    return null
  const target = targetOf({ model, deployment: served.deployment, provider: served.provider }, features)
  if (exclusionReason(inputs, query, target, false) || inputs.figures(target).cooldownMs > 0) return null
  return target
}

/**
 * The options without cooldown; if there are none, those whose cooldown ends soonest. Throws 503 when that is too late.
 */
function excludeCoolingDown({ inputs, policy, overflow }: RoutingContext, options: readonly Option[]): Option[] {
  // The sandbox, which serves test keys, has no cooldown.
  const ready = options.filter(({ figures }) => figures.cooldownMs === 0)
  if (ready.length > 0) return ready
  const soonest = [...options].sort((a, b) => a.figures.cooldownMs - b.figures.cooldownMs)
  const { cooldownMs } = soonest[0]!.figures
  if (cooldownMs > inputs.maxPauseMs && policy.environment === 'live')
    throw overflow ?? noTargetNowError(options.map(({ figures }) => figures))
  return soonest
}

function selectPinned(
  context: RoutingContext,
  { slug, model, sort }: ModelSelector,
  sticky: StickyTarget | null,
): Option[] {
  const { inputs, policy, kind, request, features } = context
  if (!model || model.disabled || !serves(model, kind)) {
    const isServed = (row: ModelRow) => serves(row, kind)
    // The error of a fallback is never shown.
    const suggests = slug === request.model
    throw modelNotFoundError(inputs.catalog, { slug, model, list: '/v1/models', serves: isServed, suggests })
  }
  if (allowedModels(inputs.catalog, policy)?.has(model.id) === false) {
    throw new GatewayError('model_not_allowed', `This key may not use \`${slug}\`.`, { param: 'model' })
  }
  const missing = unmetRequirement(model, features)
  if (missing) throw unmetError(model, missing, kind, features)
  const listed = listOptions(context, model, false)
  if (context.explains) context.compared = context.compared.concat(listed)
  const options = rankProviders(context, listed, sort, scaleOf(listed, 0))
  const stickyOption =
    staysFor(sort, sticky) && options.find(option => isSticky(option, sticky) && isPreferred(option, options))
  if (stickyOption) options.sort((a, b) => Number(b === stickyOption) - Number(a === stickyOption))
  // With a single target, skip the check: the call itself will fail the same way.
  const [only] = options
  const isOnlyOption = !context.explains && !request.models && options.length === 1 && only!.figures.cooldownMs === 0
  const { preferences } = context
  const able =
    isOnlyOption && !preferences?.requiresParameters
      ? options
      : options.filter(option => !markIfUnsupported(context, option))
  // An order that the caller states precedes: `:floor` is the cheapest, native or not.
  if (sort === 'score' && !preferences?.order) able.sort((a, b) => a.emulated - b.emulated)
  if (only && able.length === 0)
    throw unsupportedError(inputs.upstreams, kind, only.target, request) ?? missingParameterError(options)
  if (preferences?.weights && !preferences.order && sort === 'score' && !stickyOption)
    drawFirst(context, able, preferences.weights)
  if (preferences?.fallsBack === false) return able.slice(0, 1)
  return context.policy.ownKeys ? withShared(able) : able.slice(0, maxPerModel)
}

/** The targets of a named model under own keys, of which one with the operator's keys remains if there is any. */
function withShared(options: readonly Option[]): Option[] {
  const first = options.slice(0, maxTargets)
  const shared = options.find(option => option.shared === 1)
  return !shared || first.includes(shared) ? first : [...first.slice(0, -1), shared]
}

/** Moves the provider that the weights draw to the front. The others follow in their order, for when its call fails. */
function drawFirst(context: RoutingContext, options: Option[], weights: ReadonlyMap<string, number>): void {
  const first = options[0]?.shared
  const ready = options.filter(({ figures, shared }) => figures.cooldownMs === 0 && shared === first)
  const arm = drawArm(
    ready.map(({ target }) => target.provider.name),
    weights,
    `${context.seed}\n${options[0]?.target.model.id}`,
  )
  if (!arm) return
  context.arm ??= arm
  const isDrawn = ({ target, shared }: Option) => target.provider.name === arm.provider && shared === first
  options.sort((a, b) => Number(isDrawn(b)) - Number(isDrawn(a)))
}

/** A model's suffix precedes the `sort` of the preferences. */
function preferredSelector(selector: ModelSelector, preferences: Preferences | null): ModelSelector {
  return preferences?.sort && selector.sort === 'score' ? { ...selector, sort: preferences.sort } : selector
}

/**
 * Of several models, ranks their providers together where the preferences say so; else those within the preferred thresholds
 * come first, in the order of the models.
 */
function joinModels(options: Option[], { joinsModels, sort }: Preferences): void {
  options.sort(joinsModels ? compareBy[sort ?? 'score'] : (a, b) => a.late - b.late)
}

/**
 * The options of an `auto` request. Throws 400 when no model can accept it. Models that have the format of its answer come
 * before those that are asked for it in another way: only where none can be used are these considered.
 */
function selectAutomatically(
  context: RoutingContext,
  selector: ModelSelector,
  sticky: StickyTarget | null,
): readonly Option[] {
  const { features, compared } = context
  if (!features.jsonSchema && !features.jsonObject) return selectAmongAble(context, selector, sticky)
  const excluded = context.excluded?.slice() ?? null
  const { image, audio } = features.outputs
  const isEmulated = !image && !audio && !context.preferences?.requiresParameters
  context.emulatesFormat = false
  try {
    const found = selectAmongAble(context, selector, sticky)
    if (found.length > 0 || !isEmulated) return found
  } catch (error) {
    if (!isEmulated || !(error instanceof GatewayError) || error.code !== 'unsupported_capability') throw error
  } finally {
    context.emulatesFormat = true
  }
  context.features = { ...features, jsonSchema: false, jsonObject: false }
  context.compared = compared
  context.excluded = excluded
  try {
    return selectAmongAble(context, selector, sticky)
  } finally {
    context.features = features
  }
}

function selectAmongAble(
  context: RoutingContext,
  { sort }: ModelSelector,
  sticky: StickyTarget | null,
): readonly Option[] {
  context.task = taskOf(context.features)
  // The cached options are those of the standard tier.
  const isCached = !context.excluded && !context.features.tier && !context.policy.ownKeys
  const chosen = isCached ? chooseAmong(context, listAvailableOptions(context), sort, sticky) : []
  if (chosen.length > 0) return chosen
  const listed = listEligibleModels(context).map(model => listOptions(context, model, true))
  const { tier } = context.features
  const tiered = tier ? listed.map(options => options.filter(({ target }) => target.tier)).filter(isNotEmpty) : []
  const groups = tiered.length > 0 ? tiered : listed.filter(isNotEmpty)
  const found = chooseAmong(context, groups, sort, sticky)
  if (found.length === 0 && groups.length > 0 && context.preferences?.requiresParameters)
    throw missingParameterError(joined(groups))
  return found
}

const isNotEmpty = (options: readonly Option[]) => options.length > 0

/** Of options by model, none of them empty: the best model's first two providers, then the next best models. */
function chooseAmong(
  context: RoutingContext,
  listed: Option[][],
  sort: Sort,
  sticky: StickyTarget | null,
): readonly Option[] {
  const { features, preferences } = context
  const able = (option: Option) => !markIfUnsupported(context, option)
  const options = joined(listed)
  if (context.explains) context.compared = context.compared.length > 0 ? context.compared.concat(options) : options
  // A preview names every target that cannot express the request; otherwise only those are checked that come first.
  if (context.excluded) for (const option of options) markIfUnsupported(context, option)
  context.difficulty ??= features.difficulty()
  const scale = scaleOf(options, context.difficulty)
  for (const options of listed) rankProviders(context, options, sort, scale)
  // A provider that cannot express the request must not precede others in the caller's order.
  const groups = preferences?.order ? listed.map(options => options.filter(able)).filter(isNotEmpty) : listed.slice()
  const compare = compareBy[sort]
  const compareGroups = ([a]: Option[], [b]: Option[]) => compare(a!, b!)
  bringForward(groups, maxTargets + 1, compareGroups)
  const preferred = preferences?.order
    ? groups.flatMap(group => group.filter(option => isPreferred(option, group)))
    : options
  const winner = winnerOf(context, preferred, sort, sticky)
  const chosen: Option[] = []
  if (winner) {
    const own = groups.find(group => group.includes(winner))!
    groups.splice(groups.indexOf(own), 1)
    const others = own.filter(option => option !== winner && able(option))
    chosen.push(winner, ...others.slice(0, maxOfBestModel - 1))
  }
  const max = preferences?.autoFallsBack === false ? 1 : maxTargets
  for (let rank = 0; rank < groups.length && chosen.length < max; rank++) {
    // Rarely so many cannot express the request: only then the order of all matters.
    if (rank === maxTargets) groups.sort(compareGroups)
    const first = groups[rank]!.find(able)
    if (first) chosen.push(first)
  }
  const among = (isFit: (option: Option) => boolean) =>
    joined(groups.sort(compareGroups)).find(option => isFit(option) && able(option))
  return addLargerContext(chosen.slice(0, max), features, among)
}

/** The first option, among those with the shortest cooldown (usually none). Null when none can accept the request. */
function winnerOf(
  context: RoutingContext,
  options: readonly Option[],
  sort: Sort,
  sticky: StickyTarget | null,
): Option | null {
  const able = (option: Option) => !markIfUnsupported(context, option)
  for (const all of byCooldown(options)) {
    const own = context.policy.ownKeys ? all.filter(option => option.shared === 0 && able(option)) : []
    const offered = own.length > 0 ? own : all
    // Without preferences none is late.
    const punctual = context.preferences ? offered.filter(option => option.late === 0 && able(option)) : offered
    const eligible = punctual.length > 0 ? punctual : offered
    const best =
      sort === 'score'
        ? chooseBest(eligible, context.mode, breakTie, able)
        : eligible.toSorted(compareBy[sort]).find(able)
    if (!best) continue
    const stickyOption = staysFor(sort, sticky) && eligible.find(option => isSticky(option, sticky) && able(option))
    if (!stickyOption) return best
    return sticky?.madeState || best.quality < stickyOption.quality + qualityToMoveFor ? stickyOption : best
  }
  return null
}

/** Whether a sticky target precedes those that `sort` puts first. */
function staysFor(sort: Sort, sticky: StickyTarget | null): boolean {
  return sort === 'score' || sticky?.madeState === true
}

function isSticky({ target, figures }: Option, sticky: StickyTarget | null): boolean {
  if (sticky?.model !== target.model.id || sticky.provider !== target.provider.name) return false
  return figures.cooldownMs === 0 && isOwnKeyId(sticky.credentialId) === (target.own !== undefined)
}

/** True when no provider that precedes this one in the request's order is available as soon. */
function isPreferred({ preference, figures, shared }: Option, group: readonly Option[]): boolean {
  const precedes = (other: Option) =>
    other.shared < shared || (other.shared === shared && other.preference < preference)
  return group.every(other => !precedes(other) || other.figures.cooldownMs > figures.cooldownMs)
}

/** The 400 for a model that does not meet a requirement, in the words that the clients of its format look for. */
function unmetError(
  { id, context_length }: ModelRow,
  { code, why, param, rejected }: UnmetRequirement,
  kind: DirectKind,
  { maxPromptEstimate }: Features,
): GatewayError {
  const { words } = requestFormats[kind]
  if (rejected === 'prompt_too_long') {
    const counts = { input: maxPromptEstimate, output: null, limit: context_length! }
    return new GatewayError(code, words.overflow(counts), { param })
  }
  return new GatewayError(code, words.unmet(`\`${id}\` ${why}`, rejected), { param })
}
