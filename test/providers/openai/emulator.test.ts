import OpenAI from 'openai'
import type { Emulator } from '../../emulators/emulator.ts'
import * as emulated from '../../emulators/openai.ts'
import { test } from '../../support/test.ts'

const start = async (): Promise<{ emulator: Emulator; client: OpenAI }> => {
  const emulator = await emulated.startOpenAiEmulator()
  return { emulator, client: new OpenAI({ baseURL: `${emulator.url}/v1`, apiKey: 'sk-test', maxRetries: 0 }) }
}

const weather: OpenAI.ChatCompletionTool = {
  type: 'function',
  function: {
    name: 'get_weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}
const hello: OpenAI.ChatCompletionMessageParam[] = [
  { role: 'system', content: 'Be kind.' },
  { role: 'user', content: 'Grüße, 世界 👋' },
]

test('200: the official SDK reads a whole chat answer with the usage of the published rule', async t => {
  const { emulator, client } = await start()
  t.teardown(() => emulator.close())
  const answer = await client.chat.completions.create({
    model: 'gpt-test',
    messages: hello,
    n: 2,
    logprobs: true,
    top_logprobs: 1,
  })
  t.deepEqual(
    answer.choices.map(choice => choice.message.content),
    ['Echo: Grüße, 世界 👋', 'Echo: Grüße, 世界 👋'],
  )
  t.is(answer.choices[1]?.index, 1)
  t.is(answer.choices[0]?.logprobs?.content?.[0]?.token, 'Echo')
  const completion = 2 * emulated.tokensIn('Echo: Grüße, 世界 👋')
  t.like(answer.usage, { prompt_tokens: emulated.promptTokens(hello), completion_tokens: completion })
  t.is(emulator.requests[0]?.headers.authorization, 'Bearer sk-test')
})

test('200: max tokens cut the answer, and reasoning models think first', async t => {
  const { emulator, client } = await start()
  t.teardown(() => emulator.close())
  const answer = await client.chat.completions.create({ model: 'o-test', messages: hello, max_completion_tokens: 2 })
  t.is(answer.choices[0]?.message.content, 'Echo: Gr')
  t.is(answer.choices[0]?.finish_reason, 'length')
  t.is(answer.usage?.completion_tokens, 2 + emulated.reasoningTokens)
  t.is(answer.usage?.completion_tokens_details?.reasoning_tokens, emulated.reasoningTokens)
})

test('200: the SDK helpers parse structured output and run tools', async t => {
  const { emulator, client } = await start()
  t.teardown(() => emulator.close())
  const schema = {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  }
  const parsed = await client.chat.completions.parse({
    model: 'gpt-test',
    messages: hello,
    response_format: { type: 'json_schema', json_schema: { name: 'place', strict: true, schema } },
  })
  t.is(typeof JSON.parse(parsed.choices[0]!.message.content!).city, 'string')

  const ask: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'What is the weather in Oslo and Rome?' }]
  const stream = client.chat.completions.stream({ model: 'gpt-test', messages: ask, tools: [weather] })
  const final = await stream.finalChatCompletion()
  t.is(final.choices[0]?.finish_reason, 'tool_calls')
  const calls = final.choices[0]!.message.tool_calls!.map(call => (call.type === 'function' ? call.function : null))
  t.deepEqual(
    calls.map(call => JSON.parse(call!.arguments)),
    [{ city: 'Oslo' }, { city: 'Rome' }],
  )
})

for (const [name, options] of Object.entries({
  plain: {},
  CRLF: { eol: '\r\n' },
  bytewise: { bytewise: true },
  commented: { comments: true },
  slow: { delayMs: 20 },
  'unfinished ([DONE] missing)': { done: false },
} satisfies Record<string, emulated.ChatReplyOptions>)) {
  test(`200: the SDK reads a ${name} stream whole`, async t => {
    const { emulator, client } = await start()
    t.teardown(() => emulator.close())
    emulator.next(emulated.chatReply(options))
    const stream = await client.chat.completions.create({
      model: 'gpt-test',
      messages: hello,
      stream: true,
      stream_options: { include_usage: true },
    })
    const chunks: OpenAI.ChatCompletionChunk[] = []
    for await (const chunk of stream) chunks.push(chunk)
    t.is(chunks.map(chunk => chunk.choices[0]?.delta.content ?? '').join(''), 'Echo: Grüße, 世界 👋')
    t.is(chunks[0]?.choices[0]?.delta.role, 'assistant')
    t.is(chunks.at(-2)?.choices[0]?.finish_reason, 'stop')
    t.deepEqual(chunks.at(-1)?.choices, [])
    t.is(chunks.at(-1)?.usage?.prompt_tokens, emulated.promptTokens(hello))
    t.true(chunks.slice(0, -1).every(chunk => chunk.usage === null))
  })
}

test('200: usage comes only when asked for, and can be left out all the same', async t => {
  const { emulator, client } = await start()
  t.teardown(() => emulator.close())
  emulator.next(emulated.chatReply(), emulated.chatReply({ usage: false }))
  for (const options of [undefined, { include_usage: true }]) {
    const request = {
      model: 'gpt-test',
      messages: hello,
      stream: true,
      ...(options && { stream_options: options }),
    } as const
    for await (const chunk of await client.chat.completions.create(request)) t.falsy(chunk.usage)
  }
})

test('200: sound and pictures come in the whole answer and in the stream', async t => {
  const { emulator, client } = await start()
  t.teardown(() => emulator.close())
  const audio = { voice: 'alloy', format: 'wav' } as const
  const spoken = await client.chat.completions.create({
    model: 'gpt-test',
    messages: hello,
    modalities: ['text', 'audio'],
    audio,
  })
  t.is(Buffer.from(spoken.choices[0]!.message.audio!.data, 'base64').toString('latin1', 0, 4), 'RIFF')
  const messages = [
    {
      role: 'user' as const,
      content: [
        { type: 'text' as const, text: 'See' },
        { type: 'image_url' as const, image_url: { url: 'data:image/png;base64,AAAA' } },
        { type: 'input_audio' as const, input_audio: { data: 'AAAA', format: 'wav' as const } },
      ],
    },
  ]
  // biome-ignore lint/suspicious/noExplicitAny: image output is not in the SDK's types
  const request: any = { model: 'gpt-test', messages, modalities: ['text', 'image'], stream: true }
  // biome-ignore lint/suspicious/noExplicitAny: as above
  const chunks: any[] = []
  for await (const chunk of (await client.chat.completions.create(request)) as unknown as AsyncIterable<unknown>)
    chunks.push(chunk)
  const deltas = chunks.map(chunk => chunk.choices[0].delta)
  t.is(deltas.map(delta => delta.content ?? '').join(''), 'Echo: See [image_url] [input_audio]')
  t.regex(deltas.find(delta => delta.images).images[0].image_url.url, /^data:image\/png;base64,iVBOR/)
})

test('an error for a stream that reports one or is cut off', async t => {
  const { emulator, client } = await start()
  t.teardown(() => emulator.close())
  emulator.next(emulated.chatReply({ errorAfter: 2 }), emulated.chatReply({ cutAfter: 2 }))
  for (const message of [/had an error/, /terminated|premature|ECONNRESET|aborted/i]) {
    const stream = await client.chat.completions.create({ model: 'gpt-test', messages: hello, stream: true })
    let seen = 0
    await t.throwsAsync(
      async () => {
        for await (const _chunk of stream) seen++
      },
      { message },
    )
    t.is(seen, 2)
  }
})

test('200: the SDK reads completions, whole and streamed', async t => {
  const { emulator, client } = await start()
  t.teardown(() => emulator.close())
  const answer = await client.completions.create({ model: 'gpt-test', prompt: ['a', 'b'] })
  t.deepEqual(
    answer.choices.map(choice => choice.text),
    ['Echo: a', 'Echo: b'],
  )
  let text = ''
  for await (const chunk of await client.completions.create({ model: 'gpt-test', prompt: 'long text', stream: true })) {
    text += chunk.choices[0]?.text ?? ''
  }
  t.is(text, 'Echo: long text')
})

test('200: the SDK decodes embeddings, which it asks for in base64', async t => {
  const { emulator, client } = await start()
  t.teardown(() => emulator.close())
  const answer = await client.embeddings.create({ model: 'e', input: ['abc', 'de'], dimensions: 4 })
  t.is(emulator.requests[0]?.body.encoding_format, 'base64')
  t.deepEqual(
    answer.data.map(item => item.embedding),
    [emulated.vectorOf('abc', 4), emulated.vectorOf('de', 4)],
  )
  const floats = await client.embeddings.create({ model: 'e', input: 'abc', encoding_format: 'float' })
  t.deepEqual(floats.data[0]?.embedding, emulated.vectorOf('abc', 8))
  t.is((await client.models.list()).data[0]?.id, 'gpt-test')
})

for (const [status, cause, reply, error] of [
  [400, 'a prompt that is too long', emulated.contextLength, OpenAI.BadRequestError],
  [401, 'a wrong key', emulated.invalidKey, OpenAI.AuthenticationError],
  [404, 'an unknown model', emulated.modelNotFound, OpenAI.NotFoundError],
  [429, 'a rate limit', emulated.rateLimited('7'), OpenAI.RateLimitError],
  [429, 'an empty account', emulated.insufficientQuota, OpenAI.RateLimitError],
  [500, 'a failing server', emulated.serverError, OpenAI.InternalServerError],
] as const) {
  test(`${status}: the SDK knows the error of ${cause}`, async t => {
    const { emulator, client } = await start()
    t.teardown(() => emulator.close())
    emulator.next(reply)
    const thrown = await t.throwsAsync(client.chat.completions.create({ model: 'm', messages: hello }), {
      instanceOf: error,
    })
    t.is((thrown as InstanceType<typeof OpenAI.APIError>).status, status)
  })
}

test('401 without a key', async t => {
  const { emulator } = await start()
  t.teardown(() => emulator.close())
  t.is((await fetch(`${emulator.url}/v1/models`)).status, 401)
})
