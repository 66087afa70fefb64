import { responsesReply } from '../emulators/openai-responses.ts'
import { chargedNano } from '../support/chat/gateway.ts'
import { keepingAccount, models, respond, startWorld } from '../support/responses/world.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '' }))
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini]) emulator.reset()
})

const user = (content: string) => ({ type: 'message' as const, role: 'user' as const, content })
const assistant = (content: string) => ({ type: 'message' as const, role: 'assistant' as const, content })
type Listed = { id: string; content?: { text: string }[] }
const textsOf = (items: readonly unknown[]) => (items as Listed[]).map(({ content }) => content?.[0]?.text)

test.serial('a conversation is created, read, updated, listed and deleted by OpenAI’s SDK', async t => {
  const { live } = await keepingAccount(world)
  const { conversations } = world.sdk(live)
  const created = await conversations.create({ metadata: { topic: 'a' }, items: [user('One'), user('Two')] })
  t.like(created, { object: 'conversation', metadata: { topic: 'a' } })
  t.deepEqual(await conversations.retrieve(created.id), created)
  t.deepEqual((await conversations.update(created.id, { metadata: { topic: 'b' } })).metadata, { topic: 'b' })
  const added = await conversations.items.create(created.id, {
    items: [user('Three'), { ...user('Four'), id: 'msg_4' } as never],
  })
  t.deepEqual(textsOf(added.data), ['Three', 'Four'])
  t.is(added.last_id, 'msg_4')
  const listed: unknown[] = []
  for await (const item of conversations.items.list(created.id, { order: 'asc', limit: 1 })) listed.push(item)
  t.deepEqual(textsOf(listed), ['One', 'Two', 'Three', 'Four'])
  t.deepEqual(textsOf((await conversations.items.list(created.id)).data), ['Four', 'Three', 'Two', 'One'])
  const twice = await conversations.items.create(created.id, {
    items: [{ ...user('Five'), id: 'msg_4' } as never, { ...user('Six'), id: 'msg_4' } as never],
  })
  t.is(new Set(['msg_4', ...twice.data.map(item => (item as Listed).id)]).size, 3)
  for (const { id } of twice.data as Listed[]) await conversations.items.delete(id, { conversation_id: created.id })
  const [, second] = listed as Listed[]
  t.deepEqual(await conversations.items.retrieve(second!.id, { conversation_id: created.id }), second as never)
  t.is((await conversations.items.delete(second!.id, { conversation_id: created.id })).id, created.id)
  await t.throwsAsync(conversations.items.retrieve(second!.id, { conversation_id: created.id }), { message: /404/ })
  await t.throwsAsync(conversations.items.list(created.id, { after: second!.id }), { message: /404/ })
  t.deepEqual(await conversations.delete(created.id), {
    id: created.id,
    object: 'conversation.deleted',
    deleted: true,
  })
  await t.throwsAsync(conversations.retrieve(created.id), { message: /not found/ })
})

test.serial('items have the members in lists that requests may leave out', async t => {
  const { test: key } = await keepingAccount(world)
  const client = world.sdk(key)
  const image_url = 'data:image/png;base64,iVBORw0KGgo='
  const sent = [
    user('Look'),
    { type: 'message', role: 'user', content: [{ type: 'input_image', image_url }] },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Yes.' }] },
    { type: 'function_call', call_id: 'call_1', name: 'weather', arguments: '{}' },
    { type: 'function_call_output', call_id: 'call_1', output: [{ type: 'input_image', image_url }] },
    { type: 'custom_tool_call', call_id: 'call_2', name: 'shell', input: 'ls' },
    { type: 'custom_tool_call_output', call_id: 'call_2', output: 'a.txt', status: 'incomplete' },
  ] as never[]
  const shown = [
    { status: 'completed', content: [{ type: 'input_text', text: 'Look' }] },
    { status: 'completed', content: [{ type: 'input_image', image_url, detail: 'auto' }] },
    { status: 'completed', content: [{ type: 'output_text', text: 'Yes.', annotations: [], logprobs: [] }] },
    { status: 'completed', arguments: '{}' },
    { status: 'completed', output: [{ type: 'input_image', image_url, detail: 'auto' }] },
    { status: 'completed', input: 'ls' },
    { status: 'incomplete', output: 'a.txt' },
  ]
  const { id } = await client.conversations.create({ items: [] })
  const added = await client.conversations.items.create(id, { items: sent })
  const { data: listed } = await client.conversations.items.list(id, { order: 'asc' })
  const first = await client.conversations.items.retrieve(added.data[0]!.id!, { conversation_id: id })
  const response = await client.responses.create({ model: 'gpt-4o-mini', input: sent })
  const { data: input } = await client.responses.inputItems.list(response.id, { order: 'asc' })
  for (const items of [added.data, listed, [first], input])
    for (const [index, item] of items.entries()) t.like(item, shown[index]! as never)
  t.is(input.length, sent.length)
})

test.serial('a page of long items has only as many as may be read at a time', async t => {
  const { test: key } = await keepingAccount(world)
  const { conversations } = world.sdk(key)
  const texts = ['a', 'b', 'c', 'd'].map(letter => letter.repeat(3 * 1024 * 1024))
  const { id } = await conversations.create({ items: [user('First'), user(texts[0]!)] })
  for (const text of texts.slice(1)) await conversations.items.create(id, { items: [user(text)] })
  const page = await conversations.items.list(id, { order: 'asc', limit: 100 })
  t.is(page.data.length, 3)
  t.true(page.has_more)
  const listed: unknown[] = []
  for await (const item of conversations.items.list(id, { order: 'asc', limit: 100 })) listed.push(item)
  t.deepEqual(textsOf(listed), ['First', ...texts])
})

for (const model of models)
  for (const streamed of [false, true])
    test.serial(`responses continue a conversation and extend it: ${model}, streamed ${streamed}`, async t => {
      const account = await keepingAccount(world)
      const client = world.sdk(account.live)
      const { id } = await client.conversations.create({ items: [user('Be kind.'), assistant('Yes.')] })
      for (const store of [true, false]) {
        const response = await respond(
          client,
          { model, conversation: { id }, input: `store ${store}`, store },
          streamed,
        )
        t.like(response, { store, conversation: { id } })
      }
      const items = await client.conversations.items.list(id, { order: 'asc' })
      const messages = items.data.filter(({ type }) => type === 'message')
      t.deepEqual(textsOf(messages), [
        'Be kind.',
        'Yes.',
        'store true',
        ...['Echo: store true', 'store false', 'Echo: store false'],
      ])
      const thoughts = items.data.filter(({ type }) => type === 'reasoning')
      t.true(thoughts.every(item => (item as { encrypted_content?: string }).encrypted_content))
      t.is(thoughts.length, model === 'gpt-5-mini' ? 2 : 0)
      t.true((await chargedNano(world, account)) > 0)
    })

test.serial('400 for a conversation of Mistral’s clients, which would be an empty one here', async t => {
  const { live } = await keepingAccount(world)
  // As @mistralai/mistralai 2.7 sends `beta.conversations.start`.
  const sent = { inputs: 'Hi', stream: false, model: 'mistral-medium-latest' }
  const response = await world.gateway.fetch('/v1/conversations', { key: live, body: sent })
  const { error } = (await response.json()) as { error: { param: string; message: string } }
  t.is(response.status, 400)
  t.is(error.param, 'inputs')
  t.regex(error.message, /POST \/v1\/responses/)
})

test.serial('a response of a conversation is continued by the conversation', async t => {
  const { live } = await keepingAccount(world)
  const client = world.sdk(live)
  const { id } = await client.conversations.create({})
  const hi = { model: 'gpt-4o-mini', input: 'Hi' }
  const first = await client.responses.create({ ...hi, conversation: id })
  await t.throwsAsync(client.responses.create({ ...hi, previous_response_id: first.id }), {
    message: /belongs to a conversation/,
  })
  const error = await t.throwsAsync<Error & { status: number; param: string }>(
    client.responses.create({ ...hi, previous_response_id: first.id, conversation: id }),
  )
  t.like(error, { status: 400, param: 'conversation' })
})

test.serial('a failed response adds nothing', async t => {
  const { live: key } = await keepingAccount(world)
  const client = world.sdk(key)
  const { id } = await client.conversations.create({ items: [user('One')] })
  const body = { model: 'gpt-4o-mini', input: 'this is too long', conversation: id }
  await t.throwsAsync(client.responses.create(body), { message: /context window/ })
  t.is((await client.conversations.items.list(id)).data.length, 1)
})

test.serial('a conversation that is deleted during its response loses the turn, not the answer', async t => {
  const { live: key, organisationId } = await keepingAccount(world)
  const client = world.sdk(key)
  const { id } = await client.conversations.create({})
  world.openai.next(async (request, response) => {
    await client.conversations.delete(id)
    return responsesReply()(request, response)
  })
  const response = await client.responses.create({ model: 'gpt-4o-mini', input: 'Hi', conversation: id })
  t.like(response, { status: 'completed', store: false, output_text: 'Echo: Hi' })
  await t.throwsAsync(client.responses.retrieve(response.id), { message: /not found/ })
  const { db } = world.gateway.services
  t.is(await db.conversationItem.count({ where: { organisationId } }), 0)
})

test.serial('isolation: another organisation and another environment see no conversation', async t => {
  const { live, test: sandbox } = await keepingAccount(world)
  const other = await keepingAccount(world)
  const { id } = await world.sdk(live).conversations.create({ items: [user('Secret')] })
  const [item] = (await world.sdk(live).conversations.items.list(id)).data
  for (const key of [sandbox, other.live, other.test]) {
    for (const [method, path, body] of [
      ['GET', ''],
      ['DELETE', ''],
      ['POST', '', { metadata: {} }],
      ['GET', '/items'],
      ['POST', '/items', { items: [user('Mine')] }],
      ['GET', `/items/${item!.id}`],
      ['DELETE', `/items/${item!.id}`],
    ] as const) {
      const response = await world.gateway.fetch(`/v1/conversations/${id}${path}`, { key, method, body })
      t.is(response.status, 404, `${method} ${path}`)
    }
    const body = { model: 'gpt-4o-mini', input: 'Hi', conversation: id }
    t.is((await world.gateway.fetch('/v1/responses', { key, body })).status, 404)
  }
  t.is((await world.sdk(live).conversations.items.list(id)).data.length, 1)
})

test.serial(
  '409 for a repeated request whose response, conversation or item was deleted: nothing is run again',
  async t => {
    const { live: key, organisationId } = await keepingAccount(world)
    const { db } = world.gateway.services
    const send = async (path: string, body: object, name: string) => {
      const response = await world.gateway.fetch(path, { key, body, headers: { 'idempotency-key': name } })
      const answer = await response.json()
      return {
        status: response.status,
        answer: answer as { id: string; data?: { id: string }[]; error?: { code: string } },
      }
    }
    const remove = (path: string) => world.gateway.fetch(path, { key, method: 'DELETE' })
    const answers = () => db.file.count({ where: { organisationId, purpose: 'answer' } })
    const gone = async (path: string, body: object, name: string) => {
      const { status, answer } = await send(path, body, name)
      t.deepEqual([status, answer.error?.code], [409, 'idempotency_key_reused'], name)
    }
    const long = { model: 'gpt-4.1', input: 'A secret', instructions: 'long '.repeat(250_000) }
    const short = { model: 'gpt-4o-mini', input: 'Another one' }
    const waiting = { ...short, background: true }
    const stored = [
      ['long', long],
      ['short', short],
      ['waiting', waiting],
    ] as const
    const ids: string[] = []
    for (const [name, body] of stored) ids.push((await send('/v1/responses', body, name)).answer.id)
    t.is(await answers(), 1)
    for (const id of ids) t.is((await remove(`/v1/responses/${id}`)).status, 200)
    t.is(await answers(), 0)
    for (const [name, body] of stored) await gone('/v1/responses', body, name)

    const { answer: conversation } = await send('/v1/conversations', {}, 'conversation')
    const items = `/v1/conversations/${conversation.id}/items`
    const { answer: added } = await send(items, { items: [user('One')] }, 'items')
    const turn = { ...short, conversation: conversation.id, store: false }
    await send('/v1/responses', turn, 'turn')
    t.is((await remove(`${items}/${added.data![0]!.id}`)).status, 200)
    await gone(items, { items: [user('One')] }, 'items')
    const count = await db.conversationItem.count({ where: { conversationId: conversation.id } })
    t.is((await remove(`/v1/conversations/${conversation.id}`)).status, 200)
    await gone('/v1/conversations', {}, 'conversation')
    await gone('/v1/responses', turn, 'turn')
    t.is(count, 2)
    t.deepEqual(await world.gateway.settled(), [])
  },
)

test.serial('an Idempotency-Key creates a conversation, its items and a turn once', async t => {
  const { live: key, organisationId } = await keepingAccount(world)
  const send = async (path: string, body: object) => {
    const headers = { 'idempotency-key': path }
    const [first, second] = [
      await world.gateway.fetch(path, { key, body, headers }),
      await world.gateway.fetch(path, { key, body, headers }),
    ]
    t.is(second.headers.get('idempotent-replayed'), 'true')
    const answer = await first.json()
    t.deepEqual(await second.json(), answer)
    return answer as { id: string }
  }
  const { id } = await send('/v1/conversations', { items: [user('One')] })
  await send(`/v1/conversations/${id}/items`, { items: [user('Two')] })
  const response = await send('/v1/responses', { model: 'gpt-4o-mini', input: 'Three', conversation: id })
  const { db } = world.gateway.services
  t.is(await db.conversation.count({ where: { organisationId } }), 1)
  t.is(await db.conversationItem.count({ where: { organisationId } }), 4)
  t.is((await world.sdk(key).responses.retrieve(response.id)).id, response.id)
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial('bad input names its field, and nothing is created', async t => {
  const { live: key, organisationId } = await keepingAccount(world)
  const off = await world.gateway.account()
  for (const [path, body, param] of [
    ['/v1/conversations', { items: [{ type: 'message' }] }, 'items.0.role'],
    ['/v1/conversations', { items: [{ type: 'item_reference', id: 'msg_1' }] }, 'items.0'],
    ['/v1/conversations', { metadata: { a: 1 } }, 'metadata.a'],
    ['/v1/conversations', { metadata: { a: 'x\0' } }, 'metadata.a'],
    ['/v1/conversations/conv_1', {}, 'metadata'],
    ['/v1/conversations/conv_1/items', { items: [] }, 'items'],
    ['/v1/conversations', { items: Array.from({ length: 21 }, () => user('One')) }, 'items'],
    ['/v1/conversations/conv_1/items', { items: Array.from({ length: 21 }, () => user('One')) }, 'items'],
  ] as const) {
    const response = await world.gateway.fetch(path, { key, body })
    t.is(response.status, 400, JSON.stringify(body))
    const { error } = (await response.json()) as { error: { param: string } }
    t.is(error.param, param)
  }
  t.is((await world.gateway.fetch('/v1/conversations', { key: off.live, body: {} })).status, 400)
  t.is(await world.gateway.services.db.conversation.count({ where: { organisationId } }), 0)
})

test.serial('input_tokens counts the whole conversation, without charge', async t => {
  const account = await keepingAccount(world)
  const { live: key } = account
  const client = world.sdk(key)
  const count = async (body: object) => {
    const response = await world.gateway.fetch('/v1/responses/input_tokens', { key, body })
    t.is(response.status, 200)
    return ((await response.json()) as { input_tokens: number }).input_tokens
  }
  for (const model of models) {
    const input = 'Tell me a story about a lighthouse.'
    const alone = await count({ model, input })
    t.true(alone > 8)
    const { id } = await client.conversations.create({ items: [user(input)] })
    t.true((await count({ model, input, conversation: id })) > 2 * alone - 8)
    t.true((await count({ model, conversation: id })) >= alone - 4)
  }
  t.is(await chargedNano(world, account), 0)
})

/** Items of some 56,000 strings and objects: as much as fits into one request, but not twice. */
const manyElements = Array.from({ length: 20 }, () => ({
  ...user(''),
  content: Array.from({ length: 560 }, () => ({ type: 'input_text' as const, text: 'ab' })),
}))

test.serial('400 when what a request continues has more elements than a request may have', async t => {
  const { live: key } = await keepingAccount(world)
  const client = world.sdk(key)
  const [model] = models
  const { id: conversation } = await client.conversations.create({ items: manyElements })
  const first = await client.responses.create({ model, input: manyElements })
  const calls = world.openai.requests.length
  for (const [continued, param] of [
    [{ conversation }, 'conversation'],
    [{ previous_response_id: first.id }, 'previous_response_id'],
  ] as const)
    for (const path of ['/v1/responses', '/v1/responses/input_tokens']) {
      const response = await world.gateway.fetch(path, { key, body: { model, input: manyElements, ...continued } })
      t.is(response.status, 400)
      t.like(await response.json(), { error: { code: 'context_length_exceeded', param } })
    }
  await client.conversations.items.create(conversation, { items: manyElements })
  const response = await world.gateway.fetch('/v1/responses', { key, body: { model, input: 'One', conversation } })
  t.is(response.status, 400)
  t.like(await response.json(), { error: { code: 'context_length_exceeded', param: 'conversation' } })
  t.is(world.openai.requests.length, calls)
  t.is(world.gateway.services.budgets.bodies.bytes, 0)
})

test.serial('a turn of many items extends its conversation in their order', async t => {
  const { live: key } = await keepingAccount(world)
  const client = world.sdk(key)
  const { id } = await client.conversations.create()
  const texts = Array.from({ length: 1_201 }, (_, index) => `${index}`)
  texts[700] = 'x'.repeat(300 * 1024)
  await client.responses.create({ model: models[0], conversation: id, input: texts.map(user) })
  const listed: unknown[] = []
  for await (const item of client.conversations.items.list(id, { order: 'asc', limit: 100 })) listed.push(item)
  t.deepEqual(textsOf(listed).slice(0, -1), texts)
  const response = await client.responses.create({ model: models[0], conversation: id, input: 'Go on' })
  t.is(response.status, 'completed')
})
