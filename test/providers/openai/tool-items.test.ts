// Tools that items of the input declare, as Codex does in its lite mode, for models of each dialect.

import WebSocket from 'ws'
import { responsesReply } from '../../emulators/openai-responses.ts'
import { chargedNano, generationOf, startWorld } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const world = use(test, startWorld)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini]) emulator.reset()
})

const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const weather = { type: 'function', name: 'get_weather', description: 'The weather.', strict: false, parameters }
const grammar = { type: 'grammar', syntax: 'lark', definition: 'start: /.+/' }
const exec = { type: 'custom', name: 'exec', description: 'Runs code.', format: grammar }
const namespaceOf = (name: string, tools: object[]) => ({ type: 'namespace', name, description: 'd', tools })
const declaring = (tools: object[], more: object = {}) => ({
  type: 'additional_tools',
  id: 'at_1',
  role: 'developer',
  tools,
  ...more,
})
const say = (role: string, text: string) => {
  const content = [{ type: role === 'assistant' ? 'output_text' : 'input_text', text }]
  return { type: 'message', role, content }
}
const question = say('user', 'What is the weather in Berlin?')

/** As Codex 0.171 asks with its own list of models. */
const lite = {
  stream: false,
  tool_choice: 'auto',
  parallel_tool_calls: false,
  store: false,
  reasoning: { effort: 'medium', context: 'all_turns' },
  include: ['reasoning.encrypted_content'],
  text: { verbosity: 'low' },
  prompt_cache_key: 'session',
  client_metadata: { session_id: 's' },
}
const liteHeaders = { 'x-openai-internal-codex-responses-lite': 'true' }

async function post(key: string, body: object, headers: Record<string, string> = liteHeaders) {
  const response = await fetch(`${world.gateway.url}/v1/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) }
}

const sent = () => world.openai.requests.at(-1)!

test.serial('200 from OpenAI: the items are sent with their namespaces, without Codex’s internals', async t => {
  const { live: key } = await world.gateway.account()
  const input = [
    declaring([namespaceOf('functions', [weather, exec])]),
    say('developer', 'Be brief.'),
    { ...question, internal_chat_message_metadata_passthrough: { turn_id: 't', content_item_kinds: ['user.text'] } },
  ]
  const answer = await post(key, { model: 'gpt-6-luna', input, ...lite, provider: { only: ['openai'] } })
  t.is(answer.status, 200, answer.text)
  const { internal_chat_message_metadata_passthrough: _, ...asked } = input[2] as Record<string, unknown>
  t.deepEqual(sent().body.input, [input[0], input[1], asked])
  t.like(sent().body, { parallel_tool_calls: false, reasoning: lite.reasoning, store: false })
  t.is(sent().body.client_metadata, undefined)
  t.is(sent().headers['x-openai-internal-codex-responses-lite'], undefined)
  t.like(answer.body.output.at(-1), { type: 'function_call', name: 'get_weather', namespace: 'functions' })
  const { parameters: logged } = await generationOf(world, answer.headers.get('x-generation-id')!)
  t.is((logged as { tools: number }).tools, 1, 'the log counts them')
})

test.serial('200 from models of other providers: the tools of all items, by their namespaces', async t => {
  const { live: key } = await world.gateway.account()
  const clock = { ...weather, name: 'sleep' }
  const input = [
    declaring([namespaceOf('functions', [weather, exec])]),
    say('developer', 'Be brief.'),
    { type: 'function_call', call_id: 'c1', name: 'get_weather', namespace: 'functions', arguments: '{}' },
    declaring([namespaceOf('clock', [clock]), namespaceOf('functions', [weather])], { id: 'at_2' }),
    { type: 'function_call_output', call_id: 'c1', output: 'sunny' },
    say('assistant', 'Sunny.'),
    question,
  ]
  for (const model of ['claude-sonnet-4-5', 'gemini-3.5-flash'])
    for (const stream of [false, true]) {
      const client = world.sdk(key)
      const body = { model, input, ...lite } as never
      const response = stream
        ? await client.responses.stream(body).finalResponse()
        : await client.responses.create(body)
      const request = (model.startsWith('claude') ? world.anthropic : world.gemini).requests.at(-1)!
      const names = model.startsWith('claude')
        ? request.body.tools.map((tool: { name: string }) => tool.name)
        : request.body.tools[0].functionDeclarations.map((tool: { name: string }) => tool.name)
      t.deepEqual(names, ['functions__get_weather', 'functions__exec', 'clock__sleep'], model)
      t.true(request.raw.includes('start: /.+/'), 'the grammar is told')
      const call = response.output.at(-1) as object
      t.like(call, { type: 'function_call', name: 'get_weather', namespace: 'functions' }, model)
    }
})

test.serial('200 by chat where a provider has the format, but no namespaces', async t => {
  const { live: key } = await world.gateway.account()
  const input = [declaring([namespaceOf('functions', [weather])]), question]
  const answer = await post(key, { model: 'gpt-5-mini', input, provider: { only: ['openrouter'] } })
  t.is(answer.status, 200, answer.text)
  t.is(world.openrouter.requests.at(-1)!.path, '/v1/chat/completions')
  t.like(answer.body.output.at(-1), { type: 'function_call', name: 'get_weather', namespace: 'functions' })
})

test.serial('hosted tools in items are left out and named; web searches are priced, bounded and reserved', async t => {
  const { live: key, organisationId } = await world.gateway.account()
  const hosted = [{ type: 'image_generation' }, { type: 'mcp', server_label: 's', server_url: 'https://a.example' }]
  const input = [declaring([...hosted, weather]), declaring(hosted), say('user', 'Hi')]
  const body = { model: 'gpt-5.4-mini', input, ...lite, provider: { only: ['openai'] }, max_output_tokens: 50 }
  const answer = await post(key, body)
  t.is(answer.status, 200, answer.text)
  t.deepEqual(sent().body.input, [declaring([weather]), input[2]])
  t.is(answer.headers.get('x-gateway-dropped'), 'tools.image_generation,tools.mcp')
  const refused = await post(key, { ...body, input: [declaring(hosted), input[2]], tool_choice: 'required' })
  t.is(refused.status, 400)
  t.is(refused.body.error.param, 'tool_choice')

  const searching = { ...body, input: [declaring([{ type: 'web_search' }]), input[2]] }
  let reserved = 0
  const { wallets } = world.gateway.services
  world.openai.next(async (request, response) => {
    reserved = Number((await wallets.view(organisationId)).reservedNano)
    return responsesReply({ toolUsage: { web_search: { num_requests: 2 } } })(request, response)
  })
  const before = await chargedNano(world, { organisationId } as never)
  const searched = await post(key, searching)
  t.is(searched.status, 200, searched.text)
  t.is(sent().body.max_tool_calls, 5)
  t.deepEqual(sent().body.input, searching.input)
  t.true(reserved > 5 * 10_000_000, `${reserved}`)
  t.true((await chargedNano(world, { organisationId } as never)) - before > 2 * 10_000_000)
})

test.serial(
  '400 that names the item: tools that are no list, a role that has no tools, a tool without a name',
  async t => {
    const { live: key } = await world.gateway.account()
    const refused = async (item: object, model = 'gpt-4o-mini') => {
      const { status, body, text } = await post(key, { model, input: [item, question] })
      t.is(status, 400, text)
      return body.error.param
    }
    t.is(await refused(declaring({ type: 'image_url' } as never)), 'input.0.tools')
    t.is(await refused({ type: 'tool_search_output', call_id: 'c', tools: { type: 'image_url' } }), 'input.0.tools')
    t.is(await refused(declaring([weather], { role: 'user' })), 'input.0.role')
    t.is(await refused(declaring([{ type: 'function' }]), 'claude-sonnet-4-5'), 'input.0.tools.0.name')
    t.is(world.openai.requests.length + world.anthropic.requests.length, 0)
  },
)

test.serial('200 for a request to compact, whose item goes back; models of other providers cannot read it', async t => {
  const account = await world.gateway.account()
  const trigger = { type: 'compaction_trigger' }
  const input = [declaring([weather]), say('user', 'A long story'), trigger]
  for (const stream of [false, true]) {
    const body = { model: 'gpt-6-luna', input, ...lite, provider: { only: ['openai'] } } as never
    const client = world.sdk(account.live)
    const { output } = stream
      ? await client.responses.stream(body).finalResponse()
      : await client.responses.create(body)
    t.deepEqual(sent().body.input, input)
    t.is(output.length, 1)
    t.like(output[0], { type: 'compaction', encrypted_content: 'gAAAAemulated' })
    const next = await post(account.live, { model: 'gpt-6-luna', input: [input[0], output[0], say('user', 'Go on')] })
    t.is(next.status, 200, next.text)
    t.deepEqual(sent().body.input[1], output[0])
  }
  t.true((await chargedNano(world, account)) > 0)
  const theirs = { type: 'compaction', encrypted_content: 'gAAAAemulated' }
  const refused = await post(account.live, { model: 'claude-sonnet-4-5', input: [theirs, say('user', 'Go on')] })
  t.is(refused.status, 400)
  t.like(refused.body.error, { code: 'unsupported_capability', param: 'input.0.type' })
})

test.serial('200 over a WebSocket, and again in the next turn, which continues the first', async t => {
  const { live: key } = await world.gateway.account()
  const socket = new WebSocket(`${world.gateway.url.replace('http', 'ws')}/v1/responses`, {
    headers: { authorization: `Bearer ${key}`, 'openai-beta': 'responses_websockets=2026-02-06' },
  })
  const queue: { type: string; response: { id: string; output: object[] } }[] = []
  let wake = () => {}
  socket.on('message', data => {
    queue.push(JSON.parse(String(data)))
    wake()
  })
  const completed = async () => {
    for (;;) {
      const event = queue.shift()
      if (event?.type === 'response.completed') return event.response
      if (event?.type === 'error') throw new Error(JSON.stringify(event))
      if (!event)
        await new Promise<void>(resolve => {
          wake = resolve
        })
    }
  }
  await new Promise(resolve => socket.once('open', resolve))
  const { stream: _, ...settings } = lite
  const turn = { type: 'response.create', model: 'claude-sonnet-4-5', ...settings }
  const input = [declaring([namespaceOf('functions', [weather])]), question]
  socket.send(JSON.stringify({ ...turn, input }))
  const first = await completed()
  const call = first.output.at(-1) as { call_id: string }
  t.like(call, { type: 'function_call', name: 'get_weather', namespace: 'functions' })
  const output = { type: 'function_call_output', call_id: call.call_id, output: 'sunny' }
  socket.send(JSON.stringify({ ...turn, previous_response_id: first.id, input: [output] }))
  await completed()
  socket.close()
  const { tools } = world.anthropic.requests.at(-1)!.body
  t.deepEqual(
    tools.map((tool: { name: string }) => tool.name),
    ['functions__get_weather'],
  )
})
