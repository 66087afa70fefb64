import { startBedrockEmulator } from '../emulators/bedrock.ts'
import { startChatProvider } from '../emulators/chat-rules.ts'
import type { Emulator } from '../emulators/emulator.ts'
import { reasoningState } from '../emulators/openai-responses.ts'
import { startWorld, upstreamSecret } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

/** Earlier answers that clients hand back with what a provider refuses in them. */

// biome-ignore lint/suspicious/noExplicitAny: bodies of every dialect
type Any = any

const mistral = use(test, () => startChatProvider('mistral'))
const moonshot = use(test, () => startChatProvider('moonshot'))
const deepseek = use(test, () => startChatProvider('deepseek'))
const bedrock = use(test, () => startBedrockEmulator({ tokens: [upstreamSecret] }))
const world = use(test, () =>
  startWorld({
    MISTRAL_API_KEY: upstreamSecret,
    MISTRAL_BASE_URL: `${mistral.url}/v1`,
    MOONSHOT_API_KEY: upstreamSecret,
    MOONSHOT_BASE_URL: `${moonshot.url}/v1`,
    DEEPSEEK_API_KEY: upstreamSecret,
    DEEPSEEK_BASE_URL: `${deepseek.url}/v1`,
    AWS_BEARER_TOKEN_BEDROCK: upstreamSecret,
    BEDROCK_REGIONS: 'us-east-1',
    BEDROCK_US_EAST_1_BASE_URL: bedrock.url,
  }),
)
let key: string
test.before(async () => {
  key = (await world.gateway.account({ usd: '100' })).live
})
const providers: [model: string, provider: string, emulator: () => Emulator][] = [
  ['kimi-k2.5', 'moonshot', () => moonshot],
  ['mistral-large-3', 'mistral', () => mistral],
  ['deepseek-v4-pro', 'deepseek', () => deepseek],
  ['gpt-4.1', 'openai', () => world.openai],
  ['gpt-5-mini', 'openrouter', () => world.openrouter],
  ['claude-haiku-4-5', 'anthropic', () => world.anthropic],
  ['gemini-2.5-flash', 'gemini', () => world.gemini],
  ['deepseek-v3.2', 'bedrock/us-east-1', () => bedrock],
]
test.beforeEach(() => {
  for (const [, , emulator] of providers) emulator().reset()
})

async function post(path: string, body: object): Promise<{ status: number; text: string; headers: Headers }> {
  const response = await world.gateway.fetch(path, { key, body })
  return { status: response.status, text: await response.text(), headers: response.headers }
}

const parameters = { type: 'object', properties: { city: { type: 'string' } } }
const weather = { type: 'function', function: { name: 'weather', parameters } }
const user = { role: 'user', content: 'Weather?' }
/** Cut off by `max_tokens`. */
const broken = '{"city":"Os'

/** The arguments of the first call in a request, as its API has them. */
function argumentsIn({ messages, contents, input }: Any): unknown {
  const calls = (messages ?? contents ?? input).flatMap((one: Any) => [
    ...(one.type === 'function_call' ? [one.arguments] : []),
    ...(one.tool_calls ?? []).map((call: Any) => call.function.arguments),
    ...(Array.isArray(one.content) ? one.content : []).map((part: Any) => part.toolUse?.input ?? part.input),
    ...(one.parts ?? []).map((part: Any) => part.functionCall?.args),
  ])
  return calls.find((one: unknown) => one !== undefined)
}

for (const [model, provider, emulator] of providers)
  for (const stream of [false, true])
    test.serial(`200 from ${provider}, stream ${stream}: a call whose arguments are no JSON object`, async t => {
      const wrapped = (text: string) => {
        const value = { invalid_json: text }
        return ['mistral', 'moonshot', 'openrouter', 'deepseek'].includes(provider) ? JSON.stringify(value) : value
      }
      for (const given of [broken, '["Oslo"]']) {
        const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: given } }
        const result = { role: 'tool', tool_call_id: 'call_1', content: 'The arguments are no JSON.' }
        const messages = [user, { role: 'assistant', content: null, tool_calls: [call] }, result]
        const body = { model, provider: { only: [provider] }, stream, messages, tools: [weather] }
        const { status, text } = await post('/v1/chat/completions', body)
        t.is(status, 200, text)
        const sent = argumentsIn(emulator().requests.at(-1)!.body)
        t.deepEqual(sent, provider === 'openai' ? given : wrapped(given))
        const item = { type: 'function_call', call_id: 'call_1', name: 'weather', arguments: given }
        const output = { type: 'function_call_output', call_id: 'call_1', output: 'The arguments are no JSON.' }
        const input = [user, item, output]
        const { type, function: fn } = weather
        const tools = [{ type, name: fn.name, parameters: fn.parameters }]
        const answer = await post('/v1/responses', { model, provider: { only: [provider] }, stream, input, tools })
        t.is(answer.status, 200, answer.text)
        const asked = argumentsIn(emulator().requests.at(-1)!.body)
        t.deepEqual(asked, provider === 'openai' ? given : wrapped(given))
      }
    })

test.serial('200: calls without arguments, in the forms that servers give them', async t => {
  for (const given of ['', 'null', '[]', '{}'])
    for (const [model, provider, emulator] of providers) {
      const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: given } }
      const result = { role: 'tool', tool_call_id: 'call_1', content: 'rain' }
      const messages = [user, { role: 'assistant', content: null, tool_calls: [call] }, result]
      const body = { model, provider: { only: [provider] }, messages, tools: [weather] }
      const { status, text } = await post('/v1/chat/completions', body)
      t.is(status, 200, `${provider}: ${text}`)
      const sent = argumentsIn(emulator().requests.at(-1)!.body)
      if (typeof sent === 'object') t.deepEqual(sent, {}, provider)
    }
})

test.serial('200: empty texts beside images and calls, which are left out', async t => {
  const empty = { type: 'text', text: '' }
  const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
  const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } }
  const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{}' } }
  const messages = [
    { role: 'user', content: [empty, { type: 'text', text: 'Hi' }] },
    { role: 'assistant', content: [empty] },
    { role: 'assistant', content: [empty], tool_calls: [call] },
    { role: 'tool', tool_call_id: 'call_1', content: [empty] },
    { role: 'user', content: [{ type: 'text', text: 'And now?' }, empty] },
  ]
  for (const [model, provider] of providers) {
    const body = { model, provider: { only: [provider] }, messages, tools: [weather] }
    const { status, text } = await post('/v1/chat/completions', body)
    t.is(status, 200, `${provider}: ${text}`)
  }
  const sentTo = (emulator: Emulator) => (emulator.requests.at(-1)!.body as Any).messages
  t.is(sentTo(moonshot)[1].tool_calls.length, 1, 'the answer without a word is left out')
  t.deepEqual(sentTo(moonshot).at(-1).content, [{ type: 'text', text: 'And now?' }])
  const { status, text } = await post('/v1/chat/completions', {
    model: 'gpt-4.1',
    messages: [{ role: 'user', content: [empty, image] }],
  })
  t.is(status, 200, text)
  t.deepEqual(sentTo(world.openai)[0].content, [image])
})

/** The texts of the second turn in a request, as its API has them. */
function answerIn({ messages, contents }: Any): string[] {
  const [, answer] = messages ?? contents
  const parts = answer.parts ?? (Array.isArray(answer.content) ? answer.content : [{ text: answer.content }])
  return parts.map(({ text, refusal }: Any) => text ?? refusal)
}

test.serial('200: a refusal of OpenAI’s models, a member or a part, is a text for all others', async t => {
  const said = 'I cannot help.'
  const forms = [
    { content: null, refusal: said },
    { content: '', refusal: said },
    { content: [{ type: 'refusal', refusal: said }] },
  ]
  for (const form of forms)
    for (const [model, provider, emulator] of providers) {
      const messages = [user, { role: 'assistant', ...form }, { role: 'user', content: 'Why?' }]
      const { status, text } = await post('/v1/chat/completions', { model, provider: { only: [provider] }, messages })
      t.is(status, 200, `${provider}: ${text}`)
      const sent = emulator().requests.at(-1)!.body as Any
      if (provider === 'openai') t.deepEqual(sent.messages[1], messages[1])
      else t.deepEqual(answerIn(sent), [said], provider)
    }
})

test.serial('200: a refusal after a text, in one message', async t => {
  const text = { type: 'text', text: 'Hm.' }
  const refusal = { type: 'refusal', refusal: 'No.' }
  for (const answer of [{ content: 'Hm.', refusal: 'No.' }, { content: [text, refusal] }])
    for (const [model, provider, emulator] of providers.filter(([, name]) => name !== 'openai')) {
      const messages = [user, { role: 'assistant', ...answer }, { role: 'user', content: 'Why?' }]
      const { status, text } = await post('/v1/chat/completions', { model, provider: { only: [provider] }, messages })
      t.is(status, 200, `${provider}: ${text}`)
      t.is(answerIn(emulator().requests.at(-1)!.body).join('\n'), 'Hm.\nNo.', provider)
    }
})

test.serial('200 from Mistral: calls with members that SDKs and other servers add, which are left out', async t => {
  const fn = { name: 'weather', arguments: '{}', parsed_arguments: { city: 'Oslo' } }
  const call = { id: 'aB3dE5gH7', type: 'function', index: 0, name: null, extra_content: {}, function: fn }
  const messages = [
    user,
    { role: 'assistant', content: '', tool_calls: [call] },
    { role: 'tool', tool_call_id: call.id, content: 'rain' },
  ]
  const body = { model: 'mistral-large-3', provider: { only: ['mistral'] }, messages, tools: [weather] }
  const { status, text } = await post('/v1/chat/completions', body)
  t.is(status, 200, text)
  const { tool_calls: sent } = (mistral.requests.at(-1)!.body as Any).messages[1]
  t.deepEqual(sent, [{ id: call.id, type: 'function', function: { name: 'weather', arguments: '{}' } }])
})

test.serial('200 from OpenAI’s Responses: an answer with what the SDKs add to it, which is not sent', async t => {
  const call = { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'weather', arguments: '{}' }
  const parts = [{ type: 'output_text', text: '{"a":1}', annotations: [], parsed: { a: 1 } }]
  const input = [
    user,
    { ...call, parsed_arguments: { city: 'Oslo' } },
    { type: 'function_call_output', call_id: 'call_1', output: 'rain' },
    { type: 'message', id: 'msg_1', role: 'assistant', content: parts },
    user,
  ]
  const { status, text } = await post('/v1/responses', { model: 'gpt-4.1', provider: { only: ['openai'] }, input })
  t.is(status, 200, text)
  const { input: sent } = world.openai.requests.at(-1)!.body as Any
  t.deepEqual(sent[1], call)
  t.deepEqual(sent[3].content, [{ type: 'output_text', text: '{"a":1}', annotations: [] }])
})

const said = (text: string) => [{ type: 'output_text', text }]

test.serial('200 from OpenAI’s Responses: items of other servers, without what OpenAI refuses in them', async t => {
  const long = `msg_${'a'.repeat(90)}`
  const input = [
    { type: 'message', role: 'user', content: 'Weather?', id: null, status: null },
    { type: 'reasoning', id: 'reasoning-1', encrypted_content: reasoningState, content: null, status: null },
    { type: 'function_call', id: 'call_1', call_id: 'call_1', name: 'weather', arguments: '{}', status: null },
    { type: 'function_call_output', call_id: 'call_1', output: 'rain', id: null, status: null },
    { type: 'message', id: 'chatcmpl-1', role: 'assistant', content: said('Rain.'), phase: null },
    { type: 'message', id: long, role: 'assistant', content: said('Take a coat.') },
    { role: 'user', content: 'Thanks.' },
  ]
  const { status, text } = await post('/v1/responses', { model: 'gpt-5.1', provider: { only: ['openai'] }, input })
  t.is(status, 200, text)
  const sent = (world.openai.requests.at(-1)!.body as Any).input
  // As Codex sends it.
  t.deepEqual(sent[1], { type: 'reasoning', encrypted_content: reasoningState, content: null, summary: [] })
  t.deepEqual(sent[2], { type: 'function_call', call_id: 'call_1', name: 'weather', arguments: '{}' })
  t.deepEqual(
    sent.slice(4, 6).map((item: Any) => item.id),
    [undefined, undefined],
  )
})

test.serial('200 from OpenAI’s Responses: its own items as they came', async t => {
  const { status, text } = await post('/v1/responses', {
    model: 'gpt-5.1',
    provider: { only: ['openai'] },
    input: [
      user,
      { type: 'reasoning', id: 'rs_1', encrypted_content: reasoningState, summary: [] },
      { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'weather', arguments: broken, status: 'completed' },
      { type: 'function_call_output', call_id: 'call_1', output: 'rain' },
      { type: 'message', id: 'msg_1', role: 'assistant', content: said('Rain.'), status: 'completed' },
      user,
    ],
  })
  t.is(status, 200, text)
  const { input } = world.openai.requests.at(-1)!.body as Any
  t.deepEqual(
    input.map(({ id }: Any) => id),
    [undefined, 'rs_1', 'fc_1', undefined, 'msg_1', undefined],
  )
})

const budget = { type: 'enabled', budget_tokens: 2_000 }
const claude = { model: 'claude-haiku-4-5', provider: { only: ['anthropic'] }, max_tokens: 4_000, thinking: budget }
const question = { role: 'user', content: 'Weather?' }
const calling = (id: string) => ({ type: 'tool_use', id, name: 'weather', input: {} })
const result = (id: string) => ({ role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'rain' }] })

test.serial('200 from Claude, without its budget of thinking: a call of a model that does not think', async t => {
  const text = { type: 'text', text: 'Let me look.' }
  for (const turn of [
    [{ role: 'assistant', content: [calling('a')] }, result('a')],
    [{ role: 'assistant', content: [text, calling('a')] }, result('a')],
    [
      { role: 'assistant', content: [calling('a')] },
      result('a'),
      { role: 'assistant', content: [calling('b')] },
      result('b'),
    ],
  ]) {
    const { status, text, headers } = await post('/v1/messages', { ...claude, messages: [question, ...turn] })
    t.is(status, 200, text)
    t.is(headers.get('x-gateway-dropped'), 'thinking')
    t.deepEqual((world.anthropic.requests.at(-1)!.body as Any).thinking, { type: 'disabled' })
  }
})

test.serial('200 from Claude, with its budget of thinking: its own turn, and a new question', async t => {
  const thought = { type: 'thinking', thinking: 'Hm.', signature: 'c2lnbmVk' }
  const own = [{ role: 'assistant', content: [thought, calling('a')] }, result('a')]
  for (const turn of [
    own,
    // As Claude answers where thinking is not interleaved.
    [...own, { role: 'assistant', content: [calling('b')] }, result('b')],
    [{ role: 'assistant', content: [{ type: 'redacted_thinking', data: 'EmwKAhgB' }, calling('a')] }, result('a')],
    [{ role: 'assistant', content: [calling('a')] }, result('a'), { role: 'assistant', content: 'Rain.' }, question],
  ]) {
    const { status, text, headers } = await post('/v1/messages', { ...claude, messages: [question, ...turn] })
    t.is(status, 200, text)
    t.is(headers.get('x-gateway-dropped'), null)
    t.deepEqual((world.anthropic.requests.at(-1)!.body as Any).thinking, budget)
  }
})
