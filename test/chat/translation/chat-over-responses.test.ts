import type OpenAI from 'openai'
import { zodResponseFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { json } from '../../emulators/emulator.ts'
import { rateLimited } from '../../emulators/openai.ts'
import { reasoningState, responsesReply } from '../../emulators/openai-responses.ts'
import { answersError } from '../../support/api/edge.ts'
import { chargedNano, dataOf, expectedNano, generationOf, startWorld } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const world = use(test, () => startWorld({ OPENAI_API_KEY: 'first,second' }))
test.beforeEach(() => {
  for (const emulator of [world.openai, world.openrouter]) emulator.reset()
})

// biome-ignore lint/suspicious/noExplicitAny: messages with fields that the SDK does not know
type Any = any

const parameters = { type: 'object', properties: { city: { type: 'string' } } }
const weather = { type: 'function' as const, function: { name: 'weather', description: 'Looks.', parameters } }
const question = { role: 'user' as const, content: 'How is the weather in Bonn and Oslo?' }
const luna = { model: 'gpt-5.6-luna', provider: { only: ['openai'] }, tools: [weather] }
const asked = { ...luna, messages: [question] }
const account = () => world.gateway.account({ usd: '100' })
const sent = () => world.openai.requests.at(-1)!
const adjusted = 'x-gateway-adjusted'
const dropped = 'x-gateway-dropped'

function create(key: string, body: object) {
  return world
    .sdk(key)
    .chat.completions.create(body as OpenAI.ChatCompletionCreateParamsNonStreaming)
    .withResponse()
}

/** The message that an SDK client assembles of a stream, its details one by one. */
async function assemble(key: string, body: object): Promise<{ message: Any; finish: string | null; usage: Any }> {
  const stream = await world.sdk(key).chat.completions.create({
    ...body,
    stream: true,
    stream_options: { include_usage: true },
  } as OpenAI.ChatCompletionCreateParamsStreaming)
  const message: Any = { role: 'assistant', content: null }
  let finish: string | null = null
  let usage: Any = null
  for await (const chunk of stream) {
    usage = chunk.usage ?? usage
    const [choice] = chunk.choices
    const delta: Any = choice?.delta ?? {}
    finish = choice?.finish_reason ?? finish
    for (const name of ['content', 'refusal', 'reasoning_content'])
      if (delta[name]) message[name] = (message[name] ?? '') + delta[name]
    if (delta.reasoning_details)
      message.reasoning_details = [...(message.reasoning_details ?? []), ...delta.reasoning_details]
    for (const { index, function: fn, custom, ...rest } of delta.tool_calls ?? []) {
      message.tool_calls ??= []
      const call = (message.tool_calls[index] ??= { ...rest, ...(fn ? { function: fn } : { custom }) })
      if (call.function !== fn) call.function.arguments += fn.arguments
      if (call.custom !== custom) call.custom.input += custom.input
    }
  }
  return { message, finish, usage }
}

const results = ({ tool_calls: calls }: Any) =>
  calls.map(({ id }: Any) => ({ role: 'tool', tool_call_id: id, content: '5 °C' }))
const typesOf = (input: Any[]) => input.map(({ type, role }) => (type === 'message' ? role : type))

for (const way of ['whole', 'streamed'] as const)
  test.serial(`200 ${way}: a loop of tools, whose reasoning comes back before its calls`, async t => {
    const owner = await account()
    const turn = async (body: object) => {
      if (way === 'streamed') return assemble(owner.live, body)
      const { data, response } = await create(owner.live, body)
      t.is(response.headers.get(adjusted), null)
      t.is(response.headers.get(dropped), null)
      const [choice] = data.choices
      return { message: choice!.message as Any, finish: choice!.finish_reason, usage: data.usage as Any }
    }
    const first = await turn({ ...asked, reasoning_effort: 'high', user: 'u', prompt_cache_key: 'k' })
    t.is(sent().path, '/v1/responses')
    t.like(sent().body, {
      model: 'gpt-5.6-luna',
      reasoning: { effort: 'high' },
      include: ['reasoning.encrypted_content'],
      store: false,
      service_tier: 'default',
      user: 'u',
      prompt_cache_key: 'k',
      tools: [{ type: 'function', name: 'weather', description: 'Looks.', parameters, strict: false }],
    })
    t.is(first.finish, 'tool_calls')
    t.deepEqual(
      first.message.tool_calls.map(({ id, type, function: fn }: Any) => [id, type, fn.name, fn.arguments]),
      ['Bonn', 'Oslo'].map((city, at) => [`call_${at}`, 'function', 'weather', JSON.stringify({ city })]),
    )
    t.like(first.usage.completion_tokens_details, { reasoning_tokens: 16 })
    t.false(JSON.stringify(first.message).includes(reasoningState), 'no state leaves in clear')
    const key = sent().headers.authorization
    const messages = [question, first.message, ...results(first.message)]
    const second = await turn({ ...luna, messages })
    t.is(second.message.content, 'Echo: 5 °C')
    t.is(second.finish, 'stop')
    const { input } = sent().body
    t.deepEqual(typesOf(input), [
      'user',
      ...['reasoning', 'function_call', 'function_call', 'function_call_output', 'function_call_output'],
    ])
    t.deepEqual(input[1], { type: 'reasoning', summary: [], encrypted_content: reasoningState })
    t.is(sent().headers.authorization, key, 'at the account that made it')
    const third = await turn({ ...luna, messages: [...messages, second.message, { role: 'user', content: 'Thanks' }] })
    t.is(third.message.content, 'Echo: Thanks')
    t.deepEqual(typesOf(sent().body.input).slice(-3), ['reasoning', 'assistant', 'user'])
    t.is(sent().body.input.at(-2).phase, 'final_answer')
    const usages = [first.usage, second.usage, third.usage]
    const expected = usages.reduce((sum, usage) => sum + expectedNano('gpt-5.6-luna', usage), 0)
    t.is(await chargedNano(world, owner), expected)
  })

test.serial('200 with each item of reasoning at its place, and the text before calls as commentary', async t => {
  const { live } = await account()
  const thought = (id: string) => ({ type: 'reasoning', id, summary: [], encrypted_content: reasoningState })
  const said = {
    type: 'message',
    id: 'msg_1',
    role: 'assistant',
    content: [{ type: 'output_text', text: 'I look.', annotations: [] }],
  }
  const call = (n: number) => ({
    type: 'function_call',
    id: `fc_${n}`,
    call_id: `c${n}`,
    name: 'weather',
    arguments: '{}',
  })
  const output = [thought('rs_1'), said, thought('rs_2'), call(1), thought('rs_3'), call(2)]
  for (const streams of [false, true]) {
    world.openai.next(responsesReply({ output }))
    const message = streams
      ? (await assemble(live, asked)).message
      : ((await create(live, asked)).data.choices[0]!.message as Any)
    t.is(message.content, 'I look.')
    await create(live, { ...luna, messages: [question, message, ...results(message)] })
    const { input } = sent().body
    t.deepEqual(typesOf(input), [
      'user',
      ...['reasoning', 'assistant', 'reasoning', 'function_call', 'reasoning', 'function_call'],
      ...['function_call_output', 'function_call_output'],
    ])
    t.is(input[2].phase, 'commentary')
  }
})

test.serial('200 with all that chat has: images, files, formats, choices, custom tools, limits', async t => {
  const { live } = await account()
  const grammar = { type: 'grammar', grammar: { syntax: 'regex', definition: '[a-z]+' } }
  const custom = { type: 'custom', custom: { name: 'run', description: 'Runs.', format: grammar } }
  const format = zodResponseFormat(z.object({ answer: z.string() }), 'result')
  const closed = { ...parameters, required: ['city'], additionalProperties: false }
  const exact = { ...weather.function, name: 'exact', parameters: closed, strict: true }
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=', detail: 'low' } }
  const file = { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' } }
  const parts = [{ type: 'text', text: 'Look' }, image, file]
  const earlier = {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'a', type: 'custom', custom: { name: 'run', input: 'ls' } }],
  }
  const { data, response } = await create(live, {
    ...luna,
    messages: [
      { role: 'developer', content: 'Be brief' },
      { role: 'user', content: 'Hi', name: 'Ann' },
      earlier,
      { role: 'tool', tool_call_id: 'a', content: [{ type: 'text', text: 'b' }] },
      { role: 'user', content: parts },
    ],
    tools: [weather, { ...weather, function: exact }, custom],
    tool_choice: {
      type: 'allowed_tools',
      allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'exact' } }] },
    },
    parallel_tool_calls: false,
    response_format: format,
    verbosity: 'low',
    max_tokens: 500,
    reasoning_effort: 'max',
    temperature: 0.2,
    metadata: { team: 'a' },
    safety_identifier: 'x'.repeat(100),
  })
  t.is(typeof JSON.parse(data.choices[0]!.message.content!).answer, 'string')
  t.is(response.headers.get(adjusted), null)
  t.deepEqual(response.headers.get(dropped)?.split(',').sort(), ['messages.name', 'temperature'])
  const { input, ...body } = sent().body
  t.deepEqual(input, [
    { type: 'message', role: 'developer', content: 'Be brief' },
    { type: 'message', role: 'user', content: 'Hi' },
    { type: 'custom_tool_call', call_id: 'a', name: 'run', input: 'ls' },
    { type: 'custom_tool_call_output', call_id: 'a', output: [{ type: 'input_text', text: 'b' }] },
    {
      type: 'message',
      role: 'user',
      content: [
        { type: 'input_text', text: 'Look' },
        { type: 'input_image', image_url: image.image_url.url, detail: 'low' },
        { type: 'input_file', filename: 'a.pdf', file_data: file.file.file_data },
      ],
    },
  ])
  t.like(body, {
    max_output_tokens: 500,
    parallel_tool_calls: false,
    reasoning: { effort: 'max' },
    tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'exact' }] },
    text: { verbosity: 'low', format: { type: 'json_schema', name: 'result', strict: true } },
  })
  t.is(body.tools[1].strict, true)
  t.deepEqual(body.tools[2], {
    type: 'custom',
    name: 'run',
    description: 'Runs.',
    format: { type: 'grammar', syntax: 'regex', definition: '[a-z]+' },
  })
  t.is(body.safety_identifier.length, 64)
  t.is(body.metadata, undefined)
})

test.serial('200 streamed: calls of custom tools, summaries and refusals', async t => {
  const { live } = await account()
  const run = { type: 'custom', custom: { name: 'run' } }
  const call = { type: 'custom_tool_call', id: 'ctc_1', call_id: 'c1', name: 'run', input: 'ls -la' }
  const summary = [
    { type: 'summary_text', text: 'I look.' },
    { type: 'summary_text', text: 'Then I run.' },
  ]
  const thought = { type: 'reasoning', id: 'rs_1', summary, encrypted_content: reasoningState }
  const body = { ...asked, tools: [weather, run], reasoning: { summary: 'auto', effort: 'low' } }
  for (const streams of [false, true]) {
    world.openai.next(responsesReply({ output: [thought, call] }))
    const { message, finish }: Any = streams
      ? await assemble(live, body)
      : await create(live, body).then(({ data }) => ({
          message: data.choices[0]!.message,
          finish: data.choices[0]!.finish_reason,
        }))
    t.deepEqual(sent().body.reasoning, { effort: 'low', summary: 'auto' })
    t.is(message.reasoning_content, 'I look.\n\nThen I run.')
    t.is(finish, 'tool_calls')
    t.deepEqual(message.tool_calls, [{ id: 'c1', type: 'custom', custom: { name: 'run', input: 'ls -la' } }])
    await create(live, { ...body, messages: [question, message, ...results(message)] })
    t.deepEqual(typesOf(sent().body.input), ['user', 'reasoning', 'custom_tool_call', 'custom_tool_call_output'])
    const refused = {
      type: 'message',
      id: 'm',
      role: 'assistant',
      content: [{ type: 'refusal', refusal: 'I cannot.' }],
    }
    world.openai.next(responsesReply({ output: [refused] }))
    const { message: no }: Any = streams
      ? await assemble(live, asked)
      : { message: (await create(live, asked)).data.choices[0]!.message }
    t.is(no.content, null)
    t.is(no.refusal, 'I cannot.')
  }
})

// microsoft/vscode#312163: without a break, a client shows "…as requested.My name is…".
test.serial(
  '200: the commentary and the final answer are paragraphs of one text, the parts of each as they are',
  async t => {
    const { live } = await account()
    const said = (id: string, ...texts: string[]) => {
      const content = texts.map(text => ({ type: 'output_text', text, annotations: [] }))
      return { type: 'message', id, role: 'assistant', status: 'completed', content }
    }
    const output = [said('msg_1', 'I look', ' at it.'), said('msg_2', ''), said('msg_3', 'It is fine.')]
    const text = 'I look at it.\n\nIt is fine.'
    world.openai.next(...Array.from({ length: 3 }, () => responsesReply({ output })))
    t.is((await create(live, asked)).data.choices[0]!.message.content, text)
    t.is((await assemble(live, asked)).message.content, text)
    const body = {
      ...luna,
      tools: [{ name: 'weather', input_schema: parameters }],
      messages: [question],
      max_tokens: 100,
    }
    const response = await world.gateway.fetch('/v1/messages', { key: live, body })
    t.like(await response.json(), { content: [{ type: 'text', text }] })
  },
)

test.serial('200: incomplete answers end with their reason', async t => {
  const { live } = await account()
  const long = { ...luna, messages: [{ role: 'user', content: 'word '.repeat(200) }], max_completion_tokens: 20 }
  const { data } = await create(live, long)
  t.is(data.choices[0]!.finish_reason, 'length')
  t.is((await assemble(live, long)).finish, 'length')
})

test.serial('200 in chat without reasoning: what Responses have no word for, or where the effort is none', async t => {
  const { live } = await account()
  const history = [
    question,
    (await create(live, asked)).data.choices[0]!.message,
    { role: 'tool', tool_call_id: 'call_0', content: '1' },
    { role: 'tool', tool_call_id: 'call_1', content: '2' },
  ]
  for (const more of [
    { stop: ['x'] },
    { seed: 1 },
    { n: 2 },
    { presence_penalty: 0.5 },
    { logit_bias: { 1: 1 } },
    { max_completion_tokens: 10 },
  ]) {
    const { response } = await create(live, { ...luna, messages: history, ...more, reasoning_effort: 'high' })
    t.is(response.headers.get(adjusted), 'reasoning_effort', JSON.stringify(more))
    t.is(sent().path, '/v1/chat/completions')
    t.is(sent().body.reasoning_effort, 'none')
    t.is(sent().body.messages[1].reasoning_details, undefined)
  }
  const { response } = await create(live, { ...asked, reasoning_effort: 'none' })
  t.is(response.headers.get(adjusted), null)
  t.is(sent().path, '/v1/chat/completions')
  for (const more of [
    { stop: [], n: 1, logprobs: false, presence_penalty: 0 },
    { stop: null, seed: null },
  ]) {
    await create(live, { ...asked, ...more })
    t.is(sent().path, '/v1/responses')
  }
  await create(live, { ...luna, tools: undefined, messages: [question] })
  t.is(sent().path, '/v1/chat/completions')
})

test.serial('200 in the older form: functions', async t => {
  const { live } = await account()
  const { data } = await create(live, {
    ...luna,
    tools: undefined,
    functions: [weather.function],
    messages: [question],
  })
  t.is(sent().path, '/v1/responses')
  t.is(data.choices[0]!.finish_reason, 'function_call')
  t.is(data.choices[0]!.message.function_call?.arguments, '{"city":"Bonn"}')
})

test.serial('200 without the state of another provider, and at a provider that has chat only', async t => {
  const { live } = await account()
  const both = { model: 'gpt-5.6-sol', tools: [weather] }
  const first = await create(live, { ...both, provider: { only: ['openai'] }, messages: [question] })
  const [choice] = first.data.choices
  const body = { ...both, messages: [question, choice!.message, ...results(choice!.message)] }
  t.is((await create(live, body)).response.headers.get('x-gateway-provider'), 'openai', 'which made the state')
  t.is(sent().body.input[1].type, 'reasoning')
  for (let key = 0; key < 2; key++) world.openai.next(rateLimited('30'))
  const { response } = await create(live, body)
  t.is(response.headers.get('x-gateway-provider'), 'openrouter')
  t.is(response.headers.get('x-gateway-reasoning-dropped'), '1')
  const { path, raw } = world.openrouter.requests.at(-1)!
  t.is(path, '/v1/chat/completions')
  t.false(raw.includes('hg1.') || raw.includes(reasoningState))
})

test.serial('502 for answers that make no sense', async t => {
  const { live } = await account()
  const message = (content: unknown) => ({ type: 'message', id: 'm', role: 'assistant', content })
  for (const item of [
    message([{ type: 'output_text', text: 5 }]),
    message([{ type: 'refusal' }]),
    { type: 'function_call', id: 'f', arguments: '{}', name: 'weather' },
    { type: 'reasoning', id: 'r', summary: [null] },
  ]) {
    for (let call = 0; call < 4; call++)
      world.openai.next(json(200, { id: 'r', object: 'response', model: 'm', status: 'completed', output: [item] }))
    const response = await world.gateway.fetch('/v1/chat/completions', { key: live, body: asked })
    t.is(response.status, 502, await response.text())
    world.openai.reset()
  }
})

test.serial('200 without state that its provider no longer accepts', async t => {
  const { live } = await account()
  const stale = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAAAstale' }
  const call = { type: 'function_call', id: 'fc_1', call_id: 'c1', name: 'weather', arguments: '{}' }
  world.openai.next(responsesReply({ output: [stale, call] }))
  const message: Any = (await create(live, asked)).data.choices[0]!.message
  const { response } = await create(live, { ...luna, messages: [question, message, ...results(message)] })
  t.is(response.headers.get('x-gateway-reasoning-dropped'), '1')
  t.deepEqual(typesOf(sent().body.input), ['user', 'function_call', 'function_call_output'])
})

test.serial('errors of the provider, and streams that it breaks', async t => {
  const { live } = await account()
  const request = (body: object) => world.gateway.fetch('/v1/chat/completions', { key: live, body })
  const orphan = [question, { role: 'tool', tool_call_id: 'z', content: '1' }]
  await answersError(t, await request({ ...luna, messages: orphan }), 'invalid_request', 'messages')
  const long = { ...luna, messages: [{ role: 'user', content: 'too long' }] }
  await answersError(t, await request(long), 'context_length_exceeded', 'messages')
  for (const [options, code] of [
    [{ cutAfter: 9 }, 'upstream_error'],
    [{ failAfter: 9 }, 'upstream_error'],
    [{ failAfter: 9, error: { code: 'rate_limit_exceeded', message: 'Slow' } }, 'upstream_error'],
  ] as const) {
    const owner = await account()
    world.openai.next(responsesReply(options))
    const body = { ...luna, messages: [{ role: 'user', content: 'Hello there' }], stream: true }
    const response = await world.gateway.fetch('/v1/chat/completions', { key: owner.live, body })
    const events = dataOf(await response.text())
    t.like(events.find(event => event.error)?.error, { code })
    t.true(events.some(event => event.choices?.[0]?.delta.content))
    const { status, costNano } = await generationOf(world, response.headers.get('x-generation-id')!)
    t.true(status === 502 || status === 429 || status === 200, String(status))
    t.true(costNano > 0n)
    t.is(await chargedNano(world, owner), Number(costNano))
  }
})

test.serial(
  '200: cached and written tokens have their prices; a failure before the first token is made good',
  async t => {
    const owner = await account()
    const details = {
      input_tokens: 1_000,
      input_tokens_details: { cached_tokens: 600, cache_write_tokens: 300 },
      output_tokens: 50,
      output_tokens_details: { reasoning_tokens: 40 },
      total_tokens: 1_050,
    }
    world.openai.next(responsesReply({ failAfter: 1 }))
    world.openai.next(responsesReply({ details }))
    const { usage } = await assemble(owner.live, asked)
    t.like(usage, { prompt_tokens: 1_000, completion_tokens: 50 })
    t.like(usage.prompt_tokens_details, { cached_tokens: 600, cache_write_tokens: 300 })
    t.like(usage.completion_tokens_details, { reasoning_tokens: 40 })
    // Input 0.2, cached 0.02, written 0.25, output 1.2 dollars per million tokens, and the margin.
    const nano = 100 * 200 + 600 * 20 + 300 * 250 + 50 * 1_200
    t.is(await chargedNano(world, owner), Math.round(nano * 1.05))
  },
)
