import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import { chatRequest } from '../../../shared/kinds/chat.ts'
import { embedding } from '../../../shared/providers/adapters/bedrock/embedding.ts'
import { failure } from '../../../shared/providers/adapters/bedrock/failure.ts'
import { bedrock } from '../../../shared/providers/adapters/bedrock/protocol.ts'
import type { Call, Target } from '../../../shared/providers/contract.ts'
import { protocols } from '../../../shared/providers/protocols.ts'
import { converseFault } from '../../emulators/bedrock-rules.ts'
import { test } from '../../support/test.ts'

const settings = {
  apiKeys: ['k'],
  apiKeyOrigin: '',
  baseUrl: null,
  webhookSecret: null,
  proxy: null,
  cloud: { REGIONS: 'us-east-1,eu-west-1,sa-east-1' },
}
const catalog = loadCatalog(undefined, new Map([['bedrock', settings]]))

function targetOf(id: string, provider = 'bedrock/us-east-1'): Target {
  const model = catalog.find(id)!
  const target = catalog.targets(model).find(one => one.provider.name === provider)
  if (!target) throw new Error(`${id} is not at ${provider}`)
  return { model, ...target }
}

function callOf(id: string, body: object, more: Partial<Call<'chat'>> = {}): Call<'chat'> {
  const parsed = chatRequest.parse({ model: id, messages: [{ role: 'user', content: 'Hello' }], ...body })
  return { target: targetOf(id), body: parsed, raw: null, maxTokens: null, media: new Map(), ...more }
}

const chat = bedrock.direct.chat!

// biome-ignore lint/suspicious/noExplicitAny: a Converse body
function sent(id: string, body: object, more: Partial<Call<'chat'>> = {}): any {
  const request = chat.request(callOf(id, body, more))
  const converse = JSON.parse(String(request.body))
  const model = decodeURIComponent(request.path.split('/')[2]!)
  const fault = converseFault(converse, model)
  if (fault) throw new Error(`Converse refuses it: ${fault.message}`)
  return { ...converse, dropped: request.dropped, adjusted: request.adjusted, path: request.path }
}

const weather = {
  type: 'function',
  function: { name: 'weather.get', description: ' ', parameters: { properties: { city: { type: 'string' } } } },
}
const png = 'data:image/png;base64,iVBORw0KGgo='
const pdf = 'data:application/pdf;base64,JVBERi0='

test('a whole conversation is translated block by block', t => {
  const body = sent('claude-haiku-4-5', {
    max_tokens: 300,
    temperature: 1.5,
    stop: ['END', ' '],
    messages: [
      { role: 'system', content: 'A' },
      { role: 'developer', content: [{ type: 'text', text: 'B', cache_control: { type: 'ephemeral', ttl: '1h' } }] },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'weather?' },
          { type: 'image_url', image_url: { url: png } },
          { type: 'file', file: { file_data: pdf, filename: 'Grüße #1.v2.pdf' } },
          { type: 'file', file: { file_data: pdf, filename: 'Grüße #1.v2.pdf' } },
        ],
      },
      {
        role: 'assistant',
        content: '',
        tool_calls: [
          { id: 'call:1', type: 'function', function: { name: 'weather.get', arguments: '{"city":"Oslo"}' } },
          { id: 'call:2', type: 'function', function: { name: 'weather.get', arguments: '' } },
        ],
      },
      { role: 'tool', tool_call_id: 'call:1', content: '5C' },
      { role: 'tool', tool_call_id: 'call:2', content: ' ' },
      { role: 'user', content: 'thanks' },
      { role: 'system', content: 'Be brief.' },
    ],
    tools: [weather],
    tool_choice: 'required',
  })
  t.is(body.path, '/model/us.anthropic.claude-haiku-4-5-20251001-v1%3A0/converse')
  t.deepEqual(body.system, [{ text: 'A' }, { text: 'B' }, { cachePoint: { type: 'default', ttl: '1h' } }])
  t.deepEqual(body.inferenceConfig, { maxTokens: 300, temperature: 1, stopSequences: ['END'] })
  const [question, calls, results] = body.messages
  const source = { bytes: 'JVBERi0=' }
  t.deepEqual(question.content, [
    { text: 'weather?' },
    { image: { format: 'png', source: { bytes: 'iVBORw0KGgo=' } } },
    { document: { format: 'pdf', name: 'Gr e 1 v2', source } },
    { document: { format: 'pdf', name: 'Gr e 1 v2 (2)', source } },
  ])
  const name = body.toolConfig.tools[0].toolSpec.name
  t.regex(name, /^weather_get_[\da-f]{8}$/)
  t.deepEqual(calls.content, [
    { toolUse: { toolUseId: 'call_1', name, input: { city: 'Oslo' } } },
    { toolUse: { toolUseId: 'call_2', name, input: {} } },
  ])
  t.deepEqual(results.content.slice(0, 3), [
    { toolResult: { toolUseId: 'call_1', content: [{ text: '5C' }] } },
    { toolResult: { toolUseId: 'call_2', content: [{ text: '(no output)' }] } },
    { text: 'thanks' },
  ])
  t.regex(results.content[3].text, /Be brief\./)
  t.deepEqual(body.toolConfig, {
    tools: [
      { toolSpec: { name, inputSchema: { json: { type: 'object', properties: { city: { type: 'string' } } } } } },
    ],
    toolChoice: { any: {} },
  })
})

test('what a conversation has called is declared where the request has no tools', t => {
  const messages = [
    { role: 'user', content: 'now?' },
    { role: 'assistant', tool_calls: [{ id: 'a', type: 'function', function: { name: 'now', arguments: '{}' } }] },
    { role: 'tool', tool_call_id: 'a', content: 'noon' },
  ]
  const body = sent('deepseek-v3.2', { messages })
  t.deepEqual(body.toolConfig.tools, [
    { toolSpec: { name: 'now', inputSchema: { json: { type: 'object', properties: {} } } } },
  ])
  const tools = [{ type: 'function', function: { name: 'now' } }]
  const none = sent('deepseek-v3.2', { messages, tools, tool_choice: 'none' })
  t.regex(none.system[0].text, /without calling a tool/)
  t.is(sent('deepseek-v3.2', { tools, tool_choice: 'none' }).toolConfig, undefined)
  const claude = sent('claude-haiku-4-5', { messages, tools, tool_choice: 'none' })
  t.deepEqual(claude.additionalModelRequestFields, { tool_choice: { type: 'none' } })
  t.is(claude.toolConfig.toolChoice, undefined)
})

test('one tool at a time is asked of Claude by its own field; of others one call is returned', t => {
  const one = { tools: [{ type: 'function', function: { name: 'now' } }], parallel_tool_calls: false }
  t.deepEqual(sent('claude-haiku-4-5', { ...one, tool_choice: 'required' }).additionalModelRequestFields, {
    tool_choice: { type: 'any', disable_parallel_tool_use: true },
  })
  const thinking = { ...one, tool_choice: 'required', reasoning_effort: 'low', max_tokens: 4000 }
  t.is(sent('claude-haiku-4-5', thinking).additionalModelRequestFields.thinking, undefined)
  t.is(sent('deepseek-v3.2', one).dropped, undefined)
})

test('definitions that stand in place of their references at Nova do not multiply a request', t => {
  const definitions = (length: number) => ({
    Item: { type: 'object', properties: { a: { description: 'x'.repeat(length) } } },
  })
  const fitted = (length: number) => {
    const properties = Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`p${i}`, { $ref: '#/$defs/Item' }]))
    const parameters = { $defs: definitions(length), type: 'object', properties }
    const { toolConfig, adjusted } = sent('nova-pro', {
      tools: [{ type: 'function', function: { name: 'f', parameters } }],
    })
    const { properties: given } = toolConfig.tools[0].toolSpec.inputSchema.json
    const count = Object.values(given).filter(one => (one as { type?: string }).type === 'object').length
    return { count, adjusted }
  }
  t.deepEqual(fitted(5_000), { count: 8, adjusted: undefined })
  t.deepEqual(fitted(500_000), { count: 1, adjusted: ['tools.0.function.parameters'] })
})

test('an effort is thinking for Claude, a field for OpenAI’s models and for Nova', t => {
  t.deepEqual(sent('claude-haiku-4-5', { reasoning_effort: 'medium', max_tokens: 8000 }).additionalModelRequestFields, {
    thinking: { type: 'enabled', budget_tokens: 4096 },
  })
  const adaptive = sent('claude-opus-5', { reasoning_effort: 'xhigh', temperature: 0.5 })
  t.deepEqual(adaptive.additionalModelRequestFields, {
    thinking: { type: 'adaptive' },
    output_config: { effort: 'xhigh' },
  })
  t.deepEqual(adaptive.inferenceConfig, { maxTokens: 16_384 })
  t.deepEqual(sent('gpt-oss-120b', { reasoning_effort: 'high' }).additionalModelRequestFields, {
    reasoning_effort: 'high',
  })
  const nova = sent('nova-2-lite', { reasoning_effort: 'high' })
  t.deepEqual(nova.additionalModelRequestFields, { reasoningConfig: { type: 'enabled', maxReasoningEffort: 'medium' } })
  t.deepEqual(nova.adjusted, ['reasoning_effort'])
})

test('a schema is sent where the model takes one, else told in the system prompt', t => {
  const response_format = {
    type: 'json_schema',
    json_schema: { name: 'a', schema: { type: 'object', properties: {} } },
  }
  const { textFormat } = sent('claude-sonnet-4-6', { response_format }).outputConfig
  t.is(textFormat.structure.jsonSchema.name, 'a')
  t.is(JSON.parse(textFormat.structure.jsonSchema.schema).additionalProperties, false)
  const asked = sent('claude-opus-5', { response_format })
  t.is(asked.outputConfig, undefined)
  t.regex(asked.system[0].text, /valid against this JSON Schema:/)
  t.is(asked.system.filter(({ text }: { text?: string }) => text).length, 1)
})

test('marks are cache points, at most four, and only for models with a cache', t => {
  const mark = { cache_control: { type: 'ephemeral' } }
  const parts = Array.from({ length: 6 }, (_, at) => ({ type: 'text', text: `part ${at}`, ...mark }))
  const messages = [{ role: 'user', content: parts }]
  const claude = sent('claude-haiku-4-5', { messages })
  t.is(claude.messages[0].content.filter((block: object) => 'cachePoint' in block).length, 4)
  t.true(claude.dropped.includes('cache_control'))
  const other = sent('deepseek-v3.2', { messages })
  t.is(JSON.stringify(other).includes('cachePoint'), false)
  const tools = [{ type: 'function', function: { name: 'now' } }]
  const session = sent('claude-haiku-4-5', { tools }, { marksCache: true })
  t.deepEqual(session.messages[0].content.at(-1), { cachePoint: { type: 'default' } })
})

test('signed reasoning is sent back as blocks, unsigned reasoning is left out', t => {
  const reasoning_details = [
    { type: 'reasoning.text', text: 'Hm', signature: 'sig', index: 0 },
    { type: 'reasoning.encrypted', data: 'aGlkZGVu', index: 1 },
    { type: 'reasoning.text', text: 'unsigned', index: 2 },
  ]
  const messages = [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'b', reasoning_details },
    { role: 'user', content: 'c' },
  ]
  // Without the gateway's sealer, details are those of the provider.
  const body = sent('claude-haiku-4-5', { messages })
  t.true(
    [
      '[{"text":"b"}]',
      JSON.stringify([
        { reasoningContent: { reasoningText: { text: 'Hm', signature: 'sig' } } },
        { reasoningContent: { redactedContent: 'aGlkZGVu' } },
        { text: 'b' },
      ]),
    ].includes(JSON.stringify(body.messages[1].content)),
  )
})

test('400 naming the field for what Converse cannot express', t => {
  const audio = { role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } }] }
  const many = Array.from({ length: 6 }, () => ({ type: 'file', file: { file_data: pdf } }))
  for (const [body, param] of [
    [{ n: 2 }, 'n'],
    [{ logprobs: true }, 'logprobs'],
    [{ tool_choice: 'required' }, 'tool_choice'],
    [{ tool_choice: { type: 'function', function: { name: 'a' } } }, 'tool_choice.function.name'],
    [{ messages: [audio] }, 'messages.0.content.0.input_audio'],
    [{ messages: [{ role: 'user', content: many }] }, 'messages.0.content.5.file.file_data'],
    [
      {
        messages: [
          { role: 'user', content: 'a' },
          { role: 'tool', tool_call_id: 'x', content: 'b' },
        ],
      },
      'messages.1.tool_call_id',
    ],
    [
      {
        messages: [
          { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/tiff;base64,AAAA' } }] },
        ],
      },
      'messages.0.content.0.image_url.url',
    ],
  ] as const)
    t.like(
      t.throws(() => sent('claude-haiku-4-5', body)),
      { param },
    )
})

test('errors are classified by their names, in the header or the body, and by their words', t => {
  const typed = (type: string, status: number, message = 'x') =>
    failure(status, { 'x-amzn-errortype': `${type}:http://internal.amazon.com/` }, JSON.stringify({ message }))
  for (const [type, status, reason] of [
    ['ThrottlingException', 429, 'rate_limited'],
    ['ModelNotReadyException', 429, 'overloaded'],
    ['ServiceUnavailableException', 503, 'overloaded'],
    ['ServiceQuotaExceededException', 400, 'rate_limited'],
    ['ModelTimeoutException', 408, 'server_error'],
    ['ModelErrorException', 424, 'server_error'],
    ['InternalServerException', 500, 'server_error'],
    ['ResourceNotFoundException', 404, 'model_unavailable'],
    ['AccessDeniedException', 403, 'auth'],
    ['ExpiredTokenException', 403, 'auth'],
    ['ValidationException', 400, 'invalid_request'],
  ] as const)
    t.is(typed(type, status).reason, reason, type)
  t.is(
    failure(400, {}, '{"__type":"com.amazon.coral.service#ThrottlingException","message":"x"}').reason,
    'rate_limited',
  )
  for (const words of [
    'Input is too long for requested model.',
    'The model returned the following errors: prompt is too long: 200049 tokens > 200000 maximum',
    'The model returned the following errors: input length and `max_tokens` exceed context limit: 195000 + 8000 > 200000, decrease input length or `max_tokens` and try again',
    'The model returned the following errors: too many total text bytes: 33000000 > 32000000',
    "Mantle streaming error for requestId 1: This model's maximum context length is 202752 tokens. However, you requested 65536 output tokens and your prompt contains at least 137217 input tokens.",
  ])
    t.is(typed('ValidationException', 400, words).reason, 'context_length', words)
  for (const words of [
    'The provided model identifier is invalid.',
    'Operation not allowed',
    'Your account is not authorized to invoke this API operation.',
    'Invocation of model ID anthropic.x with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile that contains this model.',
  ])
    t.is(typed('ValidationException', 400, words).reason, 'model_unavailable', words)
  const noAccess = "You don't have access to the model with the specified model ID."
  t.is(typed('AccessDeniedException', 403, noAccess).reason, 'model_unavailable')
  for (const part of ['bedrock/anthropic', 'bedrock/openai']) {
    const protocol = protocols[loadCatalog().providers.get(part)!.protocol]!
    for (const [status, message] of [
      [400, 'The provided model identifier is invalid.'],
      [403, noAccess],
    ] as const)
      t.is(protocol.failure(status, {}, JSON.stringify({ message })).reason, 'model_unavailable', part)
    t.is(protocol.failure(429, {}, '{"message":"Too many requests"}').reason, 'rate_limited')
    t.is(
      protocol.failure(403, {}, '{"message":"The security token included in the request is expired"}').reason,
      'auth',
    )
  }
  t.is(typed('ModelErrorException', 424, 'Model produced invalid sequence as part of ToolUse.').reason, 'model_fault')
  const shown = typed(
    'ValidationException',
    400,
    'No access to arn:aws:bedrock:us-east-1:123456789012:inference-profile/x',
  ).message
  t.false(/123456789012/.test(shown))
})

test('a region has its own inference profile and price, and no row where a model is not served', t => {
  const us = targetOf('claude-opus-5-5').deployment
  const eu = targetOf('claude-opus-5-5', 'bedrock/eu-west-1').deployment
  t.is(us.upstream_model, 'us.anthropic.claude-opus-5-5')
  t.is(eu.upstream_model, 'eu.anthropic.claude-opus-5-5')
  t.throws(() => targetOf('claude-opus-5-5', 'bedrock/sa-east-1'))
  const prices = ['us-east-1', 'sa-east-1'].map(
    region => targetOf('deepseek-v3.2', `bedrock/${region}`).deployment.price,
  )
  t.like(prices, [{ input: '0.62' }, { input: '0.74' }])
  t.false([...catalog.providers.keys()].some(name => name.startsWith('bedrock/global/')))
})

test('embeddings: a request per text for Titan, one for Cohere', t => {
  const callFor = (id: string, body: object) =>
    ({
      target: targetOf(id),
      body: { model: id, ...body },
      raw: null,
      maxTokens: null,
      media: new Map(),
    }) as unknown as Call<'embedding'>
  const titan = callFor('titan-embed-text-v2', { input: ['a', 'b'], dimensions: 256, encoding_format: 'base64' })
  const requests = embedding.requests!(titan)
  t.deepEqual(
    requests.map(({ body }) => JSON.parse(String(body))),
    [
      { inputText: 'a', dimensions: 256 },
      { inputText: 'b', dimensions: 256 },
    ],
  )
  const answer = embedding.answer(
    [
      { embedding: [1, 2], inputTextTokenCount: 3 },
      { embedding: [0, 1], inputTextTokenCount: 4 },
    ],
    titan,
  )
  t.deepEqual(answer.usage, { prompt_tokens: 7, total_tokens: 7 })
  t.is(answer.data[1]?.embedding, Buffer.from(new Float32Array([0, 1]).buffer).toString('base64'))
  const cohere = callFor('cohere-embed-v4', { input: ['a', 'b'] })
  t.is(embedding.requests!(cohere).length, 1)
  t.is(embedding.answer({ embeddings: { float: [[1], [2]] } }, cohere).data.length, 2)
  t.throws(() => embedding.answer({ embeddings: { float: [[1]] } }, cohere), { message: /1 vectors for 2 inputs/ })
})
