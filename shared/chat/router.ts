import { GatewayError } from '../base/errors.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { ModelRow } from '../catalog/schema.ts'
import type { Mode, Policy } from '../keys/policy.ts'
import type { Features } from '../kinds/features.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Target } from '../providers/contract.ts'
import type { Health } from '../providers/health.ts'
import type { Upstreams } from '../providers/upstreams.ts'
import { estimateNano } from './pricing.ts'
import { type Unmet, unmet, unmetByChoice } from './requirements.ts'
import { scoreOf } from './score.ts'

/** A request's body, of which the router reads the model and the routing fields. */
export type RoutingRequest = DirectKinds[DirectKind]['request'] & {
  mode?: Mode | undefined
  models?: string[] | undefined
}

export type Candidate = {
  model: string
  provider: string | null
  score: number | null
  quality: number | null
  estimatedCostNano: number | null
  latencyMs: number | null
  excluded: string | null
}

/** Where a request goes: the targets to try in order, and why. */
export type Decision = { mode: Mode; reason: string; targets: Target[]; candidates: Candidate[] }

export type RoutingWorld = { catalog: Catalog; upstreams: Upstreams; health: Health; marginPpm: bigint }

/** One request under consideration. `candidates` notes what was considered; null when nobody asks. */
type Inquiry = {
  world: RoutingWorld
  policy: Policy
  kind: DirectKind
  mode: Mode
  request: RoutingRequest
  features: Features
  candidates: Candidate[] | null
}

/** Targets one request may be sent to, the first included, and those of one named model. */
export const mostTargets = 6
const mostPerModel = 3

/**
 * Decides where a request goes. Pure but for reading live figures. `explain` notes every candidate. Throws a GatewayError:
 * 400 when the named model cannot take the request, 403 outside the allowlist, 404 unknown, 503 when nobody configured
 * serves it.
 */
export function route(
  world: RoutingWorld,
  policy: Policy,
  kind: DirectKind,
  request: RoutingRequest,
  features: Features,
  explain = false,
): Decision {
  const mode = request.mode ?? policy.mode
  const candidates: Candidate[] = []
  const inquiry = { world, policy, kind, mode, request, features, candidates: explain ? candidates : null }
  const targets: Target[] = []
  for (const slug of new Set([request.model, ...(request.models ?? [])])) {
    try {
      const more = slug === 'auto' && kind === 'chat' ? automatic(inquiry) : pinned(inquiry, slug)
      targets.push(...more.filter(({ model }) => !targets.some(target => target.model === model)))
    } catch (error) {
      // A fallback that cannot take the request is passed over; the first model's fault is the caller's to know.
      if (slug === request.model || !(error instanceof GatewayError)) throw error
    }
  }
  if (targets.length === 0) {
    throw new GatewayError('no_provider_available', 'No configured provider can serve this request now.', {
      headers: { 'retry-after': '5' },
    })
  }
  const reason =
    request.model === 'auto' ? `auto: the best match in mode ${mode}` : 'pinned: the request names the model'
  const most = request.provider?.allow_fallbacks === false ? 1 : mostTargets
  return { mode, reason, targets: targets.slice(0, most), candidates }
}

function pinned(inquiry: Inquiry, slug: string): Target[] {
  const { world, policy, kind, features, candidates } = inquiry
  const model = world.catalog.find(slug)
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
  const targets = ordered(inquiry, model)
  // A request finds out by itself what a provider's dialect cannot express; whoever only asks is told now.
  const able = candidates ? targets.filter(target => !refusalNoted(inquiry, target)) : targets
  if (able.length === 0 && targets.length > 0) throw refusalOf(world.upstreams, kind, targets[0]!, inquiry.request)!
  return able.slice(0, mostPerModel)
}

/** The targets of a chat that leaves the choice to us: the best model's first two providers, then the next best models. */
function automatic(inquiry: Inquiry): Target[] {
  const { world, mode, features } = inquiry
  const scored: { score: number; benched: boolean; costNano: number; id: string; targets: Target[] }[] = []
  const suitable = choosable(inquiry)
  for (const model of suitable) {
    const from = inquiry.candidates?.length ?? 0
    const targets = ordered(inquiry, model, true)
    const [first] = targets
    if (!first) continue
    const { provider } = first
    const costNano = estimateNano(first, features, world.marginPpm)
    const latencyMs = world.health.latencyMs(provider.name, model.id)
    const score = scoreOf({ quality: model.quality!, costNano, latencyMs }, mode, features.difficulty)
    for (const candidate of inquiry.candidates?.slice(from) ?? [])
      if (!candidate.excluded) candidate.score = Math.round(score * 10_000) / 10_000
    scored.push({ score, benched: world.health.benched(provider.name, model.id), costNano, id: model.id, targets })
  }
  scored.sort(
    (a, b) =>
      Number(a.benched) - Number(b.benched) || b.score - a.score || a.costNano - b.costNano || (a.id < b.id ? -1 : 1),
  )
  inquiry.candidates?.sort((a, b) => (b.score ?? -Infinity) - (a.score ?? -Infinity))
  const chosen: Target[] = []
  for (const { targets } of scored) {
    const able = targets.filter(target => !refusalNoted(inquiry, target))
    chosen.push(...able.slice(0, chosen.length === 0 ? 2 : 1))
    if (chosen.length >= mostTargets) break
  }
  return chosen
}

/** The models `auto` may choose among. Throws the 400 of a request that none of them can take. */
function choosable({ world, policy, features, candidates }: Inquiry): ModelRow[] {
  const models: ModelRow[] = []
  let missing: Unmet | null = null
  for (const model of world.catalog.models.values()) {
    if (model.disabled || !serves(model, 'chat')) continue
    const outside = allowedModels(world.catalog, policy)?.has(model.id) === false
    const lack = outside ? null : unmetByChoice(model, features)
    missing ??= lack
    const excluded =
      allowedModels(world.catalog, policy)?.has(model.id) === false
        ? 'not in the key’s allowlist'
        : (lack?.why ?? (model.quality === null ? 'has no quality figure' : null))
    if (!excluded) models.push(model)
    else candidates?.push({ ...unknown, model: model.id, quality: model.quality, excluded })
  }
  if (models.length === 0 && missing) {
    throw new GatewayError(missing.code, 'No model that this key may use can take this request.', {
      param: missing.param,
    })
  }
  return models
}

const unknown = { provider: null, score: null, estimatedCostNano: null, latencyMs: null }

/** A model's providers in the order they are tried: healthy before benched, the caller's order, then price. */
function ordered({ world, policy, kind, request, features, candidates }: Inquiry, model: ModelRow, ours = false) {
  const { order, only, ignore } = request.provider ?? {}
  const { upstreams, health } = world
  const usable: { target: Target; rank: number; benched: boolean; costNano: number }[] = []
  for (const { deployment, provider } of world.catalog.targets(model)) {
    const target = { model, deployment, provider }
    const { name } = provider
    // A test key is served whatever is configured, but a server nobody set up looks free and would always win.
    const configured = upstreams.configured(name, ours && provider.auth === 'none' ? 'live' : policy.environment)
    const excluded = !configured
      ? 'provider is not configured'
      : (only && !only.includes(name)) || ignore?.includes(name)
        ? 'excluded by the request’s provider preferences'
        : !upstreams.adapter(kind, target, policy.environment)
          ? 'provider’s protocol does not serve this route'
          : null
    const costNano = estimateNano(target, features, world.marginPpm)
    const seen = { model: model.id, provider: name, quality: model.quality, estimatedCostNano: costNano }
    candidates?.push({ ...seen, score: null, latencyMs: health.latencyMs(name, model.id), excluded })
    if (excluded) continue
    const rank = order?.indexOf(name) ?? -1
    usable.push({
      target,
      rank: rank < 0 ? Number.MAX_SAFE_INTEGER : rank,
      benched: health.benched(name, model.id),
      costNano,
    })
  }
  if (usable.length > 1)
    usable.sort((a, b) => Number(a.benched) - Number(b.benched) || a.rank - b.rank || a.costNano - b.costNano)
  return usable.map(({ target }) => target)
}

/** True when a provider's dialect cannot express the request; the candidate then says why. */
function refusalNoted({ world, kind, request, candidates }: Inquiry, target: Target): boolean {
  const refusal = refusalOf(world.upstreams, kind, target, request)
  const { model, provider } = target
  const candidate =
    refusal && candidates?.find(one => one.model === model.id && one.provider === provider.name && !one.excluded)
  if (candidate) candidate.excluded = refusal.message
  return refusal !== null
}

/** What a provider's dialect cannot express of a request, as the 400 it would be; null when it can take it. */
export function refusalOf(
  upstreams: Upstreams,
  kind: DirectKind,
  target: Target,
  request: RoutingRequest,
): GatewayError | null {
  const adapter = upstreams.adapter(kind, target, 'live')?.adapter
  if (!adapter || adapter.native) return null
  try {
    adapter.request({ target, body: request as never, raw: null, maxTokens: null, media: new Map() })
    return null
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'unsupported_capability') return error
    return null // Anything else is for the request itself to find out.
  }
}

function serves(model: ModelRow, kind: DirectKind): boolean {
  if (kind === 'embedding') return model.type === 'embeddings'
  if (kind === 'chat') return model.type === 'chat' && !model.endpoint
  return model.type === 'chat'
}

const resolved = new WeakMap<ReadonlySet<string>, ReadonlySet<string>>()

/** The ids of the models an allowlist names, also where it writes them `vendor/id`; null = all. Resolved once per list. */
export function allowedModels(catalog: Catalog, { allowlist }: Policy): ReadonlySet<string> | null {
  if (!allowlist) return null
  let ids = resolved.get(allowlist)
  if (!ids) {
    ids = new Set([...allowlist].map(slug => catalog.find(slug)?.id ?? slug))
    resolved.set(allowlist, ids)
  }
  return ids
}
