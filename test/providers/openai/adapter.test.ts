import fc from 'fast-check'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import { openai } from '../../../shared/providers/adapters/openai/protocol.ts'
import { type FailureReason, ProviderError } from '../../../shared/providers/provider-error.ts'
import { call, type Given } from '../../support/providers/openai-call.ts'
import { test } from '../../support/test.ts'

const { chat, completion, embedding } = openai.direct as Required<typeof openai.direct>

const messages = [{ role: 'user', content: 'Hi' }]
const sent = (body: object, given?: Given) => JSON.parse(String(chat.request(call<'chat'>(body, given)).body))

test('sent untouched: the very bytes, when nothing must change', t => {
  const raw = Buffer.from('{ "messages": [], "model": "up-1", "max_tokens": 5 }')
  const request = chat.request(call<'chat'>(JSON.parse(raw.toString()), { raw }))
  t.is(request.body, raw)
  t.deepEqual([request.method, request.path], ['POST', '/chat/completions'])
  t.not(chat.request(call<'chat'>({ model: 'other', messages }, { raw })).body, raw)
})

/** What is sent for a body as the caller wrote it. */
const sentText = (raw: string) => String(chat.request(call<'chat'>(JSON.parse(raw), { raw: Buffer.from(raw) })).body)

test('sent: the upstream model in the caller’s bytes, of which all others stay as they are', t => {
  const messages = '"messages" : [{"role":"user","content":"\\u0041 \\"model\\": é 漢"}]'
  t.is(sentText(`{"model":"a",${messages}}`), `{"model":"up-1",${messages}}`)
  t.is(sentText(` { ${messages} ,\n"model"\t: "a\\"b\\\\" }\n`), ` { ${messages} ,\n"model"\t: "up-1" }\n`)
  const streamed = `${messages},"stream":true,"model":"a","top_p":1.0`
  const options = '"stream_options":{"include_usage":true}'
  t.is(sentText(`{${streamed}}`), `{${options},${streamed.replace('"a"', '"up-1"')}}`)
})

test('sent: the upstream model, whatever else in the body looks like its name', t => {
  const text = fc.oneof(fc.constantFrom('model', '"model"', '\\"model\\":"a"'), fc.string())
  const parameters = fc.dictionary(fc.constantFrom('model', 'a'), fc.oneof(text, fc.jsonValue()))
  const body = fc.tuple(fc.string(), text, parameters, fc.nat(2))
  fc.assert(
    fc.property(body, ([model, content, parameters, indent]) => {
      const functions = [{ name: 'f', parameters }]
      const asked = { messages: [{ role: 'user', content }], model, functions }
      const raw = JSON.stringify(asked, null, indent)
      t.deepEqual(JSON.parse(sentText(raw)), { ...JSON.parse(raw), model: 'up-1' })
    }),
  )
})

test('sent: the upstream model, without the gateway’s own fields and metadata', t => {
  const own = { mode: 'cost', models: ['b'], provider: { only: ['p'] }, metadata: { a: 'b' } }
  t.deepEqual(sent({ model: 'a', messages, ...own, top_k: 3 }), { model: 'up-1', messages, top_k: 3 })
  const stored = sent({ model: 'a', messages, metadata: { a: 'b' }, store: true })
  t.deepEqual(stored, { model: 'up-1', messages })
})

test('sent: a stream asks for its usage unless the server does not know how', t => {
  const body = { model: 'a', messages, stream: true }
  t.deepEqual(sent(body).stream_options, { include_usage: true })
  const options = { include_usage: false, include_obfuscation: false }
  t.deepEqual(sent({ ...body, stream_options: options }).stream_options, {
    include_usage: true,
    include_obfuscation: false,
  })
  t.is(sent({ ...body, stream_options: options }, { quirks: { stream_usage: false } }).stream_options, undefined)
  t.is(sent({ model: 'a', messages }).stream_options, undefined)
})

test('sent: the output ceiling in the field the server reads, the gateway’s before the caller’s', t => {
  const quirks = { max_tokens_field: 'max_completion_tokens' } as const
  const limits = (body: object, given: Given) => {
    const { max_tokens, max_completion_tokens } = sent({ model: 'a', messages, ...body }, given)
    return [max_tokens, max_completion_tokens]
  }
  t.deepEqual(limits({ max_tokens: 9 }, {}), [9, undefined])
  t.deepEqual(limits({ max_completion_tokens: 9 }, {}), [9, undefined])
  t.deepEqual(limits({ max_tokens: 9 }, { quirks }), [undefined, 9])
  t.deepEqual(limits({ max_tokens: 9, max_completion_tokens: 8 }, { quirks }), [undefined, 8])
  t.deepEqual(limits({ max_tokens: 9 }, { quirks, maxTokens: 4 }), [undefined, 4])
  t.deepEqual(limits({}, { maxTokens: 4 }), [4, undefined])
})

test('sent: only known fields to strict servers, and the seed under their name', t => {
  const quirks = { request_fields: ['temperature'], seed_field: 'random_seed' }
  const body = { model: 'a', messages, temperature: 0, user: 'u', seed: 7, max_tokens: 3, stream: false }
  t.deepEqual(sent(body, { quirks }), {
    model: 'up-1',
    messages,
    temperature: 0,
    max_tokens: 3,
    stream: false,
    random_seed: 7,
  })
})

test('sent: completions and embeddings to their own paths', t => {
  const text = completion.request(
    call<'completion'>({ model: 'a', prompt: 'x', max_tokens: 9, stream: true }, { maxTokens: 2 }),
  )
  t.is(text.path, '/completions')
  t.deepEqual(JSON.parse(String(text.body)), {
    model: 'up-1',
    prompt: 'x',
    max_tokens: 2,
    stream: true,
    stream_options: { include_usage: true },
  })
  const vectors = embedding.request(call<'embedding'>({ model: 'a', input: 'x', provider: {} }))
  t.is(vectors.path, '/embeddings')
  t.deepEqual(JSON.parse(String(vectors.body)), { model: 'up-1', input: 'x' })
})

const answer = (parts: object) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  ...parts,
})
const reasonOf = (run: () => unknown): FailureReason | null => {
  try {
    run()
    return null
  } catch (error) {
    if (error instanceof ProviderError) return error.reason
    throw error
  }
}
const chatAnswer = (json: unknown) => chat.answer(json, call<'chat'>({ model: 'a', messages }))

test('answered: a whole answer, with DeepSeek’s cache hits and Mistral’s finish reason in our words', t => {
  const usage = { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12, prompt_cache_hit_tokens: 4, cost: 1 }
  const choice = { message: { content: 'Hi', reasoning: 'Hm' }, finish_reason: 'model_length' }
  t.deepEqual(chatAnswer(answer({ usage, provider: 'inner', choices: [choice] })), {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [
      { index: 0, message: { role: 'assistant', content: 'Hi', reasoning_content: 'Hm' }, finish_reason: 'length' },
    ],
    usage: {
      prompt_tokens: 10,
      completion_tokens: 2,
      total_tokens: 12,
      prompt_tokens_details: { cached_tokens: 4 },
    },
  })
})

test('answered: what the provider says that it cost, where its quirk names the field, and work that has no price', t => {
  const counts = { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 }
  const extras = (more: object, quirks?: Given['quirks'], top: object = {}) => {
    const body = { model: 'a', messages }
    const { usage } = chat.answer(answer({ usage: { ...counts, ...more }, ...top }), call<'chat'>(body, { quirks }))
    const { prompt_tokens: _in, completion_tokens: _out, total_tokens: _all, ...rest } = usage!
    return rest
  }
  const usd = { cost_field: 'cost' }
  const ticks = { cost_field: 'cost_in_usd_ticks' }
  t.deepEqual(extras({ cost: 0.00123 }, usd), { provider_cost_nano: 1_230_000 })
  t.deepEqual(extras({ cost_in_usd_ticks: 12_300_000 }, ticks), { provider_cost_nano: 1_230_000 })
  t.deepEqual(extras({ cost: 0.1, is_byok: true, cost_details: { upstream_inference_cost: 0.2 } }, usd), {
    provider_cost_nano: 300_000_000,
  })
  t.deepEqual(extras({ cost: 0.1, is_byok: false, cost_details: { upstream_inference_cost: 0.2 } }, usd), {
    provider_cost_nano: 100_000_000,
  })
  for (const cost of [-1, 1e9, '1', null, {}, true]) t.deepEqual(extras({ cost }, usd), {}, String(cost))
  t.deepEqual(extras({ cost: 5, cost_in_usd_ticks: 5 }), {})
  t.deepEqual(extras({ num_sources_used: 3, server_tool_use: { web_search_requests: 0 } }), {
    unpriced: ['num_sources_used'],
  })
  t.deepEqual(extras({ server_side_tool_usage_details: { a: 0, b: { c: 1 } } }, {}, { service_tier: 'priority' }), {
    service_tier: 'priority',
    unpriced: ['server_side_tool_usage_details'],
  })
  t.deepEqual(extras({ num_sources_used: 0 }, usd, { service_tier: 'default' }), { service_tier: 'standard' })
  const vectors = { data: [{ embedding: [1] }], usage: { prompt_tokens: 3, total_tokens: 3, cost: 0.5 } }
  const embedded = embedding.answer(vectors, call<'embedding'>({ model: 'a', input: 'x' }, { quirks: usd }))
  t.deepEqual(embedded.usage, { prompt_tokens: 3, total_tokens: 3, provider_cost_nano: 500_000_000 })
})

test('invalid_response for answers that make no sense, and the reported reason for errors with status 200', t => {
  const choices = [{ index: 0 }]
  const wrong = [null, 'text', [], {}, answer({ choices: [] }), answer({ choices }), answer({ choices: [null] })]
  for (const json of wrong)
    t.is(
      reasonOf(() => chatAnswer(json)),
      'invalid_response',
      JSON.stringify(json),
    )
  t.is(
    reasonOf(() => chatAnswer({ error: { code: 429, message: 'slow down' } })),
    'rate_limited',
  )
  for (const [finish, reason] of [
    ['error', 'server_error'],
    ['insufficient_system_resource', 'overloaded'],
  ]) {
    const failed = answer({ choices: [{ index: 0, message: { content: '' }, finish_reason: finish }] })
    t.is(
      reasonOf(() => chatAnswer(failed)),
      reason as FailureReason,
    )
  }
})

const piece = (delta: object, finish: string | null = null, index = 0) =>
  JSON.stringify({
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index, delta, finish_reason: finish }],
  })
const event = (data: string, name = '') => ({ event: name, data })
const opened = () => chat.stream!(call<'chat'>({ model: 'a', messages }))

test('streamed: chunks as they come, usage on any of them, done by [DONE]', t => {
  const decoder = opened()
  const [first] = decoder.push(event(piece({ role: 'assistant', content: 'Hi' })))
  t.is(first?.choices[0]?.delta.content, 'Hi')
  t.false(decoder.done)
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
  const [counted] = decoder.push(
    event(JSON.stringify({ ...JSON.parse(piece({ content: '!' })), usage, obfuscation: 'x' })),
  )
  t.deepEqual(counted?.usage, usage)
  t.false('obfuscation' in counted!)
  t.deepEqual(decoder.push(event(JSON.stringify({ id: 'c', choices: [], usage })))[0]?.choices, [])
  t.deepEqual(decoder.push(event(JSON.stringify({ object: 'vendor.ping' }))), [])
  t.false(decoder.done)
  t.deepEqual(decoder.push(event('[DONE]')), [])
  t.true(decoder.done)
  t.deepEqual(decoder.push(event('not JSON after the end')), [])
})

test('streamed: done without [DONE] once every choice has its finish reason', t => {
  const decoder = opened()
  decoder.push(event(piece({}, null, 0)))
  decoder.push(event(piece({}, null, 1)))
  decoder.push(event(piece({}, 'stop', 0)))
  t.false(decoder.done)
  decoder.push(event(piece({}, 'model_length', 1)))
  t.true(decoder.done)
})

test('streamed errors: the reported reason, or invalid_response', t => {
  const thrown = (data: string, name?: string) => reasonOf(() => opened().push(event(data, name)))
  t.is(thrown('{"error":{"message":"m","type":"server_error","code":null}}'), 'server_error')
  t.is(thrown('{"error":{"message":"m","code":429},"choices":[]}'), 'rate_limited')
  t.is(thrown('{"error":{"message":"m","code":"context_length_exceeded"}}'), 'context_length')
  t.is(thrown('{"error":{"message":"m","type":"invalid_request_error"}}'), 'invalid_request')
  t.is(thrown('{"message":"m"}', 'error'), 'server_error')
  t.is(thrown(piece({ content: '' }, 'error')), 'server_error')
  t.is(thrown('{"choices":[{"index'), 'invalid_response')
  t.is(thrown('[1]'), 'invalid_response')
  t.is(thrown('{"error":null,"choices":[]}'), null)
})

test('completions: answers and chunks have one shape', t => {
  const choice = { index: 0, text: ' a', logprobs: null, finish_reason: 'stop' }
  const json = { id: 'cmpl-1', object: 'text_completion', created: 1, model: 'm', choices: [choice] }
  const asked = call<'completion'>({ model: 'a', prompt: 'x' })
  t.deepEqual(completion.answer(json, asked).choices, [{ ...choice, finish_reason: 'stop' }])
  t.is(
    reasonOf(() => completion.answer({ choices: [{ message: {} }] }, asked)),
    'invalid_response',
  )
  const decoder = completion.stream!(asked)
  t.is(
    decoder.push(event(JSON.stringify({ ...json, choices: [{ ...choice, finish_reason: null }] })))[0]?.choices[0]
      ?.text,
    ' a',
  )
  t.false(decoder.done)
  decoder.push(event(JSON.stringify(json)))
  t.true(decoder.done)
})

test('embeddings: the length in the field of the provider, and no encoding where it has others', t => {
  const body = { model: 'a', input: 'x', dimensions: 256, encoding_format: 'float' as const }
  const sent = (quirks: object) => {
    const { body: text, dropped } = embedding.request(call<'embedding'>(body, { quirks }))
    return { ...JSON.parse(String(text)), dropped }
  }
  t.like(sent({}), { dimensions: 256, encoding_format: 'float', dropped: undefined })
  const mistral = sent(loadCatalog().providers.get('mistral')!.quirks!)
  t.like(mistral, { output_dimension: 256, dimensions: undefined, encoding_format: 'float', dropped: undefined })
  const voyage = sent(loadCatalog().providers.get('voyage')!.quirks!)
  t.like(voyage, { output_dimension: 256, encoding_format: undefined, dropped: undefined })
})

test('embeddings: given in the encoding asked for, whatever the server sent, in the order of the inputs', t => {
  const asked = (encoding_format?: string) => call<'embedding'>({ model: 'a', input: ['x', 'y'], encoding_format })
  const item = (index: number, vector: unknown) => ({ object: 'embedding', index, embedding: vector })
  const json = { data: [item(1, [0]), item(0, [1, -2.5])], model: 'm', usage: { prompt_tokens: 3, total_tokens: 3 } }
  const encoded = embedding.answer(json, asked('base64'))
  t.is(encoded.data[0]?.embedding, 'AACAPwAAIMA=')
  t.deepEqual(encoded.usage, { prompt_tokens: 3, total_tokens: 3 })
  const decoded = embedding.answer({ data: [item(0, 'AACAPwAAIMA='), item(1, [0])] }, asked())
  t.deepEqual(decoded.data[0]?.embedding, [1, -2.5])
  t.is(decoded.usage, undefined)
  for (const data of [undefined, [], [item(0, [1])], [item(0, []), item(1, [1])], [item(0, 'AAA='), item(1, [1])]]) {
    t.is(
      reasonOf(() => embedding.answer({ data }, asked('float'))),
      'invalid_response',
    )
  }
})

test('reasoning details: sent only to servers that know them; malformed ones are not shown', t => {
  const reasoning_details = [{ type: 'reasoning.text', text: 'Hm', index: 0 }]
  const history = [...messages, { role: 'assistant', content: 'Hi', reasoning_details }]
  const sentTo = (quirks: object) => sent({ model: 'a', messages: history }, { quirks } as Given).messages.at(-1)
  t.deepEqual(sentTo({ reasoning_details: true }), history.at(-1))
  t.deepEqual(sentTo({}), { role: 'assistant', content: 'Hi' })
  const list = [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }]
  const odd = [{ ...list[0]!, message: { ...list[0]!.message, reasoning_details: 'Hm' } }]
  t.deepEqual(chatAnswer(answer({ choices: odd })).choices as unknown, list)
})
