import { GatewayError } from '../base/errors.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { ModelRow } from '../catalog/schema.ts'
import type { Mode, Policy } from '../keys/policy.ts'
import type { Features } from '../kinds/features.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Target } from '../providers/contract.ts'
import type { Health } from '../providers/health.ts'
import type { Upstreams } from '../providers/upstreams.ts'
import { estimateNano } from './pricing.ts'

export type RoutingRequest = {
  model: string
  mode?: Mode | undefined
  models?: string[] | undefined
  provider?:
    | {
        order?: string[] | undefined
        only?: string[] | undefined
        ignore?: string[] | undefined
        allow_fallbacks?: boolean | undefined
      }
    | undefined
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

/** Targets one request may be sent to, the first included. */
const mostTargets = 4

/** How much a tenfold price weighs against the whole range of quality: three points on one trade-off. */
const priceWeight: Record<Mode, number> = { cost: 0.6, balanced: 0.12, quality: 0.02 }

/**
 * Decides where a request goes. Pure but for reading live figures. Throws a GatewayError: 400 when the named model cannot
 * take the request, 403 outside the allowlist, 404 unknown, 503 when nobody configured serves it.
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
  const named = [request.model, ...(request.models ?? [])].filter((slug, i, all) => all.indexOf(slug) === i)
  const candidates: Candidate[] = []
  const targets: Target[] = []
  let reason = ''
  for (const slug of named) {
    if (slug === 'auto' && kind === 'chat') {
      reason ||= `auto: the best of the catalog in mode ${mode}`
      targets.push(...automatic(world, policy, mode, request, features, candidates))
    } else {
      reason ||= slug === request.model ? 'pinned: the request names the model' : ''
      try {
        targets.push(...pinned(world, policy, kind, slug, request, features, explain ? candidates : null))
      } catch (error) {
        // A fallback that cannot take the request is passed over; the first model's fault is the caller's to know.
        if (slug === named[0] || !(error instanceof GatewayError)) throw error
      }
    }
  }
  if (targets.length === 0) {
    throw new GatewayError('no_provider_available', 'No configured provider can serve this request now.', {
      headers: { 'retry-after': '5' },
    })
  }
  const most = request.provider?.allow_fallbacks === false ? 1 : mostTargets
  return { mode, reason, targets: targets.slice(0, most), candidates }
}

function pinned(
  world: RoutingWorld,
  policy: Policy,
  kind: DirectKind,
  slug: string,
  request: RoutingRequest,
  features: Features,
  candidates: Candidate[] | null,
): Target[] {
  const model = world.catalog.find(slug)
  if (!model || model.disabled || !serves(model, kind)) {
    throw new GatewayError(
      'model_not_found',
      `There is no model \`${slug}\` on this route. GET /v1/models lists what there is.`,
      { param: 'model' },
    )
  }
  if (policy.allowlist && !allowed(policy, model, slug)) {
    throw new GatewayError('model_not_allowed', `This key may not use \`${slug}\`.`, { param: 'model' })
  }
  const missing = unmet(model, features)
  if (missing) throw new GatewayError(missing.code, `\`${model.id}\` ${missing.why}.`, { param: missing.param })
  return ordered(world, policy, kind, model, request, features, candidates)
}

function automatic(
  world: RoutingWorld,
  policy: Policy,
  mode: Mode,
  request: RoutingRequest,
  features: Features,
  candidates: Candidate[],
): Target[] {
  const scored: { score: number; targets: Target[]; costNano: number; id: string }[] = []
  for (const model of world.catalog.models.values()) {
    if (model.type !== 'chat' || model.endpoint || model.disabled) continue
    const why = !allowed(policy, model, model.id)
      ? 'not in the key’s allowlist'
      : (unmet(model, features)?.why ?? (model.quality === null ? 'has no quality figure' : null))
    if (why) {
      candidates.push({
        model: model.id,
        provider: null,
        score: null,
        quality: model.quality,
        estimatedCostNano: null,
        latencyMs: null,
        excluded: why,
      })
      continue
    }
    const from = candidates.length
    const targets = ordered(world, policy, 'chat', model, request, features, candidates)
    if (targets.length === 0) continue
    const costNano = estimateNano(targets[0]!, features, world.marginPpm)
    const score = scoreOf(model.quality!, costNano, mode, features.difficulty)
    for (const candidate of candidates.slice(from)) if (!candidate.excluded) candidate.score = round(score)
    scored.push({ score, targets, costNano, id: model.id })
  }
  scored.sort((a, b) => b.score - a.score || a.costNano - b.costNano || (a.id < b.id ? -1 : 1))
  candidates.sort((a, b) => (b.score ?? -Infinity) - (a.score ?? -Infinity))
  // The next best model comes before the same model's next provider only once each model had its first.
  const firsts = scored.slice(0, mostTargets).map(({ targets }) => targets[0]!)
  return [...firsts.slice(0, 1), ...(scored[0]?.targets.slice(1, 2) ?? []), ...firsts.slice(1)]
}

/** A hard prompt gives quality its full weight, a trivial one a third; price counts by orders of magnitude. */
function scoreOf(quality: number, costNano: number, mode: Mode, difficulty: number): number {
  return (0.35 + 0.65 * difficulty) * (quality / 100) - priceWeight[mode] * Math.log10(1 + costNano) * 0.5
}

/** A model's providers in the order they are tried: the caller's order, healthy before benched, then price. */
function ordered(
  world: RoutingWorld,
  policy: Policy,
  kind: DirectKind,
  model: ModelRow,
  request: RoutingRequest,
  features: Features,
  candidates: Candidate[] | null,
): Target[] {
  const { order, only, ignore } = request.provider ?? {}
  const usable: { target: Target; rank: number; benched: boolean; costNano: number }[] = []
  for (const { deployment, provider } of world.catalog.targets(model)) {
    const target = { model, deployment, provider }
    const benched = world.health.benched(provider.name, model.id)
    const excluded = !world.upstreams.configured(provider.name, policy.environment)
      ? 'provider is not configured'
      : (only && !only.includes(provider.name)) || ignore?.includes(provider.name)
        ? 'excluded by the request’s provider preferences'
        : !world.upstreams.adapter(kind, target, policy.environment)
          ? 'provider’s protocol does not serve this route'
          : null
    const costNano = estimateNano(target, features, world.marginPpm)
    candidates?.push({
      model: model.id,
      provider: provider.name,
      score: null,
      quality: model.quality,
      estimatedCostNano: costNano,
      latencyMs: world.health.latencyMs(provider.name, model.id),
      excluded,
    })
    if (excluded) continue
    const rank = order?.indexOf(provider.name) ?? -1
    usable.push({ target, rank: rank < 0 ? Number.MAX_SAFE_INTEGER : rank, benched, costNano })
  }
  if (usable.length > 1)
    usable.sort((a, b) => Number(a.benched) - Number(b.benched) || a.rank - b.rank || a.costNano - b.costNano)
  return usable.map(({ target }) => target)
}

function serves(model: ModelRow, kind: DirectKind): boolean {
  if (kind === 'embedding') return model.type === 'embeddings'
  if (kind === 'chat') return model.type === 'chat' && !model.endpoint
  return model.type === 'chat'
}

function allowed(policy: Policy, model: ModelRow, slug: string): boolean {
  return policy.allowlist === null || policy.allowlist.has(model.id) || policy.allowlist.has(slug)
}

type Unmet = { code: 'unsupported_capability' | 'context_length_exceeded'; why: string; param: string }

/** The first hard requirement of a request that a model does not meet. */
export function unmet(model: ModelRow, features: Features): Unmet | null {
  const lacks = (why: string, param: string): Unmet => ({ code: 'unsupported_capability', why, param })
  const takes = model.input_modalities
  const gives = model.output_modalities
  const supports = model.supported_parameters
  if (features.inputs.image && !takes.includes('image')) return lacks('takes no images', 'messages')
  if (features.inputs.audio && !takes.includes('audio')) return lacks('takes no audio', 'messages')
  if (features.inputs.file && !takes.includes('file')) return lacks('takes no files', 'messages')
  if (features.outputs.image && !gives.includes('image')) return lacks('gives no images', 'modalities')
  if (features.outputs.audio && !gives.includes('audio')) return lacks('gives no audio', 'modalities')
  if (features.tools && !supports.includes('tools')) return lacks('takes no tools', 'tools')
  if (features.jsonSchema && !supports.includes('structured_outputs'))
    return lacks('has no structured output by JSON schema', 'response_format')
  if (features.logprobs && model.type === 'chat' && !model.endpoint && !supports.includes('logprobs'))
    return lacks('gives no logprobs', 'logprobs')
  if (model.context_length !== null && features.promptTokensEstimate > model.context_length) {
    return {
      code: 'context_length_exceeded',
      why: `takes ${model.context_length} tokens, and this input has about ${features.promptTokensEstimate}`,
      param: model.type === 'embeddings' ? 'input' : 'messages',
    }
  }
  return null
}

function round(value: number): number {
  return Math.round(value * 10_000) / 10_000
}
