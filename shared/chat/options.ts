import { GatewayError } from '../base/errors.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { ModelRow } from '../catalog/schema.ts'
import type { Mode, Policy } from '../keys/policy.ts'
import type { Features } from '../kinds/features.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Target } from '../providers/contract.ts'
import type { Figures } from '../providers/health.ts'
import type { Upstreams } from '../providers/upstreams.ts'
import type { Candidate } from '../wallet/routing-record.ts'
import { estimateNano, expectedOutputTokens } from './pricing.ts'
import { type Rated, rate, scoreOf, secondsOf } from './score.ts'

/** A request's body, of which the router reads the model and the routing fields. */
export type RoutingRequest = DirectKinds[DirectKind]['request'] & {
  mode?: Mode | undefined
  models?: string[] | undefined
}

/** What a decision is made from, beside the request and its key's policy. */
export type RoutingWorld = {
  catalog: Catalog
  upstreams: Pick<Upstreams, 'configured' | 'adapter'>
  figures(target: Target): Figures
  marginPpm: bigint
  /** The longest a request waits for a provider that rests. */
  mostPauseMs: number
}

/** One request under consideration. `candidates` notes what was considered; null when nobody asks. */
export type Inquiry = {
  world: RoutingWorld
  policy: Policy
  kind: DirectKind
  mode: Mode
  request: RoutingRequest
  features: Features
  candidates: Candidate[] | null
  /** The error of a request that is too long for the model it asks for; null where it is not. */
  overflow: GatewayError | null
  /** The models whose providers were looked at. */
  considered: ModelRow[]
  /** The request without the length of its texts, once somebody asked what a dialect can express of it. */
  outline?: RoutingRequest
}

/** A slug of the request: the model it names or `auto`, and how its suffix wants the providers ordered. */
export type Wish = { slug: string; auto: boolean; model: ModelRow | null; sort: Sort }

/** What decides between providers, and for `auto` between models: the score, or what the model's suffix asks for. */
export type Sort = 'score' | 'price' | 'speed'

/** A model at a provider that may serve the request. */
export type Option = Rated & {
  target: Target
  costNano: number
  figures: Figures
  /** Place in the request's `provider.order`. */
  preference: number
  score: number
  seconds: number
  candidate: Candidate | null
}

const unlisted = Number.MAX_SAFE_INTEGER

/**
 * The providers that may serve a model, the best first and those that rest last. `difficulty` is null where the request
 * names the model: the choice is then between providers only.
 */
export function optionsOf(inquiry: Inquiry, model: ModelRow, sort: Sort, difficulty: number | null): Option[] {
  const { world, mode, request, features } = inquiry
  const order = request.provider?.order
  const options: Option[] = []
  inquiry.considered.push(model)
  for (const { deployment, provider } of world.catalog.targets(model)) {
    const target = { model, deployment, provider }
    const figures = world.figures(target)
    const costNano = estimateNano(target, features, world.marginPpm)
    const excluded = exclusionOf(world, inquiry, target, difficulty !== null)
    const rated = rate(model.quality ?? 0, costNano, figures, difficulty ?? 0)
    const score = scoreOf(rated, mode)
    const candidate = inquiry.candidates && {
      model: model.id,
      provider: provider.name,
      score: difficulty === null || excluded ? null : Math.round(score * 1e6) / 1e6,
      quality: model.quality,
      estimatedCostNano: costNano,
      latencyMs: figures.firstByteMs,
      // One that rests may still serve, when all do.
      excluded: excluded ?? (figures.restMs > 0 ? restNote(figures) : null),
    }
    if (candidate) inquiry.candidates!.push(candidate)
    if (excluded) continue
    const place = order?.indexOf(provider.name) ?? -1
    const preference = place < 0 ? unlisted : place
    const seconds = secondsOf(figures, expectedOutputTokens(features))
    options.push({ ...rated, target, costNano, figures, preference, score, seconds, candidate })
  }
  return options.length > 1 ? options.sort(asPreferred(sort)) : options
}

/** Whether a request's preferences leave a provider out. */
export function isUnwanted({ provider }: RoutingRequest, name: string): boolean {
  if (!provider) return false
  const { only, ignore, order, allow_fallbacks } = provider
  if (only && !only.includes(name)) return true
  return (allow_fallbacks === false && order !== undefined && !order.includes(name)) || ignore?.includes(name) === true
}

/** Why a model's provider cannot serve a request, null when it can. `ours`: the choice of the model is ours. */
export function exclusionOf(
  world: RoutingWorld,
  { policy, kind, request }: Pick<Inquiry, 'policy' | 'kind' | 'request'>,
  target: Target,
  ours: boolean,
): string | null {
  const { name, auth } = target.provider
  // A test key is served whatever is configured, but a server nobody set up looks free and would always win.
  const environment = ours && auth === 'none' ? 'live' : policy.environment
  if (!world.upstreams.configured(name, environment)) return 'provider is not configured'
  if (isUnwanted(request, name)) return 'excluded by the request’s provider preferences'
  if (!world.upstreams.adapter(kind, target, policy.environment)) return 'provider’s protocol does not serve this route'
  return null
}

const bySort: Record<Sort, (a: Option, b: Option) => number> = {
  score: (a, b) => b.score - a.score,
  price: (a, b) => a.costNano - b.costNano,
  speed: (a, b) => a.seconds - b.seconds || b.score - a.score,
}

/** The order of options of different models: rested before resting ones, then what `sort` asks for. */
export function inOrderOf(sort: Sort): (a: Option, b: Option) => number {
  return (a, b) => restOf(a) - restOf(b) || bySort[sort](a, b) || tie(a, b)
}

/** The order of one model's providers: the caller's own comes before what `sort` asks for. */
function asPreferred(sort: Sort): (a: Option, b: Option) => number {
  const otherwise = inOrderOf(sort)
  return (a, b) => restOf(a) - restOf(b) || a.preference - b.preference || otherwise(a, b)
}

/** Of equals the cheaper one, then the model's own maker, then the alphabet: never the order of the catalog. */
export function tie(a: Option, b: Option): number {
  return a.costNano - b.costNano || Number(isMaker(b)) - Number(isMaker(a)) || (nameOf(a) < nameOf(b) ? -1 : 1)
}

function restOf({ figures }: Option): number {
  return figures.restMs
}

function isMaker({ target }: Option): boolean {
  return target.model.owned_by === target.provider.name
}

function nameOf({ target }: Option): string {
  return `${target.model.id}@${target.provider.name}`
}

/** True when a provider's dialect cannot express the request; its candidate then says why. */
export function refusalNoted(inquiry: Inquiry, { target, candidate }: Option): boolean {
  const { world, kind, request } = inquiry
  inquiry.outline ??= isLong(inquiry.features) ? (outlineOf(request) as RoutingRequest) : request
  const refusal = refusalOf(world.upstreams, kind, target, inquiry.outline)
  if (refusal && candidate) Object.assign(candidate, { excluded: refusal.message, score: null })
  return refusal !== null
}

const longTokens = 4_000
const longestText = 1_024

function isLong({ promptTokensEstimate, inputs }: Features): boolean {
  return promptTokensEstimate > longTokens || inputs.image || inputs.audio || inputs.file
}

/** A value whose texts are cut short: what a dialect can express is seen from their beginnings. */
function outlineOf(value: unknown): unknown {
  if (typeof value === 'string') return value.slice(0, longestText)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(outlineOf)
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, outlineOf(member)]))
}

/** What a provider's dialect cannot express of a request, as the 400 it would be; null when it can take it. */
export function refusalOf(
  upstreams: RoutingWorld['upstreams'],
  kind: DirectKind,
  target: Target,
  request: RoutingRequest,
): GatewayError | null {
  const rehearsed = rehearsal(upstreams, kind, target, request)
  return rehearsed instanceof GatewayError ? rehearsed : null
}

/**
 * What a provider's dialect makes of a request: the 400 of what it cannot express, else the fields that it does without. Nothing is
 * said of our own dialect, which can express everything.
 */
export function rehearsal(
  upstreams: RoutingWorld['upstreams'],
  kind: DirectKind,
  target: Target,
  request: RoutingRequest,
): GatewayError | readonly string[] | null {
  const adapter = upstreams.adapter(kind, target, 'live', request as never)?.adapter
  if (!adapter || adapter.native) return null
  try {
    const call = { target, body: request as never, raw: null, maxTokens: null, media: new Map() }
    return adapter.request(call).dropped ?? []
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'unsupported_capability') return error
    return null // Anything else is for the request itself to find out.
  }
}

/** Why a target is passed over although it could serve the request. */
function restNote({ circuit, restMs }: Figures): string {
  if (circuit === 'half_open') return 'another request is trying whether it has recovered'
  const why = circuit === 'open' ? 'its circuit is open after repeated failures' : 'it asked to be left alone'
  return `${why}; back in ${inSeconds(restMs)}`
}

export function inSeconds(ms: number): string {
  return `${(Math.ceil(ms / 100) / 10).toFixed(1)} s`
}
