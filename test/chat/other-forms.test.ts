import { startAnthropicEmulator } from '../emulators/anthropic.ts'
import type { Emulator } from '../emulators/emulator.ts'
import { startOpenAiEmulator } from '../emulators/openai.ts'
import { dataOf } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

/**
 * Chat requests in the forms of other APIs, as Cursor sends them: forum.cursor.com/t/153019 and /159298, BerriAI/litellm#34029,
 * Wei-Shaw/sub2api#5861, lbjlaq/Antigravity-Manager#506.
 */
const openai = use(test, startOpenAiEmulator)
const anthropic = use(test, () => startAnthropicEmulator())
const gateway = useGateway(test, () => ({
  OPENAI_API_KEY: 'upstream-secret',
  OPENAI_BASE_URL: `${openai.url}/v1`,
  ANTHROPIC_API_KEY: 'upstream-secret',
  ANTHROPIC_BASE_URL: anthropic.url,
}))
test.beforeEach(() => {
  openai.reset()
  anthropic.reset()
})

const grammar = { syntax: 'lark', definition: 'start: "*** Begin Patch"' }
const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const flatFunction = { type: 'function', name: 'weather', description: 'Weather', parameters: schema, strict: false }
const flatCustom = {
  type: 'custom',
  name: 'ApplyPatch',
  description: 'Patches',
  format: { type: 'grammar', ...grammar },
}
const nestedFunction = {
  type: 'function',
  function: { name: 'weather', description: 'Weather', parameters: schema, strict: false },
}
const nestedCustom = {
  type: 'custom',
  custom: { name: 'ApplyPatch', description: 'Patches', format: { type: 'grammar', grammar } },
}

async function ask(body: object) {
  const { live } = await gateway.account()
  const response = await gateway.fetch('/v1/chat/completions', { key: live, body })
  return { status: response.status, text: await response.text(), headers: response.headers }
}

const sentTo = ({ requests }: Emulator) => requests.at(-1)!.body

const agentTurn = {
  input: [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: [{ type: 'input_text', text: 'Edit the file.' }] },
    { type: 'custom_tool_call', call_id: 'call_1', name: 'ApplyPatch', input: '*** Begin Patch' },
    { type: 'custom_tool_call_output', call_id: 'call_1', output: 'Done.' },
    { type: 'function_call', call_id: 'call_2', name: 'weather', arguments: '{"city":"Oslo"}' },
    { type: 'function_call_output', call_id: 'call_2', output: 'sunny' },
    { role: 'user', content: [{ type: 'input_text', text: 'What is the weather in Rome?' }] },
  ],
  messages: [],
  tools: [flatFunction, flatCustom],
  tool_choice: 'auto',
  reasoning: { effort: 'medium', summary: 'auto' },
  text: { verbosity: 'low' },
  include: ['reasoning.encrypted_content'],
  store: false,
  truncation: 'auto',
  previous_response_id: null,
  stream: true,
  stream_options: { include_usage: true },
  user: 'someone',
}

test.serial('200 for a turn in the form of Responses: sent and answered in that of chat, streamed', async t => {
  const { status, text } = await ask({ model: 'gpt-4o-mini', ...agentTurn })
  t.is(status, 200, text)
  const chunks = dataOf(text)
  t.is(chunks.at(-1), '[DONE]')
  t.true(chunks.slice(0, -1).every(({ object }) => object === 'chat.completion.chunk'))
  t.true(chunks.at(-2).usage.prompt_tokens > 0)
  const deltas = chunks.slice(0, -1).flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? [])
  t.is(deltas[0].function.name, 'weather')
  const { messages, tools, stream_options, user } = sentTo(openai)
  t.deepEqual(tools, [nestedFunction, nestedCustom])
  t.like({ stream_options, user }, { stream_options: { include_usage: true }, user: 'someone' })
  t.deepEqual(messages, [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Edit the file.' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'call_1', type: 'custom', custom: { name: 'ApplyPatch', input: '*** Begin Patch' } }],
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'Done.' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'call_2', type: 'function', function: { name: 'weather', arguments: '{"city":"Oslo"}' } }],
    },
    { role: 'tool', tool_call_id: 'call_2', content: 'sunny' },
    { role: 'user', content: 'What is the weather in Rome?' },
  ])
})

test.serial('200 for the same at a provider of another format: its custom tool is a function there', async t => {
  const { status, text } = await ask({ model: 'claude-haiku-4-5', ...agentTurn, stream: false })
  t.is(status, 200, text)
  t.is(JSON.parse(text).object, 'chat.completion')
  const { tools, messages, system } = sentTo(anthropic)
  t.deepEqual(
    tools.map(({ name }: { name: string }) => name),
    ['weather', 'ApplyPatch'],
  )
  t.regex(JSON.stringify(system), /Be brief/)
  t.deepEqual(messages[1].content[0].input, { input: '*** Begin Patch' })
})

const patchIn = (text: string) => {
  const calls = dataOf(text).flatMap(({ choices }) => choices?.[0]?.delta.tool_calls ?? [])
  const [{ id, type, function: called }] = calls
  return { id, type, name: called.name, text: calls.map(call => call.function.arguments).join('') }
}

for (const model of ['gpt-4o-mini', 'gpt-5.6-luna', 'claude-haiku-4-5'])
  test.serial(`200 for a patch that ${model} makes: a call of a function whose arguments are the patch`, async t => {
    const question = [{ role: 'user', content: 'What is the weather in Oslo?' }]
    const choice = { type: 'custom', name: 'ApplyPatch' }
    for (const form of [{ input: question }, { messages: question }]) {
      const asked = { model, ...form, tools: [flatCustom], tool_choice: choice }
      const { status, text } = await ask(asked)
      t.is(status, 200, text)
      const [call] = JSON.parse(text).choices[0].message.tool_calls
      t.deepEqual(Object.keys(call).sort(), ['function', 'id', 'type'])
      t.like(call, { type: 'function', function: { name: 'ApplyPatch', arguments: 'Oslo' } })
      const streamed = patchIn((await ask({ ...asked, stream: true })).text)
      t.like(streamed, { type: 'function', name: 'ApplyPatch', text: 'Oslo' })
      // As Cursor hands it back.
      const handedBack = { type: 'function_call', call_id: call.id, name: 'ApplyPatch', arguments: '*** Begin Patch' }
      const output = { type: 'function_call_output', call_id: call.id, output: 'Done.' }
      const next = await ask({ model, input: [...question, handedBack, output], tools: [flatCustom] })
      t.is(next.status, 200, next.text)
    }
  })

test.serial('200 for a custom tool in the form of chat: its call stays a custom one', async t => {
  const messages = [{ role: 'user', content: 'What is the weather in Oslo?' }]
  const { status, text } = await ask({ model: 'gpt-4o-mini', messages, tools: [nestedCustom] })
  t.is(status, 200, text)
  t.like(JSON.parse(text).choices[0].message.tool_calls[0], { type: 'custom', custom: { name: 'ApplyPatch' } })
})

test.serial(
  '200 for tools with their names beside their types, among tools of chat, and in the form of Anthropic',
  async t => {
    const messages = [{ role: 'user', content: 'Hello' }]
    const anthropicTool = { name: 'search', description: 'Searches', input_schema: schema }
    const other = { type: 'function', function: { name: 'other', parameters: schema } }
    const tools = [flatFunction, other, flatCustom, anthropicTool]
    for (const [given, sent] of [
      [
        { type: 'function', name: 'weather' },
        { type: 'function', function: { name: 'weather' } },
      ],
      [
        { type: 'tool', name: 'search' },
        { type: 'function', function: { name: 'search' } },
      ],
      [{ type: 'any' }, 'required'],
      [{ type: 'auto' }, 'auto'],
    ]) {
      const { status, text } = await ask({ model: 'gpt-4o-mini', messages, tools, tool_choice: given })
      t.is(status, 200, text)
      const body = sentTo(openai)
      t.deepEqual(body.tool_choice, sent)
      t.deepEqual(body.tools, [
        nestedFunction,
        other,
        nestedCustom,
        { type: 'function', function: { name: 'search', description: 'Searches', parameters: schema } },
      ])
    }
  },
)

const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

test.serial(
  '200 for messages with the blocks of Anthropic: calls, results and images become those of chat',
  async t => {
    const source = { type: 'base64', media_type: 'image/png', data: png }
    const use = (id: string, city: string) => ({ type: 'tool_use', id, name: 'weather', input: { city } })
    const result = (id: string, more: object) => ({ type: 'tool_result', tool_use_id: id, ...more })
    const cached = { cache_control: { type: 'ephemeral' } }
    const messages = [
      { role: 'system', content: 'Be brief.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Oslo, Rome, Bonn?', ...cached },
          { type: 'image', source },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'I look.' },
          use('toolu_a', 'Oslo'),
          use('toolu_b', 'Rome'),
          use('toolu_c', 'Bonn'),
        ],
      },
      {
        role: 'user',
        content: [
          result('toolu_a', { content: [{ type: 'text', text: 'sunny' }] }),
          result('toolu_b', { content: 'no such city', is_error: true }),
          result('toolu_c', {}),
          { type: 'text', text: 'Go on.' },
        ],
      },
    ]
    const tools = [{ name: 'weather', description: 'Weather', input_schema: schema }]
    for (const model of ['claude-haiku-4-5', 'gpt-4o-mini']) {
      const { status, text } = await ask({ model, messages, tools })
      t.is(status, 200, text)
    }
    const sent = sentTo(openai).messages
    const call = (id: string, city: string) => ({
      id,
      type: 'function',
      function: { name: 'weather', arguments: JSON.stringify({ city }) },
    })
    t.deepEqual(sent[1].content[1], { type: 'image_url', image_url: { url: `data:image/png;base64,${png}` } })
    t.deepEqual(sent[2].tool_calls, [call('toolu_a', 'Oslo'), call('toolu_b', 'Rome'), call('toolu_c', 'Bonn')])
    t.deepEqual(sent.slice(3), [
      { role: 'tool', tool_call_id: 'toolu_a', content: [{ type: 'text', text: 'sunny' }] },
      { role: 'tool', tool_call_id: 'toolu_b', content: 'Error: no such city' },
      { role: 'tool', tool_call_id: 'toolu_c', content: '' },
      { role: 'user', content: [{ type: 'text', text: 'Go on.' }] },
    ])
    t.deepEqual(
      sentTo(anthropic).messages[2].content.map(({ type }: { type: string }) => type),
      ['tool_result', 'tool_result', 'tool_result', 'text'],
    )
  },
)

const user = { role: 'user', content: 'Hi' }
for (const [what, body, param] of [
  ['a part of an unknown type', { input: [{ role: 'user', content: [{ type: 'x' }] }] }, 'input.0.content.0.type'],
  ['an item that is no object', { input: [user, 5] }, 'input.1'],
  ['no items', { input: [] }, 'input'],
  ['a text in place of items', { input: 'Hi' }, 'messages'],
  ['an earlier response', { input: [user], previous_response_id: 'resp_1' }, 'previous_response_id'],
  ['a conversation', { input: [user], conversation: 'conv_1' }, 'conversation'],
  ['an answer in the background', { input: [user], background: true }, 'background'],
  ['a call without its output', { input: [user, { ...agentTurn.input[2] }] }, 'input'],
  ['a tool without a name', { input: [user], tools: [{ type: 'function' }] }, 'tools.0.name'],
  ['a tool that a provider runs, beside items', { input: [user], tools: [{ type: 'web_search' }] }, 'tools.0.type'],
  [
    'an image without its data',
    {
      messages: [{ role: 'user', content: [{ type: 'image', source: {} }] }],
      tools: [{ name: 'x', input_schema: {} }],
    },
    'messages.0.content.0.type',
  ],
  [
    'a choice of another type',
    { messages: [user], tools: [nestedFunction], tool_choice: { type: 'toString' } },
    'tool_choice.type',
  ],
  ['a tool without a name in chat', { messages: [user], tools: [{ type: 'function' }] }, 'tools.0.function'],
  ['a tool that a provider runs', { messages: [user], tools: [{ type: 'x', name: 'y' }] }, 'tools.0.type'],
] as const)
  test.serial(`400 that names the field: ${what}`, async t => {
    const { status, text } = await ask({ model: 'gpt-4o-mini', ...body })
    t.is(status, 400, text)
    t.is(JSON.parse(text).error.param, param, text)
    t.is(openai.requests.length, 0)
  })
