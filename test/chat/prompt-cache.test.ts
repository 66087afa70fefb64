import { chargedNano, dataOf, saying, startWorld } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, startWorld)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini]) emulator.reset()
})

const ephemeral = { type: 'ephemeral' }
const hour = { ...ephemeral, ttl: '1h' }
const text = (content: string, cache_control?: object) => ({ type: 'text', text: content, cache_control })

async function ask(key: string, body: object) {
  const response = await world.gateway.fetch('/v1/chat/completions', { key, body })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

test.serial('sent to Anthropic: marks of parts, messages, tools and the request, with their lifetimes', async t => {
  const { live } = await world.gateway.account()
  const tool = { type: 'function', function: { name: 'w' }, cache_control: hour }
  const messages = [
    { role: 'system', content: [text('Rules', hour), text('Style')] },
    { role: 'user', content: 'First', cache_control: { ...ephemeral, ttl: '5m' } },
    { role: 'assistant', content: 'Second' },
    { role: 'user', content: [text('Third'), text('Fourth')] },
  ]
  const answer = await ask(live, { ...saying('claude-opus-5'), messages, tools: [tool], cache_control: ephemeral })
  t.is(answer.status, 200, answer.text)
  t.is(answer.headers.get('x-gateway-dropped'), null)
  const { body } = world.anthropic.requests.at(-1)!
  t.deepEqual(body.system, [
    { type: 'text', text: 'Rules', cache_control: hour },
    { type: 'text', text: 'Style' },
  ])
  t.deepEqual(body.tools[0].cache_control, hour)
  t.deepEqual(body.messages[0].content, [{ type: 'text', text: 'First', cache_control: { ...ephemeral, ttl: '5m' } }])
  t.deepEqual(body.messages[2].content, [
    { type: 'text', text: 'Third' },
    { type: 'text', text: 'Fourth' },
  ])
  t.deepEqual(body.cache_control, ephemeral)
})

test.serial('dropped and named where the provider takes no marks', async t => {
  const { live } = await world.gateway.account()
  for (const [model, emulator] of [
    ['gpt-5', world.openai],
    ['gemini-3.6-flash', world.gemini],
  ] as const) {
    const answer = await ask(live, saying(model, [text('Hello', hour)], { cache_control: hour }))
    t.is(answer.status, 200, answer.text)
    t.is(answer.headers.get('x-gateway-dropped'), 'messages.content.cache_control,cache_control', model)
    t.false(emulator.requests.at(-1)!.raw.includes('cache_control'))
  }
})

for (const [param, more] of [
  ['cache_control.ttl', { cache_control: { ...ephemeral, ttl: '2h' } }],
  ['cache_control.type', { cache_control: { type: 'persistent' } }],
  [
    'messages.0.content.0.cache_control.ttl',
    { messages: [{ role: 'user', content: [text('a', { ...hour, ttl: 1 })] }] },
  ],
  ['messages.0.cache_control', { messages: [{ role: 'user', content: 'a', cache_control: 'yes' }] }],
  [
    'tools.0.cache_control.ttl',
    { tools: [{ type: 'function', function: { name: 'w' }, cache_control: { ...hour, ttl: '' } }] },
  ],
] as const) {
  test.serial(`400 naming ${param}`, async t => {
    const { live } = await world.gateway.account()
    const answer = await ask(live, { ...saying('claude-opus-5'), ...more })
    t.is(answer.status, 400)
    t.is(JSON.parse(answer.text).error.param, param)
  })
}

// claude-opus-5: $5 input, $0.50 read, $6.25 written for 5 minutes, $10 written for an hour, $25 output, per million.
const usdPerMillion = { input: 5, read: 0.5, written5m: 6.25, written1h: 10, output: 25 }

for (const [lifetime, mark] of [
  ['5 minutes', ephemeral],
  ['1 hour', hour],
] as const) {
  for (const stream of [false, true]) {
    const how = stream ? 'a stream' : 'a whole answer'
    test.serial(`charged: a prompt written for ${lifetime} and then read, in ${how}`, async t => {
      const account = await world.gateway.account()
      const prompt = `${lifetime} ${how} `.repeat(300)
      const body = saying('claude-opus-5', prompt, { cache_control: mark, stream })
      let expectedNano = 0
      for (const isFirst of [true, false]) {
        const answer = await ask(account.live, body)
        t.is(answer.status, 200, answer.text)
        const { usage } = stream ? dataOf(answer.text).findLast(data => data.usage) : JSON.parse(answer.text)
        const { cached_tokens: read, cache_write_tokens: written = 0, ...details } = usage.prompt_tokens_details
        const written1h = details.cache_write_1h_tokens ?? 0
        const whole = Math.ceil(prompt.length / 4)
        t.deepEqual([read, written], isFirst ? [0, whole] : [whole, 0])
        t.is(written1h, mark === hour ? written : 0)
        const micro =
          (usage.prompt_tokens - read - written) * usdPerMillion.input +
          read * usdPerMillion.read +
          (written - written1h) * usdPerMillion.written5m +
          written1h * usdPerMillion.written1h +
          usage.completion_tokens * usdPerMillion.output
        expectedNano += Math.round(Number((micro * 1_000 * 1.05).toFixed(4)))
      }
      t.is(await chargedNano(world, account), expectedNano)
    })
  }
}
