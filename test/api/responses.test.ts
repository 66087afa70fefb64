import { openReasoningSealer } from '../../shared/providers/toolkit/reasoning-envelope.ts'
import { answersError } from '../support/api/edge.ts'
import { chargedNano, dataOf, generationOf, startWorld } from '../support/chat/gateway.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use } from '../support/use.ts'

// A model must have one provider, so that its failures are not made good by the other.
const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '' }))
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic]) emulator.reset()
})

const path = '/v1/responses'
const hi = { model: 'gpt-4o-mini', input: 'Hello' }

function refuses(t: ExecutionContext, response: Response, code: string, param?: string | null) {
  return answersError(t, response, code as never, param)
}

test.serial('refusals of our own are in OpenAI’s format: 400, 401, 403, 404, 405, 413, 415, 429', async t => {
  const { gateway } = world
  const account = await gateway.account({ usd: '10' })
  const { live: key } = account
  const send = (body: unknown, options: object = {}) => gateway.fetch(path, { key, body, ...options })
  await refuses(t, await gateway.fetch(path, { body: hi }), 'missing_api_key')
  await refuses(t, await send(hi, { key: `svc_sk_live_${'a'.repeat(40)}` }), 'invalid_api_key')
  await refuses(t, await send({ ...hi, input: undefined }), 'missing_field', 'input')
  await refuses(t, await send({ ...hi, input: [] }), 'invalid_request', 'input')
  const textless = [{ type: 'message', role: 'user', content: [{ type: 'input_text' }] }]
  await refuses(t, await send({ ...hi, input: textless }), 'missing_field', 'input.0.content.0.text')
  const call = { type: 'function_call', call_id: 'c', name: 'f' }
  await refuses(t, await send({ ...hi, input: [call] }), 'missing_field', 'input.0.arguments')
  await refuses(t, await send({ ...hi, model: 'nope' }), 'model_not_found', 'model')
  await refuses(t, await gateway.fetch(path, { key, method: 'GET' }), 'method_not_allowed')
  await refuses(t, await gateway.fetch(`${path}/resp_1`, { key }), 'not_found')
  await refuses(t, await send(hi, { headers: { 'content-type': 'text/plain' } }), 'unsupported_media_type')
  const unscoped = await gateway.key(account.organisationId, 'live', { scopes: 'embeddings' })
  await refuses(t, await send(hi, { key: unscoped }), 'insufficient_scope')
  const slow = await gateway.key(account.organisationId, 'live', { rpm_limit: 1 })
  t.is((await send(hi, { key: slow })).status, 200)
  const limited = await send(hi, { key: slow })
  await refuses(t, limited, 'rate_limit_exceeded')
  t.regex(limited.headers.get('retry-after')!, /^\d+$/)
  const capped = await gateway.key(account.organisationId, 'live', { monthly_spend_cap_usd: 0.000001 } as never)
  await refuses(t, await send(hi, { key: capped }), 'monthly_spend_cap_reached')
  const { live: poor } = await gateway.account({ usd: '0' })
  for (const stream of [false, true]) {
    const broke = await send({ ...hi, stream }, { key: poor })
    t.is(broke.headers.get('x-should-retry'), 'false')
    await refuses(t, broke, 'insufficient_credits')
  }
  const image = { type: 'input_image', image_url: `data:image/png;base64,${'A'.repeat(33 * 1024 * 1024)}` }
  const large = [{ role: 'user', content: [image] }]
  await refuses(t, await send({ ...hi, input: large }), 'request_too_large')
})

test.serial('an Idempotency-Key repeats the answer, charged once', async t => {
  const account = await world.gateway.account({ usd: '10' })
  const headers = { 'idempotency-key': 'one' }
  const body = { ...hi, provider: { only: ['openai'] } }
  const [first, second] = [
    await world.gateway.fetch(path, { key: account.live, body, headers }),
    await world.gateway.fetch(path, { key: account.live, body, headers }),
  ]
  const charged = await chargedNano(world, account)
  t.is(await first.text(), await second.text())
  t.is(second.headers.get('idempotent-replayed'), 'true')
  t.is(world.openai.requests.length, 1)
  t.is(charged, Math.round(Number(first.headers.get('x-gateway-cost-usd')) * 1e9))
})

test.serial('test keys: the sandbox answers whole and streamed, `auto` and named models', async t => {
  const { test: key } = await world.gateway.account({ usd: '0' })
  const client = world.sdk(key)
  for (const model of ['auto', 'auto:floor', 'claude-haiku-4-5', 'gpt-4o-mini']) {
    const whole = await client.responses.create({ ...hi, model })
    t.is(whole.output_text, 'Hello', model)
    t.regex(whole.id, /^resp_/)
    const streamed = await client.responses.stream({ ...hi, model }).finalResponse()
    t.is(streamed.output_text, 'Hello', model)
    t.deepEqual(streamed.usage, whole.usage)
  }
  t.is(world.openai.requests.length + world.anthropic.requests.length, 0)
})

test.serial('reasoning state in the input goes to the model that made it first', async t => {
  const { organisationId, live: key } = await world.gateway.account({ usd: '10' })
  const sealer = await openReasoningSealer(world.gateway.services.signingSecret, {
    organisationId,
    environment: 'live',
  } as never)
  const stateOf = (model: string, provider: string) =>
    sealer!.seal({ provider, credentialId: null, model, state: 'c2lnbmVk' })
  const input = (state: unknown) => [
    { role: 'user', content: 'Hi' },
    { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: state },
    { role: 'assistant', content: 'Yo' },
    { role: 'user', content: 'And?' },
  ]
  for (const [model, provider] of [
    ['claude-opus-4-7', 'anthropic'],
    ['gemini-3.5-flash', 'gemini'],
  ] as const) {
    const body = { model: 'auto', input: input(stateOf(model, provider)) }
    const response = await world.gateway.fetch(path, { key, body })
    t.is(response.status, 200, await response.text())
    t.is(response.headers.get('x-gateway-model'), model)
    t.is(response.headers.get('x-gateway-provider'), provider)
  }
})

test.serial('200 without the reasoning that another provider or account made, which OpenAI refuses', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  const input = [
    { role: 'user', content: 'Hi' },
    { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'xai-state' },
    { type: 'function_call', call_id: 'call_1', name: 'f', arguments: '{}' },
    { type: 'function_call_output', call_id: 'call_1', output: 'done' },
  ]
  for (const stream of [false, true]) {
    world.openai.reset()
    const response = await world.gateway.fetch(path, { key, body: { model: 'gpt-5-mini', input, stream } })
    const text = await response.text()
    t.is(response.status, 200, text)
    t.regex(text, /Echo: done/)
    t.is(response.headers.get('x-gateway-reasoning-dropped'), '1')
    const sent = world.openai.requests.map(({ body }) => body.input.map((item: { type?: string }) => item.type))
    t.deepEqual(sent, [
      [undefined, 'reasoning', 'function_call', 'function_call_output'],
      [undefined, 'function_call', 'function_call_output'],
    ])
  }
})

test.serial('a stream fails over from a native provider to a translated one, and back', async t => {
  const account = await world.gateway.account({ usd: '10' })
  for (const [model, models] of [
    ['gpt-4.1', ['claude-haiku-4-5']],
    ['claude-haiku-4-5', ['gpt-4.1']],
  ] as const) {
    const broken = model === 'gpt-4.1' ? world.openai : world.anthropic
    broken.next(...Array(4).fill((_: unknown, response: import('node:http').ServerResponse) => response.destroy()))
    const body = { model, models, input: 'Hello', stream: true }
    const response = await world.gateway.fetch(path, { key: account.live, body })
    const events = dataOf(await response.text())
    broken.reset()
    t.is(events.at(-2).type, 'response.completed')
    t.is(events.at(-2).response.output.at(-1).content[0].text, 'Echo: Hello')
    t.is(events.filter(({ type }) => type === 'response.created').length, 1)
    const booked = await generationOf(world, response.headers.get('x-generation-id')!)
    t.like(booked, { kind: 'responses', model: models[0], status: 200 })
  }
  t.true((await chargedNano(world, account)) > 0)
})
