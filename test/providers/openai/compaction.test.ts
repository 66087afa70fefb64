import { messageReply } from '../../emulators/anthropic.ts'
import { chargedNano, generationOf, startWorld } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

/** Conversations that are compacted, by models of every dialect, and tools that the client searches. */

const world = use(test, startWorld)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini]) emulator.reset()
})

const trigger = { type: 'compaction_trigger' }
const say = (role: string, text: string) => ({
  type: 'message',
  role,
  content: [{ type: role === 'assistant' ? 'output_text' : 'input_text', text }],
})
const story = [say('user', 'My name is Ada.'), say('assistant', 'Hello Ada.'), say('user', 'I like tea.')]

async function post(key: string, body: object, path = '/v1/responses') {
  const response = await world.gateway.fetch(path, { key, body })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) }
}

for (const model of ['claude-sonnet-4-5', 'gemini-3.5-flash'])
  test.serial(`200 for a compaction by ${model}: one item, which models of any provider can continue`, async t => {
    const account = await world.gateway.account()
    for (const stream of [false, true]) {
      const client = world.sdk(account.live)
      const body = { model, input: [...story, trigger], store: false } as never
      const { output, status, usage } = stream
        ? await client.responses.stream(body).finalResponse()
        : await client.responses.create(body)
      t.is(status, 'completed')
      t.is(output.length, 1)
      t.true(usage!.output_tokens > 0)
      const [item] = output as unknown as [{ type: string; encrypted_content: string }]
      t.is(item.type, 'compaction')
      t.regex(item.encrypted_content, /^hg1\./)
      for (const next of ['gpt-5.4-mini', 'gemini-3.5-flash', 'claude-sonnet-4-5']) {
        const input = [item, { ...item, type: 'compaction_summary' }, say('user', 'Who am I?')]
        const answer = await post(account.live, { model: next, input })
        t.is(answer.status, 200, answer.text)
        const upstream = { gpt: world.openai, gem: world.gemini, cla: world.anthropic }[next.slice(0, 3)]!
        const raw = String(upstream.requests.at(-1)!.raw)
        t.is(raw.split('<conversation-summary>').length, 3, raw)
        t.false(raw.includes('hg1.'))
      }
      const other = await world.gateway.account()
      const foreign = await post(other.live, { model: 'claude-sonnet-4-5', input: [item, say('user', 'Who am I?')] })
      t.is(foreign.status, 400)
      t.is(foreign.body.error.param, 'input.0.encrypted_content')
    }
    t.true((await chargedNano(world, account)) > 0)
  })

test.serial('200 from /v1/responses/compact for every model: the user’s messages and the compaction', async t => {
  const { live, test: sandbox } = await world.gateway.account()
  for (const [key, model] of [
    [live, 'gpt-6-luna'],
    [live, 'claude-sonnet-4-5'],
    [sandbox, 'gemini-3.5-flash'],
    [sandbox, 'gpt-6-luna'],
  ] as const) {
    const compacted = await world
      .sdk(key)
      .responses.compact({ model, input: story as never, instructions: 'Be brief.' })
    t.is(compacted.object, 'response.compaction')
    t.deepEqual(
      compacted.output.map(({ type }) => type),
      ['message', 'message', 'compaction'],
    )
    t.true(compacted.usage.input_tokens > 0)
    const input = [...compacted.output, say('user', 'Who am I?')]
    const next = await post(key, { model, input })
    t.is(next.status, 200, next.text)
  }
  const answer = await post(live, { model: 'claude-sonnet-4-5', input: 'Hi' }, '/v1/responses/compact')
  const { headers } = answer
  t.is((await generationOf(world, headers.get('x-generation-id')!)).model, 'claude-sonnet-4-5')
  const refused = await post(live, { model: 'claude-sonnet-4-5' }, '/v1/responses/compact')
  t.is(refused.status, 400)
  t.is(refused.body.error.param, 'input')
  const misplaced = await post(live, { model: 'claude-sonnet-4-5', input: [trigger, ...story] })
  t.is(misplaced.status, 400)
})

const long = 'A long story. '.repeat(2_000)
const longTalk = [say('user', 'My name is Ada.'), say('assistant', long), say('user', 'Who am I?')]
const managed = [{ type: 'compaction', compact_threshold: 3_000 }]

for (const model of ['claude-sonnet-4-5', 'gemini-3.5-flash'])
  test.serial(`200 with a compaction before the answer of ${model} once the context is long`, async t => {
    const account = await world.gateway.account()
    const emulator = model.startsWith('claude') ? world.anthropic : world.gemini
    for (const stream of [false, true]) {
      emulator.reset()
      const client = world.sdk(account.live)
      const body = {
        model,
        input: longTalk,
        context_management: managed,
        max_output_tokens: 900,
        store: false,
      } as never
      const { data, response } = stream
        ? { data: await client.responses.stream(body).finalResponse(), response: null }
        : await client.responses.create(body).withResponse()
      if (response) t.is(response.headers.get('x-gateway-dropped'), null)
      t.deepEqual(
        data.output.map(({ type }) => type),
        ['compaction', 'message'],
      )
      t.is(emulator.requests.length, 2)
      const [summary, answer] = emulator.requests.map(({ raw }) => String(raw))
      t.true(summary!.includes(long))
      t.false(answer!.includes(long))
      t.true(answer!.includes('conversation-summary') && answer!.includes('My name is Ada.'), answer)
      t.true(answer!.indexOf('conversation-summary') < answer!.indexOf('Who am I?'))
      // The client keeps all items, and appends those of the answer.
      const input = [...longTalk, ...data.output, say('user', 'And now?')]
      const next = await post(account.live, { model, input, context_management: managed })
      t.is(next.status, 200, next.text)
      t.is(emulator.requests.length, 3)
      const raw = String(emulator.requests[2]!.raw)
      t.false(raw.includes(long))
      t.true(raw.includes('conversation-summary') && raw.includes('And now?'), raw)
    }
    t.true((await chargedNano(world, account)) > 0)
    const { organisationId } = account
    t.is(await world.gateway.services.db.generation.count({ where: { organisationId } }), 6)
    const short = await post(account.live, { model, input: 'Hi', context_management: managed })
    t.deepEqual([short.status, short.headers.get('x-gateway-dropped')], [200, null])
    t.is(emulator.requests.length, 4)
  })

test.serial('200 with the tools of a long turn in progress: its results are in the summary', async t => {
  const { live: key } = await world.gateway.account()
  const call = { type: 'function_call', call_id: 'call_1', name: 'look', arguments: '{}' }
  const result = { type: 'function_call_output', call_id: 'call_1', output: long }
  const tools = [{ type: 'function', name: 'look', parameters: { type: 'object', properties: {} } }]
  const input = [say('user', 'Look around.'), call, result]
  const body = { model: 'claude-sonnet-4-5', tools, input, context_management: managed }
  const { status, body: answer, text } = await post(key, body)
  t.is(status, 200, text)
  t.is(answer.output[0].type, 'compaction')
  const [summary, next] = world.anthropic.requests
  t.true(String(summary!.raw).includes(long))
  t.deepEqual(
    next!.body.messages.map(({ role }: { role: string }) => role),
    ['user'],
  )
})

test.serial('200 with the compaction by OpenAI itself, whose second reading is reserved', async t => {
  const account = await world.gateway.account()
  for (const stream of [false, true]) {
    world.openai.reset()
    const client = world.sdk(account.live)
    const body = { model: 'gpt-6-luna', input: longTalk, context_management: managed, store: false } as never
    const { output } = stream
      ? await client.responses.stream(body).finalResponse()
      : await client.responses.create(body)
    t.is(output[0]!.type, 'compaction')
    t.is(world.openai.requests.length, 1)
    t.deepEqual(world.openai.requests[0]!.body.context_management, managed)
  }
  const unknown = [{ type: 'later' }]
  const dropped = await post(account.live, { model: 'gpt-6-luna', input: 'Hi', context_management: unknown })
  t.deepEqual([dropped.status, dropped.headers.get('x-gateway-dropped')], [200, 'context_management'])
})

test.serial('200 with the whole conversation where no provider can write its summary', async t => {
  const { live: key } = await world.gateway.account()
  const call = { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} }
  const silent = messageReply({ content: [call] } as never)
  world.anthropic.next(silent)
  const provider = { only: ['anthropic'] }
  const body = { model: 'claude-sonnet-4-5', provider, input: longTalk, context_management: managed }
  const { status, headers, body: answer, text } = await post(key, body)
  t.is(status, 200, text)
  t.is(headers.get('x-gateway-dropped'), 'context_management')
  t.deepEqual(
    answer.output.map(({ type }: { type: string }) => type),
    ['message'],
  )
})

test.serial('400 for a threshold that is no number of tokens; the sandbox compacts as well', async t => {
  const { live, test: sandbox } = await world.gateway.account()
  const context_management = [{ type: 'compaction', compact_threshold: 0 }]
  const refused = await post(live, { model: 'gpt-6-luna', input: 'Hi', context_management })
  t.deepEqual([refused.status, refused.body.error.param], [400, 'context_management.0.compact_threshold'])
  for (const model of ['gpt-6-luna', 'claude-sonnet-4-5']) {
    const { status, body, text } = await post(sandbox, { model, input: longTalk, context_management: managed })
    t.is(status, 200, text)
    t.is(body.output[0].type, 'compaction')
  }
})

const schema = { type: 'object', properties: { query: { type: 'string' } }, required: ['query'] }
const search = { type: 'tool_search', execution: 'client', description: 'Finds tools.', parameters: schema }
const event = { type: 'function', name: 'create_event', description: 'Creates an event.', defer_loading: true }
const calendar = { type: 'namespace', name: 'calendar', description: 'd', tools: [{ ...event, parameters: schema }] }

test.serial('200 for a search of tools by the client: a function, whose tools can be called afterwards', async t => {
  const { live: key } = await world.gateway.account()
  world.anthropic.next(
    messageReply({
      content: [{ type: 'tool_use', id: 'toolu_1', name: 'tool_search', input: { query: 'event' } }],
    } as never),
  )
  const body = { model: 'claude-sonnet-4-5', tools: [search, calendar], input: [say('user', 'Plan a meeting')] }
  const first = await post(key, body)
  t.is(first.status, 200, first.text)
  const names = () => world.anthropic.requests.at(-1)!.body.tools.map((tool: { name: string }) => tool.name)
  t.deepEqual(names(), ['tool_search'])
  const call = first.body.output.at(-1)
  t.like(call, { type: 'tool_search_call', execution: 'client', arguments: { query: 'event' }, status: 'completed' })
  const found = { type: 'tool_search_output', call_id: call.call_id, execution: 'client', tools: [calendar] }
  const second = await post(key, { ...body, tools: [search], input: [...body.input, ...first.body.output, found] })
  t.is(second.status, 200, second.text)
  t.deepEqual(names(), ['tool_search', 'calendar__create_event'])
  t.true(world.anthropic.requests.at(-1)!.raw.includes('calendar__create_event'))
})
