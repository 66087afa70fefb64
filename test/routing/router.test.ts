import { readFileSync } from 'node:fs'
import { page, withTable } from '../../docs/routing-table.ts'
import type { GatewayError } from '../../shared/base/errors.ts'
import { type Mode, modes } from '../../shared/keys/policy.ts'
import {
  audio,
  catalog,
  decide,
  file,
  idsOf,
  image,
  livingWorld,
  policyOf,
  schema,
  tools,
  worldWith,
} from '../support/routing/routing.ts'
import { test } from '../support/test.ts'
import { testClock } from '../support/wallet/money.ts'

const refused: [title: string, body: object, code: string, param: string][] = [
  ['404 for an unknown model', { model: 'nope' }, 'model_not_found', 'model'],
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
    '400 for JSON of a model that is to draw, but has no such format',
    { model: 'gemini-3-pro-image', modalities: ['image', 'text'], response_format: { type: 'json_object' } },
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

const unknown: [model: string, message: RegExp][] = [
  ['gpt5', /^There is no model `gpt5` on this route\. Did you mean `gpt-5`\? GET \/v1\/models lists what there is\.$/],
  ['claude-sonet-4-5:nitro', /^There is no model `claude-sonet-4-5:nitro` on this route\. GET/],
  ['Gemini-2.5-flsh', /Did you mean `gemini-2\.5-flash`\?/],
  ['nope', /^There is no model `nope` on this route\. GET \/v1\/models lists what there is\.$/],
  ['gpt-image-2', /^`gpt-image-2` is a model of \/v1\/images, not of this route\. GET/],
  ['qwen2.5-coder-7b-base-local:floor', /is a model of \/v1\/completions, not of this route/],
  [
    'gpt-3.5-turbo',
    /^`gpt-3\.5-turbo` was retired on 2026-10-23\. Use `gpt-5\.6-terra` instead\. GET \/v1\/models lists/,
  ],
  ['OpenAI/O4-mini', /^`OpenAI\/O4-mini` was retired on 2026-10-23\. Use `gpt-5\.6-terra` instead\./],
  ['models/gemini-2.0-flash', /was retired on 2026-06-01\. Use `gemini-3\.5-flash` instead\./],
  ['groq/compound', /^`groq\/compound` is not offered here\. Use `gpt-oss-120b` instead\./],
  ['dall-e-3', /Use `gpt-image-2` instead\./],
  // Disabled.
  ['gpt-6-astra', /^There is no model `gpt-6-astra` on this route/],
]
for (const [model, message] of unknown)
  test(`404 for ${model}, with what the client may have meant`, t => {
    t.throws(() => decide({ model }), { message })
  })

test('200: `auto` chooses a model until the day on which it is retired, then only where there is no other', t => {
  const clock = testClock('2026-12-10T23:59:59Z')
  const world = worldWith(undefined, catalog, {}, clock)
  const policy = policyOf({ mode: 'cost', allowlist: new Set(['gpt-5-nano', 'gpt-5.6-terra']) })
  const auto = (explain: 'no' | 'preview' = 'no') => decide({}, { world, policy, explain })
  t.true(idsOf(auto()).includes('gpt-5-nano@openai'))
  clock.set('2026-12-11T00:00:00Z')
  t.deepEqual(new Set(auto().targets.map(({ model }) => model.id)), new Set(['gpt-5.6-terra']))
  const { candidates } = auto('preview')
  t.is(candidates.find(({ model }) => model === 'gpt-5-nano')?.excluded, 'was retired on 2026-12-11')
  t.true(idsOf(decide({ model: 'gpt-5-nano' }, { world, policy })).includes('gpt-5-nano@openai'))
  const only = policyOf({ allowlist: new Set(['gpt-5-nano']) })
  t.true(idsOf(decide({}, { world, policy: only })).includes('gpt-5-nano@openai'))
})

test('403 outside the allowlist, whether or not the model exists elsewhere', t => {
  const policy = policyOf({ allowlist: new Set(['gpt-4.1']) })
  t.like(t.throws(() => decide({ model: 'gpt-4o' }, { policy })) as GatewayError, { code: 'model_not_allowed' })
  t.deepEqual(idsOf(decide({ model: 'gpt-4.1' }, { policy })), ['gpt-4.1@openai'])
})

test('503 with retry-after when no provider of the model is configured', t => {
  const error = t.throws(() => decide({ model: 'grok-4.5' }, { world: worldWith(['openai']) })) as GatewayError
  t.like(error, { code: 'no_provider_available', headers: { 'retry-after': '5' } })
  t.regex(error.message, /the operator of this service has to enable one of: `xai`\.$/)
})

test('400 naming the providers when the request’s own preferences exclude all, 503 when a preferred one is not configured', t => {
  const world = worldWith(['anthropic', 'openai'])
  const refused = (request: Parameters<typeof decide>[0]) => t.throws(() => decide(request, { world })) as GatewayError
  const model = 'claude-haiku-4-5'
  for (const provider of [
    { only: ['xai'] },
    { only: [] },
    { ignore: ['anthropic', 'openrouter'] },
    { order: ['nobody'], allow_fallbacks: false },
  ]) {
    const error = refused({ model, provider })
    t.like(error, { code: 'invalid_request', param: 'provider' })
    t.regex(error.message, /There are: `anthropic`\.$/)
  }
  // It is in the catalog, and only has no key here.
  t.is(refused({ model, provider: { only: ['openrouter'] } }).code, 'no_provider_available')
  t.is(refused({ model, provider: { ignore: ['anthropic'] } }).code, 'no_provider_available')
  t.is(refused({ model: 'grok-4.5', provider: { only: ['openai'] } }).code, 'invalid_request')
  t.regex(refused({ model: 'grok-4.5', provider: { only: ['openai'] } }).message, /There are: `xai`\.$/)
  t.like(refused({ model: 'auto', provider: { only: ['nobody'] } }), { code: 'invalid_request', param: 'provider' })
  t.is(refused({ model: 'auto', provider: { only: ['xai'] } }).code, 'no_provider_available')
  // A fallback may still serve it.
  const provider = { only: ['openai'] }
  t.deepEqual(idsOf(decide({ model, models: ['gpt-4.1'], provider }, { world })), ['gpt-4.1@openai'])
})

test('400 naming the allowlist when it leaves `auto` no model', t => {
  const policy = policyOf({ allowlist: new Set(['text-embedding-3-small', 'nope']) })
  const error = t.throws(() => decide({ model: 'auto' }, { policy })) as GatewayError
  t.like(error, { code: 'invalid_request', param: 'model' })
  t.regex(error.message, /It has: `text-embedding-3-small`, `nope`\.$/)
  // Allowed, but no configured provider serves it.
  const elsewhere = { policy: policyOf({ allowlist: new Set(['grok-4.5']) }), world: worldWith(['openai']) }
  t.is((t.throws(() => decide({ model: 'auto' }, elsewhere)) as GatewayError).code, 'no_provider_available')
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

test('providers that have the format of the answer precede those that are asked for it in another way', t => {
  const asked = { model: 'gpt-oss-120b', response_format: schema }
  const stream = true
  const only = ['groq', 'together']
  const firstOf = (more: object) => decide({ ...asked, provider: { only }, ...more }).targets[0]!.provider.name
  t.is(firstOf({}), 'groq')
  t.is(firstOf({ stream }), 'together', 'Groq streams no answer by a schema')
  t.is(firstOf({ stream, provider: { order: ['groq'] } }), 'groq', 'an order that the caller states precedes')
  t.is(firstOf({ stream, model: 'gpt-oss-120b:floor' }), firstOf({ model: 'gpt-oss-120b:floor' }))
  const alone = { ...asked, stream, provider: { only: ['groq'] } }
  t.is(decide(alone).targets[0]!.provider.name, 'groq')
  t.throws(() => decide({ ...alone, provider: { only: ['groq'], require_parameters: true } }), {
    message: /require_parameters/,
  })
  const policy = policyOf({ allowlist: new Set(['gpt-oss-120b', 'qwen3-32b']) })
  t.is(decide({ response_format: schema }, { policy }).targets[0]!.model.id, 'gpt-oss-120b')
  const without = policyOf({ allowlist: new Set(['qwen3-32b']) })
  t.is(
    decide({ response_format: schema }, { policy: without }).targets[0]!.model.id,
    'qwen3-32b',
    'none has the format',
  )
})

test('auto passes over a model whose provider cannot express the request, and says so', t => {
  const policy = policyOf({ allowlist: new Set(['claude-sonnet-5', 'gpt-4.1']) })
  const { targets, candidates } = decide({ n: 2, mode: 'quality' }, { policy, explain: 'preview' })
  t.deepEqual([...new Set(targets.map(({ model }) => model.id))], ['gpt-4.1'])
  t.regex(candidates.find(({ model }) => model === 'claude-sonnet-5')!.excluded!, /one answer/)
})

test('auto for a test key never chooses a local server that is not configured, and names any model', t => {
  const policy = policyOf({ environment: 'test' })
  for (const mode of modes) {
    const { targets } = decide({ mode }, { policy, world: worldWith([]) })
    t.true(targets.length > 1)
    t.true(targets.every(({ provider }) => provider.name !== 'ollama'))
  }
  t.deepEqual(idsOf(decide({ model: 'qwen3-8b-local' }, { policy })), ['qwen3-8b-local@ollama'])
  const world = worldWith([], catalog, { OLLAMA_BASE_URL: 'http://127.0.0.1:11434/v1' })
  t.is(decide({ mode: 'cost' }, { policy, world }).targets[0]!.provider.name, 'ollama')
})

test('a provider that rests is left out, and says why, unless all do', t => {
  const [best] = decide({ mode: 'quality' }).targets
  const name = `${best!.model.id}@${best!.provider.name}`
  const open = { circuit: 'open', cooldownMs: 800 } as const
  const { targets, candidates } = decide(
    { mode: 'quality' },
    { world: livingWorld({ [name]: open }), explain: 'preview' },
  )
  t.false(targets.some(target => `${target.model.id}@${target.provider.name}` === name))
  const left = candidates.find(one => `${one.model}@${one.provider}` === name)!
  t.regex(left.excluded!, /circuit is open after repeated failures; available in 0.8 s/)
  const one = livingWorld({ 'gpt-5@openai': { cooldownMs: 30_000 } })
  t.deepEqual(idsOf(decide({ model: 'gpt-5' }, { world: one })), ['gpt-5@openrouter'])
  const both = { 'gpt-5@openai': { cooldownMs: 3_000 }, 'gpt-5@openrouter': open }
  t.deepEqual(idsOf(decide({ model: 'gpt-5' }, { world: livingWorld(both) })), ['gpt-5@openrouter', 'gpt-5@openai'])
})

test('503 with retry-after when every provider’s cooldown exceeds the longest wait', t => {
  const world = livingWorld({ 'gpt-5@openai': { cooldownMs: 30_500 }, 'gpt-5@openrouter': { cooldownMs: 45_000 } })
  const error = t.throws(() => decide({ model: 'gpt-5' }, { world })) as GatewayError
  t.like(error, { code: 'no_provider_available', headers: { 'retry-after': '31' } })
  const policy = policyOf({ environment: 'test' })
  t.is(decide({ model: 'gpt-5' }, { world, policy }).targets.length, 2, 'the sandbox never rests')
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

test('auto: a model that is slow or fails loses against a lesser one that is quick and sound', t => {
  const [first] = decide({ mode: 'quality' }).targets
  const name = `${first!.model.id}@${first!.provider.name}`
  for (const figures of [{ firstByteMs: 55_000 }, { tokensPerSecond: 1 }, { failureRate: 0.6 }]) {
    const now = decide({ mode: 'quality' }, { world: livingWorld({ [name]: figures }) }).targets[0]!
    t.not(`${now.model.id}@${now.provider.name}`, name)
  }
})

test('auto: the choices over the shipped catalog make sense', t => {
  const qualityOf = (content: string, mode: Mode) =>
    decide({ mode, messages: [{ role: 'user', content }] }, { explain: 'preview' }).candidates[0]!.quality!
  const proof = `Prove this theorem step by step: ∑ 1/n² = π²/6. Then derive the integral. ${'Be careful. '.repeat(80)}`
  t.true(qualityOf('Hi, how are you?', 'cost') >= 50, 'not the tiniest model even for small talk')
  for (const mode of modes) t.true(qualityOf('Hi, how are you?', mode) <= 80, 'no strong model for small talk')
  t.true(qualityOf('Write a Python function that merges sorted lists: def merge(a, b):', 'balanced') >= 75)
  t.true(qualityOf(proof, 'balanced') >= 85, 'a model that is strong at mathematics for a hard proof')
  t.true(qualityOf(proof, 'cost') >= 60)
})

test('the table of docs/routing.md is what the router chooses', t => {
  const text = readFileSync(page, 'utf8')
  t.true(text === withTable(text), 'run `node docs/routing-table.ts`')
})
