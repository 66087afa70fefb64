import { zodResponseFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { dataOf, saying, startWorld } from '../support/chat/gateway.ts'
import { wav } from '../support/media/sounds.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, startWorld)

// The sandbox answers for models of every protocol, and nothing ever reaches a provider or the ledger.
for (const model of ['gpt-5.6-luna', 'claude-haiku-4-5', 'gemini-3.5-flash', 'auto']) {
  test.serial(
    `200 ${model} with a test key: chat, stream, tools and schema from the sandbox, nothing charged`,
    async t => {
      const account = await world.gateway.account({ usd: '0' })
      const sdk = world.sdk(account.test)
      const messages = [{ role: 'user' as const, content: 'Hello sandbox' }]
      const { data, response } = await sdk.chat.completions.create({ model, messages }).withResponse()
      t.is(data.choices[0]!.message.content, 'Hello sandbox')
      t.like(data.usage, { cost: 0 })
      t.is(response.headers.get('x-sandbox'), 'true')
      t.is(response.headers.get('x-gateway-cost-usd'), '0')
      t.truthy(response.headers.get('x-generation-id'))
      if (model !== 'auto') t.is(response.headers.get('x-gateway-model'), model)
      const streamed = await sdk.chat.completions.stream({ model, messages }).finalChatCompletion()
      t.is(streamed.choices[0]!.message.content, 'Hello sandbox')
      const called = await sdk.chat.completions.create({
        model,
        messages: [{ role: 'user', content: 'sandbox:tool' }],
        tools: [{ type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }],
      })
      t.is(called.choices[0]!.finish_reason, 'tool_calls')
      const format = zodResponseFormat(z.object({ city: z.string() }), 'place')
      const parsed = await sdk.chat.completions.parse({ model, messages, response_format: format })
      t.is(typeof parsed.choices[0]!.message.parsed!.city, 'string')
      t.deepEqual(await world.gateway.settled(), [])
      t.is(await world.gateway.services.db.ledgerEntry.count({ where: { organisationId: account.organisationId } }), 0)
      for (const { requests } of [world.openai, world.anthropic, world.gemini, world.openrouter])
        t.is(requests.length, 0)
    },
  )
}

test.serial('200 with a test key: completions and embeddings through the SDK', async t => {
  const account = await world.gateway.account({ usd: '0' })
  const sdk = world.sdk(account.test)
  const completion = await sdk.completions.create({ model: 'gpt-4.1', prompt: 'Hello' })
  t.is(completion.choices[0]!.text, 'Hello')
  const { data } = await sdk.embeddings.create({ model: 'text-embedding-3-small', input: 'Hello', dimensions: 16 })
  t.is(data[0]!.embedding.length, 16)
})

test.serial('200 with a test key: legacy functions are called, and sound is answered in words', async t => {
  const { test: key } = await world.gateway.account({ usd: '0' })
  const sdk = world.sdk(key)
  const look = {
    name: 'look',
    parameters: { type: 'object', properties: { at: { type: 'string' } }, required: ['at'] },
  }
  const messages = [{ role: 'user' as const, content: 'Look there' }]
  for (const model of ['gpt-4.1', 'claude-haiku-4-5']) {
    const body = { model, messages, functions: [look], function_call: { name: 'look' } }
    const whole = await sdk.chat.completions.create(body)
    const streamed = await sdk.chat.completions.stream(body).finalChatCompletion()
    for (const { choices } of [whole, streamed]) {
      t.is(choices[0]!.finish_reason, 'function_call')
      t.is(choices[0]!.message.function_call!.name, 'look')
      t.is(typeof JSON.parse(choices[0]!.message.function_call!.arguments).at, 'string')
    }
    const answered = await sdk.chat.completions.create({ ...body, function_call: 'none' })
    t.is(answered.choices[0]!.message.content, 'Look there')
  }
  const data = wav(1_200).toString('base64')
  const sound = { type: 'input_audio' as const, input_audio: { data, format: 'wav' as const } }
  const heard = await sdk.chat.completions.create({
    model: 'gpt-audio-1.5',
    messages: [{ role: 'user', content: [sound] }],
  })
  t.is(heard.choices[0]!.message.content, 'I heard 1.2 seconds of wav audio.')
})

test.serial('400 with a test key for what the provider it stands for cannot do', async t => {
  const account = await world.gateway.account({ usd: '0' })
  for (const key of [account.test, await world.gateway.account().then(({ live }) => live)]) {
    const response = await world.gateway.fetch('/v1/chat/completions', {
      key,
      body: saying('claude-sonnet-5', 'Hi', { n: 2 }),
    })
    t.is(response.status, 400)
    t.like(await response.json(), { error: { code: 'unsupported_capability', param: 'n' } })
  }
})

test.serial('502 for sandbox:fail, 502 with retry-after for sandbox:rate_limit, late for sandbox:slow', async t => {
  const { test: key } = await world.gateway.account({ usd: '0' })
  const ask = (content: string, more = {}) =>
    world.gateway.fetch('/v1/chat/completions', { key, body: saying('gpt-5.6-luna', content, more) })
  const failed = await ask('sandbox:fail')
  t.is(failed.status, 502)
  t.like(await failed.json(), { error: { code: 'upstream_error' } })
  const limited = await ask('sandbox:rate_limit', { stream: true })
  t.is(limited.status, 502)
  t.is(limited.headers.get('retry-after'), '1')
  t.is(limited.headers.get('x-sandbox'), 'true')
  const slow = await ask('sandbox:slow=30', { stream: true })
  t.is(dataOf(await slow.text()).at(-1), '[DONE]')
})
