import { PromptCache } from '../emulators/prompt-cache.ts'
import { chargedNano, dataOf, generationOf, startWorld } from '../support/chat/gateway.ts'
import { openResponses } from '../support/chat/responses-socket.ts'
import { keepingAccount } from '../support/responses/world.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { testClock } from '../support/wallet/money.ts'

// biome-ignore lint/suspicious/noExplicitAny: bodies of every shape
type Any = any
type Headers = Record<string, string>

const clock = testClock('2027-03-10T12:00:15Z')
const world = use(test, () => {
  const keys = { ANTHROPIC_API_KEY: 'first,second,third' }
  return startWorld(keys, clock)
})
const off = use(test, () => startWorld({ CACHE_MARKS: 'false' }))
test.beforeEach(() => {
  for (const emulator of [world.anthropic, world.openrouter, world.openai, off.anthropic]) emulator.reset()
})

const model = 'claude-sonnet-5-5'
/** Nano-dollars per token, with the margin of 5 %: $2 input, $0.10 read, $2.50 written and $10 output per million. */
const price = { input: 2_100, read: 105, written: 2_625, output: 10_500 }
const instructions = 'You are a coding agent. Work carefully, and say what you do. '.repeat(200)
const result = 'The file has forty lines of text, and this is one of them. '.repeat(40)
const chatTool = { type: 'function', function: { name: 'get_weather', parameters: { type: 'object', properties: {} } } }
const responsesTool = { type: 'function', name: 'get_weather', parameters: { type: 'object', properties: {} } }
const mark = { type: 'ephemeral' }

async function post(path: string, key: string, body: object, headers: Headers = {}, at = world) {
  const response = await at.gateway.fetch(path, { key, body, headers })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status} ${text}`)
  return { headers: response.headers, text }
}

/** The marks in each request that the provider received. */
function marksSent(at = world): number[] {
  return at.anthropic.requests.map(({ raw }) => raw.toString().split('"cache_control"').length - 1)
}

type Used = { input: number; read: number; written: number; output: number }

function priceOf({ input, read, written, output }: Used): number {
  return input * price.input + read * price.read + written * price.written + output * price.output
}

/** What the requests that the provider received use by the rules of its cache; one list per API key. */
function usedByRules(output: number): Used {
  const cache = new PromptCache(() => clock.now())
  const used = { input: 0, read: 0, written: 0, output }
  for (const { body, headers } of world.anthropic.requests) {
    const usage: Any = cache.usageOf(body, String(headers['x-api-key']))
    used.input += usage.input_tokens
    used.read += usage.cache_read_input_tokens
    used.written += usage.cache_creation_input_tokens
  }
  return used
}

const sum = (numbers: number[]) => numbers.reduce((total, one) => total + one, 0)

/** The items of the next request: what the model answered, and the results of its calls or another question. */
function goOn(input: Any[], output: Any[], turn: number): Any[] {
  const results = output
    .filter(({ type }) => type === 'function_call')
    .map(({ call_id }) => ({ type: 'function_call_output', call_id, output: `${result}${turn}` }))
  const question = {
    type: 'message',
    role: 'user',
    content: [{ type: 'input_text', text: `${result} Question ${turn}` }],
  }
  return [...input, ...output, ...(results.length > 0 ? results : [question])]
}

const asked = [
  { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'How is the weather in Oslo?' }] },
]

test.serial('200: a conversation of Codex with Claude reads what it repeats at the price of the cache', async t => {
  const account = await world.gateway.account()
  let input: Any[] = asked
  const usages: Any[] = []
  for (let turn = 0; turn < 5; turn++) {
    const body = { model, instructions, input, tools: [responsesTool], stream: true, store: false }
    const { headers, text } = await post('/v1/responses', account.live, body, { 'session-id': 'codex' })
    t.is(headers.get('x-gateway-cache-marked'), '1')
    const { response } = dataOf(text).find(({ type }) => type === 'response.completed')
    usages.push(response.usage)
    input = goOn(input, response.output, turn)
  }
  const cachedTokens = usages.map(({ input_tokens_details: details }) => details.cached_tokens)
  const before = usages.map(({ input_tokens }) => input_tokens)
  t.deepEqual(cachedTokens, [0, ...before.slice(0, 4)], 'all that was sent before is read')
  t.deepEqual(marksSent(), [2, 3, 3, 3, 3])
  for (const { body } of world.anthropic.requests) {
    t.deepEqual(body.cache_control, mark)
    t.deepEqual(body.system.at(-1).cache_control, mark)
  }
  const used = usedByRules(sum(usages.map(({ output_tokens }) => output_tokens)))
  t.is(used.read, sum(cachedTokens))
  t.is(used.input + used.read + used.written, sum(before))
  t.is(await chargedNano(world, account), priceOf(used))
})

test.serial(
  '200: a conversation of Cline with Claude, which has no name, is marked from its second turn on',
  async t => {
    const account = await world.gateway.account()
    const messages: Any[] = [
      { role: 'system', content: instructions },
      { role: 'user', content: [{ type: 'text', text: 'How is the weather in Oslo?' }] },
    ]
    const usages: Any[] = []
    const ids: string[] = []
    for (let turn = 0; turn < 5; turn++) {
      const body = { model, messages, tools: [chatTool], stream: true, stream_options: { include_usage: true } }
      const { headers, text } = await post('/v1/chat/completions', account.live, body)
      t.is(headers.get('x-gateway-cache-marked'), turn === 0 ? null : '1')
      ids.push(headers.get('x-generation-id')!)
      const chunks = dataOf(text).filter(chunk => chunk !== '[DONE]')
      usages.push(chunks.at(-1).usage)
      const calls = chunks.flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? []).filter(({ id }) => id)
      const content = chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')
      if (calls.length === 0)
        messages.push({ role: 'assistant', content }, { role: 'user', content: `${result}${turn}` })
      else messages.push({ role: 'assistant', content: null, tool_calls: calls.map(withArguments) })
      for (const { id } of calls) messages.push({ role: 'tool', tool_call_id: id, content: `${result}${turn}` })
    }
    const read = usages.map(({ prompt_tokens_details: details }) => details.cached_tokens)
    const prompts = usages.map(({ prompt_tokens }) => prompt_tokens)
    t.deepEqual(
      read,
      [0, 0, ...prompts.slice(1, 4)],
      'one request pays for writing, and all after it stay with its API key',
    )
    t.deepEqual(marksSent(), [0, 3, 3, 3, 3])
    const used = usedByRules(sum(usages.map(({ completion_tokens }) => completion_tokens)))
    const chargedNanos = await chargedNano(world, account)
    t.is(chargedNanos, priceOf(used))
    // What it saved is told of each answer, logged, and summed up.
    const saved = used.read * (price.input - price.read) - used.written * (price.written - price.input)
    t.deepEqual(
      usages.map(({ cache_discount }) => Math.sign(cache_discount ?? 0)),
      [0, -1, 1, 1, 1],
    )
    t.is(Math.round(sum(usages.map(({ cache_discount = 0 }) => cache_discount)) * 1e9), saved)
    const logged = await Promise.all(ids.map(id => generationOf(world, id)))
    t.is(sum(logged.map(({ cacheDiscountNano }) => Number(cacheDiscountNano ?? 0n))), saved)
    const { organisationId } = account
    for (const table of [world.gateway.services.db.usageHour, world.gateway.services.db.usageDayDetail] as Any[]) {
      const { _sum } = await table.aggregate({ where: { organisationId }, _sum: { cacheDiscountNano: true } })
      t.is(Number(_sum.cacheDiscountNano), saved)
    }
  },
)

function withArguments(call: Any) {
  return { id: call.id, type: 'function', function: { name: call.function.name, arguments: '{}' } }
}

test.serial('200 over the WebSocket: a conversation of Codex is marked as well', async t => {
  const account = await world.gateway.account()
  const client = await openResponses(world.gateway.url, {
    key: account.live,
    headers: { 'session-id': 'socket' },
  } as Any)
  const turn = async (body: object) => (await client.turn({ model, instructions, ...body })).at(-1).response
  const first = await turn({ input: asked, tools: [responsesTool] })
  const [call] = first.output
  const output = { type: 'function_call_output', call_id: call.call_id, output: result }
  const second = await turn({ input: [output], previous_response_id: first.id, tools: [responsesTool] })
  t.is(second.usage.input_tokens_details.cached_tokens, first.usage.input_tokens)
  t.deepEqual(marksSent(), [2, 3])
  await client.close()
})

test.serial('200: a cached conversation expires after five minutes, and is then written again', async t => {
  const { live } = await world.gateway.account()
  const ask = async () => {
    const messages = [
      { role: 'system', content: instructions },
      { role: 'user', content: 'Hello' },
    ]
    const { text } = await post('/v1/chat/completions', live, { model, messages, prompt_cache_key: 'expiring' })
    const { cached_tokens: read, cache_write_tokens: written = 0 } = JSON.parse(text).usage.prompt_tokens_details
    return [read > 0, written > 0]
  }
  t.deepEqual(await ask(), [false, true])
  t.deepEqual(await ask(), [true, false])
  clock.advance(5 * 60_000)
  t.deepEqual(await ask(), [false, true])
})

const system = { role: 'system', content: instructions }
const question = { role: 'user', content: 'Hello' }
const answered = [system, question, { role: 'assistant', content: 'Hi' }, { role: 'user', content: 'Go on' }]

for (const [title, body, headers] of [
  ['a single request', { messages: [system, question] }],
  ['a single request with tools', { messages: [system, question], tools: [chatTool] }],
  ['a conversation without tools and without a name', { messages: answered }],
  ['an agent that `auto` serves, without a name', { model: 'auto', messages: answered, tools: [chatTool] }],
  [
    'a caller that switches it off',
    { messages: answered, tools: [chatTool] },
    { 'x-gateway-cache-marks': 'off', 'x-session-id': 's' },
  ],
] as [string, object, Headers?][])
  test.serial(`200 without marks and without the price of writing: ${title}`, async t => {
    const { live } = await world.gateway.account()
    const { headers: shown, text } = await post('/v1/chat/completions', live, { model, ...body }, headers)
    t.is(shown.get('x-gateway-cache-marked'), null)
    t.is(sum(marksSent()), 0)
    t.like(JSON.parse(text).usage, { prompt_tokens_details: { cached_tokens: 0 } })
    t.false(text.includes('cache_write_tokens') || text.includes('cache_discount'))
  })

test.serial('200: a stored response alone is not marked, the conversation that continues it is', async t => {
  const { live } = await keepingAccount(world)
  const say = async (body: object) => {
    const { headers, text } = await post('/v1/responses', live, { model, instructions, ...body })
    const response = JSON.parse(text)
    const { session } = await generationOf(world, response.id)
    return { marked: headers.get('x-gateway-cache-marked'), response, session }
  }
  const alone = await say({ input: 'Hello' })
  t.is(alone.response.store, true)
  t.deepEqual([alone.marked, marksSent()], [null, [0]])
  const second = await say({ input: 'Go on', previous_response_id: alone.response.id })
  t.is(second.marked, '1')
  const turns = [...asked, { type: 'message', role: 'assistant', content: 'Sunny.' }, ...asked]
  const agent = await say({ input: turns, tools: [responsesTool] })
  t.is(agent.marked, '1', 'an agent that sends its turns again')
  for (const { session } of [alone, agent]) t.regex(session!, /^sess_\w+$/, 'the log has no text of the prompt')
})

test.serial('200 without marks where the operator has switched them off', async t => {
  const { live } = await off.gateway.account()
  const body = { model, messages: answered, tools: [chatTool], prompt_cache_key: 'off' }
  t.is((await post('/v1/chat/completions', live, body, {}, off)).headers.get('x-gateway-cache-marked'), null)
  t.deepEqual(marksSent(off), [0])
})

test.serial('200: the marks of a caller are left alone, wherever they are', async t => {
  const { live } = await world.gateway.account()
  const part = { type: 'text', text: 'Go on', cache_control: mark }
  for (const body of [
    { messages: answered, cache_control: mark },
    { messages: [...answered.slice(0, 3), { role: 'user', content: [part] }] },
    { messages: [{ ...system, cache_control: mark }, ...answered.slice(1)] },
    { messages: answered, tools: [{ ...chatTool, cache_control: mark }] },
  ]) {
    const { headers } = await post(
      '/v1/chat/completions',
      live,
      { model, tools: [chatTool], ...body },
      { 'x-session-id': 'own' },
    )
    t.is(headers.get('x-gateway-cache-marked'), null)
  }
  t.deepEqual(marksSent(), [1, 1, 1, 1])
})

test.serial('200: Messages are sent as they are, and models that cache by themselves as before', async t => {
  const { live } = await world.gateway.account()
  const named = { 'x-session-id': 'native' }
  const body = { model, max_tokens: 100, system: instructions, messages: answered.slice(1) }
  await post('/v1/messages', live, body, named)
  t.deepEqual(world.anthropic.requests.at(-1)!.raw, Buffer.from(JSON.stringify(body)))
  for (const headers of [named, {}])
    await post('/v1/chat/completions', live, { model: 'gpt-5', messages: answered, tools: [chatTool] }, headers)
  for (const { raw } of world.openai.requests) t.false(raw.toString().includes('cache_control'))
})

test.serial('200 at a provider of the chat format: the texts and results that end its prefixes are marked', async t => {
  const { live } = await world.gateway.account()
  const call = { id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{}' } }
  const messages = [system, question, { role: 'assistant', content: null, tool_calls: [call] }]
  const done = { role: 'tool', tool_call_id: 'call_1', content: result }
  const body = {
    model: 'claude-opus-4-7',
    provider: { only: ['openrouter'] },
    tools: [chatTool],
    messages: [...messages, done],
  }
  const { headers } = await post('/v1/chat/completions', live, body)
  t.is(headers.get('x-gateway-cache-marked'), '1')
  const sent = world.openrouter.requests.at(-1)!.body
  const marked = (text: string) => [{ type: 'text', text, cache_control: mark }]
  t.deepEqual(sent.messages[0].content, marked(instructions))
  t.deepEqual(sent.messages[1].content, marked('Hello'))
  t.like(sent.messages[3], { content: result, cache_control: mark })
  t.is(sent.cache_control, undefined)
})

test.serial('400 naming x-gateway-cache-marks for any other value', async t => {
  const { live } = await world.gateway.account()
  const body = { model, messages: [question] }
  const response = await world.gateway.fetch('/v1/chat/completions', {
    key: live,
    body,
    headers: { 'x-gateway-cache-marks': 'no' },
  })
  t.is(response.status, 400)
  t.is(((await response.json()) as Any).error.param, 'x-gateway-cache-marks')
})
