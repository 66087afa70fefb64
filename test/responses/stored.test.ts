import { responsesReply } from '../emulators/openai-responses.ts'
import { chargedNano, dataOf } from '../support/chat/gateway.ts'
import { eventually } from '../support/gateway.ts'
import { keepingAccount, models, respond, startWorld } from '../support/responses/world.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '', LOG_LEVEL: 'error', CACHE_MARKS: 'false' }))
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini]) emulator.reset()
})

const emulators = () => [world.openai, world.anthropic, world.gemini]
/** The bodies that providers received, oldest first. */
const sent = () => emulators().flatMap(({ requests }) => requests.map(({ body }) => body))

// As at OpenAI, where an empty input is none: a conversation that was filled before is answered.
for (const model of models)
  test.serial(`200 with an empty input beside what it continues, 400 alone: ${model}`, async t => {
    const client = world.sdk((await keepingAccount(world)).live)
    const first = await client.responses.create({ model, input: 'Hello' })
    const items = [{ type: 'message' as const, role: 'user' as const, content: 'Hello there' }]
    const { id: conversation } = await client.conversations.create({ items })
    for (const input of [[], ''] as const) {
      for (const more of [{ previous_response_id: first.id }, { conversation }]) {
        const response = await client.responses.create({ model, input: input as never, store: false, ...more })
        t.is(response.status, 'completed')
        t.true(JSON.stringify(sent().at(-1)).includes('Hello'))
        t.false(JSON.stringify(sent().at(-1)).includes('"content":""'))
      }
      const { body } = await t
        .throwsAsync<{ error: object } & Error>(client.responses.create({ model, input: input as never }))
        .then(error => ({ body: error!.error }))
      t.like(body, { code: 'invalid_request', param: 'input' })
    }
    const { data } = await client.conversations.items.list(conversation)
    t.is(data.filter(item => item.type === 'message' && item.role === 'user').length, 1)
  })

for (const model of models)
  for (const streamed of [false, true])
    test.serial(`a chain reaches the provider as the whole conversation: ${model}, streamed ${streamed}`, async t => {
      const chained = await keepingAccount(world)
      const whole = await world.gateway.account({ usd: '10' })
      const client = world.sdk(chained.live)
      const first = await respond(client, { model, input: 'Hello', instructions: 'Be brief.' }, streamed)
      t.is(first.store, true)
      t.is(first.previous_response_id, null)
      const second = await respond(client, { model, input: 'And then?', previous_response_id: first.id }, streamed)
      t.is(second.previous_response_id, first.id)
      const input = [{ role: 'user', content: [{ type: 'input_text', text: 'Last?' }] }] as never
      const third = await respond(client, { model, input, previous_response_id: second.id, store: false }, streamed)
      t.like(third, { store: false, previous_response_id: second.id })
      const received = sent()
      const charged = await chargedNano(world, chained)
      for (const emulator of emulators()) emulator.reset()

      const other = world.sdk(whole.live)
      let items: object[] = []
      const say = async (item: object, more: object = {}) => {
        items = [...items, item]
        const input = items.length === 1 ? 'Hello' : (items as never)
        const response = await respond(other, { model, input, ...more }, streamed)
        items.push(...JSON.parse(JSON.stringify(response.output)))
        return response
      }
      await say({ type: 'message', role: 'user', content: 'Hello' }, { instructions: 'Be brief.' })
      await say({ type: 'message', role: 'user', content: 'And then?' })
      await say(input[0], { store: false })
      t.deepEqual(withoutSdk(received), withoutSdk(sent()))
      t.is(received.length, 3)
      t.is(charged, await chargedNano(world, whole))
    })

/** Requests without what the SDK adds to items that it parsed. */
function withoutSdk(requests: unknown[]): unknown[] {
  return JSON.parse(
    JSON.stringify(requests, (key, value) => (key === 'parsed' || key === 'parsed_arguments' ? undefined : value)),
  )
}

test.serial('what a client received is what it retrieves, with the input, until it is deleted', async t => {
  const { live } = await keepingAccount(world)
  const client = world.sdk(live)
  for (const model of models)
    for (const streamed of [false, true]) {
      const items = ['One', 'Two', 'Three'].map(content => ({ role: 'user' as const, content, id: 'msg_same' }))
      const response = await respond(client, { model, input: items, metadata: { a: 'b' } }, streamed)
      const stored = await client.responses.retrieve(response.id, { include: ['reasoning.encrypted_content'] })
      t.deepEqual(withoutSdk([plain(stored)]), withoutSdk([plain(response)]), model)
      t.is(stored.output_text, response.output_text)
      const listed = await client.responses.inputItems.list(response.id, { order: 'asc', limit: 2 })
      t.deepEqual(
        listed.data.map(item => (item as { content: unknown }).content),
        ['One', 'Two'].map(text => [{ type: 'input_text', text }]),
      )
      t.true(listed.has_more)
      const all = []
      for await (const item of client.responses.inputItems.list(response.id, { limit: 1 })) all.push(item)
      t.is(all.length, 3)
      await client.responses.delete(response.id)
      await t.throwsAsync(client.responses.retrieve(response.id), { message: /not found/ })
      await t.throwsAsync(client.responses.create({ model, input: 'x', previous_response_id: response.id }), {
        message: /Previous response with id '.*' not found/,
      })
    }
})

/** A response without what the SDK adds. */
function plain({ output_text: _, ...response }: { output_text?: string }) {
  const { output_parsed: __, ...rest } = response as { output_parsed?: unknown }
  return rest
}

test.serial('a chain changes its model and provider', async t => {
  const { live } = await keepingAccount(world)
  const client = world.sdk(live)
  let previous: string | undefined
  for (const model of [...models, ...models.toReversed()]) {
    const response = await client.responses.create({
      model,
      input: `I am at ${model}`,
      ...(previous && { previous_response_id: previous }),
    })
    t.is(response.status, 'completed')
    previous = response.id
  }
  const last = JSON.stringify(world.openai.requests.at(-1)!.body)
  for (const model of models) t.true(last.includes(`I am at ${model}`), model)
})

test.serial('a tool call and its result continue by the id alone', async t => {
  const { live } = await keepingAccount(world)
  const client = world.sdk(live)
  const tools = [
    {
      type: 'function' as const,
      name: 'weather',
      parameters: { type: 'object', properties: { city: { type: 'string' } } },
      strict: false,
    },
  ]
  for (const model of ['gpt-4o-mini', 'gpt-5-mini'] as const) {
    const first = await client.responses.create({ model, tools, input: 'What is the weather in Paris?' })
    const call = first.output.find(item => item.type === 'function_call')!
    const second = await client.responses.create({
      model,
      tools,
      previous_response_id: first.id,
      input: [{ type: 'function_call_output', call_id: call.call_id, output: 'Sunny' }],
    })
    t.is(second.output_text, 'Echo: Sunny')
    const { input } = world.openai.requests.at(-1)!.body
    const reasoning = model === 'gpt-5-mini' ? ['reasoning'] : []
    t.deepEqual(
      input.map((item: { type: string }) => item.type),
      ['message', ...reasoning, 'function_call', 'function_call_output'],
    )
    if (model === 'gpt-5-mini') t.truthy(input[1].encrypted_content)
  }
})

test.serial('what is not kept: the switch off, store false, another organisation, another environment', async t => {
  const off = await world.gateway.account({ usd: '10' })
  const hi = { model: 'gpt-4o-mini', input: 'Hi' }
  const stateless = await world.sdk(off.live).responses.create(hi)
  t.like(stateless, { store: false })
  for (const more of [{ store: true }, { previous_response_id: 'resp_1' }, { conversation: 'conv_1' }]) {
    const error = await t.throwsAsync<Error & { status: number; param: string; code: string }>(
      world.sdk(off.live).responses.create({ ...hi, ...more }),
    )
    t.like(error, { status: 400, param: Object.keys(more)[0], code: 'unsupported_capability' })
  }
  const kept = await keepingAccount(world)
  const other = await keepingAccount(world)
  const unstored = await world.sdk(kept.live).responses.create({ ...hi, store: false })
  const stored = await world.sdk(kept.live).responses.create({ ...hi, store: true })
  for (const [key, id] of [
    [kept.live, unstored.id],
    [kept.test, stored.id],
    [other.live, stored.id],
    [kept.live, 'resp_nothing'],
    [kept.live, 'resp_\0'],
    [kept.live, 'x'.repeat(5_000)],
  ] as const) {
    const error = await t.throwsAsync<Error & { status: number }>(
      world.sdk(key).responses.create({ ...hi, previous_response_id: id }),
    )
    t.like(error, { status: 400, param: 'previous_response_id', code: 'previous_response_not_found' })
    if (id.includes('\0') || id.length > 100) continue
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['POST', '/cancel'],
      ['GET', '/input_items'],
    ]) {
      const response = await world.gateway.fetch(`/v1/responses/${id}${path}`, { key, method: method! })
      t.is(response.status, 404, `${method} ${path}`)
    }
  }
  t.is((await world.sdk(kept.live).responses.retrieve(stored.id)).id, stored.id)
})

test.serial('an ancestor that is gone ends the chain, rather than being left out', async t => {
  const { live } = await keepingAccount(world)
  const client = world.sdk(live)
  const hi = { model: 'gpt-4o-mini', input: 'Hi' }
  const first = await client.responses.create(hi)
  const second = await client.responses.create({ ...hi, previous_response_id: first.id })
  await client.responses.delete(first.id)
  t.is((await client.responses.retrieve(second.id)).previous_response_id, first.id)
  await t.throwsAsync(client.responses.create({ ...hi, previous_response_id: second.id }), {
    message: new RegExp(`'${first.id}' not found`),
  })
})

test.serial('a stream that breaks is stored as failed, and cannot be continued', async t => {
  const { live: key } = await keepingAccount(world)
  const client = world.sdk(key)
  for (const [reply, model] of [
    [responsesReply({ failAfter: 6 }), 'gpt-4o-mini'],
    [responsesReply({ cutAfter: 6 }), 'gpt-4o-mini'],
  ] as const) {
    world.openai.next(reply)
    const body = { model, input: 'Hello', stream: true }
    const events = dataOf(await (await world.gateway.fetch('/v1/responses', { key, body })).text())
    const { type, response } = events.at(-2)
    t.is(type, 'response.failed')
    t.like(response, { status: 'failed', store: true, previous_response_id: null })
    t.deepEqual(await (await world.gateway.fetch(`/v1/responses/${response.id}`, { key })).json(), response)
    await t.throwsAsync(client.responses.create({ model, input: 'x', previous_response_id: response.id }), {
      message: /is failed/,
    })
  }
})

test.serial('stored: answers of the sandbox to test keys', async t => {
  const { test: key } = await keepingAccount(world)
  const client = world.sdk(key)
  const first = await client.responses.create({ model: 'auto', input: 'Hello' })
  const second = await client.responses.create({ model: 'auto', input: 'Again', previous_response_id: first.id })
  t.is(second.output_text, 'Again')
  t.is((await client.responses.retrieve(second.id)).output_text, 'Again')
})

test.serial('refused: cancelling a response that is not in the background', async t => {
  const { live } = await keepingAccount(world)
  const client = world.sdk(live)
  const { id } = await client.responses.create({ model: 'gpt-4o-mini', input: 'Hi' })
  await t.throwsAsync(client.responses.cancel(id), { message: /Cannot cancel a synchronous response/ })
  await eventually(async () => (await world.gateway.settled()).length === 0, 'settled')
})

test.serial('200 after an answer with an item of an unknown type, which is shown, and not sent on', async t => {
  const client = world.sdk((await keepingAccount(world)).live)
  const said = (text: string) => {
    const content = [{ type: 'output_text', text, annotations: [] }]
    return { type: 'message', id: 'msg_1', role: 'assistant', status: 'completed', content }
  }
  world.openai.next(responsesReply({ output: [{ type: 'future_item', id: 'fut_1', state: 'x' }, said('Fine.')] }))
  const first = await client.responses.create({ model: 'gpt-4o-mini', input: 'Hello' })
  t.is(first.output[0]!.type as string, 'future_item')
  for (const model of ['gpt-4o-mini', 'claude-haiku-4-5']) {
    const next = await client.responses.create({ model, input: 'And then?', previous_response_id: first.id })
    t.is(next.status, 'completed')
    const body = JSON.stringify(sent().at(-1))
    t.true(body.includes('Fine.') && !body.includes('future_item'))
  }
})
