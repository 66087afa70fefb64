import test from 'ava'
import fc from 'fast-check'
import { loadConfig } from '../shared/base/config.ts'
import type { GatewayError } from '../shared/base/errors.ts'
import { type Catalog, loadCatalog } from '../shared/catalog/catalog.ts'
import { type Decision, type RoutingRequest, type RoutingWorld, route } from '../shared/chat/router.ts'
import type { Redis } from '../shared/io/redis.ts'
import type { Mode, Policy } from '../shared/keys/policy.ts'
import { type ChatRequest, chatRequest } from '../shared/kinds/chat.ts'
import { chatFeatures, type Features } from '../shared/kinds/features.ts'
import { ProviderError } from '../shared/providers/contract.ts'
import { Health } from '../shared/providers/health.ts'
import { createSandbox } from '../shared/providers/sandbox/upstream.ts'
import { Upstreams } from '../shared/providers/upstreams.ts'

const catalog = loadCatalog()
const names = [
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
const modes: Mode[] = ['cost', 'balanced', 'quality']

function worldOf(providers = names, from: Catalog = catalog, env: Record<string, string> = {}): RoutingWorld {
  const keys = Object.fromEntries(providers.map(name => [`${name.toUpperCase()}_API_KEY`, 'k']))
  const config = loadConfig({ DATABASE_URL: 'postgres://x/x', REDIS_URL: 'redis://x', ...keys, ...env })
  const upstreams = new Upstreams({ catalog: from, config, sandbox: createSandbox() })
  // Figures are shared through Redis by `sync` alone, which nobody calls here.
  const health = new Health(null as unknown as Redis, { now: () => 0 })
  return { catalog: from, upstreams, health, marginPpm: config.marginPpm }
}

function policyOf(more: Partial<Policy> = {}): Policy {
  const limits = { rpmLimit: null, tpmLimit: null, capNano: null, allowlist: null, expiresAtMs: null }
  const key = { hash: 'h', version: 1, keyId: 'k', organisationId: 'o', scopes: new Set(['*']), revoked: false }
  return { ...key, ...limits, environment: 'live', mode: 'balanced', ...more }
}

function decide(
  body: object,
  { world = worldOf(), policy = policyOf(), features = {}, explain = false } = {},
): Decision {
  const request = chatRequest.parse({
    messages: [{ role: 'user', content: 'Hi' }],
    model: 'auto',
    ...body,
  }) as ChatRequest
  const own: Features = chatFeatures(request, JSON.stringify(request).length)
  return route(world, policy, 'chat', request as RoutingRequest, { ...own, ...features }, explain)
}

const idsOf = ({ targets }: Decision) => targets.map(({ model, provider }) => `${model.id}@${provider.name}`)
const image = { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }] }
const audio = { role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }] }
const file = { role: 'user', content: [{ type: 'file', file: { file_data: 'data:application/pdf;base64,AAAA' } }] }
const tools = [{ type: 'function', function: { name: 'f' } }]
const schema = { type: 'json_schema', json_schema: { name: 's', schema: { type: 'object' } } }

const refused: [title: string, body: object, code: string, param: string][] = [
  ['404 for a model nobody knows', { model: 'nope' }, 'model_not_found', 'model'],
  ['404 for a disabled model', { model: 'gpt-6-astra' }, 'model_not_found', 'model'],
  ['404 for a model of another route', { model: 'text-embedding-3-small' }, 'model_not_found', 'model'],
  ['404 for a completion model', { model: 'qwen2.5-coder-7b-base-local' }, 'model_not_found', 'model'],
  [
    '400 for an image that the model cannot serve',
    { model: 'deepseek-v3.2', messages: [image] },
    'unsupported_capability',
    'messages',
  ],
  [
    '400 for audio that the model cannot serve',
    { model: 'gpt-4.1', messages: [audio] },
    'unsupported_capability',
    'messages',
  ],
  [
    '400 for a file that the model cannot serve',
    { model: 'grok-4.5', messages: [file] },
    'unsupported_capability',
    'messages',
  ],
  [
    '400 for image output that the model cannot serve',
    { model: 'gpt-4.1', modalities: ['image', 'text'] },
    'unsupported_capability',
    'modalities',
  ],
  [
    '400 for audio output that the model cannot serve',
    { model: 'gpt-4.1', modalities: ['audio', 'text'] },
    'unsupported_capability',
    'modalities',
  ],
  [
    '400 for tools that the model cannot serve',
    { model: 'deepseek-r1-0528', tools },
    'unsupported_capability',
    'tools',
  ],
  [
    '400 for a schema that the model cannot serve',
    { model: 'qwen3-32b', response_format: schema },
    'unsupported_capability',
    'response_format',
  ],
  [
    '400 for JSON mode that the model cannot serve',
    { model: 'gemini-3-pro-image', response_format: { type: 'json_object' } },
    'unsupported_capability',
    'response_format',
  ],
  [
    '400 for logprobs that the model cannot serve',
    { model: 'claude-sonnet-5', logprobs: true },
    'unsupported_capability',
    'logprobs',
  ],
  [
    '400 for a prompt beyond the context that the model cannot serve',
    { model: 'gpt-4o', messages: [{ role: 'user', content: 'long '.repeat(200_000) }] },
    'context_length_exceeded',
    'messages',
  ],
]
for (const [title, body, code, param] of refused) {
  test(title, t => {
    const error = t.throws(() => decide(body)) as GatewayError
    t.like(error, { code, param })
  })
}

test('403 outside the allowlist, whether or not the model exists elsewhere', t => {
  const policy = policyOf({ allowlist: new Set(['gpt-4.1']) })
  t.like(t.throws(() => decide({ model: 'gpt-4o' }, { policy })) as GatewayError, { code: 'model_not_allowed' })
  t.deepEqual(idsOf(decide({ model: 'gpt-4.1' }, { policy })), ['gpt-4.1@openai'])
})

test('503 with retry-after when no provider of the model is configured', t => {
  const error = t.throws(() => decide({ model: 'grok-4.5' }, { world: worldOf(['openai']) })) as GatewayError
  t.like(error, { code: 'no_provider_available', headers: { 'retry-after': '5' } })
})

test('200 inside an allowlist that writes the vendor before the model', t => {
  const policy = policyOf({ allowlist: new Set(['openai/gpt-5.6-luna']) })
  t.is(decide({ model: 'gpt-5.6-luna' }, { policy }).targets[0]!.model.id, 'gpt-5.6-luna')
  t.is(decide({ model: 'auto' }, { policy }).targets[0]!.model.id, 'gpt-5.6-luna')
})

test('400 from auto when nothing in the catalog, or in the allowlist, can do it', t => {
  const everything = { messages: [audio], modalities: ['image', 'text'] }
  t.like(t.throws(() => decide(everything)) as GatewayError, { code: 'unsupported_capability', param: 'messages' })
  const policy = policyOf({ allowlist: new Set(['deepseek-v3.2', 'glm-4.7']) })
  t.like(t.throws(() => decide({ messages: [image] }, { policy })) as GatewayError, { code: 'unsupported_capability' })
})

test('auto keeps to the allowlist, to what serves chat and to what the request needs', t => {
  for (const mode of modes) {
    for (const body of [{}, { messages: [image] }, { tools }, { response_format: schema }, { max_tokens: 100_000 }]) {
      const { targets } = decide({ mode, ...body })
      for (const { model } of targets) {
        t.false(model.disabled || model.endpoint !== undefined || model.quality === null, model.id)
        if ('messages' in body) t.true(model.input_modalities.includes('image'))
        if ('tools' in body) t.true(model.supported_parameters.includes('tools'))
        if ('response_format' in body) t.true(model.supported_parameters.includes('structured_outputs'))
        if ('max_tokens' in body) t.true((model.max_output_tokens ?? 100_000) >= 100_000)
      }
    }
    const policy = policyOf({ allowlist: new Set(['claude-haiku-4-5', 'gpt-5-mini']) })
    const allowed = new Set(decide({ mode }, { policy }).targets.map(({ model }) => model.id))
    t.deepEqual([...allowed].sort(), ['claude-haiku-4-5', 'gpt-5-mini'])
  }
})

test('auto passes over a model whose provider cannot express the request, and says so', t => {
  const policy = policyOf({ allowlist: new Set(['claude-sonnet-5', 'gpt-4.1']) })
  const { targets, candidates } = decide({ n: 2, mode: 'quality' }, { policy, explain: true })
  t.deepEqual([...new Set(targets.map(({ model }) => model.id))], ['gpt-4.1'])
  t.regex(candidates.find(({ model }) => model === 'claude-sonnet-5')!.excluded!, /one answer/)
})

test('auto for a test key never chooses a local server that nobody set up, and names any model', t => {
  const policy = policyOf({ environment: 'test' })
  for (const mode of modes) {
    const { targets } = decide({ mode }, { policy, world: worldOf([]) })
    t.true(targets.length > 1)
    t.true(targets.every(({ provider }) => provider.name !== 'ollama'))
  }
  t.deepEqual(idsOf(decide({ model: 'qwen3-8b-local' }, { policy })), ['qwen3-8b-local@ollama'])
  const world = worldOf([], catalog, { OLLAMA_BASE_URL: 'http://127.0.0.1:11434/v1' })
  t.is(decide({ mode: 'cost' }, { policy, world }).targets[0]!.provider.name, 'ollama')
})

test('a provider that asked to be left alone comes last, for auto and for a named model', t => {
  const world = worldOf()
  const [best] = decide({ mode: 'quality' }, { world }).targets
  const slow = new ProviderError('rate_limited', 'slow down', { retryAfterMs: 30_000 })
  world.health.failed(best!.provider.name, best!.model.id, slow)
  t.not(decide({ mode: 'quality' }, { world }).targets[0]!.model.id, best!.model.id)
  world.health.failed('openai', 'gpt-5', slow)
  t.deepEqual(idsOf(decide({ model: 'gpt-5' }, { world })), ['gpt-5@openrouter', 'gpt-5@openai'])
})

test('the request’s provider preferences order and filter; fallbacks come after, each model once', t => {
  t.deepEqual(idsOf(decide({ model: 'gpt-5', provider: { order: ['openrouter'] } })), [
    'gpt-5@openrouter',
    'gpt-5@openai',
  ])
  t.deepEqual(idsOf(decide({ model: 'gpt-5', provider: { ignore: ['openai'] } })), ['gpt-5@openrouter'])
  t.deepEqual(idsOf(decide({ model: 'gpt-5', provider: { allow_fallbacks: false } })), ['gpt-5@openai'])
  const listed = decide({ model: 'gpt-oss-120b', models: ['nope', 'gpt-4.1', 'gpt-oss-120b'], tools })
  t.deepEqual(new Set(listed.targets.map(({ model }) => model.id)), new Set(['gpt-oss-120b', 'gpt-4.1']))
  t.is(new Set(idsOf(listed)).size, listed.targets.length)
  t.is(listed.targets.at(-1)!.model.id, 'gpt-4.1')
})

const anyFeatures = fc.record({
  promptTokensEstimate: fc.integer({ min: 1, max: 400_000 }),
  maxTokens: fc.option(fc.integer({ min: 1, max: 60_000 })),
  choices: fc.integer({ min: 1, max: 4 }),
  inputs: fc.record({ image: fc.boolean(), audio: fc.boolean(), file: fc.boolean() }),
  tools: fc.boolean(),
  jsonSchema: fc.boolean(),
  difficulty: fc.double({ min: 0, max: 1, noNaN: true }),
})
const anyProviders = fc.subarray(names, { minLength: 1 })
const worlds = new Map<string, RoutingWorld>()
function worldFor(providers: string[]): RoutingWorld {
  const key = providers.join()
  if (!worlds.has(key)) worlds.set(key, worldOf(providers))
  return worlds.get(key)!
}

function picks(world: RoutingWorld, features: Partial<Features>) {
  return modes.map(mode => {
    const { targets, candidates } = decide({ mode }, { world, features, explain: true })
    const { model, provider } = targets[0]!
    return candidates.find(one => one.model === model.id && one.provider === provider.name)!
  })
}

function isNobody(error: unknown): boolean {
  const { code } = error as GatewayError
  return code === 'no_provider_available' || code === 'unsupported_capability' || code === 'context_length_exceeded'
}

test('auto: what cost chooses is not dearer than balanced, nor balanced than quality; nor better', t => {
  fc.assert(
    fc.property(anyProviders, anyFeatures, (providers, features) => {
      try {
        const [cost, balanced, quality] = picks(worldFor(providers), features)
        t.true(cost!.estimatedCostNano! <= balanced!.estimatedCostNano!)
        t.true(balanced!.estimatedCostNano! <= quality!.estimatedCostNano!)
        t.true(cost!.quality! <= balanced!.quality!)
        t.true(balanced!.quality! <= quality!.quality!)
      } catch (error) {
        if (!isNobody(error)) throw error
      }
    }),
    { numRuns: 200 },
  )
})

test('auto: a harder prompt never gets a worse model', t => {
  fc.assert(
    fc.property(anyFeatures, fc.double({ min: 0, max: 1, noNaN: true }), (features, other) => {
      const [low, high] = [features.difficulty, other].sort((a, b) => a - b)
      const world = worldFor(names)
      try {
        const easy = picks(world, { ...features, difficulty: low! })
        const hard = picks(world, { ...features, difficulty: high! })
        for (const [i, one] of easy.entries()) t.true(one.quality! <= hard[i]!.quality!)
      } catch (error) {
        if (!isNobody(error)) throw error
      }
    }),
    { numRuns: 100 },
  )
})

test('auto: the order of the catalog decides nothing', t => {
  fc.assert(
    fc.property(fc.shuffledSubarray([...catalog.models], { minLength: catalog.models.size }), models => {
      const shuffled: Catalog = { ...catalog, models: new Map(models) }
      for (const mode of modes) {
        const world = worldFor(names)
        const expected = idsOf(decide({ mode }, { world }))
        t.deepEqual(idsOf(decide({ mode }, { world: { ...world, catalog: shuffled } })), expected)
      }
    }),
    { numRuns: 20 },
  )
})

test('auto: a slow model loses against an equal one that is quick', t => {
  const world = worldOf()
  const [first] = decide({ mode: 'quality' }, { world }).targets
  world.health.succeeded(first!.provider.name, first!.model.id, 55_000)
  t.not(decide({ mode: 'quality' }, { world }).targets[0]!.model.id, first!.model.id)
})

test('auto: the choices over the shipped catalog make sense', t => {
  const qualityOf = (content: string, mode: Mode) =>
    decide({ mode, messages: [{ role: 'user', content }] }).targets[0]!.model.quality!
  const proof = `Prove this theorem step by step: ∑ 1/n² = π²/6. Then derive the integral. ${'Be careful. '.repeat(80)}`
  t.true(qualityOf('Hi, how are you?', 'cost') >= 50, 'not the tiniest model even for small talk')
  t.true(qualityOf('Hi, how are you?', 'balanced') < 90, 'no flagship for small talk')
  t.true(qualityOf('Hi, how are you?', 'quality') >= 90)
  t.true(qualityOf('Write a Python function that merges sorted lists: def merge(a, b):', 'balanced') >= 75)
  t.true(qualityOf(proof, 'balanced') >= 90, 'a strong model for a hard proof')
  t.true(qualityOf(proof, 'cost') >= 60)
})
