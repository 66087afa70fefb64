import { OpenRouter } from '@openrouter/sdk'
import type { ChatRequest, ProviderPreferences } from '@openrouter/sdk/models'
import type { Reply } from '../emulators/emulator.ts'
import { saying, startWorld } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, startWorld)
const account = use(test, () => world.gateway.account())
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini, world.openrouter]) emulator.reset()
})

/** Served by openai, whose terms are known, and by openrouter, of which nothing is known. */
const model = 'gpt-5'
type Json = Record<string, unknown>

async function ask(body: object, { key = account.live, path = '/v1/chat/completions', headers = {} } = {}) {
  const response = await world.gateway.fetch(path, { key, body, headers })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, json: text ? JSON.parse(text) : {} }
}

function preferring(provider: Json, more: Json = {}) {
  return saying(model, 'Hello', { provider, ...more })
}

const served = (answer: Awaited<ReturnType<typeof ask>>) => answer.headers.get('x-gateway-provider')

async function viaSdk(provider: ProviderPreferences, more: Partial<ChatRequest> = {}) {
  const client = new OpenRouter({
    apiKey: account.live,
    serverURL: `${world.gateway.url}/v1`,
    retryConfig: { strategy: 'none' },
  })
  const chatRequest = { model, messages: [{ role: 'user' as const, content: 'Hello' }], provider, ...more }
  return client.chat.send({ chatRequest: { ...chatRequest, stream: false } })
}

test.serial('200 with everything that OpenRouter’s SDK can send in a request', async t => {
  const provider: ProviderPreferences = {
    allowFallbacks: true,
    dataCollection: 'deny',
    enforceDistillableText: false,
    ignore: ['together', 'Amazon Bedrock'],
    maxPrice: { prompt: '100', completion: '1000', request: '1', image: '1', audio: '100' },
    only: ['OpenAI', 'openrouter'],
    preferredMaxLatency: { p50: 1, p99: 5 },
    preferredMinThroughput: 10,
    quantizations: ['unknown', 'fp8'],
    requireParameters: false,
    sort: { by: 'throughput', partition: 'model' },
    zdr: null,
  }
  const answer = await viaSdk(provider, {
    models: ['gpt-4.1'],
    plugins: [{ id: 'response-healing' }],
    reasoning: { effort: 'low' },
    sessionId: 'a-session',
    trace: { traceId: 't' },
    debug: { echoUpstreamBody: true },
    user: 'u',
    metadata: { a: 'b' },
    serviceTier: 'auto',
  })
  t.true('choices' in answer)
  const sent = JSON.parse(world.openai.requests.at(-1)!.raw.toString())
  t.is(sent.reasoning_effort, 'low')
  for (const name of ['plugins', 'session_id', 'trace', 'debug', 'provider']) t.false(name in sent, name)
})

test.serial('200 and named as dropped: what has no effect here', async t => {
  const answer = await ask(saying(model, 'Hello', { plugins: [{ id: 'web' }], trace: { trace_id: 't' } }))
  t.is(answer.status, 200, answer.text)
  t.deepEqual(answer.headers.get('x-gateway-dropped')?.split(',').sort(), ['plugins', 'trace'])
})

test.serial('200 from a provider whose terms are known, 400 naming the fact when none is left', async t => {
  const answer = await ask(preferring({ data_collection: 'deny', order: ['openrouter'] }))
  t.deepEqual([answer.status, served(answer)], [200, 'openai'], answer.text)
  for (const [provider, fact] of [
    [{ zdr: true }, 'provider.zdr'],
    [{ data_collection: 'deny', only: ['openrouter'] }, 'provider.data_collection'],
    [{ quantizations: ['fp8'] }, 'provider.quantizations'],
    [{ enforce_distillable_text: true }, 'provider.enforce_distillable_text'],
    [{ max_price: { prompt: 0.01 } }, 'provider.max_price.prompt'],
    [{ max_price: { completion: '0.01' } }, 'provider.max_price.completion'],
  ] as const) {
    const { status, json } = await ask(preferring(provider))
    t.deepEqual([status, json.error.code, json.error.param], [400, 'invalid_request', 'provider'], fact)
    t.true(json.error.message.includes(fact), json.error.message)
  }
})

test.serial('the same in Messages, Responses and embeddings, and for auto', async t => {
  const provider = { zdr: true, only: ['openai', 'anthropic', 'gemini', 'openrouter'] }
  const messages = [{ role: 'user', content: 'Hi' }]
  for (const [path, body] of [
    ['/v1/messages', { model: 'claude-haiku-4-5', max_tokens: 9, messages }],
    ['/v1/responses', { model, input: 'Hi' }],
    ['/v1/embeddings', { model: 'text-embedding-3-small', input: 'Hi' }],
    ['/v1/chat/completions', { model: 'auto', messages }],
  ] as const) {
    const { status, text } = await ask({ ...body, provider }, { path })
    t.is(status, 400, text)
    t.true(text.includes('provider.zdr'), text)
  }
  t.is(world.openai.requests.length + world.anthropic.requests.length, 0)
})

test.serial('200 of an image with OpenRouter’s members, 400 when the preferences exclude its providers', async t => {
  const image = { model: 'gpt-image-2', prompt: 'A cat', session_id: 's', trace: { trace_id: 't' } }
  const path = '/v1/images'
  const answer = await ask(
    { ...image, provider: { only: ['openai'], options: { openai: { a: 1 } } } },
    { key: account.test, path },
  )
  t.is(answer.status, 200, answer.text)
  t.is(answer.headers.get('x-gateway-dropped'), 'session_id,trace,provider.options')
  const refused = await ask({ ...image, provider: { zdr: true } }, { path })
  t.is(refused.status, 400)
  t.true(refused.text.includes('provider.zdr'), refused.text)
})

test.serial('a key’s policy can only be tightened: 403 naming the fact, on every route', async t => {
  const key = await world.gateway.key(account.organisationId, 'live', {
    provider: { data_collection: 'deny', only: ['openai', 'openrouter'] },
  })
  const answer = await ask(preferring({ data_collection: 'allow', order: ['openrouter'] }), { key })
  t.deepEqual([answer.status, served(answer)], [200, 'openai'], answer.text)
  const refused = await ask(saying('claude-haiku-4-5', 'Hello'), { key })
  t.deepEqual([refused.status, refused.json.error.code], [403, 'model_not_allowed'], refused.text)
  t.regex(refused.json.error.message, /the key’s `provider\.only` excludes `anthropic`/)
  const locked = await world.gateway.key(account.organisationId, 'live', { provider: { zdr: true } })
  const image = await ask({ model: 'gpt-image-2', prompt: 'A cat' }, { key: locked, path: '/v1/images' })
  t.is(image.status, 403, image.text)
  const fallback = await ask(saying('claude-haiku-4-5', 'Hello', { models: [model] }), { key: locked })
  t.is(fallback.status, 403, fallback.text)
})

test.serial('/v1/route names the fact that excluded each target', async t => {
  const { json } = await ask(preferring({ data_collection: 'deny' }), { path: '/v1/route' })
  const excluded = json.candidates.find((one: Json) => one.provider === 'openrouter').excluded
  t.regex(excluded, /data_collection.*not known/)
})

test.serial('weights of a key draw a provider, the same one for a session', async t => {
  const key = await world.gateway.key(account.organisationId, 'live', {
    provider: { weights: { openai: 50, openrouter: 50 } },
  })
  const drawn = new Map<string, string>()
  for (let i = 0; i < 12; i++)
    for (let again = 0; again < 2; again++) {
      const headers = { 'x-session-id': `session ${i}` }
      const { json } = await ask(saying(model, 'Hello'), { key, path: '/v1/route', headers })
      t.like(json.arm, { provider: json.provider, percent: 50 })
      t.is(json.provider, drawn.get(`${i}`) ?? json.provider)
      drawn.set(`${i}`, json.provider)
    }
  t.deepEqual([...new Set(drawn.values())].sort(), ['openai', 'openrouter'])
  const { json } = await ask(preferring({ sort: 'price' }), { key, path: '/v1/route' })
  t.is(json.arm, undefined)
})

test.serial('400 from a provider that would not get a parameter, where every one is required', async t => {
  const answer = await ask(preferring({ require_parameters: true, only: ['openai'] }, { top_k: 5 }))
  t.is(answer.status, 400, answer.text)
  t.regex(answer.json.error.message, /require_parameters.*`top_k`/)
  const other = await ask(preferring({ require_parameters: true }, { top_k: 5 }))
  t.deepEqual([other.status, served(other)], [200, 'openrouter'], other.text)
})

const silent: Reply = () => {}
test.serial('504 when the caller’s own time is up; the next provider when the first is too slow', async t => {
  world.openai.next(silent)
  const late = await ask(preferring({ only: ['openai'], timeout_ms: 150 }))
  t.deepEqual([late.status, late.json.error.code], [504, 'upstream_timeout'], late.text)
  world.openai.next(silent)
  const headers = { 'x-gateway-timeout-ms': '30000; first-token=150' }
  const answer = await ask(preferring({ order: ['openai', 'openrouter'] }), { headers })
  t.deepEqual([answer.status, served(answer)], [200, 'openrouter'], answer.text)
  const wrong = await ask(saying(model, 'Hello'), { headers: { 'x-gateway-timeout-ms': 'soon' } })
  t.deepEqual([wrong.status, wrong.json.error.param], [400, 'x-gateway-timeout-ms'])
})
