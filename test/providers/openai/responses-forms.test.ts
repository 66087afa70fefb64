import type OpenAI from 'openai'
import WebSocket from 'ws'
import { events, json, type Reply } from '../../emulators/emulator.ts'
import { dataOf, startWorld } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

/** Forms of servers that have OpenAI's Responses, as clients get them: whole, streamed and on a WebSocket. */

// biome-ignore lint/suspicious/noExplicitAny: items of every type
type Any = any

const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '' }))
test.beforeEach(() => world.openai.reset())

const parameters = { type: 'object', properties: {} }
const tools = [{ type: 'function' as const, name: 'clock', parameters, strict: false }]
const asked = { model: 'gpt-4.1', input: 'Time?', tools }

/** Arguments of a call without any: openai/openai-agents-js#499, n8n-io/n8n#25731, openai/openai-python#3502. */
const forms: [title: string, given: unknown][] = [
  ['an empty text', ''],
  ['null', null],
  ['an empty list', '[]'],
  ['an object', {}],
]

/** A server whose calls have these arguments, and whose times have decimals (looplj/axonhub#2187). */
function answering(given: unknown): Reply {
  const item = {
    type: 'function_call',
    id: 'fc_1',
    call_id: 'call_1',
    name: 'clock',
    arguments: given,
    status: 'completed',
  }
  const head = { id: 'resp_1', object: 'response', created_at: 1_795_132_800.25, model: 'up', status: 'completed' }
  const usage = { input_tokens: 3, output_tokens: 4, total_tokens: 7 }
  const response = { ...head, output: [item], usage }
  return (request, reply) => {
    if (!request.body.stream) return json(200, response)(request, reply)
    const begun = { ...response, status: 'in_progress', output: null, usage: null }
    const all = [
      { type: 'response.created', response: begun },
      { type: 'response.output_item.added', output_index: 0, item: { ...item, arguments: '', status: 'in_progress' } },
      { type: 'response.function_call_arguments.done', output_index: 0, item_id: 'fc_1', arguments: given },
      { type: 'response.output_item.done', output_index: 0, item },
      { type: 'response.completed', response },
    ]
    const numbered = all.map((event, index) => ({ ...event, sequence_number: index }))
    return events(numbered.map(event => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`))(request, reply)
  }
}

const argumentsIn = ({ output }: Any) => output.map((item: Any) => item.arguments)

for (const [title, given] of forms)
  test.serial(`200: ${title} as the arguments of a call becomes {}, whole and streamed`, async t => {
    const { live } = await world.gateway.account()
    const { responses } = world.sdk(live)
    world.openai.next(answering(given), answering(given))
    const whole: OpenAI.Responses.Response = await responses.create(asked)
    t.deepEqual(argumentsIn(whole), ['{}'])
    t.true(Number.isInteger(whole.created_at))
    const response = await world.gateway.fetch('/v1/responses', { key: live, body: { ...asked, stream: true } })
    const all = dataOf(await response.text())
    const ofType = (type: string) => all.find(event => event.type === type)
    t.is(ofType('response.function_call_arguments.done').arguments, '{}')
    t.is(ofType('response.output_item.done').item.arguments, '{}')
    t.deepEqual(argumentsIn(ofType('response.completed').response), ['{}'])
    t.deepEqual(ofType('response.created').response.output, [])
    for (const type of ['response.created', 'response.completed'])
      t.true(Number.isInteger(ofType(type).response.created_at), type)
    t.deepEqual(
      all.filter(event => typeof event === 'object').map(event => event.sequence_number),
      [0, 1, 2, 3, 4],
    )
  })

test.serial('response.completed on a WebSocket: the arguments are JSON', async t => {
  const { live } = await world.gateway.account()
  world.openai.next(answering(''))
  const socket = new WebSocket(`${world.gateway.url.replace('http', 'ws')}/v1/responses`, {
    headers: { authorization: `Bearer ${live}` },
  })
  await new Promise(resolve => socket.once('open', resolve))
  const last = new Promise<Any>(resolve =>
    socket.on('message', data => {
      const event = JSON.parse(String(data))
      if (/completed|failed|error/.test(event.type)) resolve(event)
    }),
  )
  socket.send(JSON.stringify({ type: 'response.create', ...asked, store: false }))
  const event = await last
  socket.terminate()
  t.is(event.type, 'response.completed', JSON.stringify(event))
  t.deepEqual(argumentsIn(event.response), ['{}'])
})

test.serial('200 from a server that streams whatever is asked for: the whole response', async t => {
  const { live } = await world.gateway.account()
  const streamed: Reply = (request, reply) =>
    answering('{}')({ ...request, body: { ...request.body, stream: true } }, reply)
  world.openai.next(streamed)
  const response = await world.sdk(live).responses.create(asked)
  t.deepEqual(argumentsIn(response), ['{}'])
  t.is(response.usage?.output_tokens, 4)
  const { completions } = world.sdk(live).chat
  const tool = { type: 'function' as const, function: { name: 'clock', parameters } }
  world.openai.next(streamed)
  const { choices } = await completions.create({
    model: 'gpt-5.6-luna',
    messages: [{ role: 'user', content: 'Time?' }],
    tools: [tool],
  })
  t.is(choices[0]!.finish_reason, 'tool_calls', 'chat that is served by Responses')
})

for (const output of [[], undefined])
  test.serial(`200: the items of a stream whose last event has the output ${JSON.stringify(output)}`, async t => {
    const { live } = await world.gateway.account()
    const server: Reply = (request, reply) => {
      const item = { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'clock', arguments: '{}' }
      const text = { type: 'output_text', text: 'Wait.', annotations: [] }
      const said = { type: 'message', id: 'msg_1', role: 'assistant', status: 'completed', content: [text] }
      const usage = { input_tokens: 3, output_tokens: 4, total_tokens: 7 }
      const response = { id: 'resp_1', object: 'response', created_at: 1, model: 'up', status: 'completed', usage }
      const all = [
        { type: 'response.created', response: { ...response, status: 'in_progress', output: [], usage: null } },
        { type: 'response.output_item.done', output_index: 1, item },
        { type: 'response.output_item.done', output_index: 0, item: said },
        { type: 'response.completed', response: { ...response, output } },
      ]
      return events(all.map(event => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`))(request, reply)
    }
    world.openai.next(server, server)
    const whole = await world.sdk(live).responses.create(asked)
    const response = await world.gateway.fetch('/v1/responses', { key: live, body: { ...asked, stream: true } })
    const last = dataOf(await response.text()).find(event => event.type === 'response.completed')
    for (const given of [whole, last.response])
      t.deepEqual(
        given.output.map((item: Any) => item.type),
        ['message', 'function_call'],
      )
  })

test.serial('200 for a call that was cut off: its arguments stay as they are', async t => {
  const { live } = await world.gateway.account()
  const item = {
    type: 'function_call',
    id: 'fc_1',
    call_id: 'call_1',
    name: 'clock',
    arguments: '',
    status: 'incomplete',
  }
  const usage = { input_tokens: 3, output_tokens: 4, total_tokens: 7 }
  const response = {
    id: 'resp_1',
    object: 'response',
    created_at: 1,
    model: 'up',
    status: 'incomplete',
    incomplete_details: { reason: 'max_output_tokens' },
    output: [item],
    usage,
  }
  world.openai.next(json(200, response))
  const { output } = await world.sdk(live).responses.create(asked)
  t.deepEqual(output as unknown, [item])
})
