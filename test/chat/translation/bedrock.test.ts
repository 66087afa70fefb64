import {
  converseReply,
  exception,
  frameOf,
  frames,
  startBedrockEmulator,
  throttled,
  unavailable,
} from '../../emulators/bedrock.ts'
import { reset } from '../../emulators/emulator.ts'
import { chargedNano, dataOf, saying } from '../../support/chat/gateway.ts'
import { createAccount } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

/** Bedrock in two regions, in all dialects of clients. Of Claude, Converse alone is reachable. */

// biome-ignore lint/suspicious/noExplicitAny: answers of every dialect
type Any = any

const token = 'bedrock-api-key-emulated'
const virginia = use(test, () => startBedrockEmulator({ tokens: [token] }))
const ireland = use(test, () => startBedrockEmulator({ region: 'eu-west-1', tokens: [token] }))
const gateway = useGateway(test, () => ({
  AWS_BEARER_TOKEN_BEDROCK: token,
  BEDROCK_REGIONS: 'us-east-1,eu-west-1',
  BEDROCK_US_EAST_1_BASE_URL: virginia.url,
  BEDROCK_EU_WEST_1_BASE_URL: ireland.url,
  BEDROCK_US_EAST_1_ANTHROPIC_BASE_URL: `${virginia.url}/anthropic`,
  BEDROCK_EU_WEST_1_ANTHROPIC_BASE_URL: `${ireland.url}/anthropic`,
  BEDROCK_US_EAST_1_OPENAI_BASE_URL: `${virginia.url}/openai/v1`,
  BEDROCK_EU_WEST_1_OPENAI_BASE_URL: `${ireland.url}/openai/v1`,
}))

test.beforeEach(() => {
  for (const emulator of [virginia, ireland]) emulator.reset()
})

const model = 'deepseek-v3.2'
const inRegion = (region: string) => ({ provider: { only: [`bedrock/${region}`] } })
const weather = {
  type: 'function',
  function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
}

async function post(
  path: string,
  key: string,
  body: object,
): Promise<{ status: number; headers: Headers; text: string }> {
  const response = await fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

/** The same question in each dialect, and the text of its whole answer and of its streamed one. */
const dialects = {
  '/v1/chat/completions': {
    body: { messages: [{ role: 'user', content: 'Hello' }] },
    text: (answer: Any) => answer.choices[0].message.content,
    delta: (event: Any) => event.choices?.[0]?.delta?.content ?? '',
  },
  '/v1/messages': {
    body: { max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] },
    text: (answer: Any) => answer.content.map((block: Any) => block.text ?? '').join(''),
    delta: (event: Any) => event.delta?.text ?? '',
  },
  '/v1/responses': {
    body: { input: 'Hello' },
    text: (answer: Any) =>
      answer.output
        .flatMap((item: Any) => item.content ?? [])
        .map((part: Any) => part.text)
        .join(''),
    delta: (event: Any) => (event.type === 'response.output_text.delta' ? event.delta : ''),
  },
} as const

for (const [path, { body, text, delta }] of Object.entries(dialects)) {
  for (const id of [model, 'claude-haiku-4-5', 'nova-2-lite', 'gpt-oss-120b']) {
    test.serial(`200 from ${path} with ${id}, whole and streamed`, async t => {
      const account = await createAccount(gateway.services)
      const only = {
        provider: { only: ['bedrock/us-east-1'], ignore: ['bedrock/us-east-1/anthropic', 'bedrock/us-east-1/openai'] },
      }
      const whole = await post(path, account.live, { model: id, ...body, ...only })
      t.is(whole.status, 200, whole.text)
      t.is(text(JSON.parse(whole.text)), 'Echo: Hello')
      const streamed = await post(path, account.live, { model: id, ...body, ...only, stream: true })
      const events = dataOf(streamed.text)
      t.is(events.map(event => (typeof event === 'string' ? '' : delta(event))).join(''), 'Echo: Hello', streamed.text)
      t.deepEqual(
        virginia.requests.map(request => request.path.split('/').at(-1)),
        ['converse', 'converse-stream'],
      )
      t.true((await chargedNano({ gateway }, account)) > 0)
    })
  }
}

test.serial('the native dialects of a cloud are served by its parts: Messages and chat completions', async t => {
  const account = await createAccount(gateway.services)
  const only = (part: string) => ({ provider: { only: [`bedrock/us-east-1/${part}`] } })
  const { text: message, status } = await post('/v1/messages', account.live, {
    model: 'claude-haiku-4-5',
    ...dialects['/v1/messages'].body,
    ...only('anthropic'),
  })
  t.is(status, 200, message)
  t.is(JSON.parse(message).content[0].text, 'Echo: Hello')
  const chat = await post('/v1/chat/completions', account.live, { ...saying('grok-4.7'), ...only('openai') })
  t.is(chat.status, 200, chat.text)
  t.deepEqual(
    virginia.requests.map(request => request.path),
    ['/anthropic/v1/messages', '/openai/v1/chat/completions'],
  )
  t.is(virginia.requests[0]?.body.model, 'us.anthropic.claude-haiku-4-5-20251001-v1:0')
  t.is(virginia.requests[0]?.headers['anthropic-version'], '2023-06-01')
})

test.serial('200 from GPT for a JSON object where no message has the word that it requires', async t => {
  const account = await createAccount(gateway.services)
  const { status, text } = await post('/v1/chat/completions', account.live, {
    ...saying('gpt-5.6-luna', 'Hello'),
    response_format: { type: 'json_object' },
    provider: { only: ['bedrock/us-east-1/openai'] },
  })
  t.is(status, 200, text)
})

test.serial('200 from gpt-oss, whose thoughts are no part of its text', async t => {
  const account = await createAccount(gateway.services)
  for (const id of ['gpt-oss-120b', 'gpt-oss-20b']) {
    const { status, text } = await post('/v1/chat/completions', account.live, {
      ...saying(id, 'Hello'),
      provider: { order: ['bedrock/us-east-1/openai', 'bedrock/us-east-1'] },
    })
    t.is(status, 200, text)
    t.is(JSON.parse(text).choices[0].message.content, 'Echo: Hello')
  }
})

test.serial('200 from Nova for tools with the schemas of MCP servers, whose root it takes bare', async t => {
  const account = await createAccount(gateway.services)
  const place = { type: 'object', properties: { city: { type: 'string' } }, additionalProperties: false }
  const parameters = {
    ...{ $schema: 'http://json-schema.org/draft-07/schema#', title: 'Weather', type: 'object' },
    properties: { home: { $ref: '#/$defs/Place' }, away: { type: 'array', items: { $ref: '#/$defs/Place' } } },
    ...{ required: ['home'], additionalProperties: false, $defs: { Place: place } },
  }
  const tools = [{ type: 'function', function: { name: 'weather', parameters } }]
  const { status, text } = await post('/v1/chat/completions', account.live, {
    ...saying('nova-2-lite', 'Hello'),
    ...inRegion('us-east-1'),
    tools,
  })
  t.is(status, 200, text)
  t.deepEqual(virginia.requests[0]!.body.toolConfig.tools[0].toolSpec.inputSchema.json, {
    type: 'object',
    properties: { home: place, away: { type: 'array', items: place } },
    required: ['home'],
  })
})

test.serial(
  '200 from Llama and Mistral where a user speaks after the results of tools, which they take alone',
  async t => {
    const account = await createAccount(gateway.services)
    const call = { id: 'callcall1', type: 'function', function: { name: 'weather', arguments: '{"city":"Oslo"}' } }
    const messages = [
      { role: 'user', content: 'And?' },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'callcall1', content: '5C' },
      { role: 'user', content: 'Hello' },
    ]
    for (const id of ['llama-3.3-70b-instruct', 'mistral-large-3']) {
      const only = inRegion('us-east-1')
      const { status, text } = await post('/v1/chat/completions', account.live, {
        model: id,
        messages,
        tools: [weather],
        ...only,
      })
      t.is(status, 200, text)
    }
  },
)

for (const [id, name, native] of [
  ['gpt-6-sol', 'us.openai.gpt-6-sol', true],
  ['grok-4.7', 'us.xai.grok-4.7', false],
] as const) {
  test.serial(`${id} is served by OpenAI’s routes, Responses ${native ? 'as they are' : 'as chat'}`, async t => {
    const account = await createAccount(gateway.services)
    const only = { provider: { only: ['bedrock/us-east-1/openai'] } }
    for (const stream of [false, true]) {
      const chat = await post('/v1/chat/completions', account.live, { ...saying(id), stream, ...only })
      t.is(chat.status, 200, chat.text)
      const responses = await post('/v1/responses', account.live, { model: id, input: 'Hello', stream, ...only })
      t.is(responses.status, 200, responses.text)
    }
    const paths = virginia.requests.map(request => request.path)
    const second = native ? '/openai/v1/responses' : '/openai/v1/chat/completions'
    t.deepEqual(paths, ['/openai/v1/chat/completions', second, '/openai/v1/chat/completions', second])
    t.true(virginia.requests.every(({ body }) => body.model === name))
    t.is(virginia.requests[0]?.body.store, undefined)
    t.is(virginia.requests[1]?.body.store, native ? false : undefined)
    const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } }]
    const called = await post('/v1/chat/completions', account.live, { ...saying(id), tools, ...only })
    t.is(called.status, 200, called.text)
    t.is(virginia.requests.at(-1)!.path, second, 'functions beside reasoning')
    t.true((await chargedNano({ gateway }, account)) > 0)
  })
}

test.serial('betas that Bedrock does not know are not sent, nor what they open', async t => {
  const account = await createAccount(gateway.services)
  const response = await fetch(`${gateway.url}/v1/messages`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${account.live}`,
      'content-type': 'application/json',
      // As Claude Code sends them (ex-machina-co/opencode-anthropic-auth#174).
      'anthropic-beta':
        'claude-code-20250219,oauth-2025-04-20,interleaved-thinking-2025-05-14,thinking-token-count-2026-05-13,context-management-2025-06-27,prompt-caching-scope-2026-01-05,advisor-tool-2026-03-01,cache-diagnosis-2026-04-07',
    },
    body: JSON.stringify({
      model: 'claude-haiku-4-5',
      ...dialects['/v1/messages'].body,
      diagnostics: { previous_message_id: null },
      context_management: { edits: [] },
      provider: { only: ['bedrock/us-east-1/anthropic'] },
    }),
  })
  t.is(response.status, 200, await response.clone().text())
  const [sent] = virginia.requests
  t.is(sent?.headers['anthropic-beta'], 'interleaved-thinking-2025-05-14,context-management-2025-06-27')
  t.false('diagnostics' in sent!.body)
  t.true('context_management' in sent!.body)
  t.regex(String(response.headers.get('x-gateway-dropped')), /anthropic-beta/)
})

test.serial('tool calls and their results make a conversation, streamed and not', async t => {
  const account = await createAccount(gateway.services)
  const ask = { ...saying(model, 'weather in Oslo and Rome?'), tools: [weather], ...inRegion('us-east-1') }
  const first = JSON.parse((await post('/v1/chat/completions', account.live, ask)).text)
  const { message, finish_reason } = first.choices[0]
  t.is(finish_reason, 'tool_calls')
  t.deepEqual(
    message.tool_calls.map((one: Any) => one.function.arguments),
    ['{"city":"Oslo"}', '{"city":"Rome"}'],
  )
  const streamed = dataOf((await post('/v1/chat/completions', account.live, { ...ask, stream: true })).text)
  const deltas = streamed.flatMap(event => event.choices?.[0]?.delta?.tool_calls ?? [])
  t.is(
    deltas
      .filter(one => one.index === 1)
      .map(one => one.function.arguments)
      .join(''),
    '{"city":"Rome"}',
  )
  const results = message.tool_calls.map(({ id }: Any) => ({ role: 'tool', tool_call_id: id, content: '5C' }))
  const messages = [...ask.messages, message, ...results]
  const last = await post('/v1/chat/completions', account.live, { model, messages, ...inRegion('us-east-1') })
  t.is(JSON.parse(last.text).choices[0].message.content, 'Echo: 5C 5C')
})

test.serial('200 with the name of a tool that gpt-oss called with control tokens, streamed and not', async t => {
  const { live } = await createAccount(gateway.services)
  const toolUse = { toolUseId: 'tooluse_1', name: 'get_weather<|channel|>commentary', input: { city: 'Oslo' } }
  const ask = { ...saying('gpt-oss-120b', 'weather?'), tools: [weather], provider: { only: ['bedrock/us-east-1'] } }
  const reply = converseReply({ content: [{ toolUse }], stopReason: 'tool_use' })
  virginia.next(reply, reply)
  const whole = JSON.parse((await post('/v1/chat/completions', live, ask)).text).choices[0].message.tool_calls[0]
  t.is(whole.function.name, 'get_weather')
  const streamed = dataOf((await post('/v1/chat/completions', live, { ...ask, stream: true })).text)
  const names = streamed.flatMap(event => event.choices?.[0]?.delta?.tool_calls?.[0]?.function.name ?? [])
  t.deepEqual(names, ['get_weather'])
})

test.serial('reasoning state goes back to Converse as it came, and nowhere else', async t => {
  const account = await createAccount(gateway.services)
  const only = { provider: { only: ['bedrock/us-east-1'], ignore: ['bedrock/us-east-1/anthropic'] } }
  const ask = { ...saying('claude-haiku-4-5'), reasoning_effort: 'low', max_tokens: 3000, ...only }
  const { message } = JSON.parse((await post('/v1/chat/completions', account.live, ask)).text).choices[0]
  t.is(message.reasoning_content, 'Let me think.')
  t.not(message.reasoning_details[0].signature, 'c2lnbmVk')
  const messages = [...ask.messages, message, { role: 'user', content: 'And?' }]
  t.is((await post('/v1/chat/completions', account.live, { ...ask, messages })).status, 200)
  t.deepEqual(virginia.requests.at(-1)?.body.messages[1].content[0], {
    reasoningContent: { reasoningText: { text: 'Let me think.', signature: 'c2lnbmVk' } },
  })
})

test.serial('200 with cache marks at documents that are no PDF: what precedes them is cached', async t => {
  const account = await createAccount(gateway.services)
  const only = { provider: { only: ['bedrock/us-east-1'], ignore: ['bedrock/us-east-1/anthropic'] } }
  const mark = { cache_control: { type: 'ephemeral' } }
  const file = (type: string, more = {}) => ({
    type: 'file',
    file: { filename: 'a', file_data: `data:${type};base64,YTtiCg==` },
    ...more,
  })
  const text = { type: 'text', text: 'See.' }
  const sent = async (content: object[]) => {
    const body = { model: 'claude-sonnet-4-6', messages: [{ role: 'user', content }], ...only }
    const { status, headers, text } = await post('/v1/chat/completions', account.live, body)
    t.is(status, 200, text)
    const [{ content: blocks }] = virginia.requests.at(-1)!.body.messages
    return { names: blocks.map((block: object) => Object.keys(block)[0]), dropped: headers.get('x-gateway-dropped') }
  }
  const after = await sent([text, file('text/csv'), file('text/csv', mark)])
  t.deepEqual(after, { names: ['text', 'cachePoint', 'document', 'document'], dropped: null })
  const first = await sent([file('text/csv', mark), text])
  t.deepEqual(first, { names: ['document', 'text'], dropped: 'cache_control' })
})

test.serial('200 by a schema from Claude Haiku 4.5, whose Converse knows no format', async t => {
  const account = await createAccount(gateway.services)
  const only = { provider: { only: ['bedrock/us-east-1'], ignore: ['bedrock/us-east-1/anthropic'] } }
  const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
  const response_format = { type: 'json_schema', json_schema: { name: 'x', schema } }
  const body = { ...saying('claude-haiku-4-5', 'Oslo'), ...only, response_format, reasoning_effort: 'none' }
  const { status, headers, text } = await post('/v1/chat/completions', account.live, body)
  t.is(status, 200, text)
  t.regex(headers.get('x-gateway-structured-output')!, /^tool/)
})

test.serial('cached and written tokens are billed at their prices', async t => {
  const account = await createAccount(gateway.services)
  const only = { provider: { only: ['bedrock/us-east-1'], ignore: ['bedrock/us-east-1/anthropic'] } }
  const usage = {
    inputTokens: 100,
    outputTokens: 10,
    totalTokens: 1110,
    cacheReadInputTokens: 600,
    cacheWriteInputTokens: 400,
    cacheDetails: [
      { ttl: '1h', inputTokens: 300 },
      { ttl: '5m', inputTokens: 100 },
    ],
  }
  virginia.next(converseReply({ content: [{ text: 'Hi' }], usage }))
  const answer = JSON.parse(
    (await post('/v1/chat/completions', account.live, { ...saying('claude-haiku-4-5'), ...only })).text,
  )
  t.like(answer.usage, { prompt_tokens: 1100, completion_tokens: 10 })
  t.like(answer.usage.prompt_tokens_details, { cached_tokens: 600, cache_write_tokens: 400 })
  // Haiku 4.5 in the US: 1.1, output 5.5, read 0.11, written 1.375 for 5 minutes and 2.2 for an hour; 5 % margin.
  const usd = (100 * 1.1 + 10 * 5.5 + 600 * 0.11 + 100 * 1.375 + 300 * 2.2) / 1e6
  t.is(await chargedNano({ gateway }, account), Math.round(usd * 1.05 * 1e9))
})

for (const [what, refusal] of [
  ['throttled', throttled],
  ['unavailable', unavailable],
  ['unreachable', reset],
] as const) {
  test.serial(`the other region answers when one is ${what}`, async t => {
    const account = await createAccount(gateway.services)
    const order = {
      provider: {
        order: ['bedrock/us-east-1', 'bedrock/eu-west-1'],
        only: ['bedrock'],
        ignore: ['bedrock/us-east-1/anthropic', 'bedrock/eu-west-1/anthropic'],
      },
    }
    virginia.next(refusal, refusal, refusal)
    const { status, text, headers } = await post('/v1/chat/completions', account.live, {
      ...saying('claude-sonnet-4-6'),
      ...order,
    })
    t.is(status, 200, text)
    t.is(headers.get('x-gateway-provider') ?? JSON.parse(text).provider, 'bedrock/eu-west-1')
    t.true(ireland.requests[0]?.path.startsWith('/model/eu.anthropic.claude-sonnet-4-6/'))
  })
}

const opening = [{ type: 'messageStart', payload: { role: 'assistant' } }]
const half = [
  ...opening,
  { type: 'contentBlockDelta', payload: { contentBlockIndex: 0, delta: { text: 'Half an answer' } } },
]

test.serial('the other region answers when a stream fails before its first output', async t => {
  const account = await createAccount(gateway.services)
  const order = {
    provider: {
      order: ['bedrock/us-east-1'],
      only: ['bedrock'],
      ignore: ['bedrock/us-east-1/anthropic', 'bedrock/eu-west-1/anthropic'],
    },
  }
  virginia.next(frames([...opening, exception('throttlingException', 'Too many tokens.')]))
  const { text } = await post('/v1/chat/completions', account.live, {
    ...saying('claude-sonnet-4-5'),
    stream: true,
    ...order,
  })
  t.regex(text, /\[DONE\]/)
  t.is(
    dataOf(text)
      .map(event => event.choices?.[0]?.delta?.content ?? '')
      .join(''),
    'Echo: Hello gateway',
  )
  t.is(ireland.requests.length, 1)
})

for (const [what, reply] of [
  ['reports an exception', frames([...half, exception('modelStreamErrorException', 'The model failed.')])],
  ['has a damaged frame', frames([...half, Buffer.from(frameOf(half[1]!)).fill(7, 20, 22)])],
  ['breaks off', frames(half, { end: 'cut' })],
  ['ends without its stop reason', frames(half)],
] as const) {
  test.serial(`an error ends a stream that ${what} after its first output, and its output is billed`, async t => {
    const account = await createAccount(gateway.services)
    virginia.next(reply)
    const { text } = await post('/v1/chat/completions', account.live, {
      ...saying(model),
      stream: true,
      ...inRegion('us-east-1'),
    })
    t.regex(text, /Half an answer/)
    const events = dataOf(text)
    t.true(
      events.some(event => event.error),
      text,
    )
    await chargedNano({ gateway }, account)
  })
}

test.serial('a guardrail’s intervention is a content filter', async t => {
  const account = await createAccount(gateway.services)
  virginia.next(converseReply({ content: [{ text: 'Sorry.' }], stopReason: 'guardrail_intervened' }))
  const { text } = await post('/v1/chat/completions', account.live, { ...saying(model), ...inRegion('us-east-1') })
  t.is(JSON.parse(text).choices[0].finish_reason, 'content_filter')
})

test.serial('embeddings of several texts take a request each, and are billed by the tokens counted', async t => {
  const account = await createAccount(gateway.services)
  const body = {
    model: 'titan-embed-text-v2',
    input: ['one text', 'another text'],
    dimensions: 512,
    ...inRegion('us-east-1'),
  }
  const { status, text } = await post('/v1/embeddings', account.live, body)
  t.is(status, 200, text)
  const { data, usage } = JSON.parse(text)
  t.deepEqual(
    data.map((one: Any) => one.embedding.length),
    [512, 512],
  )
  t.is(usage.prompt_tokens, 5)
  t.is(virginia.requests.length, 2)
})

test.serial('embeddings of Cohere are billed by the tokens that a header states', async t => {
  const account = await createAccount(gateway.services)
  const body = { model: 'cohere-embed-v4', input: ['one text', 'another text'], ...inRegion('us-east-1') }
  const { status, text } = await post('/v1/embeddings', account.live, body)
  t.is(status, 200, text)
  t.like(JSON.parse(text).usage, { prompt_tokens: 200, total_tokens: 200, estimated: undefined })
  t.is(virginia.requests.length, 1)
})

test.serial(
  '200 for more texts than Cohere’s embeddings take at a time: the tokens of every call, which are in its head',
  async t => {
    const account = await gateway.account()
    const body = { model: 'cohere-embed-v4', input: Array(250).fill('a'), ...inRegion('us-east-1') }
    const response = await gateway.fetch('/v1/embeddings', { key: account.live, body })
    t.is(response.status, 200)
    const { data, usage } = (await response.json()) as Any
    t.is(data.length, 250)
    t.is(usage.prompt_tokens, 250 * 100)
    t.deepEqual(virginia.requests.map(request => request.body.texts.length).sort(), [58, 96, 96])
  },
)
