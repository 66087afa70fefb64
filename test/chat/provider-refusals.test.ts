import { gzipSync } from 'node:zlib'
import { protocols } from '../../shared/providers/protocols.ts'
import { classifyRefusal } from '../../shared/providers/toolkit/refusal.ts'
import { noTargetNowError } from '../../shared/routing/no-target-errors.ts'
import { events, json, type Reply, text } from '../emulators/emulator.ts'
import { chatChunk, chatReply, insufficientQuota, invalidKey, startOpenAiEmulator } from '../emulators/openai.ts'
import { chargedNano, dataOf, saying, startWorld, upstreamSecret } from '../support/chat/gateway.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use } from '../support/use.ts'

const mistral = use(test, startOpenAiEmulator)
const groq = use(test, startOpenAiEmulator)
const world = use(test, () =>
  startWorld({
    MISTRAL_API_KEY: upstreamSecret,
    MISTRAL_BASE_URL: `${mistral.url}/v1`,
    GROQ_API_KEY: upstreamSecret,
    GROQ_BASE_URL: `${groq.url}/v1`,
  }),
)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.openrouter, world.anthropic, mistral, groq]) emulator.reset()
})

const atMistral = { provider: { only: ['mistral'] } }
const atGroq = { provider: { only: ['groq'] } }
const firstGroq = { provider: { order: ['groq'], only: ['groq', 'openrouter'] } }

async function ask(body: object, path = '/v1/chat/completions') {
  const { live } = await world.gateway.account()
  const response = await world.gateway.fetch(path, { key: live, body })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

/** What servers answer to an invalid request, the reason in it, and the field. The comments name where each was seen. */
const reasons: [name: string, reply: Reply, message: RegExp, param: string | null][] = [
  // editor-code-assistant/eca#231, Gage-Technologies/mistral-go#2
  [
    'Mistral’s list inside `message`',
    json(422, {
      object: 'error',
      message: {
        detail: [{ type: 'greater_than', loc: ['body', 'top_p'], msg: 'Input should be greater than 0', input: 0 }],
      },
      type: 'invalid_request_error',
      param: null,
      code: null,
    }),
    /^top_p: Input should be greater than 0$/,
    'top_p',
  ],
  [
    'several faults of FastAPI',
    json(422, {
      detail: [
        { loc: ['body', 'messages', 1, 'content'], msg: 'Field required', type: 'missing' },
        { loc: ['body', 'n'], msg: 'Input should be less than 2', type: 'less_than' },
      ],
    }),
    /^messages\.1\.content: Field required; n: Input should be less than 2$/,
    'messages.1.content',
  ],
  ['FastAPI’s text', json(422, { detail: 'No such voice.' }), /^No such voice\.$/, null],
  ['`error` as text', json(400, { error: 'No such voice.' }), /^No such voice\.$/, null],
  ['a list of errors', json(400, { errors: [{ message: 'No a.' }, 'No b.'] }), /^No a\.; No b\.$/, null],
  [
    'errors by field (RFC 9457)',
    json(400, { title: 'Bad', errors: { top_k: ['is negative'] } }),
    /^top_k: is negative$/,
    'top_k',
  ],
  // openrouter.ai/docs/api-reference/errors
  [
    'OpenRouter’s words of another provider',
    json(400, {
      error: {
        message: 'Provider returned error',
        code: 400,
        metadata: { raw: '{"error":{"message":"No such voice."}}' },
      },
    }),
    /^No such voice\.$/,
    null,
  ],
  [
    'Amazon’s',
    json(400, { message: 'Malformed input request' }, { 'x-amzn-errortype': 'ValidationException' }),
    /^Malformed input request$/,
    null,
  ],
  ['plain text', text(400, 'No such voice.', { 'content-type': 'text/plain' }), /^No such voice\.$/, null],
  [
    'a page of a proxy',
    text(413, '<html><head><title>413 Request Entity Too Large</title></head><body>nginx at host-1</body></html>', {
      'content-type': 'text/html',
    }),
    /^413 Request Entity Too Large$/,
    null,
  ],
  ['nothing', text(422, '', {}), /^The provider answered with status 422\.$/, null],
]
for (const [name, reply, message, param] of reasons) {
  test.serial(`400 with the provider’s reason: ${name}`, async t => {
    mistral.next(reply)
    const { status, text: answer } = await ask(saying('mistral-large-3', 'Hello', atMistral))
    t.is(status, 400, answer)
    const { error } = JSON.parse(answer)
    t.is(error.code, 'invalid_request')
    t.regex(error.message, message)
    t.is(error.param, param)
    t.is(mistral.requests.length, 1)
  })
}

for (const stream of [false, true]) {
  test.serial(`400 without the key that a provider quotes, whatever its form (stream: ${stream})`, async t => {
    mistral.next(json(422, { detail: `The token ${upstreamSecret} may not do this. AIza${'x'.repeat(35)}` }))
    const { text: answer } = await ask(saying('mistral-large-3', 'Hello', { ...atMistral, stream }))
    t.regex(answer, /The token \[redacted\] may not do this/)
    t.false(answer.includes(upstreamSecret) || answer.includes('AIza'))
  })
}

const unverified = (what: string, param: string) => ({
  message: `Your organization must be verified to ${what}. Please go to: https://platform.openai.com/settings/organization/general and click on Verify Organization.`,
  ...{ type: 'invalid_request_error', param, code: 'unsupported_value' },
})
/** What a provider refuses to the operator's account, with the status of a bad request. */
const ofAccount: [name: string, path: string, model: string, emulator: 'openai' | 'anthropic', reply: Reply][] = [
  // continuedev/continue#8209, Lamb-Project/lamb#54
  [
    'streams',
    '/v1/chat/completions',
    'gpt-5-mini',
    'openai',
    json(400, { error: unverified('stream this model', 'stream') }),
  ],
  // continuedev/continue#9607, home-assistant/core#160212
  [
    'summaries of reasoning',
    '/v1/responses',
    'gpt-5-mini',
    'openai',
    json(400, { error: unverified('generate reasoning summaries', 'reasoning.summary') }),
  ],
  // anthropics/claude-code#19028
  [
    'everything, as it is disabled',
    '/v1/messages',
    'claude-haiku-4-5',
    'anthropic',
    json(400, {
      type: 'error',
      error: { type: 'invalid_request_error', message: 'This organization has been disabled.' },
    }),
  ],
]
for (const [name, path, model, provider, reply] of ofAccount)
  test.serial(
    `502, or 200 from another provider, where ${provider} refuses the operator’s account ${name}`,
    async t => {
      const body = path === '/v1/responses' ? { model, input: 'Hello' } : saying(model, 'Hello', { max_tokens: 50 })
      world[provider].next(reply, reply, reply)
      const alone = await ask({ ...body, provider: { only: [provider] } }, path)
      t.is(alone.status, 502, alone.text)
      t.notRegex(alone.text, /verif|disabled/i)
      world[provider].reset()
      world[provider].next(reply)
      const order = [provider, 'openrouter']
      const served = await ask({ ...body, provider: { order, only: order } }, path)
      t.is(served.status, 200, served.text)
      t.is(served.headers.get('x-gateway-provider'), 'openrouter')
    },
  )

const toolFailed = {
  message: 'Failed to call a function. Please adjust your prompt.',
  type: 'invalid_request_error',
  code: 'tool_use_failed',
  failed_generation: '<function=read={"path": "a"}</function>',
}
/** Failures of a model: Groq's by their code, those of others by their words. */
const modelFaults: [name: string, error: object, status: number, code: string][] = [
  ['a call that is none', toolFailed, 400, 'tool_use_failed'],
  // vercel/ai#5282
  ['the same without its code', { message: toolFailed.message, type: 'invalid_request_error' }, 400, 'tool_use_failed'],
  [
    'invalid JSON',
    { ...toolFailed, message: 'Failed to generate JSON.', code: 'json_validate_failed' },
    400,
    'json_validate_failed',
  ],
  // strands-agents/harness-sdk#649, ollama/ollama#12884, ggml-org/llama.cpp#24644
  ['Bedrock’s', { message: 'Model produced invalid sequence as part of ToolUse.' }, 424, 'tool_use_failed'],
  ['Ollama’s', { message: 'error parsing tool call: raw=\'{"a"\', err=unexpected end' }, 500, 'tool_use_failed'],
  [
    'llama.cpp’s',
    { code: 500, message: 'Failed to parse input at pos 184: <tool_call>', type: 'server_error' },
    500,
    'output_parse_failed',
  ],
]
for (const [name, error, status, code] of modelFaults) {
  test.serial(`200 from another provider when a model wrote ${name}`, async t => {
    groq.next(json(status, { error }))
    const answer = await ask(saying('gpt-oss-120b', 'Hello', firstGroq))
    t.is(answer.status, 200, answer.text)
    t.is(answer.headers.get('x-gateway-provider'), 'openrouter')
    t.deepEqual([groq.requests.length, world.openrouter.requests.length], [1, 1])
  })

  test.serial(`400 with its own code when a model writes twice ${name}`, async t => {
    groq.next(json(status, { error }), json(status, { error }))
    const answer = await ask(saying('gpt-oss-120b', 'Hello', atGroq))
    t.is(answer.status, 400, answer.text)
    const shown = JSON.parse(answer.text).error
    t.is(shown.code, code)
    t.is(shown.type, 'invalid_request_error')
    t.is(shown.failed_generation, (error as typeof toolFailed).failed_generation)
    t.is(groq.requests.length, 2)
  })
}

test.serial('200 when a model writes a usable call at the second attempt, and its provider stays healthy', async t => {
  groq.next(json(400, { error: toolFailed }), chatReply())
  const answer = await ask(saying('gpt-oss-120b', 'Hello', atGroq))
  t.is(answer.status, 200, answer.text)
  for (let i = 0; i < 3; i++) {
    groq.next(json(400, { error: toolFailed }), json(400, { error: toolFailed }))
    t.is((await ask(saying('gpt-oss-120b', 'Hello', atGroq))).status, 400)
  }
  groq.next(chatReply())
  t.is((await ask(saying('gpt-oss-120b', 'Hello', atGroq))).status, 200, 'its circuit is closed')
})

const eventOf = (error: object) => `event: error\ndata: ${JSON.stringify({ error })}\n\n`
const begun = `data: ${JSON.stringify(chatChunk({ role: 'assistant', content: 'Hel' }))}\n\n`

test.serial('200 of a stream from another provider when a model’s fault is the first event', async t => {
  groq.next(events([eventOf({ ...toolFailed, status_code: 400 })]))
  const answer = await ask(saying('gpt-oss-120b', 'Hello', { ...firstGroq, stream: true }))
  t.is(answer.headers.get('x-gateway-provider'), 'openrouter')
  t.is(dataOf(answer.text).at(-1), '[DONE]')
})

test.serial('an error event with its code and what the model wrote, when its fault comes after output', async t => {
  groq.next(events([begun, eventOf(toolFailed)]))
  const answer = await ask(saying('gpt-oss-120b', 'Hello', { ...firstGroq, stream: true }))
  const { error } = dataOf(answer.text).at(-1)
  t.is(error.code, 'tool_use_failed')
  t.is(error.failed_generation, toolFailed.failed_generation)
  t.is(world.openrouter.requests.length, 0)
})

test.serial('400 of a model’s fault in the formats of Messages and Responses', async t => {
  groq.next(json(400, { error: toolFailed }), json(400, { error: toolFailed }))
  const messages = await ask(saying('gpt-oss-120b', 'Hello', { ...atGroq, max_tokens: 50 }), '/v1/messages')
  t.is(messages.status, 400, messages.text)
  const { error } = JSON.parse(messages.text)
  t.is(error.code, 'tool_use_failed')
  t.is(error.details.failed_generation, toolFailed.failed_generation)
  groq.next(json(400, { error: toolFailed }), json(400, { error: toolFailed }))
  const responses = await ask({ model: 'gpt-oss-120b', input: 'Hello', ...atGroq }, '/v1/responses')
  t.is(JSON.parse(responses.text).error.code, 'tool_use_failed')
  t.is(JSON.parse(responses.text).error.failed_generation, toolFailed.failed_generation)
})

/** Errors as first events of a stream: the code decides, whatever the type says. */
const inBand: [error: object | string, isTriedElsewhere: boolean, code: string][] = [
  [{ type: 'invalid_request_error', code: 'server_error', message: 'x' }, true, ''],
  [{ type: 'invalid_request_error', code: 'rate_limit_exceeded', message: 'x' }, true, ''],
  [{ type: 'invalid_request_error', code: 'model_overloaded', message: 'x' }, true, ''],
  [{ type: 'invalid_request_error', code: 503, message: 'x' }, true, ''],
  [{ type: 'server_error', code: 'invalid_image_url', message: 'No image.' }, false, 'invalid_request'],
  [{ type: 'server_error', code: 'context_length_exceeded', message: 'x' }, false, 'context_length_exceeded'],
  [{ type: 'BadRequestError', code: 400, message: 'No such voice.' }, false, 'invalid_request'],
  [{ type: 'invalid_request_error', code: null, message: 'No such voice.' }, false, 'invalid_request'],
  [
    { message: 'The number of tokens to keep from the initial prompt is greater than the context length.' },
    false,
    'context_length_exceeded',
  ],
  [{ message: 'Something broke.' }, true, ''],
]
for (const [error, isTriedElsewhere, code] of inBand) {
  test.serial(`${isTriedElsewhere ? 200 : 400} for an event with ${JSON.stringify(error)}`, async t => {
    groq.next(events([eventOf(error as object)]))
    const route = isTriedElsewhere ? firstGroq : atGroq
    const answer = await ask(saying('gpt-oss-120b', 'Hello', { ...route, stream: true }))
    if (isTriedElsewhere) return void t.is(answer.headers.get('x-gateway-provider'), 'openrouter', answer.text)
    t.is(answer.status, 400, answer.text)
    t.is(JSON.parse(answer.text).error.code, code)
  })
}

const words =
  /This model's maximum context length is (\d+) tokens\. However, your (\w+) resulted in (\d+) tokens\. \(context_length_exceeded\)/

async function overflowOf(t: ExecutionContext, body: object, path?: string) {
  const { status, text: answer } = await ask(body, path)
  t.is(status, 400, answer)
  const { error } = JSON.parse(answer)
  t.is(error.code, 'context_length_exceeded')
  return error as { message: string; param: string }
}

test.serial('400 for a prompt that is too long, counted here: in the words of each format', async t => {
  const long = 'word '.repeat(160_000)
  const { live } = await world.gateway.account({ usd: '100' })
  const refusal = async (path: string, body: object) =>
    JSON.parse(await (await world.gateway.fetch(path, { key: live, body })).text()).error
  const chat = await refusal('/v1/chat/completions', saying('gpt-4o', long))
  t.deepEqual([words.exec(chat.message)?.[1], chat.param], ['128000', 'messages'])
  const responses = await refusal('/v1/responses', { model: 'gpt-4o', input: long })
  t.regex(responses.message, words)
  const messages = await refusal('/v1/messages', saying('gpt-4o', long, { max_tokens: 50 }))
  t.regex(messages.message, /^prompt is too long: \d+ tokens > 128000 maximum/)
})

test.serial('400 for a prompt that a provider finds too long: its own counts, in the words of each format', async t => {
  const anthropic = json(400, {
    type: 'error',
    error: { type: 'invalid_request_error', message: 'prompt is too long: 213462 tokens > 200000 maximum' },
  })
  world.anthropic.next(anthropic)
  const chat = await overflowOf(t, saying('claude-haiku-4-5', 'Hello', { provider: { only: ['anthropic'] } }))
  t.deepEqual(words.exec(chat.message)?.slice(1), ['200000', 'messages', '213462'])
  t.regex(chat.message, /prompt is too long: 213462 tokens > 200000 maximum$/, 'with the provider’s own words')
  mistral.next(
    json(400, {
      object: 'error',
      message: 'Prompt contains 300000 tokens, too large for model with 131072 maximum context length',
    }),
  )
  const messages = await overflowOf(
    t,
    saying('mistral-large-3', 'Hello', { ...atMistral, max_tokens: 50 }),
    '/v1/messages',
  )
  t.regex(messages.message, /^prompt is too long: 300000 tokens > 131072 maximum/)
  world.anthropic.next(
    json(400, {
      type: 'error',
      error: {
        type: 'invalid_request_error',
        message: 'input length and `max_tokens` exceed context limit: 90402 + 116650 > 204648, decrease input length',
      },
    }),
  )
  const output = await overflowOf(t, saying('claude-haiku-4-5', 'Hello', { provider: { only: ['anthropic'] } }))
  t.regex(
    output.message,
    /you requested 207052 tokens \(90402 in the messages, 116650 in the completion\)\. \(context_length/,
  )
  t.is(output.param, 'max_tokens')
})

test.serial(
  '502 that tells the caller to tell the operator, and the log and the incident which key it was',
  async t => {
    mistral.next(invalidKey)
    const refused = await ask(saying('mistral-large-3', 'Hello', atMistral))
    t.is(refused.status, 502, refused.text)
    t.regex(
      JSON.parse(refused.text).error.message,
      /^`mistral` refused the gateway’s API key\. Tell the operator of this service\.$/i,
    )
    t.is(refused.headers.get('x-should-retry'), 'false')
    groq.next(insufficientQuota)
    const poor = await ask(saying('gpt-oss-120b', 'Hello', atGroq))
    t.regex(JSON.parse(poor.text).error.message, /^`groq` refused the gateway’s account\. Tell the operator/)
    t.false((refused.text + poor.text).includes(upstreamSecret))
    const errors = await world.gateway.services.redis.hgetall('health:errors')
    t.regex(errors['mistral|mistral-large-3']!, /\(MISTRAL_API_KEY\)/)
    t.false(JSON.stringify(errors).includes(upstreamSecret))
    const account = await world.gateway.account()
    t.is(await chargedNano(world, account), 0)
  },
)

test.serial('400 naming the input for tokens at a provider that takes text only; it is not called', async t => {
  const { status, text: answer } = await ask({ model: 'mistral-embed', input: [[15339, 1917]] }, '/v1/embeddings')
  t.is(status, 400, answer)
  const { error } = JSON.parse(answer)
  t.deepEqual([error.code, error.param], ['unsupported_capability', 'input'])
  t.regex(error.message, /takes text, not tokens/)
  t.is(mistral.requests.length, 0)
})

test.serial('200 with the prompt_cache_key at Mistral, where it enables the cache', async t => {
  const answer = await ask(saying('mistral-large-3', 'Hello', { ...atMistral, prompt_cache_key: 'session-1' }))
  t.is(answer.status, 200, answer.text)
  t.is(mistral.requests[0]!.body.prompt_cache_key, 'session-1')
})

/** Text cannot be made of it: an object whose own `toString` is no function. */
const odd = { toString: 1 }
const oddRefusals: [model: string, emulator: 'openai' | 'anthropic', body: object][] = [
  ['gpt-4.1', 'openai', { error: { message: 'No.', code: odd, type: odd, param: odd }, status: odd }],
  ['claude-sonnet-4-5', 'anthropic', { type: 'error', error: { message: 'No.', type: odd, details: odd } }],
]
for (const [model, emulator, body] of oddRefusals)
  test.serial(`400 for a refusal of ${emulator} with odd members, whole, streamed and compressed`, async t => {
    const refusal = Buffer.from(JSON.stringify(body))
    for (const stream of [false, true])
      for (const headers of [{}, { 'content-encoding': 'gzip' }]) {
        const bytes = 'content-encoding' in headers ? gzipSync(refusal) : refusal
        world[emulator].next((_request, response) => void response.writeHead(400, headers).end(bytes))
        const { status, text: answer } = await ask(saying(model, 'Hello', { stream, provider: { only: [emulator] } }))
        t.is(status, 400, answer)
        t.is(JSON.parse(answer).error.code, 'invalid_request', answer)
      }
  })

test('a refusal that its protocol cannot classify counts by its status', t => {
  const failure = () => {
    throw new TypeError('Cannot convert object to primitive value')
  }
  t.like(classifyRefusal({ failure }, 429, {}, '{}'), { reason: 'rate_limited', status: 429 })
  for (const [name, protocol] of Object.entries(protocols))
    for (const body of [
      { error: odd },
      { error: { status: odd, code: [odd] } },
      { detail: [{ loc: [odd], msg: 'x' }] },
    ])
      t.is(classifyRefusal(protocol, 429, {}, JSON.stringify(body)).status, 429, name)
  t.is(protocols.anthropic!.failure(400, {}, '{"error":{"type":"constructor"}}').reason, 'invalid_request')
  t.is(protocols.bedrock!.failure(400, {}, '{"__type":"constructor"}').reason, 'invalid_request')
})

test.serial('502 for a stream with a refusal that is no text, in a dialect that it is translated to', async t => {
  for (const refusal of [odd, [odd]]) {
    world.openai.next(events([`data: ${JSON.stringify(chatChunk({ content: 'Hi', refusal }))}\n\n`]))
    const body = { ...saying('gpt-4.1', 'Hello', { stream: true, max_tokens: 9 }), provider: { only: ['openai'] } }
    const { status, text: answer } = await ask(body, '/v1/messages')
    t.is(status, 502, answer)
    t.regex(answer, /upstream_invalid_response/)
  }
})

const callsOf = (count: number) =>
  Array.from({ length: count }, (_, index) => ({
    index,
    id: `call_of_${index}`,
    type: 'function',
    function: { name: 'look', arguments: '{}' },
  }))
for (const path of ['/v1/chat/completions', '/v1/messages'])
  test.serial(`200 with 2,000 calls of functions, 502 for more than any model makes: ${path}`, async t => {
    for (const [count, expected] of [
      [2_000, 200],
      [3_000, 502],
    ] as const)
      for (const stream of [false, true]) {
        const calls = callsOf(count)
        const delta = { role: 'assistant', content: null, tool_calls: calls }
        const chunks = [chatChunk(delta), chatChunk({}, 'tool_calls')].map(one => `data: ${JSON.stringify(one)}\n\n`)
        const choices = [{ index: 0, message: delta, finish_reason: 'tool_calls' }]
        const whole = json(200, { id: 'c', object: 'chat.completion', created: 1, model: 'm', choices })
        world.openai.next(stream ? events([...chunks, 'data: [DONE]\n\n']) : whole)
        const asked = { stream, max_tokens: 9, provider: { only: ['openai'] } }
        const { status, text: answer } = await ask(saying('gpt-4o', 'Hello', asked), path)
        t.is(status, expected, answer.slice(0, 300))
        if (expected === 200) t.true(answer.includes('call_of_1999'))
        else t.regex(answer, /upstream_invalid_response/)
      }
  })

test.serial('502 for an object that is no response, never a free answer', async t => {
  world.openai.next(json(200, { id: 'x' }), json(200, { id: 'x' }), json(200, { id: 'x' }))
  const answer = await ask({ model: 'gpt-5.1', input: 'Hello', provider: { only: ['openai'] } }, '/v1/responses')
  t.is(answer.status, 502, answer.text)
  t.is(JSON.parse(answer.text).error.code, 'upstream_invalid_response')
})

test('503 while a provider is not called: where it refused the key, the caller is told to tell the operator', t => {
  const refused = { cooldownMs: 60_000, accountFault: true } as const
  t.regex(
    noTargetNowError([refused]).message,
    /^The only provider .* refused the gateway’s API key or account\. Tell the operator/,
  )
  t.regex(noTargetNowError([refused, { cooldownMs: 5_000 }]).message, /^Every provider .* Try again in 5 s\.$/)
})

// They pause their targets, so they are the last.
for (const [model, stream] of [
  ['mistral-large-3', false],
  ['mistral-small-4', true],
] as const)
  test.serial(
    `502 with retry-after, after one call, for a rate limit that states its delay in words, stream ${stream}`,
    async t => {
      const limited = {
        message: 'Rate limit reached for m on tokens per min. Please try again in 19.2s.',
        ...{ type: 'tokens', code: 'rate_limit_exceeded' },
      }
      mistral.next(stream ? events([eventOf(limited)]) : json(429, { error: limited }))
      const answer = await ask(saying(model, 'Hello', { ...atMistral, stream }))
      t.is(answer.status, 502, answer.text)
      t.is(answer.headers.get('retry-after'), '20')
      t.is(mistral.requests.length, 1)
    },
  )
