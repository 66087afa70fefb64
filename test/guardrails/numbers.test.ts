import { json } from '../emulators/emulator.ts'
import { dataOf, saying, startWorld } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

// Values that are numbers of JSON, as models and tools write the numbers of cards.

// biome-ignore lint/suspicious/noExplicitAny: bodies of every shape
type Any = any

const world = use(test, () => startWorld())
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini]) emulator.reset()
})

const card = 4111111111111111
const detecting = (action: 'mask' | 'block', on: 'input' | 'both') => ({
  detectors: [{ type: 'card' as const, action, on }],
  webhook: null,
  other_kinds: 'refuse' as const,
})
const sent = () => [world.openai, world.anthropic, world.gemini].flatMap(({ requests }) => requests)

const hi = { role: 'user', content: 'Hi' }
const weather = { type: 'object', properties: {} }
const args = { card, at: 1_795_975_536_123, cards: [card], none: 1 }
const masked = { card: '[CARD_1]', at: 1_795_975_536_123, cards: ['[CARD_1]'], none: 1 }

/** Requests with a number, and the arguments as the provider gets them. */
const requests: Record<string, { path: string; body: object; received: (body: Any) => unknown }> = {
  'the arguments of a chat': {
    path: '/v1/chat/completions',
    body: {
      model: 'gpt-4o-mini',
      messages: [
        hi,
        {
          role: 'assistant',
          tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'pay', arguments: JSON.stringify(args) } }],
        },
        { role: 'tool', tool_call_id: 'call_1', content: 'done' },
      ],
    },
    received: ({ messages }) => JSON.parse(messages[1].tool_calls[0].function.arguments),
  },
  'the arguments of a chat, for Claude': {
    path: '/v1/chat/completions',
    body: {
      model: 'claude-sonnet-4-5',
      tools: [{ type: 'function', function: { name: 'pay', parameters: weather } }],
      messages: [
        hi,
        {
          role: 'assistant',
          tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'pay', arguments: JSON.stringify(args) } }],
        },
        { role: 'tool', tool_call_id: 'call_1', content: 'done' },
      ],
    },
    received: ({ messages }) => messages[1].content.find((block: Any) => block.type === 'tool_use').input,
  },
  'the input of a tool of Messages': {
    path: '/v1/messages',
    body: {
      model: 'claude-sonnet-4-5',
      max_tokens: 100,
      tools: [{ name: 'pay', input_schema: weather }],
      messages: [
        hi,
        { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'pay', input: args }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'done' }] },
      ],
    },
    received: ({ messages }) => messages[1].content[0].input,
  },
  'the arguments of Responses': {
    path: '/v1/responses',
    body: {
      model: 'gpt-4o-mini',
      store: false,
      input: [
        hi,
        { type: 'function_call', call_id: 'call_1', name: 'pay', arguments: JSON.stringify(args) },
        { type: 'function_call_output', call_id: 'call_1', output: 'done' },
      ],
    },
    received: ({ input }) => JSON.parse(input[1].arguments),
  },
  'the result of a function of Google’s API': {
    path: '/v1beta/models/gemini-2.5-flash:generateContent',
    body: {
      tools: [{ functionDeclarations: [{ name: 'pay' }] }],
      contents: [
        { role: 'user', parts: [{ text: 'Hi' }] },
        { role: 'model', parts: [{ functionCall: { name: 'pay', args: {} } }] },
        { role: 'user', parts: [{ functionResponse: { name: 'pay', response: args } }] },
      ],
    },
    received: ({ contents }) => contents[2].parts[0].functionResponse.response,
  },
}

for (const [place, { path, body, received }] of Object.entries(requests)) {
  test.serial(`200 with a number in ${place} masked by a text`, async t => {
    const { live } = await world.gateway.account({ guardrails: detecting('mask', 'input') })
    const answer = await world.gateway.fetch(path, { key: live, body })
    t.is(answer.status, 200, await answer.text())
    t.deepEqual(received(sent()[0]!.body), masked)
  })

  test.serial(`400 without a call for a number in ${place}`, async t => {
    const { live } = await world.gateway.account({ guardrails: detecting('block', 'input') })
    const answer = await world.gateway.fetch(path, { key: live, body })
    t.is(answer.status, 400)
    t.regex(await answer.text(), /a payment card number/)
    t.is(sent().length, 0)
  })
}

const toolUse = { type: 'tool_use', id: 'toolu_1', name: 'pay', input: { card, none: 1 } }
const message = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-sonnet-4-5',
  content: [toolUse],
  stop_reason: 'tool_use',
  stop_sequence: null,
  usage: { input_tokens: 5, output_tokens: 5 },
}
const asked = {
  ...saying('claude-sonnet-4-5'),
  max_tokens: 100,
  tools: [{ name: 'pay', input_schema: weather }],
}

test.serial('200 with a number masked that a model writes into arguments, 400 where it is blocked', async t => {
  for (const action of ['mask', 'block'] as const) {
    const { live } = await world.gateway.account({ guardrails: detecting(action, 'both') })
    world.anthropic.next(json(200, message))
    const answer = await world.gateway.fetch('/v1/messages', { key: live, body: asked })
    const text = await answer.text()
    t.is(answer.status, action === 'mask' ? 200 : 400, text)
    t.false(text.includes(String(card)))
    if (action === 'mask') t.deepEqual(JSON.parse(text).content[0].input, { card: '[CARD_1]', none: 1 })
  }
})

test.serial('200 with arguments in a stream that stay JSON', async t => {
  const { live } = await world.gateway.account({ guardrails: detecting('mask', 'both') })
  const events: [string, object][] = [
    ['message_start', { message: { ...message, content: [], stop_reason: null } }],
    ['content_block_start', { index: 0, content_block: { ...toolUse, input: {} } }],
    ...['{"ca', 'rd": 41111111', '11111111, "none"', ': 1}'].map((partial_json): [string, object] => [
      'content_block_delta',
      { index: 0, delta: { type: 'input_json_delta', partial_json } },
    ]),
    ['content_block_stop', { index: 0 }],
    ['message_delta', { delta: { stop_reason: 'tool_use', stop_sequence: null }, usage: { output_tokens: 5 } }],
    ['message_stop', {}],
  ]
  world.anthropic.next((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const [type, event] of events)
      response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...event })}\n\n`)
    response.end()
  })
  const answer = await world.gateway.fetch('/v1/messages', { key: live, body: { ...asked, stream: true } })
  const written = dataOf(await answer.text()).map(({ delta }) => delta?.partial_json ?? '')
  t.deepEqual(JSON.parse(written.join('')), { card: '[CARD_1]', none: 1 })
})

test.serial('200 with a number of 19 digits masked, and another one beside it as it was', async t => {
  const { live } = await world.gateway.account({ guardrails: detecting('mask', 'both') })
  const input = '{"card":6228480402564890018,"id":2512292042121000001}'
  const messages = [
    hi,
    { role: 'assistant', content: [{ ...toolUse, input: 'INPUT' }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: toolUse.id, content: 'done' }] },
  ]
  const asText = JSON.stringify({ ...asked, messages }).replace('"INPUT"', input)
  const masked = '"input":{"card":"[CARD_1]","id":2512292042121000001}'
  const sending = await world.gateway.fetch('/v1/messages', { key: live, body: asText })
  t.is(sending.status, 200, await sending.text())
  t.true(sent()[0]!.raw.toString().includes(masked), sent()[0]!.raw.toString())
  world.anthropic.next((_request, response) => {
    const answered = JSON.stringify({ ...message, content: [{ ...toolUse, input: 'INPUT' }] })
    response.writeHead(200, { 'content-type': 'application/json' }).end(answered.replace('"INPUT"', input))
  })
  const answer = await world.gateway.fetch('/v1/messages', { key: live, body: asked })
  t.true((await answer.text()).includes(masked))
})
