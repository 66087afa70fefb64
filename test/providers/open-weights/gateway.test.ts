import { startAnthropicEmulator } from '../../emulators/anthropic.ts'
import { Emulator, json, type Recorded, type Reply } from '../../emulators/emulator.ts'
import { reply as openAiReply, rateLimited } from '../../emulators/openai.ts'
import type { Json } from '../../emulators/slow-work.ts'
import { chargedNano, saying } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

/** What one provider refuses, by docs/decisions/chat-profiles.md; null = nothing. */
type Refusal = (body: Json) => string | null

const cerebrasFields = new Set(
  'model messages max_completion_tokens temperature top_p stop stream stream_options seed response_format tools tool_choice parallel_tool_calls logprobs top_logprobs frequency_penalty presence_penalty logit_bias reasoning_effort prediction user'.split(
    ' ',
  ),
)
const refusals: Record<string, Refusal> = {
  moonshot: ({ temperature, top_p }) =>
    temperature !== undefined && temperature !== 1
      ? 'invalid temperature: only 1 is allowed for this model'
      : top_p !== undefined && top_p !== 0.95
        ? 'invalid top_p: only 0.95 is allowed for this model'
        : null,
  zai: ({ tool_choice }) => (tool_choice === undefined || tool_choice === 'auto' ? null : 'Invalid API parameter'),
  cerebras(body) {
    const stranger = Object.keys(body).find(name => !cerebrasFields.has(name))
    if (stranger) return `property '${stranger}' is unsupported`
    for (const [index, message] of (body.messages as Json[]).entries())
      if (message.reasoning_content !== undefined)
        return `messages.${index}.assistant.reasoning_content: property 'messages.${index}.assistant.reasoning_content' is unsupported`
    return null
  },
  alibaba: () => null,
  // Beside an image a list is taken: BerriAI/litellm#37816.
  sambanova: ({ messages }) =>
    (messages as Json[]).some(({ content }) => Array.isArray(content) && content.every(part => part.type === 'text'))
      ? "Invalid 'content' type. Expected one of: ['str'], got list."
      : null,
  deepinfra: () => null,
  nebius: () => null,
  novita: () => null,
  huggingface: ({ model }) => (/^\S+\/\S+:\S+$/.test(String(model)) ? null : 'the model names no provider'),
  byteplus: () => null,
}

/** A provider of OpenAI's dialect with refusals of its own; its base URL has a path in front of `/chat/completions`. */
function startProvider(refuses: Refusal): Promise<Emulator> {
  const answer = (request: Recorded): Reply => {
    const path = request.path.replace(/^\/base/, '/v1')
    const refused = request.body && refuses(request.body)
    if (refused) return json(400, { error: { message: refused, type: 'invalid_request_error' } })
    return (_request, response) => openAiReply({ ...request, path }, response)
  }
  return Emulator.start((request, response) => answer(request)(request, response))
}

const emulators = Object.fromEntries(
  Object.entries(refusals).map(([name, refuses]) => [name, use(test, () => startProvider(refuses))]),
)
const minimax = use(test, () => startAnthropicEmulator())
const gateway = useGateway(test, () => ({
  ...Object.fromEntries(
    Object.entries(emulators).flatMap(([name, { url }]) => [
      [`${name.toUpperCase()}_API_KEY`, `${name}-secret`],
      [`${name.toUpperCase()}_BASE_URL`, `${url}/base`],
    ]),
  ),
  MINIMAX_API_KEY: 'minimax-secret',
  MINIMAX_BASE_URL: minimax.url,
}))

/** A model of each provider, and its price of a million tokens. */
const models: [provider: string, model: string, input: number, output: number][] = [
  ['moonshot', 'kimi-k2.6', 0.95, 4],
  ['zai', 'glm-4.6', 0.6, 2.2],
  ['alibaba', 'glm-5.2', 1.4, 4.4],
  ['cerebras', 'gpt-oss-120b', 0.35, 0.75],
  ['sambanova', 'gpt-oss-120b', 0.22, 0.59],
  ['deepinfra', 'kimi-k3', 2.85, 14.25],
  ['nebius', 'glm-5.3', 1.4, 4.4],
  ['novita', 'kimi-k2.7-code', 0.95, 4],
  ['huggingface', 'kimi-k2.6', 0.8, 3.4],
  ['byteplus', 'dola-seed-2-1-turbo-260628', 0.5, 2.5],
]
const weather = {
  type: 'function',
  function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string', minLength: 1 } } } },
}
const history = [
  { role: 'developer', content: 'Be brief.' },
  { role: 'user', content: 'Weather in Rome?' },
  {
    role: 'assistant',
    content: null,
    reasoning_content: 'I look it up.',
    tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Rome"}' } }],
  },
  { role: 'tool', tool_call_id: 'call_1', content: 'Sunny' },
  { role: 'user', content: 'And tomorrow?' },
]
const hard: Record<string, object> = {
  'settings of sampling': { temperature: 0.3, top_p: 0.5, frequency_penalty: 0.1, presence_penalty: 0.1, seed: 7 },
  'a tool that is forced': { tools: [weather], tool_choice: { type: 'function', function: { name: 'weather' } } },
  'a history with reasoning and results': { messages: history, tools: [weather] },
  'an effort and a limit': { reasoning_effort: 'high', max_tokens: 50 },
  'a stop and an end user': { stop: ['END'], user: 'user-1', prompt_cache_key: 'key' },
  'a schema': {
    response_format: {
      type: 'json_schema',
      json_schema: { name: 'city', strict: true, schema: weather.function.parameters },
    },
  },
  'lists of texts': {
    messages: ['system', 'user'].map(role => ({ role, content: [{ type: 'text', text: 'Hello' }] })),
  },
  'fields of other vendors': { enable_thinking: true, thinking: { type: 'enabled' }, top_k: 20 },
}

for (const [provider, model, input, output] of models)
  test.serial(`200 from ${provider}, which refuses nothing of what is sent; charged by its own price`, async t => {
    const account = await gateway.account()
    let expected = 0
    for (const [what, more] of Object.entries({ 'a question': {}, ...hard })) {
      // Whether Seed answers by a schema is not known.
      if (provider === 'byteplus' && what === 'a schema') continue
      const body = { ...saying(model, 'Hello', { provider: { only: [provider] } }), ...more }
      const response = await gateway.fetch('/v1/chat/completions', { key: account.live, body })
      const text = await response.text()
      t.is(response.status, 200, `${what}: ${text}`)
      t.is(response.headers.get('x-gateway-attempts'), '1', what)
      const { usage } = JSON.parse(text)
      const nano = (usage.prompt_tokens * input + usage.completion_tokens * output) * 1_000 * 1.05
      expected += Math.round(nano * 1e3) / 1e3
    }
    const charged = await chargedNano({ gateway }, account)
    t.true(Math.abs(charged - expected) <= Object.keys(hard).length + 1, `${charged} instead of ${expected}`)
  })

test.serial('200 from MiniMax by its Messages: thinking is no text, and a stream ends', async t => {
  const account = await gateway.account()
  const body = { ...saying('minimax-m3', 'Hello', { provider: { only: ['minimax'] } }), stop: ['END'] }
  const response = await gateway.fetch('/v1/chat/completions', { key: account.live, body })
  const text = await response.text()
  t.is(response.status, 200, text)
  t.is(minimax.requests[0]!.path, '/v1/messages')
  t.is(minimax.requests[0]!.headers['x-api-key'], 'minimax-secret')
  t.false(JSON.parse(text).choices[0].message.content.includes('<think>'))
})

test.serial('200 from another provider of the model after a 429', async t => {
  emulators.moonshot!.next(rateLimited(), rateLimited(), rateLimited())
  emulators.moonshot!.requests.length = 0
  const { live } = await gateway.account()
  const order = { provider: { order: ['moonshot', 'nebius'] } }
  const response = await gateway.fetch('/v1/chat/completions', { key: live, body: saying('kimi-k2.6', 'Hi', order) })
  t.is(response.status, 200, await response.text())
  t.not(response.headers.get('x-gateway-provider'), 'moonshot')
})
