import { sumUsages } from '../../shared/base/usage.ts'
import { isDrift, listStatedCosts } from '../../shared/engine/stated-costs.ts'
import { chargeNano } from '../../shared/routing/pricing.ts'
import { json, type Reply } from '../emulators/emulator.ts'
import { chatChunk } from '../emulators/openai.ts'
import {
  chargedNano,
  dataOf,
  expectedNano,
  generationOf,
  saying,
  startWorld,
  type World,
} from '../support/chat/gateway.ts'
import { measured } from '../support/metrics/samples.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, () => startWorld(measured))
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini, world.openrouter]) emulator.reset()
})

async function ask(key: string, body: object, path = '/v1/chat/completions') {
  const response = await world.gateway.fetch(path, { key, body })
  return { status: response.status, headers: response.headers, text: await response.text() }
}
const droppedIn = (headers: Headers) => headers.get('x-gateway-dropped')
const atOpenRouter = { provider: { only: ['openrouter'] } }

test.serial('200 without what costs extra: it is named, not sent, and the usual price is charged', async t => {
  const { live } = await world.gateway.account()
  const extra = { service_tier: 'scale', store: true, metadata: { a: 'b' }, invented_tomorrow: 1 }
  const plain = await ask(live, saying('gpt-5', 'Hello'))
  const dear = await ask(live, saying('gpt-5', 'Hello', extra))
  t.is(droppedIn(plain.headers), null)
  t.deepEqual(droppedIn(dear.headers)?.split(',').sort(), ['invented_tomorrow', 'service_tier', 'store'])
  t.is(dear.headers.get('x-gateway-cost-usd'), plain.headers.get('x-gateway-cost-usd'))
  const [first, second] = world.openai.requests.map(({ body }) => body)
  t.deepEqual(second, first)
  t.deepEqual([second.service_tier, second.store], ['default', false])
})

test.serial('200 of a stream names them before its first byte', async t => {
  const { live } = await world.gateway.account()
  const answer = await ask(live, saying('gpt-5', 'Hello', { stream: true, service_tier: 'scale' }))
  t.is(answer.status, 200)
  t.is(droppedIn(answer.headers), 'service_tier')
})

test.serial('200 at every dialect with what real clients send beside documented fields', async t => {
  const { live, test: sandbox } = await world.gateway.account()
  const marked = [{ type: 'text', text: 'Hello', cache_control: { type: 'ephemeral', ttl: '1h' } }]
  const sent = { usage: { include: true }, plugins: [], n: 1, strict: null, top_k: 5, langsmith_extra: { a: 1 } }
  const cases: [model: string, more: object, emulator: World['openai'], dropped: string[]][] = [
    ['gpt-5', {}, world.openai, ['langsmith_extra', 'messages.content.cache_control', 'top_k', 'usage']],
    ['claude-opus-4-6', atOpenRouter, world.openrouter, ['langsmith_extra', 'messages.content.cache_control.ttl']],
    ['claude-opus-5', {}, world.anthropic, ['langsmith_extra', 'top_k', 'usage']],
    ['gemini-3.6-flash', {}, world.gemini, ['langsmith_extra', 'messages.content.cache_control', 'top_k', 'usage']],
  ]
  for (const [model, more, emulator, dropped] of cases) {
    const body = saying(model, marked, { ...sent, ...more })
    const answer = await ask(live, body)
    t.is(answer.status, 200, answer.text)
    t.deepEqual(droppedIn(answer.headers)?.split(',').sort(), dropped, model)
    t.is(emulator.requests.at(-1)!.raw.includes('1h'), emulator === world.anthropic)
    // A test key is told what its provider would do without.
    const rehearsed = await ask(sandbox, body)
    t.is(rehearsed.status, 200, rehearsed.text)
    t.deepEqual(droppedIn(rehearsed.headers)?.split(',').sort(), dropped, model)
  }
})

test.serial('200 whatever an unknown field is called: the header has plain names only, and not many', async t => {
  const { live } = await world.gateway.account()
  const strange = {
    'a\r\nset-cookie: x': 1,
    ü: 1,
    'a,b': 1,
    ...Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`f${i}`, 1])),
  }
  const answer = await ask(live, saying('gpt-5', 'Hello', strange))
  t.is(answer.status, 200, answer.text)
  t.is(answer.headers.get('set-cookie'), null)
  t.is(droppedIn(answer.headers), `${Array.from({ length: 20 }, (_, i) => `f${i}`).join(',')},+13`)
})

test.serial('400 naming the field, with a live and a test key, and no provider hears of it', async t => {
  const account = await world.gateway.account()
  for (const key of [account.live, account.test])
    for (const [param, value] of [
      ['web_search_options', {}],
      ['search_parameters', { mode: 'on' }],
    ] as const) {
      const { status, text } = await ask(key, saying('gpt-5', 'Hello', { [param]: value }))
      t.is(status, 400)
      const { error } = JSON.parse(text)
      // Some models search: docs/decisions/perplexity.md.
      const code = param === 'web_search_options' ? 'unsupported_capability' : 'invalid_request'
      t.deepEqual([error.code, error.param], [code, param])
    }
  t.is(world.openai.requests.length, 0)
  t.is(await chargedNano(world, account), 0)
})

const usage = { prompt_tokens: 1_000, completion_tokens: 100, total_tokens: 1_100 }
const head = { id: 'chatcmpl-emulated', created: 1_795_132_800, model: 'up' }
const message = { role: 'assistant', content: 'Hello' }
const answering = (more: object): Reply =>
  json(200, {
    ...head,
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: { ...usage, ...more },
  })
const streaming =
  (more: object): Reply =>
  (_request, response) => {
    const chunks = [
      chatChunk({ role: 'assistant', content: 'Hello' }),
      chatChunk({}, 'stop'),
      { ...head, object: 'chat.completion.chunk', choices: [], usage: { ...usage, ...more } },
    ]
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end([...chunks.map(chunk => JSON.stringify(chunk)), '[DONE]'].map(data => `data: ${data}\n\n`).join(''))
  }
const ownNano = () => expectedNano('claude-opus-4-6', usage, { provider: 'openrouter' })

test.serial('charged what OpenRouter says that it cost, whatever the list price; clients never see it', async t => {
  const account = await world.gateway.account()
  world.openrouter.next(answering({ cost: 2, num_sources_used: 3 }))
  const { text, headers } = await ask(account.live, saying('claude-opus-4-6', 'Hello', atOpenRouter))
  t.is(headers.get('x-gateway-cost-usd'), '2.1')
  t.deepEqual(Object.keys(JSON.parse(text).usage).sort(), [
    'completion_tokens',
    'completion_tokens_details',
    'cost',
    'prompt_tokens',
    'prompt_tokens_details',
    'total_tokens',
  ])
  world.openrouter.next(streaming({ cost: 2, num_sources_used: 3 }))
  const streamed = await ask(account.live, saying('claude-opus-4-6', 'Hello', { ...atOpenRouter, stream: true }))
  const last = dataOf(streamed.text).findLast(chunk => chunk.usage)
  t.is(last.usage.cost, 2.1)
  t.notRegex(streamed.text, /provider_cost|unpriced/)
  t.is(await chargedNano(world, account), 4_200_000_000)
  const logged = await generationOf(world, headers.get('x-generation-id')!)
  t.is(Number(logged.costNano), 2_100_000_000)
  world.openrouter.next(answering({ cost: 0.000314 }), streaming({ cost: 0.000314 }))
  const cheap = await ask(account.live, saying('claude-opus-4-6', 'Hello', atOpenRouter))
  t.is(cheap.headers.get('x-gateway-cost-usd'), '0.0003297', 'less than the list price')
  const cheapStream = await ask(account.live, saying('claude-opus-4-6', 'Hello', { ...atOpenRouter, stream: true }))
  t.is(dataOf(cheapStream.text).findLast(chunk => chunk.usage).usage.cost, 0.0003297)
})

test.serial(
  'what providers state is compared with the catalog: in the metrics, and by the doctor where a row is wrong',
  async t => {
    const { live } = await world.gateway.account()
    const { redis, statedCosts, metrics } = world.gateway.services
    await statedCosts.flush()
    await redis.del('stated-costs')
    const model = 'claude-sonnet-4-5'
    for (let i = 0; i < 5; i++) {
      world.openrouter.next(answering({ cost: 0.009 }))
      await ask(live, saying(model, 'Hello', atOpenRouter))
    }
    await statedCosts.flush()
    const [found] = await listStatedCosts(redis)
    const listed = expectedNano(model, usage, { provider: 'openrouter', percent: 0 })
    t.deepEqual(found, { provider: 'openrouter', model, calls: 5, listedNano: 5 * listed, statedNano: 45_000_000 })
    t.true(isDrift(found!))
    t.false(isDrift({ ...found!, statedNano: found!.listedNano * 1.01 }))
    t.false(isDrift({ ...found!, calls: 2 }))
    const rendered = await metrics!.render()
    t.regex(rendered, /headgate_stated_cost_usd_total\{[^}]*claude-sonnet-4-5[^}]*\} 0\.045/)
    t.regex(rendered, /headgate_listed_cost_usd_total\{[^}]*claude-sonnet-4-5[^}]*\} /)
  },
)

test.serial('charged the list price where no cost is stated, or one that makes no sense', async t => {
  const account = await world.gateway.account()
  const stated = [{ cost: 0 }, { cost: -5 }, { cost: '9' }, { cost: 1e12 }, { cost: null }, { cost_in_usd_ticks: 1e12 }]
  for (const more of stated) {
    world.openrouter.next(answering(more))
    await ask(account.live, saying('claude-opus-4-6', 'Hello', atOpenRouter))
  }
  t.is(await chargedNano(world, account), stated.length * ownNano())
})

test.serial('charged what the operator’s own key behind OpenRouter cost, too', async t => {
  const account = await world.gateway.account()
  world.openrouter.next(answering({ cost: 0.5, is_byok: true, cost_details: { upstream_inference_cost: 1.5 } }))
  await ask(account.live, saying('claude-opus-4-6', 'Hello', atOpenRouter))
  t.is(await chargedNano(world, account), 2_100_000_000)
})

test('charged the stated cost with the margin, and never less than it', t => {
  const price = { unit: 'token', input: '1', output: '1' } as const
  const deployment = { provider: 'p', upstream_model: 'u', price }
  const charged = (stated: number | undefined, marginPpm: bigint) =>
    chargeNano({ deployment }, { ...usage, ...(stated !== undefined && { provider_cost_nano: stated }) }, marginPpm)
  t.is(charged(undefined, 50_000n), 1_155_000)
  t.is(charged(1_000_000, 50_000n), 1_050_000)
  t.is(charged(2_000_000, 50_000n), 2_100_000)
  t.is(charged(undefined, -500_000n), 550_000)
  t.is(charged(900_000, -500_000n), 900_000)
  const parts = [{ ...usage, provider_cost_nano: 400_000 }, usage] as const
  t.is(chargeNano({ deployment }, sumUsages(parts), 0n), 1_500_000, 'each request of a call by itself')
})
