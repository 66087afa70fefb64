import fc from 'fast-check'
import type { ChatCompletion, ChatMessage } from '../../../shared/kinds/chat.ts'
import { gemini } from '../../../shared/providers/adapters/gemini/protocol.ts'
import type { Call, UpstreamRequest } from '../../../shared/providers/contract.ts'
import type { ProviderError } from '../../../shared/providers/provider-error.ts'
import { decodeToolCallId, encodeToolCallId } from '../../../shared/providers/toolkit/tool-call-id.ts'
import {
  blockedPrompt,
  cutStream,
  invalidApiKey,
  malformedFunctionCall,
  pixel,
  rateLimited,
  startGeminiEmulator,
} from '../../emulators/gemini.ts'
import { chatCall, type Thinking } from '../../support/providers/gemini-calls.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

// The adapter against the emulated upstream, and what goes with it: signatures in ids and failures.

const chat = gemini.direct.chat!
const emulator = use(test, startGeminiEmulator)

/** Sends what the adapter made; throws what the adapter makes of a refusal. */
async function send({ method, path, headers, body }: UpstreamRequest): Promise<Response> {
  const response = await fetch(emulator.url + path, {
    method,
    headers: { ...headers, 'x-goog-api-key': 'k' },
    body: String(body),
  })
  if (response.ok) return response
  throw gemini.failure(response.status, Object.fromEntries(response.headers), await response.text())
}

async function ask(call: Call<'chat'>): Promise<ChatCompletion> {
  return chat.answer(await (await send(chat.request(call))).json(), call)
}

/** The texts, finish reason and usage of a stream, and whether it was complete. */
async function askStream(fields: object, thinking?: Thinking) {
  const call = chatCall({ stream: true, ...fields }, thinking)
  const decoder = chat.stream!(call)
  const blocks = (await (await send(chat.request(call))).text()).split('\r\n\r\n').filter(Boolean)
  const chunks = blocks.flatMap(block => decoder.push({ event: '', data: block.replace(/^data: /, '') }))
  const choices = chunks.flatMap(chunk => chunk.choices)
  return {
    text: choices.map(choice => choice.delta.content ?? '').join(''),
    toolCalls: choices.flatMap(choice => choice.delta.tool_calls ?? []),
    finish: choices.at(-1)?.finish_reason,
    usage: chunks.at(-1)?.usage,
    done: decoder.done,
  }
}

const weather = {
  type: 'function',
  function: { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
}
const question: ChatMessage = { role: 'user', content: 'What is the weather in Oslo and Rome?' }

test.serial('200 tools over two turns: the signature comes back inside the id the client echoes', async t => {
  const first = await ask(chatCall({ messages: [question], tools: [weather] }, 'level'))
  const { message, finish_reason } = first.choices[0]!
  t.is(finish_reason, 'tool_calls')
  const toolCalls = message.tool_calls!
  t.deepEqual(
    toolCalls.map(toolCall => toolCall.function.arguments),
    ['{"city":"Oslo"}', '{"city":"Rome"}'],
  )
  t.deepEqual(
    toolCalls.map(toolCall => typeof decodeToolCallId(toolCall.id).signature),
    ['string', 'undefined'],
  )
  const results = toolCalls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: '5C' }))
  const second = await ask(chatCall({ messages: [question, message, ...results], tools: [weather] }, 'level'))
  t.regex(second.choices[0]!.message.content ?? '', /^Results: .*"id":"fc1-1".*5C/)
  const part = emulator.requests.at(-1)!.body.contents[1].parts[0]
  t.is(part.thoughtSignature, decodeToolCallId(toolCalls[0]!.id).signature)
  t.is(part.functionCall.id, 'fc1-1')
})

test.serial(
  '200 tools with a history from elsewhere: the stand-in is accepted; a foreign signature is not',
  async t => {
    const history = (id: string) => [
      question,
      { role: 'assistant', tool_calls: [{ id, type: 'function', function: { name: 'get_weather', arguments: '{}' } }] },
      { role: 'tool', tool_call_id: id, content: '5C' },
    ]
    const answer = await ask(chatCall({ messages: history('call_1') }, 'level'))
    t.regex(answer.choices[0]!.message.content ?? '', /^Results/)
    const error = await t.throwsAsync<ProviderError>(ask(chatCall({ messages: history('call_1__sig__AAAA') }, 'level')))
    t.like(error, { reason: 'invalid_request', status: 400, message: 'Thought signature is not valid.' })
  },
)

test.serial('200 streams: text, calls and thoughts with usage', async t => {
  const text = await askStream(
    { messages: [{ role: 'user', content: 'Größe 🙂 of a longer text' }], reasoning_effort: 'low' },
    'level',
  )
  t.like(text, { text: 'Echo: Größe 🙂 of a longer text', finish: 'stop', done: true, toolCalls: [] })
  t.is(text.usage?.completion_tokens_details?.reasoning_tokens, 30)
  const calls = await askStream({ messages: [question], tools: [weather] }, 'level')
  t.like(calls, { text: '', finish: 'tool_calls', done: true })
  t.deepEqual(
    calls.toolCalls.map(toolCall => toolCall.index),
    [0, 1],
  )
  const two = await askStream({ n: 2 })
  t.is(two.text.length, 'Echo: Hi'.length * 2)
})

test.serial('200 with everything at once is a request the upstream takes', async t => {
  const url = 'https://example.com/a.png'
  const content = [
    { type: 'text', text: 'Hello' },
    { type: 'image_url', image_url: { url } },
    { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
    { type: 'file', file: { file_data: 'data:application/pdf;base64,AAAA' } },
  ]
  const sampling = {
    temperature: 1,
    top_p: 0.9,
    seed: 1,
    stop: ['END'],
    max_tokens: 99,
  }
  const output = {
    logprobs: true,
    top_logprobs: 1,
    n: 2,
    reasoning_effort: 'high',
    modalities: ['text', 'image'],
    tools: [weather],
    tool_choice: 'none',
  }
  const messages = [
    { role: 'system', content: 'Be kind' },
    { role: 'user', content },
  ]
  const media = new Map([[url, { contentType: 'image/png', bytes: Buffer.from(pixel, 'base64') }]])
  const { choices, usage } = await ask(chatCall({ messages, ...sampling, ...output }, 'budget', { media }))
  t.deepEqual(
    choices.map(choice => choice.message.content),
    ['Echo: Hello', 'Echo: Hello'],
  )
  t.deepEqual(choices[0]!.message.images, [{ type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } }])
  t.like(usage, {
    prompt_tokens_details: { image_tokens: 258, audio_tokens: 32 },
    completion_tokens_details: { image_tokens: 2580 },
  })
  const format = {
    type: 'json_schema',
    json_schema: { name: 's', schema: { type: 'object', properties: { ok: { type: 'boolean' } } } },
  }
  t.is((await ask(chatCall({ response_format: format }))).choices[0]!.message.content, '{"ok":true}')
})

test.serial('a format of the answer is left out where a tool is forced, and named: Gemini refuses both', async t => {
  const schema = { type: 'object', properties: { ok: { type: 'boolean' } } }
  const response_format = { type: 'json_schema', json_schema: { name: 's', schema } }
  const named = { type: 'function', function: { name: weather.function.name } }
  for (const tool_choice of ['required', named, 'auto']) {
    const call = chatCall({ response_format, tools: [weather], tool_choice })
    const { dropped } = chat.request(call)
    t.deepEqual(dropped ?? [], tool_choice === 'auto' ? [] : ['response_format'])
    t.is((await ask(call)).choices.length, 1)
  }
})

test.serial('failed upstream: each reply has its reason', async t => {
  emulator.next(rateLimited('1.5s'), invalidApiKey, malformedFunctionCall, blockedPrompt())
  t.like(await t.throwsAsync(ask(chatCall({}))), { reason: 'rate_limited', status: 429, retryAfterMs: 1500 })
  t.like(await t.throwsAsync(ask(chatCall({}))), { reason: 'auth', status: 400 })
  t.like(await t.throwsAsync(ask(chatCall({}))), { reason: 'model_fault' })
  t.is((await ask(chatCall({}))).choices[0]!.finish_reason, 'content_filter')
  emulator.next(blockedPrompt(), cutStream(['Hel']))
  t.like(await askStream({}), { finish: 'content_filter', done: true })
  await t.throwsAsync(askStream({}), { instanceOf: TypeError })
})

test('usage by modality: audio and image tokens, cached audio apart', t => {
  const usageMetadata = {
    promptTokenCount: 60,
    candidatesTokenCount: 30,
    promptTokensDetails: [
      { modality: 'AUDIO', tokenCount: 20 },
      { modality: 'IMAGE', tokenCount: 30 },
      { modality: 'TEXT', tokenCount: 10 },
    ],
    cacheTokensDetails: [{ modality: 'AUDIO', tokenCount: 5 }],
    candidatesTokensDetails: [
      { modality: 'IMAGE', tokenCount: 25 },
      { modality: 'AUDIO', tokenCount: 3 },
    ],
  }
  t.like(
    chat.answer(
      { candidates: [{ content: { parts: [{ text: 'a' }] }, finishReason: 'STOP' }], usageMetadata },
      chatCall({}),
    ).usage,
    {
      prompt_tokens_details: { audio_tokens: 20, image_tokens: 30, cached_audio_tokens: 5 },
      completion_tokens_details: { image_tokens: 25, audio_tokens: 3 },
    },
  )
})

const body = (message: string, status = '', details: object[] = []) =>
  JSON.stringify({ error: { code: 1, message, status, details } })
const failures: [number, string, string][] = [
  [400, body('Unknown name "x": Cannot find field.', 'INVALID_ARGUMENT'), 'invalid_request'],
  [400, body('API key not valid. Please pass a valid API key.', 'INVALID_ARGUMENT'), 'auth'],
  [400, body('Renew it.', 'INVALID_ARGUMENT', [{ reason: 'API_KEY_INVALID' }]), 'auth'],
  [400, body('User location is not supported for the API use.', 'FAILED_PRECONDITION'), 'auth'],
  [400, body('Please enable billing on the project.', 'FAILED_PRECONDITION'), 'quota'],
  [
    400,
    body('The input token count (9) exceeds the maximum number of tokens allowed (8).', 'INVALID_ARGUMENT'),
    'context_length',
  ],
  [401, body('', 'UNAUTHENTICATED'), 'auth'],
  [402, '', 'quota'],
  [403, body('', 'PERMISSION_DENIED'), 'auth'],
  [404, body('', 'NOT_FOUND'), 'model_unavailable'],
  [405, '', 'model_unavailable'],
  [408, '', 'server_error'],
  [410, '<html>', 'model_unavailable'],
  [413, 'too large', 'invalid_request'],
  [429, body('', 'RESOURCE_EXHAUSTED'), 'rate_limited'],
  [451, '', 'model_unavailable'],
  [499, body('', 'CANCELLED'), 'server_error'],
  [500, body('', 'INTERNAL'), 'server_error'],
  [502, '<html>', 'server_error'],
  [503, body('', 'UNAVAILABLE'), 'overloaded'],
  [504, `[${body('late', 'DEADLINE_EXCEEDED')}]`, 'server_error'],
]
for (const [status, text, reason] of failures) {
  test(`${status} is ${reason}: ${text.slice(0, 70)}`, t => {
    const error = gemini.failure(status, {}, text)
    t.like(error, { reason, status, retryAfterMs: null })
    t.not(error.message, '')
  })
}

test('429 waits as long as the body says, else the header; nonsense is no wait', t => {
  const wait = (retryDelay: unknown, header?: string) =>
    gemini.failure(429, { 'retry-after': header }, body('', '', [{ '@type': 'QuotaFailure' }, { retryDelay }]))
      .retryAfterMs
  t.is(wait('31s', '5'), 31_000)
  t.is(wait('0.2001s'), 201)
  t.is(wait(undefined, '5'), 5000)
  for (const nonsense of ['31', '-1s', '1e9s', {}, 7]) t.is(wait(nonsense, 'soon'), null)
})

test('failure messages say nothing about our account', t => {
  const message =
    'Key AIzaSyA1234567890 of projects/acme-prod (project_number:123456, project 123456) may not. The project is fine.'
  const said = gemini.failure(400, {}, body(message)).message
  t.notRegex(said, /AIza|acme|123456/)
  t.regex(said, /^Key .* may not\. The project is fine\.$/)
  t.is(gemini.failure(400, {}, body('x'.repeat(5000))).message.length, 1000)
})

test('ids: any signature comes back byte for byte, in characters every provider takes', t => {
  const signature = fc.uint8Array({ minLength: 1, maxLength: 300 }).map(bytes => Buffer.from(bytes).toString('base64'))
  const id = fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/).filter(text => !text.includes('__'))
  fc.assert(
    fc.property(id, signature, (id, signature) => {
      const encoded = encodeToolCallId(id, signature)
      t.regex(encoded, /^[A-Za-z0-9_-]+$/)
      t.deepEqual(decodeToolCallId(encoded), { id, signature })
      t.deepEqual(decodeToolCallId(encodeToolCallId(id, undefined)), { id })
    }),
  )
})

test('ids: unfit ids are replaced, unfit signatures dropped, foreign ids kept', t => {
  const long = Buffer.alloc(32_768).toString('base64')
  for (const id of ['a b', 'a__b', 'x'.repeat(65), '', undefined])
    t.regex(encodeToolCallId(id, undefined), /^call_[0-9a-f]{24}$/)
  for (const signature of ['not base64', 'AB==', long, '']) t.is(encodeToolCallId('a', signature), 'a')
  for (const id of ['call_1', '__sig__AAAA', 'a__sig__', 'a__sig__$$', 'a__b'])
    t.deepEqual(decodeToolCallId(id), { id })
})
