import { hang, reset } from '../emulators/emulator.ts'
import { contextLength, rateLimited, serverError } from '../emulators/openai.ts'
import { chargedNano, expectedNano, generationOf, saying, startWorld, upstreamSecret } from '../support/chat/gateway.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { grown, growth, measured, scrape, total } from '../support/metrics/samples.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const model = 'gpt-4o-mini'
const requests = 'headgate_requests_total'
const calls = 'headgate_upstream_attempts_total'
const chat = { endpoint: 'POST /v1/chat/completions' }
const tokens = (of: string) => `gen_ai_client_inference_usage_${of}_tokens_total`
let account: Account

const world = use(test, () => startWorld({ ...measured, UPSTREAM_MAX_PAUSE_MS: '1', UPSTREAM_READ_ON_MS: '0' }))
test.beforeEach(async () => {
  account = await world.gateway.account()
})
test.afterEach.always(() => {
  for (const emulator of [world.openai, world.openrouter]) emulator.reset()
})

const ask = (body: object, key = account.live, headers: Record<string, string> = {}) =>
  world.gateway.fetch('/v1/chat/completions', { key, body, headers })

/** A request with its response read to the end; its request log entry. */
async function asked(body: object) {
  const response = await ask(body)
  await response.text()
  return generationOf(world, response.headers.get('x-generation-id')!)
}

test.serial('a request, its call, its tokens and its money are counted', async t => {
  const by = await growth(world.gateway)
  const whole = await asked(saying(model))
  const streamed = await asked(saying(model, 'Tell me a story', { stream: true }))
  const target = { model, provider: 'openai' }
  const outcome = { status_class: '2xx', error_code: '', env: 'live' }
  await grown(by, 2, requests, { ...chat, ...target, ...outcome })
  t.is(await by(requests), 2)
  t.is(await by(calls, { ...target, outcome: 'ok' }), 2)
  t.is(await by(calls), 2)

  const genAi = { gen_ai_operation_name: 'chat', gen_ai_provider_name: 'openai', gen_ai_request_model: model }
  t.is(await by('gen_ai_client_inference_duration_seconds_count', genAi), 2)
  t.is(await by('gen_ai_client_inference_time_to_first_chunk_seconds_count', genAi), 1)
  t.is(await by(tokens('input'), genAi), whole.promptTokens + streamed.promptTokens)
  t.is(await by(tokens('output'), genAi), whole.completionTokens + streamed.completionTokens)

  const spentNano = await chargedNano(world, account)
  t.true(spentNano > 0)
  t.is(Math.round((await by('headgate_spend_usd_total', target)) * 1e9), spentNano)
  const listNano = [whole, streamed].reduce((sum, { promptTokens, completionTokens }) => {
    const usage = { prompt_tokens: promptTokens, completion_tokens: completionTokens, total_tokens: 0 }
    return sum + expectedNano(model, usage, { percent: 0 })
  }, 0)
  const costNano = (await by('headgate_provider_cost_usd_total', target)) * 1e9
  t.true(Math.abs(costNano - listNano) <= 2, `${costNano} instead of ${listNano}`)
})

test.serial('durations and the gateway’s own time are observed by endpoint', async t => {
  const by = await growth(world.gateway)
  world.openai.next((request, response) => {
    setTimeout(() => serverError(request, response), 300)
  })
  await asked(saying('gpt-5'))
  await asked(saying(model, 'Tell me a story', { stream: true }))
  const duration = 'headgate_request_duration_seconds'
  const overhead = 'headgate_overhead_seconds'
  await grown(by, 1, `${duration}_count`, { ...chat, streamed: 'false' })
  await grown(by, 1, `${duration}_count`, { ...chat, streamed: 'true' })
  await grown(by, 2, `${overhead}_count`, chat)
  t.is(await by(`${duration}_bucket`, { ...chat, streamed: 'false', le: '+Inf' }), 1)
  // The provider needed 0.3 s.
  t.is(await by(`${duration}_bucket`, { ...chat, streamed: 'false', le: '0.16' }), 0)
  const ownSeconds = await by(`${overhead}_sum`, chat)
  t.true(ownSeconds > 0)
  t.true(ownSeconds <= (await by(`${duration}_sum`, chat)) - 0.29, `${ownSeconds} s`)
})

test.serial('a test key’s requests are counted, but neither calls, tokens nor money', async t => {
  const by = await growth(world.gateway)
  await (await ask(saying(model), account.test)).text()
  await grown(by, 1, requests, { ...chat, model, env: 'test' })
  for (const name of [calls, tokens('input'), 'headgate_spend_usd_total']) t.is(await by(name), 0, name)
})

test.serial('every outcome moves the series of its error code', async t => {
  const by = await growth(world.gateway)
  const refused = (code: string, status: '4xx' | '5xx', more: object = {}) =>
    grown(by, 1, requests, { ...chat, error_code: code, status_class: status, ...more })
  await ask(saying(model), 'sk-live-nobody')
  await refused('invalid_api_key', '4xx', { model: '', provider: '', env: '' })
  await ask(saying('a-model-that-nobody-has'))
  await refused('model_not_found', '4xx', { model: '', env: 'live' })
  await ask({ model, messages: 'none' })
  await refused('invalid_request', '4xx')

  world.openai.next(contextLength)
  await ask(saying(model))
  await refused('context_length_exceeded', '4xx', { model, provider: 'openai' })
  t.is(await by(calls, { model, provider: 'openai', outcome: 'context_length' }), 1)

  await world.gateway.fetch('/nowhere', { key: account.live })
  await grown(by, 1, requests, { endpoint: 'other', status_class: '4xx', error_code: 'not_found' })
})

test.serial('failover: each call counts with its outcome, the request once', async t => {
  const by = await growth(world.gateway)
  world.openai.next(rateLimited(), reset)
  await asked(saying('gpt-5-mini'))
  await asked(saying('gpt-5-nano'))
  await grown(by, 2, requests, { ...chat, provider: 'openrouter', status_class: '2xx' })
  t.is(await by(requests), 2)
  t.is(await by(calls, { provider: 'openai', model: 'gpt-5-mini', outcome: 'rate_limited' }), 1)
  t.is(await by(calls, { provider: 'openai', model: 'gpt-5-nano', outcome: 'connection' }), 1)
  t.is(await by(calls, { provider: 'openrouter', outcome: 'ok' }), 2)
  t.is(await by(calls), 4)
})

test.serial('a client that disconnects counts as 499, and its call as cancelled', async t => {
  const by = await growth(world.gateway)
  world.openai.next(hang)
  const gone = new AbortController()
  const asking = world.gateway.fetch('/v1/chat/completions', {
    key: account.live,
    body: saying(model),
    signal: gone.signal,
  })
  await eventually(() => world.openai.requests.length > 0, 'the provider was called')
  gone.abort()
  await t.throwsAsync(asking)
  await grown(by, 1, requests, { ...chat, model, status_class: '4xx', error_code: 'client_closed_request' })
  t.is(await by(calls, { model, outcome: 'cancelled' }), 1)
})

test.serial('a stream in progress is a gauge, with its reservation', async t => {
  let finish = () => {}
  world.openai.next((_request, response) => {
    const delta = { content: 'Once' }
    const chunk = { id: 'c', object: 'chat.completion.chunk', created: 1, model, choices: [{ index: 0, delta }] }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(`data: ${JSON.stringify(chunk)}\n\n`)
    finish = () => response.destroy()
  })
  const response = await ask(saying(model, 'Hello', { stream: true }))
  const during = await scrape(world.gateway)
  t.is(total(during, 'headgate_open_streams'), 1)
  t.true(total(during, 'headgate_reserved_usd') > 0)
  finish()
  await response.text()
  await world.gateway.settled()
  const afterwards = await scrape(world.gateway)
  t.is(total(afterwards, 'headgate_open_streams'), 0)
  t.is(total(afterwards, 'headgate_reserved_usd'), 0)
})

test.serial('a repeated request with an Idempotency-Key is charged, and counted as spend, once', async t => {
  const by = await growth(world.gateway)
  const headers = { 'idempotency-key': 'once' }
  const first = await ask(saying(model), account.live, headers)
  const again = await ask(saying(model), account.live, headers)
  t.is(await again.text(), await first.text())
  await grown(by, 2, requests, { ...chat, status_class: '2xx' })
  t.is(Math.round((await by('headgate_spend_usd_total')) * 1e9), await chargedNano(world, account))
  t.is(await by(calls), 1)
})

test.serial('a model whose provider keeps failing has an open circuit', async t => {
  const failing = 'gpt-4.1-mini'
  world.openai.next(...Array.from({ length: 12 }, () => serverError))
  const circuit = { model: failing, provider: 'openai' }
  await eventually(async () => {
    await (await ask(saying(failing))).text()
    return total(await scrape(world.gateway), 'headgate_circuit_open', circuit) === 1
  }, 'the circuit is open')
  t.is(total(await scrape(world.gateway), 'headgate_circuit_open', { model, provider: 'openai' }), 0)
})

test.serial('no secret, key, organisation or text of a client becomes a label', async t => {
  const response = await ask(saying('a-slug-of-a-client', 'a prompt of a client', { user: 'a-user' }))
  await response.text()
  await world.gateway.fetch('/v1/paths/of-a-client', { key: account.live })
  const { id } = await world.gateway.services.db.apiKey.findFirstOrThrow({
    where: { organisationId: account.organisationId, environment: 'live' },
  })
  const text = await world.gateway.services.metrics!.render()
  const foreign = ['a-slug-of-a-client', 'a prompt of a client', 'a-user', 'of-a-client', account.organisationId, id]
  for (const word of [...foreign, account.live, account.test, upstreamSecret]) t.false(text.includes(word), word)
})
