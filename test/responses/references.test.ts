// Requests whose input refers to stored items, as the AI SDK’s default for OpenAI does from its second step on.

import OpenAI from 'openai'
import { responsesReply } from '../emulators/openai-responses.ts'
import { keepingAccount, models, respond, startWorld } from '../support/responses/world.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '', LOG_LEVEL: 'error' }))
test.beforeEach(() => {
  for (const emulator of emulators()) emulator.reset()
})

const emulators = () => [world.openai, world.anthropic, world.gemini]
const lastSent = () =>
  emulators()
    .flatMap(({ requests }) => requests.map(({ body }) => body))
    .at(-1)
const reference = (id: string | undefined, more: object = {}) => ({ type: 'item_reference', id, ...more }) as never
const user = (text: string, more: object = {}) =>
  ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }], ...more }) as never
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const tools = [{ type: 'function', name: 'get_weather', description: 'd', parameters, strict: false }] as never
const sunny = (call_id: string) => ({ type: 'function_call_output', call_id, output: 'sunny' }) as never

async function refusalOf(client: OpenAI, body: object): Promise<{ status: number; param: string; message: string }> {
  try {
    await client.responses.create({ model: 'gpt-4o-mini', ...body } as never)
  } catch (error) {
    if (error instanceof OpenAI.APIError) {
      const { message } = error.error as { message: string }
      return { status: error.status, param: String(error.param), message }
    }
    throw error
  }
  throw new Error('It was answered')
}

for (const model of models)
  for (const streamed of [false, true])
    test.serial(`200 as for the items themselves: ${model}, streamed ${streamed}`, async t => {
      const { live } = await keepingAccount(world)
      const client = world.sdk(live)
      const asked = user('What is the weather in Berlin?')
      // Ids that no other test has.
      const number = `${models.indexOf(model)}${Number(streamed)}`
      const call = { type: 'function_call', id: `fc_${number}`, call_id: `c${number}`, name: 'get_weather' }
      if (model.startsWith('gpt'))
        world.openai.next(
          responsesReply({ output: [{ ...call, status: 'completed', arguments: '{"city":"Berlin"}' }] }),
        )
      const first = await respond(client, { model, input: [asked], tools }, streamed)
      const made = first.output.at(-1) as { id: string; call_id: string }
      const steps = first.output.map(item => reference(item.id))
      const second = await respond(client, { model, input: [asked, ...steps, sunny(made.call_id)], tools }, streamed)
      t.is(second.status, 'completed')
      const referred = lastSent()
      const last = user('And tomorrow?')
      const input = [asked, ...steps, sunny(made.call_id), ...second.output.map(item => reference(item.id)), last]
      await respond(client, { model, input, tools, store: false }, streamed)
      const third = lastSent()

      const plain = JSON.parse(JSON.stringify([...first.output, sunny(made.call_id)]), (name, value) =>
        name === 'parsed' || name === 'parsed_arguments' ? undefined : value,
      )
      await respond(client, { model, input: [asked, ...plain], tools }, streamed)
      t.deepEqual(lastSent(), referred)
      const output = JSON.parse(JSON.stringify(second.output), (name, value) =>
        name === 'parsed' || name === 'parsed_arguments' ? undefined : value,
      )
      await respond(client, { model, input: [asked, ...plain, ...output, last], tools, store: false }, streamed)
      t.deepEqual(lastSent(), third)

      const { data } = await client.responses.inputItems.list(second.id, { order: 'asc' })
      t.deepEqual(
        data.map(({ type }) => type as string),
        [asked, ...plain].map(({ type }) => type),
        'it is stored with the items',
      )
    })

test.serial('200 for items of an input, by the ids of its list; of conversations; and without a type', async t => {
  const { live } = await keepingAccount(world)
  const client = world.sdk(live)
  const { id } = await client.responses.create({
    model: 'gpt-4o-mini',
    input: [user('One'), user('Two', { id: 'msg_two' })],
  })
  const { data } = await client.responses.inputItems.list(id, { order: 'asc' })
  const conversation = await client.conversations.create({ items: [user('Three', { id: 'msg_three' })] })
  const named = data.map(item => reference(item.id))
  const untyped = { id: 'msg_three' } as never
  await client.responses.create({ model: 'claude-haiku-4-5', input: [...named, untyped, user('Four')] })
  const { messages } = world.anthropic.requests.at(-1)!.body
  const texts = messages.flatMap(({ content }: { content: { text: string }[] }) => content.map(({ text }) => text))
  t.deepEqual(texts, ['One', 'Two', 'Three', 'Four'])
  const inIt = { conversation: conversation.id, input: [reference('msg_two'), user('Five')] }
  const count = await client.responses.inputTokens.count({ model: 'gpt-4o-mini', ...inIt })
  t.true(count.input_tokens > 0)
  await client.responses.create({ model: 'gpt-4o-mini', ...inIt })
  const items = await client.conversations.items.list(conversation.id, { order: 'asc' })
  t.deepEqual(
    items.data.slice(0, 3).map(item => (item as { content: { text: string }[] }).content[0]!.text),
    ['Three', 'Two', 'Five'],
  )
})

test.serial('404 in OpenAI’s words for an unknown, foreign, deleted or expired item; nothing is charged', async t => {
  const owner = await keepingAccount(world)
  const other = await keepingAccount(world)
  const client = world.sdk(owner.live)
  const input = [user('One', { id: 'msg_of_owner' })]
  const { id } = await client.responses.create({ model: 'gpt-4o-mini', input })
  const ask = { input: [reference('msg_of_owner'), user('Two')] }
  await client.responses.create({ model: 'gpt-4o-mini', store: false, ...ask })
  world.openai.reset()
  const message =
    "Item with id 'msg_of_owner' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input."
  const refusal = { status: 404, param: 'input', message }
  t.deepEqual(await refusalOf(world.sdk(other.live), ask), refusal)
  t.deepEqual(await refusalOf(world.sdk(owner.test), ask), refusal)
  t.like(await refusalOf(client, { input: [reference('rs_unknown'), user('Two')] }), { status: 404 })
  t.like(await refusalOf(client, { input: [reference('x'.repeat(500)), user('Two')] }), { status: 404 })
  t.like(await refusalOf(client, { input: [reference('a\0b'), user('Two')] }), { status: 404 })
  t.like(await refusalOf(client, { background: true, input: [reference('rs_unknown')] }), { status: 404 })
  const { db } = world.gateway.services
  await db.storedResponse.updateMany({ where: { id }, data: { expiresAt: new Date(0) } })
  t.deepEqual(await refusalOf(client, ask), refusal)
  await db.storedResponse.updateMany({ where: { id }, data: { expiresAt: new Date(Date.now() + 1e9) } })
  await client.responses.create({ model: 'gpt-4o-mini', store: false, ...ask })
  await client.responses.delete(id)
  t.deepEqual(await refusalOf(client, ask), refusal)
  t.is(world.openai.requests.length, 1)
})

test.serial(
  '400 that names the cure where the organisation keeps nothing, for more references than one query takes',
  async t => {
    const { live } = await world.gateway.account({ usd: '10' })
    for (const store of [undefined, false]) {
      const body = { input: [user('One'), reference('rs_1')], store }
      const refusal = await refusalOf(world.sdk(live), body)
      t.like(refusal, { status: 400, param: 'input.1.type' })
      t.regex(refusal.message, /send the item itself.*Keep responses/)
    }
    const { live: keeping } = await keepingAccount(world)
    const input = Array.from({ length: 5_001 }, (_, index) => reference(`rs_${index}`))
    t.like(await refusalOf(world.sdk(keeping), { input }), { status: 400, param: 'input' })
    for (const item of [{ type: 'item_reference' }, { type: 'item_reference', id: 7 }])
      t.like(await refusalOf(world.sdk(keeping), { input: [item] }), { status: 400 })
  },
)

test.serial('200 with 3,000 references to many responses', async t => {
  const { live } = await keepingAccount(world)
  const client = world.sdk(live)
  const ids: string[] = []
  for (let turn = 0; turn < 20; turn++) {
    const input = Array.from({ length: 150 }, (_, index) => user('x', { id: `msg_many_${turn}_${index}` }))
    await client.responses.create({ model: 'gpt-4o-mini', input })
    ids.push(...input.map(({ id }: { id: string }) => id))
  }
  await client.responses.create({ model: 'gpt-4o-mini', input: ids.map(id => reference(id)) })
  t.is(world.openai.requests.at(-1)!.body.input.length, 3_000)
})

test.serial('200 in the background, with the items', async t => {
  const { live } = await keepingAccount(world)
  const client = world.sdk(live)
  await client.responses.create({ model: 'gpt-4o-mini', input: [user('One', { id: 'msg_background' })] })
  const { id } = await client.responses.create({
    model: 'gpt-4o-mini',
    background: true,
    input: [reference('msg_background'), user('Two')],
  })
  const { data } = await client.responses.inputItems.list(id, { order: 'asc' })
  t.deepEqual(
    data.map(item => (item as { content: { text: string }[] }).content[0]!.text),
    ['One', 'Two'],
  )
})

test.serial('400 in OpenAI’s words when an item is referred to twice: it is not multiplied', async t => {
  const client = world.sdk((await keepingAccount(world)).test)
  const { id } = await client.responses.create({ model: 'gpt-4.1', input: [user('long '.repeat(200_000))] })
  const [item] = (await client.responses.inputItems.list(id)).data
  const input = Array.from({ length: 600 }, () => reference(item!.id))
  const message = `Duplicate item found with id ${item!.id}. Remove duplicate items from your input and try again.`
  for (const more of [{}, { background: true }, { previous_response_id: id }])
    t.deepEqual(await refusalOf(client, { model: 'gpt-4.1', input, ...more }), { status: 400, param: 'input', message })
})

test.serial(
  '400 for items that are together longer than a conversation may be, of responses and conversations',
  async t => {
    const client = world.sdk((await keepingAccount(world)).test)
    const image_url = `data:image/png;base64,${'A'.repeat(9 * 1024 * 1024)}`
    const long = (id: string) => ({ id, role: 'user', content: [{ type: 'input_image', image_url }] }) as never
    const ids = ['a', 'b', 'c', 'd'].map(name => `msg_long_${name}`)
    for (const id of ids) await client.responses.create({ model: 'gpt-4.1', input: [long(id)] })
    const named = ids.map(id => reference(id))
    const refusal = await refusalOf(client, { model: 'gpt-4.1', input: named })
    t.like(refusal, { status: 400, param: 'input' })
    t.regex(refusal.message, /32 MiB at most/)
    await client.responses.create({ model: 'gpt-4.1', input: named.slice(0, 3), store: false })

    const items = ids.map(id => long(`${id}_kept`))
    const { id: conversation } = await client.conversations.create({ items: items.slice(0, 2) })
    const kept = ids.slice(0, 2).map(id => reference(`${id}_kept`))
    for (const body of [{ input: [...kept, ...named.slice(0, 2)] }, { conversation, input: named.slice(0, 2) }])
      t.like(await refusalOf(client, { model: 'gpt-4.1', store: false, ...body }), { status: 400, param: 'input' })
  },
)

test.serial('400 in OpenAI’s words for an item of what the request continues: it would be sent twice', async t => {
  const client = world.sdk((await keepingAccount(world)).live)
  const input = [user('One'), user('Two', { id: 'msg_two_twice' })]
  const first = await client.responses.create({ model: 'gpt-4o-mini', input })
  const second = await client.responses.create({
    model: 'gpt-4o-mini',
    input: 'Three',
    previous_response_id: first.id,
  })
  const { data } = await client.responses.inputItems.list(first.id, { order: 'asc' })
  const items = [user('One'), user('Two', { id: 'msg_two_twice' })]
  const { id: conversation } = await client.conversations.create({ items })
  const { data: listed } = await client.conversations.items.list(conversation, { order: 'asc' })
  world.openai.reset()
  const cases: [string, object][] = [
    ...[...data, ...first.output, ...second.output].map(
      ({ id }) => [id!, { previous_response_id: second.id }] as [string, object],
    ),
    ...listed.map(({ id }) => [id!, { conversation }] as [string, object]),
  ]
  t.true(cases.length >= 6)
  for (const [id, more] of cases) {
    const message = `Duplicate item found with id ${id}. Remove duplicate items from your input and try again.`
    const refusal = { status: 400, param: 'input', message }
    t.deepEqual(await refusalOf(client, { input: [reference(id), user('Four')], ...more }), refusal)
  }
  t.is(world.openai.requests.length, 0)
})
