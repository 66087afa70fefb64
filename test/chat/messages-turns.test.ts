import { mock } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import { KeepAlive } from '../../shared/io/keep-alive.ts'
import { messageEvents, messageReply, overloaded, sse } from '../emulators/anthropic.ts'
import { events, json, type Reply } from '../emulators/emulator.ts'
import { chatChunk, chatReply, serverError } from '../emulators/openai.ts'
import { chargedNano, expectedNano, generationOf, startWorld } from '../support/chat/gateway.ts'
import { eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

/** What happens to the turns of agents on `/v1/messages`: sessions, silence, departures, repetitions and fallbacks. */

const world = use(test, () => {
  const keys = 'first,second,third'
  return startWorld({
    ANTHROPIC_API_KEY: keys,
    OPENAI_API_KEY: keys,
    OPENROUTER_API_KEY: '',
    UPSTREAM_READ_ON_MS: '400',
  })
})
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic]) emulator.reset()
})

const path = '/v1/messages'
const native = 'claude-sonnet-4-5'
const translated = 'gpt-4.1'
const hi = { max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hello' }] }
const sdk = (apiKey: string) => new Anthropic({ apiKey, baseURL: world.gateway.url, maxRetries: 0 })

const session = '0b6f1a52-5d0c-4a8e-9a59-6c2f0f3f2a11'
const namings: [title: string, headers: Record<string, string>, metadata?: object][] = [
  ['x-claude-code-session-id', { 'x-claude-code-session-id': session }],
  ['x-session-id', { 'x-session-id': session }],
  ['metadata.user_id', {}, { user_id: JSON.stringify({ device_id: 'd', account_uuid: '', session_id: session }) }],
  ['an older metadata.user_id', {}, { user_id: `user_0a1b_account__session_${session}` }],
]

for (const [model, upstream, keyHeader] of [
  [native, () => world.anthropic, 'x-api-key'],
  [translated, () => world.openai, 'authorization'],
] as const)
  test.serial(`200 from ${model}: the turns of a session stay with one account`, async t => {
    const ask = async (key: string, headers: Record<string, string>, metadata?: object) => {
      const body = { model, ...hi, ...(metadata && { metadata }) }
      const response = await world.gateway.fetch(path, { key, body, headers })
      t.is(response.status, 200, await response.text())
      return upstream().requests.at(-1)!.headers[keyHeader]
    }
    for (const [title, headers, metadata] of namings) {
      const { live } = await world.gateway.account()
      const accounts = new Set<unknown>()
      for (let turn = 0; turn < 5; turn++) accounts.add(await ask(live, headers, metadata))
      t.is(accounts.size, 1, title)
    }
    const { live } = await world.gateway.account()
    const accounts = new Set<unknown>()
    for (let turn = 0; turn < 5; turn++) accounts.add(await ask(live, {}, { user_id: 'a person' }))
    t.true(accounts.size > 1, 'without a session the keys take turns')
  })

test.serial('a ping after ten seconds of silence, before the answer and within it', async t => {
  mock.timers.enable({ apis: ['setInterval'] })
  try {
    const clocked = new KeepAlive()
    let pings = 0
    const stream = { ticks: 0, keepAlive: () => void pings++ }
    const end = clocked.monitor(stream)
    mock.timers.tick(9_999)
    t.is(pings, 0)
    mock.timers.tick(1)
    t.is(pings, 1)
    mock.timers.tick(5_000)
    stream.ticks = 0
    mock.timers.tick(9_999)
    t.is(pings, 1, 'the stream has written since')
    mock.timers.tick(1)
    t.is(pings, 2)
    end()
  } finally {
    mock.timers.reset()
  }
  const { services } = world.gateway
  const { keepAlive } = services
  services.keepAlive = new KeepAlive(20)
  t.teardown(() => {
    services.keepAlive = keepAlive
  })
  for (const model of [native, translated]) {
    const upstream = model === native ? world.anthropic : world.openai
    const reply = model === native ? messageReply({ content: [{ type: 'text', text: 'Hello' }] }) : chatReply()
    let proceed = () => {}
    upstream.next(async (request, response) => {
      await new Promise<void>(resolve => {
        proceed = resolve
      })
      await reply(request, response)
    })
    const { live } = await world.gateway.account()
    const response = await world.gateway.fetch(path, { key: live, body: { model, ...hi, stream: true } })
    let text = ''
    for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
      text += part
      if (text.split('event: ping\n').length > 3) proceed()
    }
    t.regex(text, /^(event: ping\ndata: \{"type": "ping"\}\n\n){3,}event: message_start\n/)
    t.regex(text, /event: message_stop\ndata: .*\n\n$/)
  }
})

const words = 'the quick brown fox jumps over the lazy dog '.repeat(40)

/** The beginning of a long answer, which then hangs. */
const begun: Record<string, () => Reply> = {
  [native]: () => {
    const usage = { input_tokens: 10, output_tokens: 1_000 }
    const head = { id: 'm1', type: 'message', role: 'assistant', model: 'm', stop_details: null } as const
    const content = [{ type: 'text', text: words }]
    const all = messageEvents({ ...head, content, stop_reason: 'end_turn', stop_sequence: null, usage }, text => [text])
    return events(all.slice(0, 4).map(sse), { end: 'hang' })
  },
  [translated]: () => {
    const chunks = [chatChunk({ role: 'assistant', content: '' }), chatChunk({ content: words })]
    return events(
      chunks.map(chunk => `data: ${JSON.stringify(chunk)}\n\n`),
      { end: 'hang' },
    )
  },
}

for (const model of [native, translated])
  test.serial(`499 from ${model}: a cancelled turn is billed once, for what was delivered`, async t => {
    const upstream = model === native ? world.anthropic : world.openai
    upstream.next(begun[model]!())
    const account = await world.gateway.account()
    const stream = sdk(account.live).messages.stream({ model, ...hi, max_tokens: 2_000 })
    stream.on('text', () => stream.abort())
    const { response } = await stream.withResponse()
    await t.throwsAsync(stream.finalMessage(), { instanceOf: Anthropic.APIUserAbortError })
    await upstream.requests[0]!.aborted
    const row = await generationOf(world, response.headers.get('x-generation-id')!)
    t.like(row, { status: 499, errorCode: 'client_closed_request', kind: 'messages', estimated: true })
    t.true(row.completionTokens >= 300 && row.completionTokens <= 500, String(row.completionTokens))
    const { promptTokens: prompt_tokens, completionTokens: completion_tokens } = row
    const nano = expectedNano(model, { prompt_tokens, completion_tokens, total_tokens: 0 })
    t.is(await chargedNano(world, account), nano)
    const { organisationId } = account
    t.is(await world.gateway.services.db.generation.count({ where: { organisationId } }), 1)
    t.is(upstream.requests.length, 1)
  })

test.serial('repeated requests are charged each; those that an Idempotency-Key repeats at once are one', async t => {
  for (const model of [native, translated]) {
    const account = await world.gateway.account()
    const upstream = model === native ? world.anthropic : world.openai
    const ask = async (headers: Record<string, string>) => {
      const response = await world.gateway.fetch(path, { key: account.live, body: { model, ...hi }, headers })
      return { status: response.status, text: await response.text(), id: response.headers.get('x-generation-id') }
    }
    const headers = { 'idempotency-key': `turn-${model}` }
    const answers = await Promise.all(Array.from({ length: 5 }, () => ask(headers)))
    const served = answers.filter(({ status }) => status === 200)
    t.true(served.length >= 1)
    t.is(new Set(served.map(({ text }) => text)).size, 1)
    t.true(answers.every(({ status }) => status === 200 || status === 409))
    t.is(upstream.requests.length, 1)
    const { costNano } = await generationOf(world, served[0]!.id!)
    t.true(costNano > 0n)
    t.is(await chargedNano(world, account), Number(costNano))
    t.not((await ask({})).id, served[0]!.id)
    t.is(await chargedNano(world, account), 2 * Number(costNano))
  }
})

const busy = Array<Reply>(12).fill(overloaded)
const broken = Array<Reply>(12).fill(serverError)

for (const stream of [false, true])
  for (const [first, second] of [
    [native, translated],
    [translated, native],
  ] as const)
    test.serial(`200 from ${second} after ${first} failed (stream: ${stream}): one dialect, billed once`, async t => {
      world.anthropic.next(...(first === native ? busy : []))
      world.openai.next(...(first === translated ? broken : []))
      const account = await world.gateway.account()
      const messages = [
        {
          role: 'user' as const,
          content: [{ type: 'text' as const, text: 'Hello', cache_control: { type: 'ephemeral' as const } }],
        },
      ]
      const request = { ...hi, model: first, models: [second], messages }
      const client = sdk(account.live).messages
      const running = stream ? client.stream(request) : null
      const { data, response } = running
        ? { response: (await running.withResponse()).response, data: await running.finalMessage() }
        : await client.create(request).withResponse()
      t.like(data, { type: 'message', role: 'assistant', stop_reason: 'end_turn' })
      t.deepEqual(
        data.content.map(block => block.type === 'text' && block.text),
        ['Echo: Hello'],
      )
      t.is(response.headers.get('x-gateway-model'), second)
      t.true(Number(response.headers.get('x-gateway-attempts')) > 1)
      const row = await generationOf(world, response.headers.get('x-generation-id')!)
      t.like(row, { status: 200, model: second, kind: 'messages' })
      t.is(await chargedNano(world, account), Number(row.costNano))
      t.true(row.costNano > 0n)
      const { usage } = data
      const prompt =
        usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0)
      t.deepEqual([prompt, usage.output_tokens], [row.promptTokens, row.completionTokens])
    })

test.serial('400 in the first provider’s own words, when a model with more context fails after it', async t => {
  const message = 'prompt is too long: 210000 tokens > 200000 maximum'
  const body = { type: 'error', error: { type: 'invalid_request_error', message }, request_id: 'req_1' }
  world.anthropic.next(json(400, body))
  world.openai.next(...broken)
  const { live } = await world.gateway.account({ usd: '100' })
  const request = { model: native, models: [translated], ...hi }
  const response = await world.gateway.fetch(path, { key: live, body: request })
  t.is(response.status, 400)
  t.is(await response.text(), JSON.stringify(body))
  await eventually(() => world.openai.requests.length > 0, 'the larger model was asked')
})

test.serial('a browser may call it, with the headers of Anthropic’s SDK', async t => {
  const { test: key } = await world.gateway.account()
  const names = 'x-api-key,anthropic-version,anthropic-beta,anthropic-dangerous-direct-browser-access,content-type'
  const origin = 'https://app.example'
  const preflight = await fetch(world.gateway.url + path, {
    method: 'OPTIONS',
    headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': names },
  })
  t.is(preflight.headers.get('access-control-allow-origin'), '*')
  const allowed = preflight.headers.get('access-control-allow-headers')!.toLowerCase()
  t.true(allowed === '*' || names.split(',').every(name => allowed.includes(name)), allowed)
  const headers = { origin, 'x-api-key': key, 'anthropic-version': '2023-06-01', 'content-type': 'application/json' }
  const body = JSON.stringify({ model: native, ...hi })
  const answer = await fetch(world.gateway.url + path, { method: 'POST', headers, body })
  t.is(answer.status, 200)
  t.is(answer.headers.get('access-control-allow-origin'), '*')
  t.regex(answer.headers.get('access-control-expose-headers')!, /\*|request-id/)
})
