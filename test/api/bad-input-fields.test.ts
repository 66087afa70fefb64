import type { z } from 'zod'
import { newKey } from '../../shared/keys/key-requests.ts'
import { chatRequest } from '../../shared/kinds/chat.ts'
import { completionRequest } from '../../shared/kinds/completion.ts'
import { embeddingRequest } from '../../shared/kinds/embedding.ts'
import { paidFields } from '../../shared/kinds/paid-fields.ts'
import { answersError, type BodyPath, provisioningKey, validBodies } from '../support/api/edge.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

let provisioning: string

// A provider that is configured but not there: no request of this file may get as far as calling it.
const gateway = useGateway(test, { OPENAI_API_KEY: 'sk-upstream', OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' })
const account = use(test, () => gateway.account())
test.before(async () => {
  provisioning = await provisioningKey(gateway, account.organisationId)
})

type Wrong = Record<string, unknown[]>

const text = [5, true, {}, []]
const number = ['5', true, {}, [], '']
const flag = ['true', 1, {}]
const tokens = [-1, 0, 1.5, '5', 10_000_001, 1e300, true, {}]
const ofOpenRouter: Wrong = {
  plugins: ['web', 5, {}, ['web'], [{}]],
  preset: [5, {}, []],
  session_id: [5, {}, [], 's'.repeat(1_001)],
}
const routing: Wrong = {
  model: [...text, null, '', 'x'.repeat(201)],
  mode: ['fast', 1, null],
  models: ['a', [], [''], [1], Array(11).fill('a')],
  provider: [
    'openai',
    5,
    [],
    { order: 'openai' },
    { only: [1] },
    { ignore: {} },
    { allow_fallbacks: 1 },
    { zdr: 'yes' },
    { max_price: 5 },
    { sort: 'size' },
  ],
  metadata: ['a', { a: 1 }, { a: { b: 'c' } }],
}
const sampling: Wrong = {
  stream: flag,
  stream_options: ['x', 5, { include_usage: 'yes' }],
  max_tokens: tokens,
  temperature: [...number, -0.1, 2.1],
  top_p: [...number, -1, 1.1],
  frequency_penalty: [...number, -3, 3],
  presence_penalty: [...number, -3, 3],
  n: [...number, 0, -1, 1.5, 129],
  stop: [5, {}, [1], ['a', 'b', 'c', 'd', 'e']],
  seed: ['1', 1.5, {}],
  prompt_cache_key: [...text, 'k'.repeat(1_001)],
  user: text,
}
const paid: Wrong = Object.fromEntries(Object.keys(paidFields).map(name => [name, [true, 'x', 5, 0, [1], { a: 1 }]]))
const user = (content: unknown) => [{ role: 'user', content }]
const chat: Wrong = {
  ...routing,
  ...ofOpenRouter,
  ...paid,
  ...sampling,
  messages: [
    ...[null, 'hi', {}, [], ['hi'], [null], [[]]],
    ...[[{ role: 'robot', content: 'x' }], [{ role: 5, content: 'x' }], [{ role: 'tool', content: 'x' }]],
    ...[5, null, [], [5], [{ type: 'video' }], [{ type: 'text', text: 5 }]].map(user),
    ...[
      { type: 'image_url', image_url: 5 },
      { type: 'input_audio', input_audio: { data: '' } },
    ].map(part => user([part])),
    [{ role: 'assistant', tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: 5 } }] }],
  ],
  max_completion_tokens: tokens,
  logprobs: [1, 'true', {}],
  top_logprobs: [-1, 21, '3', 1.5],
  logit_bias: ['x', { a: 'b' }, 5],
  tools: [
    ...['x', {}, [5], [{ type: 'rocket' }], [{ type: 'function' }], [{ type: 'function', function: { name: '' } }]],
    [{ type: 'function', function: { name: 'f', parameters: 'x' } }],
    [{ type: 'function', function: { name: 'white space' } }],
  ],
  tool_choice: ['always', 5, { type: 'function' }, { type: 'function', function: {} }],
  parallel_tool_calls: flag,
  functions: ['x', {}, [5], [{}], [{ name: '' }], [{ name: 'f', parameters: 'x' }], [{ name: 'white space' }]],
  function_call: ['always', 5, {}, { name: '' }],
  response_format: [
    'json',
    { type: 'xml' },
    { type: 'json_schema' },
    { type: 'json_schema', json_schema: { name: '' } },
  ],
  modalities: ['text', [], ['smell'], [5]],
  audio: ['alloy', {}, { voice: 'alloy', format: 'midi' }],
  reasoning_effort: ['extreme', 5],
  cache_control: ['ephemeral', 5, [], {}, { type: 'persistent' }, { type: 'ephemeral', ttl: '2h' }],
}
const completion: Wrong = {
  ...routing,
  ...ofOpenRouter,
  ...paid,
  ...sampling,
  // With `echo`, 0 asks for the log probabilities of the prompt only.
  max_tokens: tokens.filter(value => value !== 0),
  prompt: [null, 5, {}, [], [{}], ['a', 5], [-1], [1.5], [[]], [[1], 'a']],
  best_of: [0, 21, '3'],
  logprobs: [-1, 6, true],
  echo: flag,
  suffix: [5, {}],
}
const embedding: Wrong = {
  ...ofOpenRouter,
  ...paid,
  model: routing.model!,
  mode: routing.mode!,
  models: routing.models!,
  provider: routing.provider!,
  user: sampling.user!,
  input: [null, 5, {}, '', [], [''], [{}], ['a', 5], [-1], [[]], Array(2049).fill('a')],
  dimensions: [0, -1, 1.5, '8', 65_537],
  encoding_format: ['hex', 5],
}
const key: Wrong = {
  name: [...text, null, '', 'x'.repeat(201)],
  environment: ['production', 5, null],
  mode: ['fast', 1, null],
  rpm_limit: [-1, 1.5, '5', 2_147_483_648, true],
  tpm_limit: [-1, 1.5, '5', 2_147_483_648, true],
  monthly_spend_cap_usd: [-0.01, '5', 1_000_001, true],
  model_allowlist: ['gpt-4o', [''], [5], [null], {}],
  scopes: ['', 'chat,root', 5, ['chat'], null],
  learning: ['true', 1, null],
  guardrails: [
    true,
    {},
    { detectors: [], webhook: null, other_kinds: 'refuse' },
    { detectors: [{ type: 'name', action: 'mask', on: 'input' }], webhook: null, other_kinds: 'refuse' },
    {
      detectors: [],
      webhook: { url: 'https://example.com', on: 'both', timeout_ms: 60_000, on_failure: 'fail_open' },
      other_kinds: 'refuse',
    },
    { detectors: [], webhook: { url: 'https://example.com', on: 'both', timeout_ms: 500 }, other_kinds: 'refuse' },
  ],
  cache: [true, 60, {}, { ttl_s: 0 }, { ttl_s: 1.5 }, { ttl_s: 2_592_001 }, { ttl_s: 60, mode: 'exact' }],
  denied_service_tiers: ['flex', ['scale'], [5], {}, ['flex', 'flex', 'flex']],
  provider: ['openai', [], { zdr: 1 }, { weights: {} }, { timeout_ms: 5 }],
  own_keys: ['mine', 1, {}],
  expires_at: ['tomorrow', 5, '2026-13-01T00:00:00Z', '2026-12-01'],
  expires_in_days: [0, -1, 1.5, '5', 36_501],
}

const cases: [BodyPath, z.ZodObject, Wrong][] = [
  ['/v1/chat/completions', chatRequest, chat],
  ['/v1/route', chatRequest, chat],
  ['/v1/completions', completionRequest, completion],
  ['/v1/embeddings', embeddingRequest, embedding],
  ['/api/v1/keys', newKey, key],
]

for (const [path, schema, wrong] of cases) {
  test.serial(`400 with the field’s name for wrong values of every field of POST ${path}`, async t => {
    t.deepEqual(Object.keys(wrong).sort(), Object.keys(schema.shape).sort(), 'every field has its wrong values')
    for (const [field, values] of Object.entries(wrong)) {
      for (const value of values) {
        // Null for an optional field means that there is none, except in the administration of keys.
        if (value === null && path !== '/api/v1/keys' && schema.shape[field]!.safeParse(undefined).success) continue
        const body = { ...validBodies[path], [field]: value }
        const response = await gateway.fetch(path, { key: keyFor(path), body })
        const what = `${field}: ${JSON.stringify(value).slice(0, 200)}`
        const { status } = response
        const { error } = (await response.clone().json()) as { error: { code: 'invalid_request'; param: string } }
        t.is(status, 400, what)
        t.true(['invalid_request', 'missing_field', 'unknown_field'].includes(error.code), `${what}: ${error.code}`)
        await answersError(t, response, error.code, undefined, what)
        t.is(error.param?.split('.')[0], field, what)
      }
    }
  })

  test.serial(`400 missing_field for what POST ${path} needs`, async t => {
    const needed = Object.keys(schema.shape).filter(field => !schema.shape[field]!.safeParse(undefined).success)
    for (const field of needed) {
      const body = { ...validBodies[path], [field]: undefined }
      const response = await gateway.fetch(path, { key: keyFor(path), body })
      await answersError(t, response, 'missing_field', field)
    }
    t.is(needed.length > 0, path !== '/api/v1/keys')
  })
}

test.serial('400 missing_field names fields inside a body', async t => {
  const message = (content: unknown) => ({ ...validBodies['/v1/chat/completions'], messages: [content] })
  const missing: [object, string][] = [
    [message({ content: 'x' }), 'messages.0.role'],
    [message({ role: 'user' }), 'messages.0.content'],
    [message({ role: 'tool', content: 'x' }), 'messages.0.tool_call_id'],
    [message({ role: 'user', content: [{ text: 'x' }] }), 'messages.0.content.0.type'],
    [message({ role: 'user', content: [{ type: 'text' }] }), 'messages.0.content.0.text'],
    [message({ role: 'user', content: [{ type: 'image_url', image_url: {} }] }), 'messages.0.content.0.image_url.url'],
  ]
  for (const [body, param] of missing) {
    const response = await gateway.fetch('/v1/chat/completions', { key: account.live, body })
    await answersError(t, response, 'missing_field', param)
  }
})

test.serial('400 for numbers that JSON can write and no machine can hold', async t => {
  for (const literal of ['1e400', '-1e400', '123456789012345678901234567890']) {
    const body = `{"model":"gpt-5.6-luna","messages":[{"role":"user","content":"x"}],"max_tokens":${literal}}`
    const response = await gateway.fetch('/v1/chat/completions', { key: account.live, body })
    await answersError(t, response, 'invalid_request', 'max_tokens', literal)
  }
})

function keyFor(path: string): string {
  return path.startsWith('/api/') ? provisioning : account.live
}
