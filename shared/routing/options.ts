import type { Config } from '../base/config.ts'
import { GatewayError } from '../base/errors.ts'
import { formatNames } from '../base/names.ts'
import type { Clock } from '../base/time.ts'
import { withoutGateway } from '../catalog/aliases.ts'
import type { Catalog, CatalogTarget } from '../catalog/catalog.ts'
import type { PriceSteps } from '../catalog/prices.ts'
import type { ModelRow } from '../catalog/schema.ts'
import { profileOf } from '../catalog/traits.ts'
import type { QualityOffsets } from '../feedback/offsets.ts'
import type { Mode, Policy } from '../keys/policy.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Target, UpstreamRequest } from '../providers/contract.ts'
import { type Figures, unknownFigures } from '../providers/health.ts'
import { parametersAmong } from '../providers/toolkit/request-fields.ts'
import type { Upstreams } from '../providers/upstreams.ts'
import type { Candidate } from '../wallet/routing-record.ts'
import type { Features } from './features.ts'
import { type ExpectedUse, estimateNano, keepTier, priceStepsAt, targetOf, withoutServedTier } from './pricing.ts'
import {
  type Arm,
  exclusionOf,
  exclusionText,
  missesThreshold,
  type Owner,
  type Preferences,
  placeOf,
  type Sort,
} from './provider-preferences.ts'
import { requestFormatOf, requestFormats } from './request-formats.ts'
import { type Rated, secondsOf } from './score.ts'
import type { Task } from './task.ts'

/** An alias that several models share, the model that serves, and its share in percent. */
export type AliasDraw = { name: string; model: string; percent: number }

/** What routing reads of a key's policy. */
export type RoutingPolicy = Pick<
  Policy,
  'environment' | 'mode' | 'allowlist' | 'deniedTiers' | 'provider' | 'ownKeys' | 'keyId'
>

/** A request body, of which the router reads the model and the routing fields. */
export type RoutingRequest = DirectKinds[DirectKind]['request'] & {
  mode?: Mode | undefined
  models?: string[] | undefined
}

/** The inputs of a routing decision apart from the request and its key's policy. */
export type RoutingInputs = {
  catalog: Catalog
  upstreams: Pick<Upstreams, 'isConfigured' | 'adapter' | 'ownTargets'>
  figures(target: Target): Figures
  /** Until it changes, a target with `unknownFigures` keeps them; null = they are not remembered. */
  healthRevision(): number | null
  marginPpm: bigint
  /** Maximum time a request waits for a provider in cooldown. */
  maxPauseMs: number
  clock: Clock
}

type SnapshotSources = { catalog: Catalog; upstreams: Upstreams; config: Pick<Config, 'retry'>; clock: Clock }

/** The routing inputs as this process currently knows them. */
export function snapshotOf(sources: SnapshotSources, marginPpm: bigint): RoutingInputs {
  const { catalog, upstreams, config, clock } = sources
  const { pauseMs: maxPauseMs } = config.retry
  const figures = (target: Target) => upstreams.figures(target)
  return { catalog, upstreams, figures, healthRevision: () => upstreams.healthRevision, marginPpm, maxPauseMs, clock }
}

/** One routing decision: what it is about, and what its steps have found so far. */
export type RoutingContext = {
  readonly inputs: RoutingInputs
  readonly policy: RoutingPolicy
  readonly kind: DirectKind
  readonly mode: Mode
  readonly request: RoutingRequest
  /** The preferences of the key's policy and of the request; null = none. */
  readonly preferences: Preferences | null
  /** What the request needs of a model. */
  features: Features
  readonly use: ExpectedUse
  /** What feedback taught about models, for `auto`; null = nothing. */
  readonly learned: QualityOffsets | null
  /** Whether the decision is explained, by the options that were compared. */
  readonly explains: boolean
  /** The class of the request's task; `general` unless the router chooses the model. */
  task: Task
  /** The options that were compared, if the decision is explained. */
  compared: readonly Option[]
  /** What was excluded before; null when not requested. */
  excluded: Candidate[] | null
  /** The estimated difficulty, once read. */
  difficulty: number | null
  /** The error of a request that exceeds the context of the model it names; null otherwise. */
  overflow: GatewayError | null
  /** The models whose providers were considered. */
  considered: ModelRow[]
  /** By which weights draw a provider. */
  readonly seed: string
  /** The provider of the first model with one that weights drew; null = none. */
  arm: Arm | null
  /** The model that was drawn for an alias which several share; null = the request names none. */
  readonly draw: AliasDraw | null
  /** Whether targets are considered that lack the format of the answer, which is asked for in another way. */
  emulatesFormat: boolean
  /** Whether every dialect can express the request, once a dialect has been checked for it. */
  isPlain?: boolean
  /** The request with its texts truncated, set once a dialect has been checked against it. */
  outline?: RoutingRequest
}

/** A parsed model selector: the named model or `auto`, and the provider order requested by its suffix. */
export type ModelSelector = { slug: string; auto: boolean; model: ModelRow | null; sort: Sort }

/** A model at a provider that may serve the request. */
export type Option = Rated & {
  target: Target
  /** Model and provider, by which equal options are ordered. */
  name: string
  /** The catalog's quality for the task, and what feedback adds to it; `quality` is their sum. */
  listedQuality: number
  learned: number
  costNano: number
  figures: Figures
  /** The revision of the health as of which nothing is known of the target; null = there is none. */
  unknownAt: number | null
  /** The prices that its cost is estimated by; null = it has none by the token. */
  prices: PriceSteps | null
  /** Index in the `order` of the preferences. */
  preference: number
  /** 1 for one that misses a threshold of the preferences, so that others come first. */
  late: 0 | 1
  /** 1 for one with the operator's keys, so that those of own keys come first. */
  shared: 0 | 1
  score: number
  seconds: number
  /** Whether the router chose the model, so that its score is compared to those of other models. */
  isAutomatic: boolean
  /** Why the provider's dialect cannot express the request; null as far as known. */
  refusal: string | null
  /** 1 for one that lacks the format of the answer, which is asked for in another way, so that others come first. */
  emulated: 0 | 1
}

const unlistedRank = Number.MAX_SAFE_INTEGER

/** The providers of a model under a policy: those that own keys reach first, in the catalog's order. */
export function targetsUnder(
  { catalog, upstreams }: Pick<RoutingInputs, 'catalog' | 'upstreams'>,
  { ownKeys }: Pick<RoutingPolicy, 'ownKeys'>,
  model: ModelRow,
): readonly (CatalogTarget & Pick<Target, 'own'>)[] {
  if (!ownKeys) return catalog.targets(model)
  const own = upstreams.ownTargets(model, ownKeys)
  return ownKeys.mode === 'own' ? own : [...own, ...catalog.targets(model)]
}

/**
 * The providers that may serve a model, not rated yet and in catalog order. `isAutomatic`: the router chooses the model.
 */
export function listOptions(context: RoutingContext, model: ModelRow, isAutomatic: boolean): Option[] {
  const { inputs, use, excluded, features } = context
  const options: Option[] = []
  context.considered.push(model)
  const quality = qualityOf(model, context.task, isAutomatic ? context.learned : null)
  const exclude = (target: Target, reason: string) =>
    excluded?.push({
      model: model.id,
      provider: target.provider.name,
      score: null,
      quality: shownQuality(model, quality),
      learned: quality.learned,
      estimatedCostNano: estimateNano(priceStepsAt(target), target.own, use),
      latencyMs: inputs.figures(target).firstByteMs,
      excluded: reason,
    })
  for (const { deployment, provider, own } of targetsUnder(inputs, context.policy, model)) {
    const target = targetOf(own ? { model, deployment, provider, own } : { model, deployment, provider }, features)
    const reason = exclusionReason(inputs, context, target, isAutomatic)
    if (reason) exclude(target, reason)
    else options.push(estimateOption(context, newOption(target, isAutomatic)))
  }
  const kept = keepTier(options, features)
  if (kept !== options)
    for (const { target } of options)
      if (features.tier !== target.tier) exclude(target, `provider has no price for the service tier ${features.tier}`)
  return kept
}

/** A model at a provider, not estimated yet. `isAutomatic`: the router chooses the model. */
export function newOption(target: Target, isAutomatic: boolean): Option {
  return {
    target,
    name: `${target.model.id}@${target.provider.name}`,
    quality: 0,
    listedQuality: 0,
    learned: 0,
    costNano: 0,
    figures: unknownFigures,
    unknownAt: null,
    prices: priceStepsAt(target),
    preference: unlistedRank,
    late: 0,
    shared: target.own ? 0 : 1,
    seconds: 0,
    isAutomatic,
    refusal: null,
    emulated: 0,
    qualityScore: 0,
    normalisedPrice: 0,
    score: 0,
  }
}

/** Sets the cost, quality and health of an option for a request, and returns it. */
export function estimateOption({ inputs, preferences, task, learned, use }: RoutingContext, option: Option): Option {
  const { target, isAutomatic } = option
  const quality = qualityOf(target.model, task, isAutomatic ? learned : null)
  option.listedQuality = quality.listedQuality
  option.learned = quality.learned
  option.quality = quality.listedQuality + quality.learned
  option.costNano = estimateNano(option.prices, target.own, use)
  option.figures = figuresOf(inputs, option)
  option.preference = (preferences && placeOf(preferences, target.provider.name)) ?? unlistedRank
  option.late = preferences && missesThreshold(preferences, option.figures) ? 1 : 0
  option.seconds = secondsOf(option.figures, use.choiceTokens)
  option.refusal = null
  option.emulated = 0
  return option
}

/** The live figures of an option. Of most targets of a catalog nothing is known, which is not asked again until more is. */
function figuresOf({ figures, healthRevision }: RoutingInputs, option: Option): Figures {
  const revision = healthRevision()
  if (revision !== null && option.unknownAt === revision) return unknownFigures
  const found = figures(option.target)
  option.unknownAt = found === unknownFigures ? revision : null
  return found
}

/**
 * The reason why a model's provider cannot serve a request; null when it can. `isAutomatic`: the router chooses the
 * model.
 */
export function exclusionReason(
  inputs: RoutingInputs,
  { policy, kind, preferences, features }: Pick<RoutingContext, 'policy' | 'kind' | 'preferences' | 'features'>,
  target: Target,
  isAutomatic: boolean,
): string | null {
  const { name, auth } = target.provider
  // Test keys need no configured provider, but an unconfigured local server appears free and would always win.
  const environment = isAutomatic && auth === 'none' ? 'live' : policy.environment
  if (!target.own && !inputs.upstreams.isConfigured(name, environment)) return 'provider is not configured'
  const exclusion = preferences && exclusionOf(preferences, target, { features, marginPpm: inputs.marginPpm })
  if (exclusion) return exclusionText(exclusion)
  const served = inputs.upstreams.adapter(kind, target, policy.environment)
  if (!served) return 'provider’s protocol does not serve this route'
  if (features.signedThinking && policy.environment === 'live' && !served.adapter.native)
    return 'provider cannot read the signed thinking of this conversation'
  return null
}

/** Returns true, and notes the reason in the option, when the provider's dialect cannot express the request. */
export function markIfUnsupported(context: RoutingContext, option: Option): boolean {
  const { inputs, kind, request, preferences } = context
  if (preferences?.requiresParameters) return markIfIncomplete(context, option, preferences.requiresParameters)
  context.isPlain ??= requestFormatOf(kind).isPlain?.(request) ?? false
  // Functions are plain, but not for a model that takes them in Responses only.
  if (context.isPlain && profileOf(option.target).chat_tools) return false
  context.outline ??= isLong(context.features) ? (outlineOf(request) as RoutingRequest) : request
  const dryRun = dryRunRequest(inputs.upstreams, kind, option.target, context.outline, true)
  option.refusal = dryRun instanceof GatewayError ? dryRun.message : null
  if (dryRun instanceof GatewayError || !dryRun?.structuredBy) return option.refusal !== null
  option.emulated = 1
  if (!context.emulatesFormat) option.refusal = 'it has no such format of answers'
  return !context.emulatesFormat
}

/** The same where every parameter of the request is required: also a provider that would not get one is left out. */
function markIfIncomplete({ inputs, kind, request, features }: RoutingContext, option: Option, owner: Owner): boolean {
  const dryRun = dryRunRequest(inputs.upstreams, kind, option.target, request)
  if (dryRun instanceof GatewayError) option.refusal = dryRun.message
  else {
    const missing = parametersAmong(kind, withoutServedTier(dryRun?.dropped ?? [], option.target))
    if (features.tier && !option.target.tier) missing.push('service_tier')
    if (dryRun?.structuredBy) missing.push('response_format')
    const why = `it does not take ${formatNames(missing)}`
    option.refusal = missing.length > 0 ? exclusionText({ owner, member: 'require_parameters', why }) : null
  }
  return option.refusal !== null
}

/** The 400 of a request of which no provider takes every parameter, as the preferences demand. */
export function missingParameterError(options: readonly Option[]): GatewayError {
  const facts = options.slice(0, maxShownOptions).map(({ target, refusal }) => `${target.provider.name}: ${refusal}`)
  const message = `No provider of this request takes all of its parameters, as \`provider.require_parameters\` demands. ${facts.join('; ')}.`
  return new GatewayError('invalid_request', message, { param: 'provider' })
}

const maxShownOptions = 5

const longTokens = 4_000
/** More than the media type of a `data:` URL with its parameters. What is kept is serialised for each target that is tried. */
const maxText = 256

function isLong({ promptTokensEstimate, inputs }: Features): boolean {
  return promptTokensEstimate > longTokens || inputs.image || inputs.audio || inputs.file
}

/** A copy with truncated texts: whether a dialect can express them depends only on their beginning. */
function outlineOf(value: unknown): unknown {
  if (typeof value === 'string') return value.slice(0, maxText)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(outlineOf)
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, outlineOf(member)]))
}

/** The 400 for a request that the provider's dialect cannot express; null when it can. */
export function unsupportedError(
  upstreams: RoutingInputs['upstreams'],
  kind: DirectKind,
  target: Target,
  request: RoutingRequest,
): GatewayError | null {
  const dryRun = dryRunRequest(upstreams, kind, target, request, true)
  return dryRun instanceof GatewayError ? dryRun : null
}

/**
 * Translates a request into a provider's dialect without sending it: the 400 for an unsupported capability, else the
 * fields that would be dropped and changed, and how a format is asked for that the target lacks. Null for native dialects, which support everything but what the profile of a
 * chat model excludes. `onlyRefusal`: only whether it is refused matters.
 */
export function dryRunRequest(
  upstreams: RoutingInputs['upstreams'],
  kind: DirectKind,
  target: Target,
  request: RoutingRequest,
  onlyRefusal = false,
): GatewayError | Pick<UpstreamRequest, 'dropped' | 'adjusted' | 'structuredBy'> | null {
  const adapter = upstreams.adapter(kind, target, 'live', request as never)?.adapter
  const format = requestFormatOf(kind)
  if (!adapter || (adapter.native && !format.fit && onlyRefusal)) return null
  try {
    const body = format.complete?.(request) ?? request
    // Then it is not written for dialects that are almost ours.
    if (adapter.native && onlyRefusal) return format.fit!(body, target)
    const call = { target, body: body as never, raw: null, maxTokens: null, media: new Map() }
    return adapter.request(call)
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'unsupported_capability') return error
    return null // Other errors surface when the request is sent.
  }
}

const suffixes: readonly [suffix: string, sort: Sort][] = [
  [':floor', 'price'],
  [':nitro', 'speed'],
]

/**
 * Parses the `model` of a request: a model id or `auto`, optionally with a suffix, and with the prefix of another gateway. An exact
 * model id takes precedence over a suffix.
 */
export function parseModelSelector(catalog: Catalog, slug: string, kind: DirectKind): ModelSelector {
  const model = catalog.find(slug) ?? null
  const auto = requestFormats[kind].isConversation
  const name = model ? slug : (withoutGateway(slug) ?? slug)
  if (model || name === 'auto') return { slug, auto: !model && auto, model, sort: 'score' }
  for (const [suffix, sort] of suffixes) {
    if (!name.endsWith(suffix)) continue
    const base = name.slice(0, -suffix.length)
    return { slug, auto: auto && base === 'auto', model: catalog.find(base) ?? null, sort }
  }
  return { slug, auto: false, model: null, sort: 'score' }
}

/** Whether a kind's route serves a model. */
export function serves(model: ModelRow, kind: DirectKind): boolean {
  if (kind === 'embedding') return model.type === 'embeddings'
  if (requestFormats[kind].isConversation) return model.type === 'chat' && !model.endpoint
  return model.type === 'chat'
}

/**
 * The quality of a model for a task: the catalog's figure for the class of the task, else its general one, from 0 to 100,
 * and the offset learned from feedback. The router reads a model's quality only here.
 */
function qualityOf(
  model: ModelRow,
  task: Task,
  offsets: QualityOffsets | null,
): { listedQuality: number; learned: number } {
  const ofTask = task === 'general' ? undefined : model.task_qualities?.[task]
  return { listedQuality: ofTask ?? model.quality ?? 0, learned: offsets?.get(model.id) ?? 0 }
}

/** A model's quality as candidates show it; null for a model without a figure. */
export function shownQuality({ quality }: ModelRow, { listedQuality }: { listedQuality: number }): number | null {
  return quality === null ? null : listedQuality
}
