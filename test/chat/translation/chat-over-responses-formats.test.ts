import Anthropic from '@anthropic-ai/sdk'
import { operatorActor } from '../../../shared/io/audit.ts'
import { events } from '../../emulators/emulator.ts'
import { reasoningState } from '../../emulators/openai-responses.ts'
import { answersError } from '../../support/api/edge.ts'
import { startWorld } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

/** Formats that are translated to chat, for models that reason beside functions in Responses only. */

const world = use(test, () => startWorld({ OPENAI_API_KEY: 'first,second' }))
test.beforeEach(() => world.openai.reset())

// biome-ignore lint/suspicious/noExplicitAny: bodies of every shape
type Any = any

const model = 'gpt-5.5'
const schema = { type: 'object' as const, properties: { city: { type: 'string' } } }
const asked = 'How is the weather in Bonn and Oslo?'
const account = () => world.gateway.account({ usd: '100' })
const sent = () => world.openai.requests.at(-1)!
const adjusted = 'x-gateway-adjusted'
const typesOf = (input: Any[]) => input.map(({ type, role }) => (type === 'message' ? role : type))
const loop = [
  'user',
  ...['reasoning', 'function_call', 'function_call', 'function_call_output', 'function_call_output'],
]

for (const way of ['whole', 'streamed'] as const)
  test.serial(`200 Messages, ${way}: the reasoning comes back before its calls, at its account`, async t => {
    const { live } = await account()
    const sdk = new Anthropic({ apiKey: live, baseURL: world.gateway.url, maxRetries: 0 })
    const request = {
      model,
      max_tokens: 2_000,
      thinking: { type: 'adaptive' },
      output_config: { effort: 'high' },
      tools: [{ name: 'weather', input_schema: schema }],
      messages: [{ role: 'user', content: asked }],
    } as unknown as Anthropic.MessageCreateParamsNonStreaming
    const turn = async (body: Anthropic.MessageCreateParamsNonStreaming): Promise<Anthropic.Message> => {
      if (way === 'streamed') return sdk.messages.stream(body).finalMessage()
      const { data, response } = await sdk.messages.create(body).withResponse()
      t.is(response.headers.get(adjusted), null)
      return data
    }
    const { content, stop_reason } = await turn(request)
    t.is(sent().path, '/v1/responses')
    t.like(sent().body, { reasoning: { effort: 'high' }, max_output_tokens: 2_000 })
    t.is(stop_reason, 'tool_use')
    t.false(JSON.stringify(content).includes(reasoningState))
    const key = sent().headers.authorization
    const results = content.flatMap(block =>
      block.type === 'tool_use' ? { type: 'tool_result' as const, tool_use_id: block.id, content: '5 °C' } : [],
    )
    t.is(results.length, 2)
    const history = [
      ...request.messages,
      { role: 'assistant' as const, content },
      { role: 'user' as const, content: results },
    ]
    const next = await turn({ ...request, messages: history })
    t.deepEqual(typesOf(sent().body.input), loop)
    t.is(sent().body.input[1].encrypted_content, reasoningState)
    t.is(sent().headers.authorization, key)
    t.is((next.content.at(-1) as Anthropic.TextBlock).text, 'Echo: 5 °C')
  })

for (const way of ['generateContent', 'streamGenerateContent'] as const)
  test.serial(`200 Gemini’s format, ${way}: the reasoning comes back before its calls`, async t => {
    const { live } = await account()
    const tools = [
      {
        functionDeclarations: [
          { name: 'weather', parameters: { type: 'OBJECT', properties: { city: { type: 'STRING' } } } },
        ],
      },
    ]
    const turn = async (contents: object[]): Promise<Any[]> => {
      const query = way === 'generateContent' ? '' : '?alt=sse'
      const body = { contents, tools }
      const response = await world.gateway.fetch(`/v1beta/models/${model}:${way}${query}`, { key: live, body })
      t.is(response.status, 200)
      t.is(response.headers.get(adjusted), null)
      const text = await response.text()
      const answers = query
        ? text
            .split('\n')
            .filter(line => line.startsWith('data:'))
            .map(line => JSON.parse(line.slice(5)))
        : [JSON.parse(text)]
      return answers.flatMap(({ candidates }) => candidates?.[0]?.content?.parts ?? [])
    }
    const question = { role: 'user', parts: [{ text: asked }] }
    const parts = await turn([question])
    t.is(sent().path, '/v1/responses')
    const calls = parts.filter(part => part.functionCall)
    t.is(calls.length, 2)
    const results = calls.map(({ functionCall: { id, name } }) => ({
      functionResponse: { id, name, response: { output: '5 °C' } },
    }))
    await turn([question, { role: 'model', parts: calls }, { role: 'user', parts: results }])
    t.deepEqual(typesOf(sent().body.input), loop)
    t.is(sent().body.input[1].encrypted_content, reasoningState)
  })

test.serial('200 by a model that takes functions in Responses only; 400 for what these have no word for', async t => {
  const { catalogOverrides } = world.gateway.services
  const name = 'gpt-6.1-sol'
  await catalogOverrides.change({ kind: 'model', name, update: () => ({ disabled: false }) }, operatorActor)
  const { live } = await account()
  const tools = [{ type: 'function', function: { name: 'weather', parameters: schema } }]
  const body = { model: name, messages: [{ role: 'user', content: asked }], tools }
  const request = (more: object) =>
    world.gateway.fetch('/v1/chat/completions', { key: live, body: { ...body, ...more } })
  const response = await request({ reasoning_effort: 'none' })
  t.is(response.status, 200)
  t.is(response.headers.get(adjusted), 'reasoning_effort', 'it always reasons')
  t.like(sent(), { path: '/v1/responses', body: { reasoning: { effort: 'low' } } })
  await answersError(t, await request({ stop: ['x'] }), 'unsupported_capability', 'stop')
})

const said = {
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: 'I look.', annotations: [] }],
}
const called = {
  type: 'function_call',
  id: 'fc_1',
  call_id: 'call_1',
  name: 'get_weather',
  arguments: '{"city":"Oslo"}',
}
const response = { id: 'resp_1', object: 'response', created_at: 1, model: 'up', status: 'completed' }
const counted = { ...response, usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 } }
const begun = { type: 'response.created', response: { ...response, status: 'in_progress', output: [], usage: null } }
const ended = [said, called].map((item, index) => ({ type: 'response.output_item.done', output_index: index, item }))

for (const [title, all] of [
  ['whole items', [begun, ...ended, { type: 'response.completed', response: { ...counted, output: [said, called] } }]],
  [
    'whole items, and none at the end',
    [begun, ...ended, { type: 'response.completed', response: { ...counted, output: [] } }],
  ],
  ['its end alone', [begun, { type: 'response.completed', response: { ...counted, output: [said, called] } }]],
] as const)
  test.serial(`200 Messages from a stream that has ${title}: its text and its call`, async t => {
    const { live } = await account()
    world.openai.next(events(all.map(event => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)))
    const sdk = new Anthropic({ apiKey: live, baseURL: world.gateway.url, maxRetries: 0 })
    const tools = [{ name: 'get_weather', input_schema: schema }]
    const messages = [{ role: 'user' as const, content: asked }]
    const { content } = await sdk.messages.stream({ model, max_tokens: 500, messages, tools }).finalMessage()
    t.like(content, [
      { type: 'text', text: 'I look.' },
      { type: 'tool_use', input: { city: 'Oslo' } },
    ])
  })
