import { zodResponseFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { tokensIn } from '../emulators/openai.ts'
import { chargedNano, expectedNano, generationOf, startWorld } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, startWorld)

/** One model of each protocol; `thinks` is what its emulator adds to every answer. */
const models = [
  { model: 'gpt-5.6-luna', provider: 'openai', thinks: 16 },
  { model: 'claude-haiku-4-5', provider: 'anthropic', thinks: 0 },
  { model: 'gemini-3.5-flash', provider: 'gemini', thinks: 0 },
] as const

const question = 'Grüße aus Zürich 🚀, wie geht es?'
const weather = {
  type: 'function' as const,
  function: {
    name: 'weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}

for (const { model, provider, thinks } of models) {
  const answer = `Echo: ${question}`
  const usage = {
    prompt_tokens: tokensIn(question),
    completion_tokens: tokensIn(answer) + thinks,
    total_tokens: tokensIn(question) + tokensIn(answer) + thinks,
  }
  const costNano = expectedNano(model, usage)

  test.serial(`200 ${model}: one cost in header, usage, log and ledger, to the nano-dollar`, async t => {
    const account = await world.gateway.account()
    const call = world.sdk(account.live).chat.completions.create({
      model,
      messages: [{ role: 'user', content: question }],
    })
    const { data, response } = await call.withResponse()
    t.is(data.choices[0]!.message.content, answer)
    t.is(data.choices[0]!.finish_reason, 'stop')
    t.like(data.usage, { ...usage, cost: costNano / 1e9 })
    t.like(data, { provider, model, object: 'chat.completion' })
    t.is(data.system_fingerprint as unknown, provider === 'openai' ? 'fp_emulated' : null)
    t.is(response.headers.get('x-gateway-upstream-model'), model)
    t.is(Number(response.headers.get('x-gateway-cost-usd')), costNano / 1e9)
    t.is(response.headers.get('x-gateway-model'), model)
    t.is(response.headers.get('x-gateway-provider'), provider)
    t.is(response.headers.get('x-gateway-mode'), 'balanced')
    t.is(response.headers.get('x-gateway-attempts'), '1')
    t.is(response.headers.get('x-sandbox'), null)
    t.is(await chargedNano(world, account), costNano)
    const id = response.headers.get('x-generation-id')!
    t.like(await generationOf(world, id), { costNano: BigInt(costNano), status: 200, model, provider, streamed: false })
    for (const known of [id, data.id]) {
      const looked = await world.gateway.fetch(`/v1/generation?id=${known}`, { key: account.live })
      t.like(await looked.json(), { id, cost_usd: costNano / 1e9, model, provider, status: 200 })
    }
  })

  test.serial(
    `200 ${model}: streamed without asking for usage: none of the chunks is empty, the last has the cost`,
    async t => {
      const account = await world.gateway.account()
      const stream = await world.sdk(account.live).chat.completions.create({
        model,
        stream: true,
        messages: [{ role: 'user', content: question }],
      })
      const chunks = []
      for await (const chunk of stream) chunks.push(chunk)
      t.true(chunks.every(({ choices }) => choices.length === 1))
      t.is(chunks.map(({ choices }) => choices[0]!.delta.content ?? '').join(''), answer)
      t.is(new Set(chunks.map(({ id }) => id)).size, 1)
      const finishing = chunks.filter(({ choices }) => choices[0]!.finish_reason !== null)
      t.is(finishing.length, 1)
      t.is(chunks.at(-1), finishing[0])
      t.like(finishing[0], { provider, usage: { ...usage, cost: costNano / 1e9 } })
      t.true(chunks.slice(0, -1).every(chunk => !('usage' in chunk)))
      t.true(chunks.every(chunk => chunk.model === model && chunk.system_fingerprint !== null))
      t.is(await chargedNano(world, account), costNano)
    },
  )

  test.serial(
    `200 ${model}: streamed with include_usage: one last chunk without choices has usage and cost`,
    async t => {
      const account = await world.gateway.account()
      const stream = await world.sdk(account.live).chat.completions.create({
        model,
        stream: true,
        stream_options: { include_usage: true },
        messages: [{ role: 'user', content: question }],
      })
      const chunks = []
      for await (const chunk of stream) chunks.push(chunk)
      const last = chunks.pop()!
      t.deepEqual(last.choices, [])
      t.like(last, { provider, usage: { ...usage, cost: costNano / 1e9 } })
      t.true(chunks.every(({ choices, usage: early }) => choices.length === 1 && early === null))
      t.true([...chunks, last].every(chunk => chunk.model === model && chunk.system_fingerprint !== null))
      t.is(chunks.at(-1)!.choices[0]!.finish_reason, 'stop')
      t.is(await chargedNano(world, account), costNano)
    },
  )

  test.serial(`200 ${model}: parallel tool calls, whole and streamed alike, run by the SDK's tool runner`, async t => {
    const { live } = await world.gateway.account()
    const sdk = world.sdk(live)
    const body = {
      model,
      tools: [weather],
      messages: [{ role: 'user' as const, content: 'what is the weather in Oslo and Rome?' }],
    }
    const whole = await sdk.chat.completions.create(body)
    t.is(whole.choices[0]!.finish_reason, 'tool_calls')
    const streamed = await sdk.chat.completions.stream(body).finalChatCompletion()
    for (const { choices } of [whole, streamed]) {
      const calls = choices[0]!.message.tool_calls!
      t.deepEqual(
        calls.map(call => call.type === 'function' && [call.function.name, JSON.parse(call.function.arguments)]),
        [
          ['weather', { city: 'Oslo' }],
          ['weather', { city: 'Rome' }],
        ],
      )
      t.is(new Set(calls.map(({ id }) => id)).size, 2)
    }
    const asked: string[] = []
    const runner = sdk.chat.completions.runTools({
      ...body,
      stream: true,
      tools: [
        {
          type: 'function',
          function: {
            ...weather.function,
            description: 'The weather in a city',
            parse: (text: string) => JSON.parse(text) as { city: string },
            function: ({ city }: { city: string }) => {
              asked.push(city)
              return `sunny in ${city}`
            },
          },
        },
      ],
    })
    t.regex((await runner.finalContent()) ?? '', /\w/)
    t.deepEqual(asked.sort(), ['Oslo', 'Rome'])
  })

  test.serial(
    `200 ${model}: a legacy function is called, whole and streamed alike, and its answer is read`,
    async t => {
      const account = await world.gateway.account()
      const sdk = world.sdk(account.live)
      const asking = { role: 'user' as const, content: 'what is the weather in Oslo?' }
      const body = { model, functions: [weather.function], messages: [asking] }
      const whole = await sdk.chat.completions.create(body)
      const streamed = await sdk.chat.completions.stream(body).finalChatCompletion()
      for (const { choices } of [whole, streamed]) {
        const { message, finish_reason } = choices[0]!
        t.is(finish_reason, 'function_call')
        t.is(message.function_call!.name, 'weather')
        t.deepEqual(JSON.parse(message.function_call!.arguments), { city: 'Oslo' })
        t.is(message.tool_calls, undefined)
      }
      const answered = await sdk.chat.completions.create({
        ...body,
        function_call: 'auto',
        messages: [
          asking,
          { role: 'assistant', content: null, function_call: whole.choices[0]!.message.function_call! },
          { role: 'function', name: 'weather', content: 'sunny' },
        ],
      })
      t.is(answered.choices[0]!.finish_reason, 'stop')
      t.truthy(answered.choices[0]!.message.content)
      const costs = [whole, streamed, answered].map(({ usage }) => (usage as unknown as { cost: number }).cost * 1e9)
      t.is(await chargedNano(world, account), Math.round(costs.reduce((sum, cost) => sum + cost, 0)))
    },
  )

  test.serial(`200 ${model}: structured output parses into its schema`, async t => {
    const { live } = await world.gateway.account()
    const completion = await world.sdk(live).chat.completions.parse({
      model,
      messages: [{ role: 'user', content: 'Who is it?' }],
      response_format: zodResponseFormat(z.object({ name: z.string(), age: z.number() }), 'person'),
    })
    const person = completion.choices[0]!.message.parsed!
    t.is(typeof person.name, 'string')
    t.is(typeof person.age, 'number')
  })

  test.serial(`200 ${model}: an image goes in as a data URI`, async t => {
    const { live } = await world.gateway.account()
    const url =
      'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
    const completion = await world.sdk(live).chat.completions.create({
      model,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is this?' },
            { type: 'image_url', image_url: { url } },
          ],
        },
      ],
    })
    t.regex(completion.choices[0]!.message.content!, /What is this\?/)
    const { body } = world[provider].requests.findLast(({ raw }) => raw.includes('iVBORw0KGgo'))!
    t.true(JSON.stringify(body).includes(url.split(',')[1]!))
  })
}

test.serial('the model of an answer is the slug that can be sent back, whatever its provider calls it', async t => {
  const { live } = await world.gateway.account()
  const sdk = world.sdk(live)
  const body = {
    model: 'anthropic/claude-haiku-4-5-20251001',
    messages: [{ role: 'user' as const, content: 'Hello' }],
    provider: { only: ['openrouter'] },
  }
  const { data, response } = await sdk.chat.completions.create(body).withResponse()
  t.is(data.model, 'claude-haiku-4-5')
  t.is(response.headers.get('x-gateway-model'), 'claude-haiku-4-5')
  t.is(response.headers.get('x-gateway-upstream-model'), 'anthropic/claude-haiku-4.5')
  t.is((await sdk.chat.completions.create({ ...body, model: data.model })).model, data.model)
  t.is((await sdk.models.retrieve(data.model)).id, data.model)
  const streamed = await sdk.chat.completions.create({ ...body, stream: true }).withResponse()
  t.is(streamed.response.headers.get('x-gateway-upstream-model'), 'anthropic/claude-haiku-4.5')
  for await (const chunk of streamed.data) t.is(chunk.model, 'claude-haiku-4-5')
  const allowed = await world.gateway.account({ model_allowlist: ['claude-haiku-4-5-20251001'] })
  for (const model of ['claude-haiku-4-5', 'anthropic/claude-haiku-4.5'])
    t.is((await world.sdk(allowed.live).chat.completions.create({ ...body, model })).model, 'claude-haiku-4-5')
})

test.serial('400 for tools and functions at once', async t => {
  const { live } = await world.gateway.account()
  const body = { model: 'gpt-5.6-luna', messages: [{ role: 'user' as const, content: 'Hello' }] }
  const call = world.sdk(live).chat.completions.create({ ...body, tools: [weather], functions: [weather.function] })
  t.like(await t.throwsAsync(call), { status: 400, param: 'functions' })
})
