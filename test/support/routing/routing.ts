import { loadConfig } from '../../../shared/base/config.ts'
import { GatewayError } from '../../../shared/base/errors.ts'
import { type Clock, systemClock } from '../../../shared/base/time.ts'
import { type Catalog, loadCatalog } from '../../../shared/catalog/catalog.ts'
import type { QualityOffsets } from '../../../shared/feedback/offsets.ts'
import type { Redis } from '../../../shared/io/redis.ts'
import { Sealer } from '../../../shared/io/sealer.ts'
import type { Policy } from '../../../shared/keys/policy.ts'
import { type ChatRequest, chatRequest } from '../../../shared/kinds/chat.ts'
import { type Figures, Health, unknownFigures } from '../../../shared/providers/health.ts'
import { createSandbox } from '../../../shared/providers/sandbox/upstream.ts'
import { Upstreams } from '../../../shared/providers/upstreams.ts'
import { chatFeatures, type Features } from '../../../shared/routing/features.ts'
import { type RoutingInputs, type RoutingRequest, snapshotOf } from '../../../shared/routing/options.ts'
import { type Decision, type Explain, route, type StickyTarget } from '../../../shared/routing/router.ts'
import { monotonicOf } from '../clocks/monotonic.ts'

export const catalog = loadCatalog(undefined, new Map())
/** Every provider of chat models that takes a key. */
export const names = [
  'openai',
  'anthropic',
  'gemini',
  'openrouter',
  'groq',
  'together',
  'mistral',
  'deepseek',
  'xai',
  'fireworks',
]

/** A world in which these providers are configured and nothing is known of how they do. */
export function worldWith(
  providers = names,
  from: Catalog = catalog,
  env: Record<string, string> = {},
  clock: Clock = { now: () => 0 },
): RoutingInputs {
  const keys = Object.fromEntries(providers.map(name => [`${name.toUpperCase()}_API_KEY`, 'k']))
  const config = loadConfig({ DATABASE_URL: 'postgres://x/x', REDIS_URL: 'redis://x', ...keys, ...env })
  // No calls are made here: the only live figures are those a test sets.
  const health = new Health({ defineCommand() {} } as unknown as Redis, { clock, monotonic: monotonicOf(clock) })
  const pauses = { any: false, isPaused: () => false, revision: 0 }
  const upstreams = new Upstreams({
    catalog: from,
    config,
    health,
    pauses,
    sandbox: createSandbox(),
    clock: systemClock,
    sealer: new Sealer([]),
  })
  return snapshotOf({ catalog: from, upstreams, config, clock }, config.marginPpm)
}

/** A world in which some deployments, by `model@provider`, have these live figures. */
export function livingWorld(figures: Record<string, Partial<Figures>>, world = worldWith()): RoutingInputs {
  return {
    ...world,
    figures: ({ model, provider }) => ({ ...unknownFigures, ...figures[`${model.id}@${provider.name}`] }),
    healthRevision: () => null,
  }
}

export function policyOf(more: Partial<Policy> = {}): Policy {
  const limits = {
    rpmLimit: null,
    tpmLimit: null,
    rateKey: 'k',
    shared: null,
    spendsMoney: true,
    capNano: null,
    monthSpend: null,
    allowlist: null,
    deniedTiers: null,
    cache: null,
    guardrails: null,
    expiresAtMs: null,
  }
  const key = {
    hash: 'h',
    secretHash: 'h',
    secretExpiresAtMs: null,
    version: 1,
    keyId: 'k',
    organisationId: 'o',
    scopes: new Set(['*']),
    learning: true,
    provider: null,
    ownKeys: null,
    contentLogging: null,
    budgets: null,
    state: 'active' as const,
    suspended: false,
  }
  return { ...key, ...limits, environment: 'live', mode: 'balanced', ...more }
}

export type Circumstances = {
  world?: RoutingInputs
  policy?: Policy
  features?: Partial<Features>
  explain?: Explain
  sticky?: StickyTarget | null
  learned?: QualityOffsets | null
}

/** Decides on a chat request; without a model it is `auto`. */
export function decide(
  body: object,
  {
    world = worldWith(),
    policy = policyOf(),
    features = {},
    explain = 'no',
    sticky = null,
    learned = null,
  }: Circumstances = {},
): Decision {
  const request = chatRequest.parse({ messages: [{ role: 'user', content: 'Hi' }], model: 'auto', ...body })
  const own = chatFeatures(request as ChatRequest, JSON.stringify(request).length)
  const asking = {
    policy,
    kind: 'chat',
    request: request as RoutingRequest,
    features: {
      ...own,
      maxPromptEstimate: features.promptTokensEstimate ?? own.maxPromptEstimate,
      ...features,
    },
    sticky,
    learned,
  } as const
  return route(world, asking, explain)
}

/** What a refused request is told. */
export type Refusal = Pick<GatewayError, 'code' | 'param' | 'message'>

/** As `decide`, or the refusal. Anything else that is thrown is a fault of the router. */
export function decideOrRefuse(body: object, circumstances?: Circumstances): Decision | Refusal {
  try {
    return decide(body, circumstances)
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return { code: error.code, param: error.param, message: error.message }
  }
}

export const idsOf = ({ targets }: Decision) => targets.map(({ model, provider }) => `${model.id}@${provider.name}`)

export const image = { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }] }
export const audio = {
  role: 'user',
  content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }],
}
export const file = {
  role: 'user',
  content: [{ type: 'file', file: { file_data: 'data:application/pdf;base64,AAAA' } }],
}
export const tools = [{ type: 'function', function: { name: 'f' } }]
export const schema = { type: 'json_schema', json_schema: { name: 's', schema: { type: 'object' } } }
