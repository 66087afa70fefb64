import { dataOf } from '../support/chat/gateway.ts'
import { openResponses } from '../support/chat/responses-socket.ts'
import { keepingAccount, startWorld } from '../support/responses/world.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

/** Turns on a WebSocket of an organisation that keeps responses. */

const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '' }))
test.beforeEach(() => world.openai.reset())

const model = 'gpt-4o-mini'
const open = (key: string) => openResponses(world.gateway.url, { key })
/** The items that the provider received last. */
const lastInput = () => JSON.stringify(world.openai.requests.at(-1)!.body.input)

test.serial('a turn is stored, and is continued over HTTP and on another connection', async t => {
  const { live: key } = await keepingAccount(world)
  const first = await open(key)
  const { response } = (await first.turn({ model, input: 'My name is Alice.' })).at(-1)
  t.is(response.store, true)
  await first.close()
  const kept = await world.gateway.fetch(`/v1/responses/${response.id}`, { key })
  t.deepEqual(await kept.json(), response)

  const body = { model, input: 'And over HTTP?', previous_response_id: response.id, stream: true }
  const events = dataOf(await (await world.gateway.fetch('/v1/responses', { key, body })).text())
  t.is(events.at(-2).type, 'response.completed')
  t.regex(lastInput(), /My name is Alice.*And over HTTP/)

  const second = await open(key)
  const events2 = await second.turn({
    model,
    input: 'What is my name?',
    previous_response_id: events.at(-2).response.id,
  })
  t.like(events2.at(-1), {
    type: 'response.completed',
    response: { store: true, previous_response_id: events.at(-2).response.id },
  })
  t.regex(lastInput(), /My name is Alice.*And over HTTP.*What is my name/)
  await second.close()
})

test.serial('what is not stored is continued on its connection only', async t => {
  const { live: key } = await keepingAccount(world)
  const client = await open(key)
  const { response } = (await client.turn({ model, input: 'A secret', store: false })).at(-1)
  t.is(response.store, false)
  const continued = (await client.turn({ model, input: 'Go on', previous_response_id: response.id })).at(-1)
  t.like(continued, { type: 'response.completed', response: { store: false } })
  t.regex(lastInput(), /A secret.*Go on/)
  const refused = await client.refused({ model, input: 'Store', previous_response_id: response.id, store: true })
  t.like(refused, { status: 400, error: { code: 'previous_response_not_found', param: 'previous_response_id' } })
  await client.close()
  const elsewhere = await open(key)
  const unknown = await elsewhere.refused({ model, input: 'Go on', previous_response_id: response.id })
  t.like(unknown, { status: 400, error: { code: 'previous_response_not_found' } })
  await elsewhere.close()
})

test.serial(
  'references to stored items are replaced by the items, and those to items that precede them refused',
  async t => {
    const { live: key } = await keepingAccount(world)
    const item = (id: string, text: string) => ({ type: 'message', id, role: 'user', content: text })
    const reference = (id: string) => ({ type: 'item_reference', id })
    const client = await open(key)
    await client.turn({ model, input: [item('msg_socket_1', 'Stored')] })
    const hidden = { model, input: [item('msg_socket_2', 'Only here'), reference('msg_socket_1')], store: false }
    const { response } = (await client.turn(hidden)).at(-1)
    t.regex(lastInput(), /Only here.*Stored/)
    for (const id of ['msg_socket_1', 'msg_socket_2']) {
      const input = [reference(id), item('msg_socket_3', 'And then?')]
      const doubled = await client.refused({ model, input, previous_response_id: response.id })
      t.like(doubled, { status: 400, error: { code: 'invalid_request', param: 'input' } })
    }
    await client.turn({ model, input: [item('msg_socket_3', 'And then?')], previous_response_id: response.id })
    t.regex(lastInput(), /Only here.*Stored.*And then/)
    const refused = await client.refused({ model, input: [reference('msg_socket_2')] })
    t.like(refused, { status: 404, error: { code: 'not_found', param: 'input' } })
    await client.close()
  },
)

test.serial(
  'a conversation takes turns, and a turn without an answer adds a stored response to the connection',
  async t => {
    const { live: key } = await keepingAccount(world)
    const made = await world.gateway.fetch('/v1/conversations', { key, body: {} })
    const { id } = (await made.json()) as { id: string }
    const client = await open(key)
    await client.turn({ model, input: 'First', conversation: id })
    const { response } = (await client.turn({ model, input: 'Second', conversation: id })).at(-1)
    t.regex(lastInput(), /First.*Second/)
    t.like(response, { conversation: { id } })

    const { response: stored } = (await client.turn({ model, input: 'Remember the number 7' })).at(-1)
    await client.close()
    const other = await open(key)
    const warm = { model, input: [], previous_response_id: stored.id, generate: false }
    const { response: warmed } = (await other.turn(warm)).at(-1)
    await other.turn({ model, input: 'Which number?', previous_response_id: warmed.id })
    t.regex(lastInput(), /Remember the number 7.*Which number/)
    await other.close()
    t.deepEqual(await world.gateway.settled(), [])
  },
)

test.serial(
  'a long conversation is compacted before a turn, stored, and continued without what was compacted',
  async t => {
    const { live: key } = await keepingAccount(world)
    const managed = {
      model: 'claude-haiku-4-5',
      context_management: [{ type: 'compaction', compact_threshold: 3_000 }],
    }
    const long = 'A long story. '.repeat(2_000)
    const input = [
      { role: 'user', content: 'My name is Alice.' },
      { role: 'assistant', content: long },
      { role: 'user', content: 'Go on.' },
    ]
    world.anthropic.reset()
    const client = await open(key)
    const events = await client.turn({ ...managed, input })
    const { response } = events.at(-1)
    const types = (items: { type: string }[]) => items.map(({ type }) => type)
    t.deepEqual(types(response.output), ['compaction', 'message'])
    t.deepEqual(
      events.map(({ sequence_number: number }: { sequence_number: number }) => number),
      events.map((_: unknown, index: number) => index),
    )
    const indexes = events.flatMap((event: { output_index?: number }) => event.output_index ?? [])
    t.deepEqual(indexes, indexes.toSorted())
    const stored = await (await world.gateway.fetch(`/v1/responses/${response.id}`, { key })).json()
    t.deepEqual(stored, response)
    const lastSent = () => String(world.anthropic.requests.at(-1)!.raw)
    t.false(lastSent().includes(long))

    await client.turn({ ...managed, input: 'And on the connection?', previous_response_id: response.id })
    t.is(world.anthropic.requests.length, 3)
    t.regex(lastSent(), /My name is Alice.*conversation-summary.*And on the connection\?/)
    await client.close()
    const body = { ...managed, input: 'And over HTTP?', previous_response_id: response.id }
    const answer = await world.gateway.fetch('/v1/responses', { key, body })
    t.is(answer.status, 200)
    t.is(world.anthropic.requests.length, 4)
    t.false(lastSent().includes(long))
  },
)
