import type { Catalog } from '../../shared/catalog/catalog.ts'
import { modelRow, providerRow } from '../../shared/catalog/schema.ts'
import type { QualityOffsets } from '../../shared/feedback/offsets.ts'
import type { Mode, Policy } from '../../shared/keys/policy.ts'
import type { Target } from '../../shared/providers/contract.ts'
import { unknownFigures } from '../../shared/providers/health.ts'
import { protocols } from '../../shared/providers/protocols.ts'
import { chatFeatures, type Features } from '../../shared/routing/features.ts'
import type { RoutingInputs } from '../../shared/routing/options.ts'
import { estimateNano, expectedUse, priceStepsAt } from '../../shared/routing/pricing.ts'
import { route } from '../../shared/routing/router.ts'
import { type Labelled, type Row, requestOf } from './data.ts'

export type Name = 'weak' | 'strong'
/** A catalog of two models, what the router knows of each prompt, and what an answer is expected to cost. */
export type Pair = {
  world: RoutingInputs
  features: ReadonlyMap<Row, Features>
  costUsd(row: Row, name: Name): number
}

/** Public list prices of Mixtral-8x7B and GPT-4-1106, in USD per million tokens. */
const prices = { weak: { input: '0.6', output: '0.6' }, strong: { input: '10', output: '30' } }
const protocol = protocols.openai!
const policy: Policy = {
  hash: 'h',
  secretHash: 'h',
  secretExpiresAtMs: null,
  version: 1,
  keyId: 'k',
  organisationId: 'o',
  scopes: new Set(['*']),
  learning: true,
  deniedTiers: null,
  provider: null,
  ownKeys: null,
  contentLogging: null,
  cache: null,
  guardrails: null,
  state: 'active' as const,
  suspended: false,
  rpmLimit: null,
  tpmLimit: null,
  rateKey: 'k',
  shared: null,
  spendsMoney: true,
  capNano: null,
  budgets: null,
  monthSpend: null,
  allowlist: null,
  expiresAtMs: null,
  environment: 'live',
  mode: 'balanced',
}

/** The accuracies of the two models the prompts were answered by, in percent: their qualities. */
export function accuraciesOf(rows: Labelled[]): Record<Name, number> {
  const accuracyOf = (name: Name) => (100 * rows.filter(row => row[name]).length) / rows.length
  return { weak: accuracyOf('weak'), strong: accuracyOf('strong') }
}

/** A catalog of the two models, each with its list price and a quality, by default its accuracy. */
export function pairOf(rows: Row[], qualities = accuraciesOf(rows), strongPrice = prices.strong): Pair {
  const targets = {
    weak: targetOf('weak', qualities.weak, prices.weak),
    strong: targetOf('strong', qualities.strong, strongPrice),
  }
  const models = new Map(Object.values(targets).map(({ model }) => [model.id, model]))
  const { provider } = targets.weak
  const catalog: Catalog = {
    models,
    providers: new Map([[provider.name, provider]]),
    retired: new Map(),
    namedClouds: { providers: new Map(), deployments: new Map() },
    arms: new Map(),
    find: slug => models.get(slug),
    targets: model => model.providers.map(deployment => ({ deployment, provider })),
  }
  const upstreams = {
    isConfigured: () => true,
    ownTargets: () => [],
    adapter: () => ({ adapter: protocol.direct.chat, protocol }) as never,
  }
  const world = {
    catalog,
    upstreams,
    figures: () => unknownFigures,
    healthRevision: () => null,
    marginPpm: 0n,
    maxPauseMs: 0,
    clock: { now: () => 0 },
  }
  const features = new Map(
    rows.map(row => [row, { ...chatFeatures(requestOf(row.prompt), Buffer.byteLength(row.prompt)) }]),
  )
  return {
    world,
    features,
    costUsd: (row, name) =>
      estimateNano(priceStepsAt(targets[name]), undefined, expectedUse(features.get(row)!, 0n)) / 1e9,
  }
}

/** Which of the two the router sends a prompt to. */
export function send(
  { world, features }: Pair,
  row: Row,
  mode: Mode,
  difficulty: number,
  learned: QualityOffsets | null = null,
): Name {
  const request = { ...requestOf(row.prompt), mode }
  const asking = {
    policy,
    kind: 'chat',
    request,
    features: { ...features.get(row)!, difficulty: () => difficulty },
    learned,
  } as const
  return route(world, asking).targets[0]!.model.id as Name
}

function targetOf(name: Name, quality: number, price: { input: string; output: string }): Target {
  const provider = providerRow.parse({ name: 'bench', protocol: 'openai', base_url: 'http://bench', auth: 'bearer' })
  const deployment = {
    provider: provider.name,
    upstream_model: name,
    price: { unit: 'token', ...price },
  } as const
  const model = modelRow.parse({
    id: name,
    name,
    type: 'chat',
    owned_by: 'bench',
    created: 0,
    description: '',
    context_length: 32_768,
    max_output_tokens: 4_096,
    input_modalities: ['text'],
    output_modalities: ['text'],
    supported_parameters: [],
    quality,
    expires_on: null,
    price_source: null,
    price_as_of: null,
    providers: [deployment],
  })
  return { model, deployment: model.providers[0]!, provider }
}
