import Anthropic from '@anthropic-ai/sdk'
import type OpenAI from 'openai'
import { events, json } from '../../emulators/emulator.ts'
import { startOpenAiEmulator } from '../../emulators/openai.ts'
import { type Said, serverReply, servers } from '../../emulators/openai-servers.ts'
import { dataOf, generationOf, startWorld, upstreamSecret } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

/** A server that has chat completions only. */

const chatOnly = use(test, startOpenAiEmulator)
const world = use(test, () => startWorld({ MISTRAL_API_KEY: upstreamSecret, MISTRAL_BASE_URL: `${chatOnly.url}/v1` }))
test.beforeEach(() => {
  for (const emulator of [world.openai, chatOnly]) emulator.reset()
})

const thought: Said = { reasoning: 'Seven and one.', text: 'It is 8.' }
const called: Said = { calls: [{ name: 'get_weather', args: { city: 'Oslo' } }, { name: 'get_time' }] }
const told = [
  ['get_weather', { city: 'Oslo' }],
  ['get_time', {}],
]
const question = { role: 'user' as const, content: 'Hello' }
const names = ['get_weather', 'get_time']
const parameters = { type: 'object', properties: {} }
const chatTools = names.map(name => ({ type: 'function' as const, function: { name, parameters } }))
const tools = names.map(name => ({ name, input_schema: { type: 'object' as const } }))
const model = 'gpt-4.1'

test.serial(
  '200: calls that a server numbers anew in each answer have ids of their own in the conversation',
  async t => {
    const { live } = await world.gateway.account()
    const { completions } = world.sdk(live).chat
    const messages = new Anthropic({ apiKey: live, baseURL: world.gateway.url, maxRetries: 0 }).messages
    const form = servers['Amazon Bedrock']!
    world.openai.next(...[called, called, called, called].map(said => serverReply(form, said)))
    const body = { model, messages: [question], tools: chatTools }
    const whole = await completions.create(body)
    const streamed = await completions.stream(body).finalChatCompletion()
    const ofChat = [whole, streamed].flatMap(({ choices }) => choices[0]!.message.tool_calls!.map(({ id }) => id))
    const asked = { model, max_tokens: 500, messages: [question], tools }
    const translated = [await messages.create(asked), await messages.stream(asked).finalMessage()]
    const ofMessages = translated.flatMap(({ content }) =>
      content.flatMap(one => (one.type === 'tool_use' ? one.id : [])),
    )
    t.is(new Set([...ofChat, ...ofMessages]).size, 8)
  },
)

for (const [name, form] of Object.entries(servers)) {
  test.serial(`200 chat, ${name}: text, reasoning and usage, whole and streamed`, async t => {
    const { live } = await world.gateway.account()
    const { completions } = world.sdk(live).chat
    world.openai.next(serverReply(form, thought), serverReply(form, thought))
    const whole = await completions.create({ model, messages: [question] })
    const streamed = await completions.stream({ model, messages: [question] }).finalChatCompletion()
    for (const { choices } of [whole, streamed]) {
      t.like(choices[0], { message: { role: 'assistant', content: thought.text }, finish_reason: 'stop' })
      t.falsy(choices[0]!.message.tool_calls?.length)
    }
    for (const { created } of [whole, streamed]) t.true(Number.isInteger(created), String(created))
    t.like(whole.choices[0]!.message, { reasoning_content: thought.reasoning })
    t.is(whole.usage?.prompt_tokens_details?.cached_tokens, 8)
    t.like(whole.usage, { prompt_tokens: 20, completion_tokens: 12, total_tokens: 32 })
    t.like(streamed.usage, { prompt_tokens: 20, completion_tokens: 12, prompt_tokens_details: { cached_tokens: 8 } })
  })

  test.serial(`200 chat, ${name}: calls with type, id and arguments, which go back as they came`, async t => {
    const { live } = await world.gateway.account()
    const { completions } = world.sdk(live).chat
    world.openai.next(serverReply(form, called), serverReply(form, called))
    const body = { model, messages: [question], tools: chatTools }
    const whole = await completions.create(body)
    const streamed = await completions.stream(body).finalChatCompletion()
    for (const { choices } of [whole, streamed]) {
      const [{ message, finish_reason }] = choices as [OpenAI.ChatCompletion.Choice]
      t.is(finish_reason, 'tool_calls')
      const calls = message.tool_calls as OpenAI.ChatCompletionMessageFunctionToolCall[]
      t.deepEqual(
        calls.map(({ function: fn }) => [fn.name, JSON.parse(fn.arguments)]),
        told,
      )
      t.is(new Set(calls.map(({ id }) => id).filter(id => id !== '')).size, 2)
      t.true(calls.every(({ type }) => type === 'function'))
      const results = calls.map(({ id }) => ({ role: 'tool' as const, tool_call_id: id, content: 'fine' }))
      const next = await completions.create({ ...body, messages: [question, message, ...results] })
      t.truthy(next.choices[0])
    }
  })

  test.serial(`200 messages, ${name}: thinking, text and calls, whole and streamed`, async t => {
    const { live } = await world.gateway.account()
    const sdk = new Anthropic({ apiKey: live, baseURL: world.gateway.url, maxRetries: 0 })
    world.openai.next(...[thought, thought, called, called].map(said => serverReply(form, said)))
    const body = { model, max_tokens: 500, messages: [question] }
    const plain = [await sdk.messages.create(body), await sdk.messages.stream(body).finalMessage()]
    for (const { content, stop_reason, usage } of plain) {
      t.like(content, [
        { type: 'thinking', thinking: thought.reasoning },
        { type: 'text', text: thought.text },
      ])
      t.is(stop_reason, 'end_turn')
      t.like(usage, { input_tokens: 12, cache_read_input_tokens: 8, output_tokens: 12 })
    }
    const offered = { ...body, tools }
    for (const message of [await sdk.messages.create(offered), await sdk.messages.stream(offered).finalMessage()]) {
      t.is(message.stop_reason, 'tool_use')
      t.deepEqual(
        message.content.map(block => block.type === 'tool_use' && [block.name, block.input]),
        told as never,
      )
    }
  })

  test.serial(`200 responses, ${name}: text and calls, whole and streamed`, async t => {
    const { live } = await world.gateway.account()
    const { responses } = world.sdk(live)
    const body = { model: 'mistral-large-3', input: 'Hello', provider: { only: ['mistral'] } }
    chatOnly.next(...[thought, thought, called, called].map(said => serverReply(form, said)))
    const plain = [await responses.create(body), await responses.stream(body).finalResponse()]
    for (const { output_text, usage } of plain) {
      t.is(output_text, thought.text!)
      t.like(usage, { input_tokens: 20, output_tokens: 12 })
    }
    const offered = {
      ...body,
      tools: names.map(one => ({ type: 'function' as const, name: one, parameters, strict: false })),
    }
    for (const { output } of [await responses.create(offered), await responses.stream(offered).finalResponse()])
      t.deepEqual(
        output.map(item => item.type === 'function_call' && [item.name, JSON.parse(item.arguments)]),
        told as never,
      )
  })
}

/** Asks a server that has chat only in each dialect; gives the texts of the streams. */
async function streamedTexts(live: string, content = 'Hello') {
  const only = { provider: { only: ['mistral'] } }
  const messages = [{ role: 'user', content }]
  const chat = { model: 'mistral-large-3', ...only, stream: true }
  const asked: [string, object][] = [
    ['/v1/chat/completions', { ...chat, messages, stream_options: { include_usage: true } }],
    ['/v1/messages', { ...chat, messages, max_tokens: 100 }],
    ['/v1/responses', { ...chat, input: content }],
    [
      '/v1beta/models/mistral-large-3:streamGenerateContent?alt=sse',
      { contents: [{ role: 'user', parts: [{ text: content }] }], ...only },
    ],
  ]
  const texts: string[] = []
  for (const [path, body] of asked) texts.push(await (await world.gateway.fetch(path, { key: live, body })).text())
  return texts
}

const wholeChoice = { index: 0, message: { role: 'assistant', content: 'Fine.' }, finish_reason: 'stop' }
const wholeAnswer = {
  id: 'cmpl-up',
  object: 'chat.completion',
  created: 1,
  model: 'up',
  choices: [wholeChoice],
  usage: { prompt_tokens: 20, completion_tokens: 12, total_tokens: 32 },
}

for (const [name, reply] of [
  ['as its body', json(200, wholeAnswer)],
  ['in one event', events([`data: ${JSON.stringify(wholeAnswer)}\n\n`, 'data: [DONE]\n\n'])],
] as const)
  test.serial(`200 from a server that does not stream, but gives its whole answer ${name}: a stream`, async t => {
    const { live } = await world.gateway.account()
    chatOnly.next(reply, reply, reply, reply)
    for (const text of await streamedTexts(live)) {
      t.true(text.includes('Fine.'), text)
      t.regex(text, /"(?:completion_tokens|output_tokens|candidatesTokenCount)":12\b/)
    }
  })

test.serial('502 for a stream whose content is no text', async t => {
  const { live } = await world.gateway.account()
  const chunk = { ...wholeAnswer, object: 'chat.completion.chunk' }
  const data = JSON.stringify({ ...chunk, choices: [{ index: 0, delta: { role: 'assistant', content: { a: 1 } } }] })
  const reply = events([`data: ${data}\n\n`, 'data: [DONE]\n\n'])
  chatOnly.next(reply, reply, reply, reply)
  for (const text of await streamedTexts(live)) t.regex(text, /could not be understood/)
})

for (const name of ['', ' ', null, undefined])
  test.serial(`200: a call with the name ${JSON.stringify(name)} has one, and can be handed back`, async t => {
    const { live } = await world.gateway.account()
    const { completions } = world.sdk(live).chat
    const call = { id: 'call_1', type: 'function', function: { name, arguments: '{"city":"Oslo"}' } }
    const message = { role: 'assistant', content: null, tool_calls: [call] }
    const chunk = { ...wholeAnswer, object: 'chat.completion.chunk' }
    const delta = { role: 'assistant', tool_calls: [{ index: 0, ...call }] }
    const pieces = [
      { ...chunk, usage: undefined, choices: [{ index: 0, delta, finish_reason: null }] },
      { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] },
    ]
    world.openai.next(
      json(200, { ...wholeAnswer, choices: [{ index: 0, message, finish_reason: 'tool_calls' }] }),
      events([...pieces.map(piece => `data: ${JSON.stringify(piece)}\n\n`), 'data: [DONE]\n\n']),
    )
    const body = { model, messages: [question], tools: chatTools }
    const whole = await completions.create(body)
    const streamed = await completions.stream(body).finalChatCompletion()
    for (const { choices } of [whole, streamed]) {
      const given = choices[0]!.message
      const [{ id, function: fn }] = given.tool_calls as [OpenAI.ChatCompletionMessageFunctionToolCall]
      t.deepEqual([fn.name, fn.arguments], ['unnamed_tool', '{"city":"Oslo"}'])
      const result = { role: 'tool' as const, tool_call_id: id, content: 'There is no such tool.' }
      const next = await completions.create({ ...body, messages: [question, given, result] })
      t.truthy(next.choices[0])
    }
  })

test.serial('200: arguments that are encoded twice become those of the call, whole and streamed', async t => {
  const { live } = await world.gateway.account()
  const { completions } = world.sdk(live).chat
  const twice = JSON.stringify('{"city":"Oslo"}')
  const call = (args: string) => ({
    id: 'call_1',
    type: 'function',
    function: { name: 'get_weather', arguments: args },
  })
  const message = { role: 'assistant', content: null, tool_calls: [call(twice)] }
  const chunk = { ...wholeAnswer, object: 'chat.completion.chunk' }
  const pieces = [call(''), ...twice.match(/.{1,5}/g)!.map(args => ({ function: { arguments: args } }))]
  const chunks = pieces.map(piece => ({
    ...chunk,
    usage: undefined,
    choices: [{ index: 0, delta: { tool_calls: [{ index: 0, ...piece }] }, finish_reason: null }],
  }))
  const last = { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] }
  const streamed = events([...chunks, last].map(one => `data: ${JSON.stringify(one)}\n\n`).concat('data: [DONE]\n\n'))
  world.openai.next(
    json(200, { ...wholeAnswer, choices: [{ index: 0, message, finish_reason: 'tool_calls' }] }),
    streamed,
    streamed,
  )
  const body = { model, messages: [question], tools: chatTools }
  for (const { choices } of [await completions.create(body), await completions.stream(body).finalChatCompletion()])
    t.like(choices[0]!.message.tool_calls, [{ function: { name: 'get_weather', arguments: '{"city":"Oslo"}' } }])
  const sdk = new Anthropic({ apiKey: live, baseURL: world.gateway.url, maxRetries: 0 })
  const { content } = await sdk.messages.stream({ model, max_tokens: 500, messages: [question], tools }).finalMessage()
  t.like(content, [{ type: 'tool_use', input: { city: 'Oslo' } }])
})

test.serial('200: an id that comes after the name is that of the same call', async t => {
  const { live } = await world.gateway.account()
  const fn = { name: 'get_time', arguments: '' }
  const chunks = [
    { tool_calls: [{ index: 0, type: 'function', function: fn }] },
    { tool_calls: [{ index: 0, id: 'call_late', function: { arguments: '{}' } }] },
    { tool_calls: [{ index: 0, id: 'call_next', type: 'function', function: { ...fn, arguments: '{}' } }] },
  ].map(delta => ({ ...wholeAnswer, usage: undefined, choices: [{ index: 0, delta, finish_reason: null as unknown }] }))
  chunks.at(-1)!.choices[0]!.finish_reason = 'tool_calls'
  world.openai.next(events([...chunks.map(chunk => `data: ${JSON.stringify(chunk)}\n\n`), 'data: [DONE]\n\n']))
  const { completions } = world.sdk(live).chat
  const { choices } = await completions.stream({ model, messages: [question], tools: chatTools }).finalChatCompletion()
  const calls = choices[0]!.message.tool_calls as OpenAI.ChatCompletionMessageFunctionToolCall[]
  t.deepEqual(
    calls.map(({ function: given }) => [given.name, given.arguments]),
    [
      ['get_time', '{}'],
      ['get_time', '{}'],
    ],
  )
})

test.serial('200 without a usage: the tokens of a stream are counted alike in every dialect', async t => {
  const { live } = await world.gateway.account()
  const chunk = { ...wholeAnswer, object: 'chat.completion.chunk', usage: undefined }
  const data = JSON.stringify({
    ...chunk,
    choices: [{ ...wholeChoice, delta: { content: 'Fine.' }, message: undefined }],
  })
  const reply = events([`data: ${data}\n\n`, 'data: [DONE]\n\n'])
  chatOnly.next(reply, reply, reply, reply)
  // Two bytes a token: by their number, it would be half of it.
  const [chat, ...others] = (await streamedTexts(live, '7 '.repeat(3_000))).map(text => {
    const counts = [...text.matchAll(/"(?:prompt_tokens|input_tokens|promptTokenCount)":(\d+)/g)]
    return Number(counts.at(-1)?.[1])
  })
  t.true(chat! > 2_900, String(chat))
  for (const prompt of others) t.true(Math.abs(prompt - chat!) < 30, `${prompt} and ${chat}`)
})

test.serial('200 with the events of OpenAI’s own calls as they were sent', async t => {
  const { live } = await world.gateway.account()
  const body = { model, stream: true, tools: chatTools, messages: [{ ...question, content: 'Weather in Oslo' }] }
  const response = await world.gateway.fetch('/v1/chat/completions', { key: live, body })
  const deltas = dataOf(await response.text()).flatMap(({ choices }) => choices?.[0]?.delta.tool_calls ?? [])
  t.deepEqual(deltas[0], {
    index: 0,
    id: 'call_emulated1',
    type: 'function',
    function: { name: 'get_weather', arguments: '' },
  })
  t.is(deltas.map(({ function: fn }) => fn.arguments).join(''), '{"city":"Oslo"}')
  t.true(deltas.slice(1).every(delta => Object.keys(delta).length === 2))
})

test.serial('200 for tools and calls without a type, and for thinking handed back as a part', async t => {
  const { live } = await world.gateway.account()
  const fn = { name: 'get_time', arguments: '{}' }
  const content = [
    { type: 'thinking', thinking: [{ type: 'text', text: 'Hm.' }] },
    { type: 'text', text: 'I look.' },
  ]
  const messages = [
    question,
    { role: 'assistant', content, tool_calls: [{ id: 'call_1', function: fn }] },
    { role: 'tool', tool_call_id: 'call_1', content: 'noon' },
  ]
  const tools = [{ function: { name: 'get_time', parameters } }]
  for (const [one, upstream] of [
    [model, world.openai],
    ['gemini-2.5-flash', world.gemini],
    ['claude-haiku-4-5', world.anthropic],
  ] as const) {
    const body = { model: one, provider: { ignore: ['openrouter'] }, messages, tools }
    const response = await world.gateway.fetch('/v1/chat/completions', { key: live, body })
    t.is(response.status, 200, await response.text())
    const sent = JSON.stringify(upstream.requests.at(-1)!.body)
    t.true(sent.includes('I look.') && !sent.includes('"thinking"'), sent)
    if (one !== model) continue
    const { body: received } = upstream.requests.at(-1)!
    t.is(received.tools[0].type, 'function')
    t.is(received.messages[1].tool_calls[0].type, 'function')
  }
})

test.serial('200 for the id of a call that an earlier answer had, too; 400 for two of one answer', async t => {
  const { live } = await world.gateway.account()
  const use = { type: 'tool_use', id: 'call_0', name: 'get_time', input: {} }
  const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_0', content: 'noon' }] }
  const twice = [question, { role: 'assistant', content: [use] }, result, { role: 'assistant', content: [use] }, result]
  const together = [question, { role: 'assistant', content: [use, use] }, result]
  for (const [messages, status] of [
    [twice, 200],
    [together, 400],
  ] as const) {
    const body = { model, max_tokens: 50, tools, messages }
    const response = await world.gateway.fetch('/v1/messages', { key: live, body })
    t.is(response.status, status, await response.text())
  }
})

test.serial('200, billed and logged, for an answer with NUL and half a character', async t => {
  const { live } = await world.gateway.account()
  const message = { role: 'assistant', content: 'a\0b\ud83c', reasoning: '\udf0d' }
  const choices = [{ index: 0, message, finish_reason: 'st\0op\ud83c' }]
  const body = { id: 'c\0\ud83c', object: 'chat.completion', created: 1, model: 'm\0\ud83c', choices }
  world.openai.next(json(200, { ...body, usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 } }))
  const response = await world.gateway.fetch('/v1/chat/completions', {
    key: live,
    body: { model, messages: [question] },
  })
  t.is(response.status, 200)
  t.like(await response.json(), {
    choices: [{ message: { content: 'a\0b\ufffd', reasoning_content: '\ufffd' }, finish_reason: 'stop' }],
  })
  t.like(await generationOf(world, response.headers.get('x-generation-id')!), { status: 200 })
})

test.serial('200 streamed: several choices and calls in one event, only some of them as OpenAI’s are', async t => {
  const { live } = await world.gateway.account()
  const call = (id: string, name: string, index?: number) => ({
    id,
    type: 'function',
    function: { name, arguments: '{}' },
    ...(index !== undefined && { index }),
  })
  const deltas = [
    [{ tool_calls: [call('a', 'get_weather', 0)] }, { tool_calls: [call('b', 'get_time')] }],
    [{ tool_calls: [call('c', 'get_time', 1), call('d', 'get_weather', 1)] }, {}],
  ]
  const event = (pair: object[], finish_reason: string | null) => ({
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: pair.map((delta, index) => ({ index, delta, finish_reason })),
  })
  const role = { role: 'assistant', content: null }
  const all = [event([role, role], null), ...deltas.map(pair => event(pair, null)), event([{}, {}], 'stop')]
  world.openai.next(events([...all.map(one => `data: ${JSON.stringify(one)}\n\n`), 'data: [DONE]\n\n']))
  const { completions } = world.sdk(live).chat
  const { choices } = await completions.stream({ model, n: 2, messages: [question] }).finalChatCompletion()
  t.deepEqual(
    choices.map(({ message }) => message.tool_calls?.map(one => one.id)),
    [['a', 'c', 'd'], ['b']],
  )
  t.deepEqual(
    choices.map(({ finish_reason }) => finish_reason),
    ['tool_calls', 'tool_calls'],
  )
})
