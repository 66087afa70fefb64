import { overloaded } from '../emulators/anthropic.ts'
import { type Reply, reset } from '../emulators/emulator.ts'
import { geminiError } from '../emulators/gemini.ts'
import {
  contentPolicy,
  contextLength,
  failure,
  insufficientQuota,
  invalidKey,
  modelNotFound,
  rateLimited,
  serverError,
} from '../emulators/openai.ts'
import {
  chargedNano,
  dataOf,
  expectedNano,
  generationOf,
  saying,
  startWorld,
  upstreamSecret,
} from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, startWorld)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini, world.openrouter]) emulator.reset()
})

const garbage: Reply = (_request, response) => void response.writeHead(200).end('<html>It works!</html>')
const halfJson: Reply = (_request, response) =>
  void response.writeHead(200, { 'content-type': 'application/json' }).end('{"id":"x","choices":[')
const emptyStream: Reply = (_request, response) =>
  void response.writeHead(200, { 'content-type': 'text/event-stream' }).end('data: [DONE]\n\n')

async function ask(key: string, body: object) {
  const response = await world.gateway.fetch('/v1/chat/completions', { key, body })
  return { response, headers: response.headers, status: response.status, text: await response.text() }
}

/** Each case has a model of its own, so that no circuit opens: first `provider` fails so, then OpenRouter answers. */
const failing: [
  title: string,
  model: string,
  provider: 'openai' | 'anthropic' | 'gemini',
  reply: Reply,
  stream: boolean,
][] = [
  ['500', 'gpt-5', 'openai', serverError, false],
  ['503 of a stream', 'gpt-5-mini', 'openai', failure(503, 'Busy.', 'server_error', null), true],
  ['429 with Retry-After', 'gpt-5-nano', 'openai', rateLimited('30'), false],
  ['529', 'claude-opus-4-7', 'anthropic', overloaded, true],
  ['broken connection', 'claude-opus-4-6', 'anthropic', reset, false],
  ['broken connection of a stream', 'claude-opus-4-5', 'anthropic', reset, true],
  ['page of HTML', 'claude-sonnet-4-6', 'anthropic', garbage, false],
  ['page of HTML for a stream', 'claude-sonnet-4-5', 'anthropic', garbage, true],
  ['half a JSON document', 'gemini-3.1-flash-lite', 'gemini', halfJson, false],
  ['500 of a stream', 'gemini-3.1-pro-preview', 'gemini', geminiError(500, 'INTERNAL', 'Oops.'), true],
  ['401', 'claude-haiku-4-5', 'anthropic', failure(401, 'Wrong key.', 'authentication_error', null), false],
]
for (const [title, model, provider, reply, stream] of failing) {
  test.serial(`200 from the second provider after the first one’s ${title}`, async t => {
    world[provider].next(reply)
    const account = await world.gateway.account()
    const { status, headers, text } = await ask(account.live, saying(model, 'Hello gateway', { stream }))
    t.is(status, 200, text)
    t.is(headers.get('x-gateway-attempts'), '2')
    t.is(headers.get('x-gateway-provider'), 'openrouter')
    const body = stream ? dataOf(text).at(-2) : JSON.parse(text)
    t.is(body.provider, 'openrouter')
    const nano = expectedNano(model, body.usage, { provider: 'openrouter' })
    t.is(await chargedNano(world, account), nano)
    t.is(body.usage.cost, nano / 1e9)
    t.is(world[provider].requests.length, 1)
    t.is(world.openrouter.requests.length, 1)
    t.like(await generationOf(world, headers.get('x-generation-id')!), {
      attempts: 2,
      provider: 'openrouter',
      status: 200,
    })
  })
}

test.serial('200 at once from the second provider while the first asked to be left alone', async t => {
  world.gemini.next(
    geminiError(429, 'RESOURCE_EXHAUSTED', 'Slow down.', [
      { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '30s' },
    ]),
  )
  const { live } = await world.gateway.account()
  const first = await ask(live, saying('gemini-2.5-flash'))
  t.is(first.headers.get('x-gateway-attempts'), '2')
  const second = await ask(live, saying('gemini-2.5-flash'))
  t.is(second.headers.get('x-gateway-attempts'), '1')
  t.is(second.headers.get('x-gateway-provider'), 'openrouter')
})

test.serial('200 from a model of the `models` list, in its order', async t => {
  const { live } = await world.gateway.account()
  world.openai.next(failure(404, 'Gone.', 'invalid_request_error', 'model_not_found'))
  world.anthropic.next(overloaded)
  const models = ['claude-sonnet-5', 'gemini-3.5-flash']
  const { status, headers } = await ask(live, saying('gpt-4.1', 'Hello', { models }))
  t.is(status, 200)
  t.is(headers.get('x-gateway-model'), 'gemini-3.5-flash')
  t.is(headers.get('x-gateway-attempts'), '3')
})

test.serial('200 from a lone provider whose connection broke once', async t => {
  const { live } = await world.gateway.account()
  world.openai.next(reset)
  const { status, headers } = await ask(live, saying('gpt-4.1-mini', 'Hello', { stream: true }))
  t.is(status, 200)
  t.is(headers.get('x-gateway-attempts'), '2')
  t.is(world.openai.requests.length, 2)
})

test.serial('200 from the providers the request prefers: order, only, ignore', async t => {
  const { live } = await world.gateway.account()
  const providerOf = async (provider: object) =>
    (await ask(live, saying('claude-haiku-4-5', 'Hello', { provider }))).headers.get('x-gateway-provider')
  t.is(await providerOf({ order: ['openrouter', 'anthropic'] }), 'openrouter')
  t.is(await providerOf({ order: ['anthropic'] }), 'anthropic')
  t.is(await providerOf({ only: ['openrouter'] }), 'openrouter')
  t.is(await providerOf({ ignore: ['anthropic'] }), 'openrouter')
  const nobody = await ask(live, saying('claude-haiku-4-5', 'Hello', { provider: { only: ['xai'] } }))
  t.is(nobody.status, 400)
  const { error } = JSON.parse(nobody.text)
  t.like(error, { code: 'invalid_request', param: 'provider' })
  t.regex(error.message, /There are: `anthropic`, `openrouter`\.$/)
  t.is(nobody.headers.get('retry-after'), null)
  t.is(nobody.headers.get('x-should-retry'), null)
})

test.serial('502 without a second provider when fallbacks are not allowed', async t => {
  const account = await world.gateway.account()
  world.anthropic.next(overloaded, overloaded, overloaded)
  const body = saying('claude-sonnet-4-5', 'Hello', { provider: { allow_fallbacks: false } })
  const { status, text } = await ask(account.live, body)
  t.is(status, 502)
  t.is(JSON.parse(text).error.metadata.attempts.length, 3)
  t.is(world.openrouter.requests.length, 0)
  t.is(await chargedNano(world, account), 0)
})

for (const stream of [false, true]) {
  test.serial(`400 of a provider is passed on and tried nowhere else (stream: ${stream})`, async t => {
    const account = await world.gateway.account()
    const cases: [Reply, string, RegExp][] = [
      [failure(400, 'Bad image.', 'invalid_request_error', null), 'invalid_request', /Bad image\./],
      [contentPolicy, 'invalid_request', /Not allowed\./],
      [contextLength, 'context_length_exceeded', /too long/],
    ]
    for (const [reply, code, message] of cases) {
      world.openai.reset()
      world.openai.next(reply)
      const { status, text, headers } = await ask(account.live, saying('gpt-5', 'Hello', { stream }))
      t.is(status, 400)
      t.is(JSON.parse(text).error.code, code)
      t.regex(JSON.parse(text).error.message, message)
      t.is(headers.get('x-gateway-attempts'), '1')
      t.is(headers.get('content-type'), 'application/json; charset=utf-8')
      t.is(world.openai.requests.length, 1)
    }
    t.is(world.openrouter.requests.length, 0)
    t.is(await chargedNano(world, account), 0)
  })

  test.serial(`502 naming every attempt, no secret and no address, when all fail (stream: ${stream})`, async t => {
    const account = await world.gateway.account()
    const model = stream ? 'claude-opus-4-6' : 'claude-opus-4-7'
    world.anthropic.next(failure(401, `invalid x-api-key ${upstreamSecret}`, 'authentication_error', null))
    world.openrouter.next(stream ? insufficientQuota : invalidKey)
    const { status, text, headers } = await ask(account.live, saying(model, 'Hello', { stream }))
    t.is(status, 502)
    t.is(headers.get('x-should-retry'), 'false')
    const { error } = JSON.parse(text)
    t.like(error, { code: 'upstream_error', type: 'upstream_error' })
    t.deepEqual(error.metadata.attempts, [
      { provider: 'anthropic', model, status: 401, reason: 'auth' },
      { provider: 'openrouter', model, status: stream ? 429 : 401, reason: stream ? 'quota' : 'auth' },
    ])
    const shown = text + JSON.stringify([...headers])
    for (const secret of [upstreamSecret, '127.0.0.1', 'http:', 'sk-emul']) t.false(shown.includes(secret), secret)
    t.is(headers.get('x-gateway-attempts'), '2')
    t.is(headers.get('x-gateway-model'), model)
    t.is(await chargedNano(world, account), 0)
    t.like(await generationOf(world, headers.get('x-generation-id')!), { status: 502, errorCode: 'upstream_error' })
  })

  test.serial(
    `502 upstream_invalid_response after one call for nonsense of the only provider (stream: ${stream})`,
    async t => {
      const account = await world.gateway.account()
      world.openai.next(stream ? emptyStream : halfJson)
      const { status, text } = await ask(account.live, saying(stream ? 'gpt-4.1' : 'gpt-4o', 'Hello', { stream }))
      t.is(status, 502)
      t.is(JSON.parse(text).error.code, 'upstream_invalid_response')
      t.is(world.openai.requests.length, 1)
      t.is(await chargedNano(world, account), 0)
    },
  )
}

test.serial('502 when the only provider no longer has the model: it is not asked twice', async t => {
  const account = await world.gateway.account()
  world.openai.next(modelNotFound)
  const { status } = await ask(account.live, saying('gpt-4o-mini'))
  t.is(status, 502)
  t.is(world.openai.requests.length, 1)
  t.is(await chargedNano(world, account), 0)
})

test.serial('502 with the time until the first of the providers is back, where all said when', async t => {
  const account = await world.gateway.account()
  const slowDown = (seconds: string) => failure(429, 'Slow down.', 'rate_limit_error', null, { 'retry-after': seconds })
  world.anthropic.next(slowDown('40'))
  world.openrouter.next(slowDown('20'))
  const { status, headers } = await ask(account.live, saying('claude-opus-4-7'))
  t.is(status, 502)
  t.is(headers.get('retry-after'), '20')
  t.is(await chargedNano(world, account), 0)
})
