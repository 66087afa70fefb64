import Anthropic from '@anthropic-ai/sdk'
import test from 'ava'
import { emptyKey, liveKey, origin, requestsTo, testKey } from './support/environment.ts'
import { image, marker, person, targets, weather } from './support/samples.ts'

const clientOf = (apiKey: string) => new Anthropic({ apiKey, authToken: null, baseURL: origin, maxRetries: 0 })
const client = clientOf(liveKey)
const tools: Anthropic.Tool[] = [
  { name: weather.name, description: weather.description, input_schema: weather.parameters },
]
const textOf = ({ content }: Anthropic.Message) =>
  content.map(block => (block.type === 'text' ? block.text : '')).join('')

for (const { model, provider } of targets) {
  const asking = (content: Anthropic.MessageParam['content']) => ({
    model,
    max_tokens: 500,
    messages: [{ role: 'user' as const, content }],
  })
  const title = (what: string) => `200 @anthropic-ai/sdk, ${provider}: ${what}`

  test.serial(title('a message with usage'), async t => {
    const question = `Hello ${marker()}`
    const { data, request_id } = await client.messages.create(asking(question)).withResponse()
    t.like(data, { type: 'message', role: 'assistant', stop_reason: 'end_turn', stop_sequence: null })
    t.regex(data.id, /^msg_/)
    t.is(textOf(data), `Echo: ${question}`)
    t.true(data.usage.input_tokens > 0 && data.usage.output_tokens > 0)
    t.truthy(request_id)
    t.is((await requestsTo(provider, question)).length, 1)
  })

  test.serial(title('the stream helper gathers the whole message'), async t => {
    const question = `Hello ${marker()}`
    const pieces: string[] = []
    const stream = client.messages.stream(asking(question)).on('text', piece => pieces.push(piece))
    const message = await stream.finalMessage()
    t.is(textOf(message), `Echo: ${question}`)
    t.is(pieces.join(''), `Echo: ${question}`)
    t.is(message.stop_reason, 'end_turn')
    t.true(message.usage.input_tokens > 0 && message.usage.output_tokens > 0)
  })

  for (const stream of [false, true])
    test.serial(title(`two tools are called and an answer comes${stream ? ', streamed' : ''}`), async t => {
      const result = marker()
      const ask = async (messages: Anthropic.MessageParam[]) => {
        const body = { model, max_tokens: 500, tools, messages }
        return stream ? client.messages.stream(body).finalMessage() : client.messages.create(body)
      }
      const question: Anthropic.MessageParam = { role: 'user', content: 'What is the weather in Oslo and Rome?' }
      const asked = await ask([question])
      t.is(asked.stop_reason, 'tool_use')
      const calls = asked.content.filter(block => block.type === 'tool_use')
      t.deepEqual(
        calls.map(({ name, input }) => [name, input]),
        [
          ['weather', { city: 'Oslo' }],
          ['weather', { city: 'Rome' }],
        ],
      )
      const results = calls.map(({ id, input }) => ({
        type: 'tool_result' as const,
        tool_use_id: id,
        content: `sunny in ${(input as { city: string }).city} ${result}`,
      }))
      const answered = await ask([
        question,
        { role: 'assistant', content: asked.content },
        { role: 'user', content: results },
      ])
      t.regex(textOf(answered), /\w/)
      const [request] = await requestsTo(provider, result)
      t.true(request!.raw.includes(`sunny in Oslo ${result}`) && request!.raw.includes(`sunny in Rome ${result}`))
    })

  test.serial(title('structured output'), async t => {
    const message = await client.messages.create({
      ...asking('Who is it?'),
      output_config: { format: { type: 'json_schema', schema: person } },
    })
    const { name, age } = JSON.parse(textOf(message))
    t.deepEqual([typeof name, typeof age], ['string', 'number'])
  })

  test.serial(title('an image in a message'), async t => {
    const text = `What is this? ${marker()}`
    const data = image.toString('base64')
    const message = await client.messages.create(
      asking([
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data } },
        { type: 'text', text },
      ]),
    )
    t.true(textOf(message).includes(text))
    t.true((await requestsTo(provider, text))[0]!.raw.includes(data))
  })

  test.serial(title('tokens are counted'), async t => {
    const { max_tokens: _, ...request } = asking('How many tokens is this?')
    t.true((await client.messages.countTokens(request)).input_tokens > 0)
  })
}

test.serial('200 @anthropic-ai/sdk: the sandbox answers and streams', async t => {
  const sandbox = clientOf(testKey)
  const body = { model: 'auto', max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hello' }] }
  t.is(textOf(await sandbox.messages.create(body)), 'Hello')
  t.is(textOf(await sandbox.messages.stream(body).finalMessage()), 'Hello')
})

test.serial('4xx @anthropic-ai/sdk: each refusal is the error class and type of its status', async t => {
  const body = { model: 'claude-haiku-4-5', max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hello' }] }
  const refusals = [
    [clientOf('sk-ant-other'), body, Anthropic.AuthenticationError, 'authentication_error'],
    [clientOf(emptyKey), body, Anthropic.APIError, 'billing_error'],
    [client, { ...body, model: 'no-such-model' }, Anthropic.NotFoundError, 'not_found_error'],
    [client, { ...body, max_tokens: 0 }, Anthropic.BadRequestError, 'invalid_request_error'],
    [client, { ...body, messages: [] }, Anthropic.BadRequestError, 'invalid_request_error'],
  ] as const
  for (const [refused, request, instanceOf, type] of refusals) {
    const params = request as unknown as Anthropic.MessageCreateParamsNonStreaming
    const error = await t.throwsAsync<InstanceType<typeof Anthropic.APIError>>(refused.messages.create(params), {
      instanceOf,
    })
    t.like(error.error, { type: 'error', error: { type } })
    t.is(typeof (error.error as { request_id: unknown }).request_id, 'string')
  }
})
