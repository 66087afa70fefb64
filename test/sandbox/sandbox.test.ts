import { inflateSync } from 'node:zlib'
import { sound as soundOf, wav } from '../support/media/sounds.ts'
import { chat, chatPath, type Json, opened, send, weather } from '../support/sandbox.ts'
import { test } from '../support/test.ts'

test('200: an echo of the last user message, with usage that adds up', async t => {
  const { post } = opened(t)
  const messages = [
    { role: 'user', content: 'first' },
    { role: 'assistant', content: 'first' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Hello, ' },
        { type: 'text', text: 'world 👋' },
      ],
    },
  ]
  const answer = await post(chatPath, { model: 'm-1', messages, n: 2 })
  t.is(answer.model, 'm-1')
  t.deepEqual(
    answer.choices.map((choice: Json) => [choice.index, choice.message.content, choice.finish_reason]),
    [
      [0, 'Hello, world 👋', 'stop'],
      [1, 'Hello, world 👋', 'stop'],
    ],
  )
  t.true(answer.usage.prompt_tokens > 5 && answer.usage.completion_tokens > 5)
  t.is(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
  t.is((await post('/chat/completions', chat('<|endoftext|>'))).choices[0].message.content, '<|endoftext|>')
})

test('200: a message of media alone is answered in words', async t => {
  const { post } = opened(t)
  const sound = (data: Buffer, format: string) => ({
    type: 'input_audio',
    input_audio: { data: data.toString('base64'), format },
  })
  const image = { type: 'image_url', image_url: { url: 'https://images.example/a.png' } }
  const said = async (...content: object[]) => (await post(chatPath, chat(content))).choices[0].message.content
  t.is(await said(sound(wav(1_200), 'wav')), 'I heard 1.2 seconds of wav audio.')
  t.is(await said(sound(await soundOf('mp3', 2), 'mp3'), image), 'I heard 2 seconds of mp3 audio. I saw an image.')
  t.is(await said(sound(Buffer.from('no sound'), 'mp3')), 'I heard mp3 audio.')
  t.is(await said({ type: 'text', text: ' ' }, image), 'I saw an image.')
  t.is(await said({ type: 'text', text: 'What is it?' }, image), 'What is it?')
})

test('200: max tokens and stop sequences end the echo', async t => {
  const { post } = opened(t)
  const cut = await post(chatPath, chat('one two three four', { max_tokens: 2 }))
  t.is(cut.choices[0].message.content, 'one two')
  t.is(cut.choices[0].finish_reason, 'length')
  t.is(cut.usage.completion_tokens, 2)
  const whole = await post(chatPath, chat('one two', { max_completion_tokens: 2 }))
  t.is(whole.choices[0].finish_reason, 'stop')
  const stopped = await post(chatPath, chat('one. two, three', { stop: [',', '.'] }))
  t.is(stopped.choices[0].message.content, 'one')
})

test('200: a stream of words, its usage in a last chunk when asked for', async t => {
  const { stream } = opened(t)
  const plain = await stream(chatPath, chat('Hello big  world', { n: 2 }))
  t.deepEqual(plain.map(chunk => chunk.choices[0].delta.content).filter(Boolean), [
    'Hello',
    ' big',
    '  world',
    'Hello',
    ' big',
    '  world',
  ])
  t.false(plain.some(chunk => 'usage' in chunk))
  const counted = await stream(chatPath, chat('Hello', { stream_options: { include_usage: true } }))
  t.deepEqual(
    counted.map(chunk => chunk.choices[0]?.finish_reason),
    [null, null, 'stop', undefined],
  )
  t.is(counted[0].choices[0].delta.role, 'assistant')
  t.is(counted.at(-1).usage.completion_tokens, 1)
  t.true(counted.slice(0, -1).every(chunk => chunk.usage === null))
})

test('200: logprobs in OpenAI’s shape, whole and streamed', async t => {
  const { post, stream } = opened(t)
  const asked = chat('two words', { logprobs: true, top_logprobs: 1 })
  const { content } = (await post(chatPath, asked)).choices[0].logprobs
  t.deepEqual(
    content.map((entry: Json) => entry.token),
    ['two', ' words'],
  )
  t.deepEqual(content[0].bytes, [...Buffer.from('two')])
  t.is(content[0].top_logprobs.length, 1)
  const streamed = (await stream(chatPath, asked)).flatMap(chunk => chunk.choices[0].logprobs?.content ?? [])
  t.deepEqual(streamed, content)
})

test('200: tools are called when required, named, or asked for by the text', async t => {
  const { post, stream } = opened(t)
  const other = { type: 'function', function: { name: 'other' } }
  const called = async (text: string, fields: object) => {
    const { message, finish_reason } = (await post(chatPath, chat(text, { tools: [weather, other], ...fields })))
      .choices[0]
    t.is(finish_reason, message.tool_calls ? 'tool_calls' : 'stop')
    return message.tool_calls?.map((call: Json) => [call.function.name, JSON.parse(call.function.arguments)]) ?? null
  }
  t.is(await called('hi', {}), null)
  t.deepEqual(await called('hi', { tool_choice: 'required' }), [['get_weather', { city: 'text', days: 2 }]])
  t.deepEqual(await called('hi', { tool_choice: { type: 'function', function: { name: 'other' } } }), [['other', {}]])
  t.deepEqual(await called('sandbox:tool', {}), [['get_weather', { city: 'text', days: 2 }]])
  t.is(await called('sandbox:tool', { tool_choice: 'none' }), null)

  const chunks = await stream(chatPath, chat('sandbox:tool', { tools: [weather] }))
  const calls = chunks.flatMap(chunk => chunk.choices[0].delta.tool_calls ?? [])
  t.is(calls[0].function.name, 'get_weather')
  t.true(calls.length > 2 && calls.slice(1).every(call => !('id' in call)))
  t.deepEqual(JSON.parse(calls.map(call => call.function.arguments).join('')), { city: 'text', days: 2 })
  t.is(chunks.at(-1).choices[0].finish_reason, 'tool_calls')
})

test('200: a tool’s answer is followed by text, not by the next call', async t => {
  const { post } = opened(t)
  const call = { id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{}' } }
  const messages = [
    { role: 'user', content: 'sandbox:tool' },
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'call_1', content: 'sunny' },
  ]
  const answer = await post(chatPath, { model: 'm', messages, tools: [weather] })
  t.is(answer.choices[0].message.content, 'sandbox:tool')
})

test('200: JSON when the response format asks for it', async t => {
  const { post } = opened(t)
  const content = async (response_format: object) => {
    return JSON.parse((await post(chatPath, chat('Hi', { response_format }))).choices[0].message.content)
  }
  t.deepEqual(await content({ type: 'json_object' }), { echo: 'Hi' })
  const schema = weather.function.parameters
  t.deepEqual(await content({ type: 'json_schema', json_schema: { name: 'w', schema } }), { city: 'text', days: 2 })
})

/** The pixels' bytes of a PNG, after a check of its frame. */
function pixels(png: Buffer): number {
  const length = png.readUInt32BE(33)
  if (png.toString('latin1', 12, 16) !== 'IHDR' || png.toString('latin1', 37, 41) !== 'IDAT')
    throw new Error('not a PNG')
  return inflateSync(png.subarray(41, 41 + length)).length
}

test('200: pictures as PNG and speech as 24 kHz WAV or raw samples', async t => {
  const { post, stream } = opened(t)
  const { message } = (await post(chatPath, chat('A cat', { modalities: ['image', 'text'] }))).choices[0]
  t.is(message.content, 'A cat')
  const url: string = message.images[0].image_url.url
  t.true(url.startsWith('data:image/png;base64,'))
  t.is(pixels(Buffer.from(url.slice(22), 'base64')), 64 * (1 + 64 * 3))

  const speech = (format: string) => chat('Say this', { modalities: ['text', 'audio'], audio: { voice: 'a', format } })
  const answer = await post(chatPath, speech('wav'))
  const { audio, content } = answer.choices[0].message
  const wav = Buffer.from(audio.data, 'base64')
  t.is(content, null)
  t.is(audio.transcript, 'Say this')
  t.deepEqual(
    [wav.toString('latin1', 0, 4), wav.readUInt16LE(22), wav.readUInt32LE(24), wav.readUInt16LE(34)],
    ['RIFF', 1, 24_000, 16],
  )
  t.is(wav.readUInt32LE(40), wav.length - 44)
  t.true(answer.usage.completion_tokens_details.audio_tokens > 0)

  const deltas = (await stream(chatPath, speech('pcm16'))).flatMap(chunk => chunk.choices[0].delta.audio ?? [])
  t.is(deltas.map(delta => delta.transcript ?? '').join(''), 'Say this')
  t.is(Buffer.from(deltas.find(delta => delta.data).data, 'base64').length, wav.length - 44)
  t.true(deltas.at(-1).expires_at > 0)
})

test('200: completions echo every prompt n times', async t => {
  const { post, stream } = opened(t)
  const answer = await post('/v1/completions', { model: 'm', prompt: ['one', 'two words'], n: 2 })
  t.is(answer.object, 'text_completion')
  t.deepEqual(
    answer.choices.map((choice: Json) => [choice.index, choice.text]),
    [
      [0, 'one'],
      [1, 'one'],
      [2, 'two words'],
      [3, 'two words'],
    ],
  )
  t.deepEqual([answer.usage.prompt_tokens, answer.usage.completion_tokens], [3, 6])
  const echoed = await post('/v1/completions', { model: 'm', prompt: 'a b', max_tokens: 1, echo: true, logprobs: 1 })
  t.is(echoed.choices[0].text, 'a ba')
  t.is(echoed.choices[0].finish_reason, 'length')
  const { tokens, text_offset, token_logprobs, top_logprobs } = echoed.choices[0].logprobs
  t.is(tokens.join(''), 'a ba')
  t.is(text_offset.at(-1), 'a ba'.length - tokens.at(-1).length)
  t.true(token_logprobs.length === tokens.length && top_logprobs.length === tokens.length)
  const chunks = await stream('/v1/completions', { model: 'm', prompt: 'a b', stream_options: { include_usage: true } })
  t.is(chunks.map(chunk => chunk.choices[0]?.text ?? '').join(''), 'a b')
  t.is(chunks.at(-1).usage.completion_tokens, 2)
  t.is((await post('/v1/completions', { model: 'm', prompt: [1, 2, 3] })).usage.prompt_tokens, 3)
})

test('200: embeddings are unit vectors that depend on the text alone', async t => {
  const { post } = opened(t)
  const path = '/v1/embeddings'
  const { data, usage } = await post(path, { model: 'm', input: ['a', 'b', 'a'] })
  t.is(data[0].embedding.length, 1536)
  t.deepEqual(data[0].embedding, data[2].embedding)
  t.notDeepEqual(data[0].embedding, data[1].embedding)
  const squares = data[1].embedding.reduce((sum: number, value: number) => sum + value * value, 0)
  t.true(Math.abs(squares - 1) < 1e-5)
  t.deepEqual(usage, { prompt_tokens: 3, total_tokens: 3 })
  const floats = (await post(path, { model: 'm', input: 'a', dimensions: 4 })).data[0].embedding
  const base64 = (await post(path, { model: 'm', input: 'a', dimensions: 4, encoding_format: 'base64' })).data[0]
    .embedding
  const bytes = Buffer.from(base64, 'base64')
  t.deepEqual(
    Array.from({ length: 4 }, (_, i) => bytes.readFloatLE(i * 4)),
    floats,
  )
  t.is((await post(path, { model: 'm', input: [[1, 2], [3]] })).data.length, 2)
})

test('400 naming the field when embeddings would have more than 500,000 values in all', async t => {
  const { sandbox, post } = opened(t)
  const path = '/v1/embeddings'
  const refused = async (body: object) => {
    const response = await send(sandbox, path, { model: 'm', ...body })
    const { error } = (await response.body.json()) as Json
    return [response.statusCode, error.param]
  }
  t.deepEqual(await refused({ input: Array(123).fill('a'), dimensions: 4_096 }), [400, 'dimensions'])
  t.deepEqual(await refused({ input: Array(326).fill([1]) }), [400, 'input'])
  t.is((await post(path, { model: 'm', input: Array(122).fill('a'), dimensions: 4_096 })).data.length, 122)
  t.is((await post(path, { model: 'm', input: Array(4_000).fill(7), dimensions: 4_096 })).data.length, 1)
})

test('200: an answer with logarithms of probability is cut short, however many choices it has', async t => {
  const { post, stream } = opened(t)
  const body = chat('a b c d '.repeat(50_000), { n: 4, logprobs: true })
  const { choices } = await post(chatPath, body)
  t.deepEqual(
    choices.map((choice: Json) => [choice.message.content.length, choice.finish_reason]),
    Array.from({ length: 4 }, () => [5_000, 'length']),
  )
  const tokens = choices[3].logprobs.content.map(({ token }: Json) => token)
  t.is(tokens.join(''), choices[3].message.content)
  t.true((await stream(chatPath, body)).length < 12_000)
  const completion = await post('/v1/completions', {
    model: 'm',
    prompt: 'a b '.repeat(20_000),
    logprobs: 5,
    max_tokens: 1e6,
  })
  t.is(completion.choices[0].text.length, 20_000)
})

for (const [path, fields] of [
  [chatPath, { messages: [{ role: 'user', content: 'a '.repeat(475_000) }], n: 2 }],
  ['/v1/completions', { prompt: ['a '.repeat(240_000), 'b '.repeat(230_000)], n: 2 }],
] as const)
  test(`200: a long answer of ${path} is streamed whole, in some thousand events`, async t => {
    const { sandbox } = opened(t)
    const { body } = await send(sandbox, path, { model: 'm', stream: true, max_tokens: 1_000_000, ...fields })
    const events = (await body.text())
      .split('\n\n')
      .flatMap(event => (event.startsWith('data: {') ? [event.slice(6)] : []))
    t.true(events.length > 1_000 && events.length < 8_100, `${events.length}`)
    const choices = events.map(event => (JSON.parse(event) as Json).choices[0])
    const whole = choices.filter(({ index }) => index === 0).map(({ delta, text }) => delta?.content ?? text ?? '')
    t.regex(whole.join(''), /^(?:a ?)+$/)
    t.true(whole.join('').length > 200_000)
  })
