import { ApiError, FunctionCallingConfigMode, GoogleGenAI, ThinkingLevel } from '@google/genai'
import { googleError } from '../../api/schemas/gemini.ts'
import { messageReply } from '../emulators/anthropic.ts'
import { json, type Reply } from '../emulators/emulator.ts'
import { cutStream, geminiError, piece, pixel } from '../emulators/gemini.ts'
import { chargedNano, dataOf, generationOf, startWorld } from '../support/chat/gateway.ts'
import { geminiParts } from '../support/chat/reasoning.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, startWorld)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini, world.openrouter]) emulator.reset()
})

const gemini = 'gemini-3.5-flash'
const claude = 'claude-haiku-4-5'
const gpt = 'gpt-4o-mini'
const pathOf = (model: string, method = 'generateContent') => `/v1beta/models/${model}:${method}`
const hi = { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }] }
// biome-ignore lint/suspicious/noExplicitAny: answers of every shape
type Any = any

function client(key: string, options: object = {}): GoogleGenAI {
  return new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: world.gateway.url }, ...options })
}

/** Asserts an error in Google's format; returns it. */
async function refuses(t: ExecutionContext, response: Response, status: number, code: string, field?: string) {
  const text = await response.text()
  t.is(response.status, status, text)
  const { error } = googleError.parse(JSON.parse(text))
  t.is(error.code, status)
  const info = error.details[0] as Any
  t.is(info.metadata.code, code, text)
  t.is(info.reason, code.toUpperCase())
  if (field !== undefined) t.is(info.metadata.param, field, text)
  return error
}

test.serial(
  '200 with the same bytes in both directions at Gemini: unknown members, numbers and signatures',
  async t => {
    const { live: key } = await world.gateway.account({ usd: '10' })
    const sent = `{ "contents":[{"role":"user","parts":[{"text":"Grüße","newPart":{"big":12345678901234567890}}]},
    {"role":"model","parts":[{"functionCall":{"name":"f","args":{"n":1.0}},"thoughtSignature":"c2ln/+=="}]},
    {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"x":1e2}}}]}],
    "generationConfig":{"maxOutputTokens":100,"newSetting":true}, "safetySettings":[] }`
    const answered = `{"candidates": [{"content": {"parts": [{"text": "Hi \\u00fc", "new": 1.0}], "role": "model"}, "finishReason": "STOP"}],
 "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}, "modelVersion": "m", "responseId": "r1", "other": {}}`
    world.gemini.next((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(answered)
    })
    const response = await world.gateway.fetch(pathOf(gemini), { key, body: sent })
    t.is(await response.text(), answered)
    t.is(response.headers.get('x-gateway-model'), gemini)
    const [request] = world.gemini.requests
    t.is(request!.path, `/v1beta/models/${gemini}:generateContent`)
    t.is(request!.raw.toString(), sent)
    const logged = await generationOf(world, response.headers.get('x-generation-id')!)
    t.is(logged.kind, 'generate_content')
    t.is(logged.upstreamId, 'r1')
    t.is(logged.promptTokens, 9)
    t.is(logged.completionTokens, 3)
  },
)

test.serial('200 with the same bytes in a stream, and as items of a JSON array', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  const usageMetadata = { promptTokenCount: 5, candidatesTokenCount: 2, totalTokenCount: 7 }
  const texts = [piece('Grüße, '), piece('Welt'), piece('!', 'STOP', { usageMetadata, more: 1.5 })].map(one =>
    JSON.stringify(one),
  )
  const frames = texts.map(text => `data: ${text}\r\n\r\n`)
  const reply: Reply = (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(frames.join(''))
  }
  world.gemini.next(reply, reply)
  const sse = await world.gateway.fetch(`${pathOf(gemini, 'streamGenerateContent')}?alt=sse`, { key, body: hi })
  t.regex(sse.headers.get('content-type')!, /^text\/event-stream/)
  t.is(await sse.text(), frames.join(''))
  const array = await world.gateway.fetch(pathOf(gemini, 'streamGenerateContent'), { key, body: hi })
  t.regex(array.headers.get('content-type')!, /^application\/json/)
  t.is(await array.text(), `[${texts.join(',\r\n')}\n]`)
  t.true(world.gemini.requests.every(({ query }) => query.get('alt') === 'sse'))
})

for (const model of [gemini, claude, gpt])
  test.serial(`200 by @google/genai at ${model}: text, stream, functions, JSON, count`, async t => {
    const account = await world.gateway.account({ usd: '10' })
    const ai = client(account.live)
    const answer = await ai.models.generateContent({
      model,
      contents: 'Hello there',
      config: { systemInstruction: 'Be kind', maxOutputTokens: 100 },
    })
    t.true(answer.text!.length > 0)
    t.is(answer.candidates![0]!.finishReason as string, 'STOP')
    t.true(answer.usageMetadata!.promptTokenCount! > 0)
    t.true(answer.usageMetadata!.candidatesTokenCount! > 0)
    t.is(answer.modelVersion, model)
    let streamed = ''
    let last: Any
    for await (const chunk of await ai.models.generateContentStream({ model, contents: 'Hello there' })) {
      streamed += chunk.text ?? ''
      last = chunk
    }
    t.true(streamed.length > 0)
    t.is(last.candidates[0].finishReason, 'STOP')
    t.true(last.usageMetadata.totalTokenCount > 0)
    const calls: Any[] = []
    const tool = {
      tool: async () => ({
        functionDeclarations: [
          { name: 'get_weather', parametersJsonSchema: { type: 'object', properties: { city: { type: 'string' } } } },
        ],
      }),
      async callTool(functionCalls: Any[]) {
        calls.push(...functionCalls)
        return functionCalls.map(({ id, name }) => ({ functionResponse: { id, name, response: { output: 'sunny' } } }))
      },
    }
    const chat = ai.chats.create({ model, config: { tools: [tool as Any] } })
    const said = await chat.sendMessage({ message: 'How is the weather in Oslo?' })
    t.is(calls.length, 1)
    t.is(calls[0].name, 'get_weather')
    t.true(said.text!.length > 0)
    const counted = await ai.models.countTokens({ model, contents: 'Hello there, how are you?' })
    t.true(counted.totalTokens! > 0)
    t.true((await chargedNano(world, account)) > 0)
  })

test.serial('200 at a model of another provider: its answer in Google’s form, streamed as an array too', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  const response = await world.gateway.fetch(pathOf(claude), { key, body: hi })
  const answer = (await response.json()) as Any
  t.deepEqual(Object.keys(answer).sort(), ['candidates', 'modelVersion', 'responseId', 'usageMetadata'])
  t.is(answer.responseId, response.headers.get('x-generation-id'))
  t.regex(answer.responseId, /^gen_/)
  const array = await world.gateway.fetch(pathOf(claude, 'streamGenerateContent'), { key, body: hi })
  const items = (await array.json()) as Any[]
  const text = items.map(item => item.candidates[0].content.parts.map((part: Any) => part.text ?? '').join('')).join('')
  t.is(text, answer.candidates[0].content.parts[0].text)
  t.is(items.at(-1).candidates[0].finishReason, 'STOP')
  const { promptTokenCount, candidatesTokenCount, totalTokenCount } = items.at(-1).usageMetadata
  t.is(totalTokenCount, promptTokenCount + candidatesTokenCount)
})

test.serial('200 with line separators escaped in a stream, which some clients cannot read otherwise', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  const text = 'One\u2028two\u2029three'
  const body = { contents: [{ parts: [{ text }] }] }
  for (const model of [claude, gpt]) {
    const response = await world.gateway.fetch(`${pathOf(model, 'streamGenerateContent')}?alt=sse`, { key, body })
    const events = await response.text()
    t.false(/[\u2028\u2029]/.test(events))
    const items = events.match(/(?<=^data: ).*$/gm)!.map(item => JSON.parse(item))
    const parts = items.flatMap(({ candidates }) => candidates[0].content?.parts ?? [])
    t.is(parts.map(part => part.text).join(''), `Echo: ${text}`)
  }
})

test.serial('names in snake case, single parts and a schema in capitals are read as Google reads them', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  const body = {
    system_instruction: { parts: { text: 'Be brief' } },
    contents: { parts: { text: 'Hello' } },
    tools: {
      function_declarations: {
        name: 'f',
        parameters: { type: 'OBJECT', properties: { some_city: { type: 'STRING', nullable: true, min_length: '1' } } },
      },
    },
    tool_config: { function_calling_config: { mode: 'ANY', allowed_function_names: ['f'] } },
    generation_config: { max_output_tokens: 50, stop_sequences: ['END'], top_p: 0.5 },
  }
  const response = await world.gateway.fetch(pathOf(gpt), { key, body })
  t.is(response.status, 200, await response.text())
  const sent = world.openai.requests[0]!.body as Any
  t.deepEqual(sent.messages, [
    { role: 'system', content: 'Be brief' },
    { role: 'user', content: 'Hello' },
  ])
  t.deepEqual(sent.tools[0].function, {
    name: 'f',
    parameters: { type: 'object', properties: { some_city: { type: ['string', 'null'], minLength: 1 } } },
  })
  t.deepEqual(sent.tool_choice, { type: 'function', function: { name: 'f' } })
  t.is(sent.max_completion_tokens ?? sent.max_tokens, 50)
  t.deepEqual(sent.stop, ['END'])
  const both = { contents: hi.contents, generationConfig: { topP: 1, top_p: 0 } }
  await refuses(
    t,
    await world.gateway.fetch(pathOf(gemini), { key, body: both }),
    400,
    'invalid_request',
    'generationConfig.topP',
  )
})

test.serial('base64 for URLs, as google-genai for Python writes it, is an image at every model', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  const data = Buffer.from(pixel, 'base64').toString('base64url')
  t.regex(data, /[-_]/)
  const contents = [{ role: 'user', parts: [{ text: 'What?' }, { inlineData: { mimeType: 'image/png', data } }] }]
  for (const model of [gemini, claude, gpt]) {
    const response = await world.gateway.fetch(pathOf(model), { key, body: { contents } })
    t.is(response.status, 200, await response.text())
  }
  t.is((world.openai.requests[0]!.body as Any).messages[0].content[1].image_url.url, `data:image/png;base64,${pixel}`)
})

test.serial('the key is taken from x-goog-api-key, ?key= and Authorization, at every path of Google', async t => {
  const { live } = await world.gateway.account({ usd: '10' })
  const paths = [
    pathOf(gemini),
    `/v1/models/${gemini}:generateContent`,
    `/v1alpha/models/${gemini}:generateContent`,
    `/v1beta/models/models/${gemini}:generateContent`,
    `/v1beta/models/google%2F${gemini}:generateContent`,
    `/v1beta/models/google/${gemini}:generateContent`,
    `/v1/projects/p/locations/global/publishers/google/models/${gemini}:generateContent`,
    `/v1beta1/projects/p/locations/us-central1/publishers/google/models/${gemini}:generateContent`,
    `/v1beta1/publishers/google/models/${gemini}:generateContent`,
  ]
  for (const path of paths) {
    const response = await world.gateway.fetch(path, { body: hi, headers: { 'x-goog-api-key': live } })
    t.is(response.status, 200, `${path}: ${await response.text()}`)
  }
  const other = await world.gateway.fetch(
    `/v1beta1/projects/p/locations/l/publishers/openai/models/${gpt}:generateContent`,
    {
      body: hi,
      headers: { 'x-goog-api-key': live },
    },
  )
  t.is(other.headers.get('x-gateway-model'), gpt)
  t.is((await world.gateway.fetch(`${pathOf(gemini)}?key=${live}`, { body: hi })).status, 200)
  t.is(
    (await world.gateway.fetch(`${pathOf(gemini, 'streamGenerateContent')}?key=${live}&alt=sse`, { body: hi })).status,
    200,
  )
  t.is((await world.gateway.fetch(pathOf(gemini), { key: live, body: hi })).status, 200)
  await refuses(t, await world.gateway.fetch(pathOf(gemini), { body: hi }), 401, 'missing_api_key')
  await refuses(t, await world.gateway.fetch(`${pathOf(gemini)}?key=nonsense`, { body: hi }), 401, 'invalid_api_key')
  t.is((await world.gateway.fetch(`/v1/models?key=${live}`)).status, 401)
})

test.serial('errors are in Google’s format: 400, 401, 402, 403, 404, 405, 413, 429', async t => {
  const account = await world.gateway.account({ usd: '10' })
  const { live: key } = account
  const send = (body: unknown, model = gemini, other = key) => world.gateway.fetch(pathOf(model), { key: other, body })
  const missing = await refuses(t, await send({}), 400, 'missing_field', 'contents')
  t.is(missing.status, 'INVALID_ARGUMENT')
  await refuses(
    t,
    await send({ contents: [{ role: 'user', parts: [{ text: 1 }] }] }),
    400,
    'invalid_request',
    'contents.0.parts.0.text',
  )
  await refuses(t, await send('{', gemini), 400, 'invalid_json')
  t.is((await refuses(t, await send(hi, 'nope'), 404, 'model_not_found')).status, 'NOT_FOUND')
  await refuses(t, await send(hi, 'tunedModels/x'), 404, 'model_not_found')
  await refuses(t, await world.gateway.fetch(pathOf(gemini), { key, method: 'GET' }), 404, 'model_not_found')
  await refuses(t, await world.gateway.fetch('/v1beta/cachedContents', { key, body: {} }), 404, 'not_found')
  const unscoped = await world.gateway.key(account.organisationId, 'live', { scopes: 'embeddings' })
  t.is((await refuses(t, await send(hi, gemini, unscoped), 403, 'insufficient_scope')).status, 'PERMISSION_DENIED')
  const slow = await world.gateway.key(account.organisationId, 'live', { rpm_limit: 1 })
  t.is((await send(hi, gemini, slow)).status, 200)
  const limited = await refuses(t, await send(hi, gemini, slow), 429, 'rate_limit_exceeded')
  t.is(limited.status, 'RESOURCE_EXHAUSTED')
  t.regex((limited.details.at(-1) as Any).retryDelay, /^\d+s$/)
  const poor = await world.gateway.account({ usd: '0' })
  await refuses(t, await send(hi, gemini, poor.live), 402, 'insufficient_credits')
  const bad = await world.gateway.fetch(`${pathOf(gemini, 'streamGenerateContent')}?alt=xml`, { key, body: hi })
  await refuses(t, bad, 400, 'invalid_request', 'alt')
  const error = await t.throwsAsync(client(key).models.generateContent({ model: 'nope', contents: 'Hi' }), {
    instanceOf: ApiError,
  })
  t.is(error!.status, 404)
})

test.serial('400 for what has no price or is of the operator’s account, and what only Gemini has', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  const send = (more: object, model = gemini) => world.gateway.fetch(pathOf(model), { key, body: { ...hi, ...more } })
  const unsupported = 'unsupported_capability'
  await refuses(t, await send({ cachedContent: 'cachedContents/1' }), 400, unsupported, 'cachedContent')
  for (const model of [claude, gpt, 'auto'])
    await refuses(t, await send({ cachedContent: 'cachedContents/1' }, model), 400, unsupported, 'cachedContent')
  for (const model of [gemini, claude]) {
    const counted = { generateContentRequest: { model, ...hi, cachedContent: 'cachedContents/1' } }
    const response = await world.gateway.fetch(pathOf(model, 'countTokens'), { key, body: counted })
    await refuses(t, response, 400, unsupported, 'cachedContent')
  }
  await refuses(t, await send({ tools: [{ googleMaps: {} }] }), 400, unsupported, 'tools.0.googleMaps')
  await refuses(
    t,
    await send({ tools: [{ fileSearch: { fileSearchStoreNames: ['s'] } }] }),
    400,
    unsupported,
    'tools.0.fileSearch',
  )
  await refuses(t, await send({ tools: [{ codeExecution: {} }] }, claude), 400, unsupported, 'tools.0.codeExecution')
  const file = (fileUri: string) => ({
    contents: [{ parts: [{ fileData: { mimeType: 'application/pdf', fileUri } }] }],
  })
  const place = 'contents.0.parts.0.fileData.fileUri'
  await refuses(t, await send(file('gs://bucket/a.pdf')), 400, unsupported, place)
  await refuses(
    t,
    await send(file('https://generativelanguage.googleapis.com/v1beta/files/abc')),
    400,
    unsupported,
    place,
  )
  await refuses(t, await send(file('https://www.youtube.com/watch?v=1')), 400, unsupported, place)
  t.is(world.gemini.requests.length + world.anthropic.requests.length, 0)
  t.is((await send({ tools: [{ codeExecution: {} }] })).status, 200)
  const safe = await send({ safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }] }, gpt)
  t.is(safe.headers.get('x-gateway-dropped'), 'safetySettings')
})

test.serial('404 by @google/genai for caches, which would be in the account of the operator', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  const { caches } = client(key)
  const name = 'cachedContents/1'
  const calls: (() => Promise<unknown>)[] = [
    () => caches.create({ model: gemini, config: { contents: 'A long text', ttl: '300s' } }),
    () => caches.get({ name }),
    () => caches.list(),
    () => caches.update({ name, config: { ttl: '600s' } }),
    () => caches.delete({ name }),
  ]
  for (const call of calls) {
    const error = await t.throwsAsync(call, { instanceOf: ApiError, message: /Send the contents with each request/ })
    t.is(error!.status, 404)
  }
  t.is(world.gemini.requests.length, 0)
})

test.serial('an error within a stream is its last event, or the last item of its array', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  const send = (alt: string) =>
    world.gateway.fetch(`${pathOf(gemini, 'streamGenerateContent')}${alt}`, { key, body: hi })
  world.gemini.next(cutStream(['Hello ', 'world ']), cutStream(['Hello ', 'world ']), cutStream(['Hello ', 'world ']))
  const events = dataOf(await (await send('?alt=sse')).text())
  t.is(events.length, 3)
  t.is(events[2].error.code, 502)
  t.is(events[2].error.status, 'UNAVAILABLE')
  const items = (await (await send('')).json()) as Any[]
  t.is(items.length, 3)
  t.is(items[2].error.code, 502)
  const stream = await client(key).models.generateContentStream({ model: gemini, contents: 'Hi' })
  const error = await t.throwsAsync(async () => {
    for await (const _chunk of stream);
  })
  t.true(error instanceof ApiError)
})

test.serial(
  'another target takes over where Gemini fails; signatures it cannot read are dropped and named',
  async t => {
    const { live: key } = await world.gateway.account({ usd: '10' })
    world.gemini.next(geminiError(503, 'UNAVAILABLE', 'Overloaded.'), geminiError(503, 'UNAVAILABLE', 'Overloaded.'))
    const contents = [
      ...hi.contents,
      { role: 'model', parts: [{ text: 'Hi', thoughtSignature: 'c2lnbmF0dXJl' }] },
      { role: 'user', parts: [{ text: 'And?' }] },
    ]
    const body = { contents, models: [claude] }
    const response = await world.gateway.fetch(pathOf(gemini), { key, body })
    t.is(response.status, 200, await response.text())
    t.is(response.headers.get('x-gateway-model'), claude)
    t.is(response.headers.get('x-gateway-reasoning-dropped'), '1')
  },
)

test.serial('thinking of Claude returns to it in the signature of its call, without the thoughts', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  const thinking = { type: 'thinking', thinking: 'Let me look.', signature: 'EqQBCkgIARAB+/w==' }
  const call = { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { city: 'Oslo' } }
  const tools = [
    { functionDeclarations: [{ name: 'weather', parametersJsonSchema: { type: 'object', properties: {} } }] },
  ]
  for (const method of ['generateContent', 'streamGenerateContent']) {
    world.anthropic.next(messageReply({ content: [thinking as Any, call as Any], stop_reason: 'tool_use' }))
    const config = { generationConfig: { thinkingConfig: { thinkingLevel: 'LOW', includeThoughts: true } } }
    const path = pathOf('claude-sonnet-4-5', method)
    const first = await world.gateway.fetch(path, { key, body: { ...hi, tools, ...config } })
    const answers = [await first.json()].flat() as Any[]
    const parts = answers.flatMap(answer => answer.candidates[0].content.parts)
    t.is(
      parts
        .filter(part => part.thought)
        .map(part => part.text)
        .join(''),
      'Let me look.',
    )
    const called = parts.find(part => part.functionCall)
    t.deepEqual(called.functionCall, { id: 'toolu_1', name: 'weather', args: { city: 'Oslo' } })
    const contents = [
      ...hi.contents,
      // As gemini-cli and google-genai for Python return it: without thoughts, in base64 for URLs.
      {
        role: 'model',
        parts: [{ ...called, thoughtSignature: called.thoughtSignature.replaceAll('+', '-').replaceAll('/', '_') }],
      },
      { role: 'user', parts: [{ functionResponse: { name: 'weather', response: { output: 'sunny' } } }] },
    ]
    const second = await world.gateway.fetch(pathOf('claude-sonnet-4-5'), { key, body: { contents, tools, ...config } })
    t.is(second.status, 200, await second.text())
    const sent = world.anthropic.requests.at(-1)!.body as Any
    t.deepEqual(sent.messages[1].content, [thinking, call])
    t.is(sent.messages[2].content[0].tool_use_id, 'toolu_1')
    // Gemini gets a substitute for it.
    const switched = await world.gateway.fetch(pathOf(gemini), { key, body: { contents, tools } })
    t.is(switched.status, 200, await switched.text())
    const [part] = (world.gemini.requests.at(-1)!.body as Any).contents[1].parts
    t.is(part.thoughtSignature, 'skip_thought_signature_validator')
  }
})

test.serial('a signature that Gemini refuses is sent once more without', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  world.gemini.next(geminiError(400, 'INVALID_ARGUMENT', 'Thought signature is not valid.'))
  const contents = [
    ...hi.contents,
    { role: 'model', parts: [{ functionCall: { id: 'a', name: 'f', args: {} }, thoughtSignature: 'c2ln' }] },
    { role: 'user', parts: [{ functionResponse: { id: 'a', name: 'f', response: { output: 'x' } } }] },
  ]
  const response = await world.gateway.fetch(pathOf(gemini), { key, body: { contents } })
  t.is(response.status, 200, await response.text())
  t.is(response.headers.get('x-gateway-reasoning-dropped'), '1')
  const parts = world.gemini.requests.map(({ body }) => (body as Any).contents[1].parts[0].thoughtSignature)
  t.deepEqual(parts, ['c2ln', 'skip_thought_signature_validator'])
})

test.serial('200 for calls of Gemini 2.5, which have no signature, at Gemini 3', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  const call = (id: string) => ({ functionCall: { id, name: 'f', args: {} } })
  const result = (id: string) => ({ functionResponse: { id, name: 'f', response: { output: 'x' } } })
  const own = { ...call('c'), thoughtSignature: Buffer.from('thought:x').toString('base64') }
  const contents = [
    ...hi.contents,
    { role: 'model', parts: [{ text: 'Both.' }, call('a'), call('b')] },
    { role: 'user', parts: [result('a'), result('b')] },
    { role: 'model', parts: [own, call('d')] },
    { role: 'user', parts: [result('c'), result('d')] },
  ]
  const response = await world.gateway.fetch(pathOf('gemini-3.5-flash'), { key, body: { contents } })
  t.is(response.status, 200, await response.text())
  const { contents: sent } = world.gemini.requests.at(-1)!.body as Any
  const skipped = { ...call('a'), thoughtSignature: 'skip_thought_signature_validator' }
  t.deepEqual(sent[1].parts, [{ text: 'Both.' }, skipped, call('b')])
  t.deepEqual(sent[3].parts, [own, call('d')])
  const older = await world.gateway.fetch(pathOf('gemini-2.5-flash'), { key, body: { contents } })
  t.is(older.status, 200, await older.text())
  t.deepEqual((world.gemini.requests.at(-1)!.body as Any).contents[1].parts[1], call('a'))
})

test.serial('200 for results of several calls in turns of their own, which Gemini gets as one turn', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  const call = (id: string) => ({ functionCall: { id, name: 'weather', args: { id } } })
  const result = (id: string) => ({ functionResponse: { id, name: 'weather', response: { output: `sunny ${id}` } } })
  const signed = { ...call('a'), thoughtSignature: Buffer.from('thought:x').toString('base64') }
  const called = { role: 'model', parts: [signed, call('b'), call('c')] }
  const question = { role: 'user', parts: [{ text: 'And?' }] }
  // As LangChain's package sends them, with a message of the user after them.
  const apart = ['a', 'b', 'c'].map(id => ({ role: 'user', parts: [result(id)] }))
  const contents = [...hi.contents, called, ...apart, question]
  for (const method of ['generateContent', 'streamGenerateContent']) {
    const response = await world.gateway.fetch(pathOf(gemini, method), { key, body: { contents } })
    t.is(response.status, 200, await response.text())
    const sent = world.gemini.requests.at(-1)!.body as Any
    t.deepEqual(sent.contents, [
      ...hi.contents,
      called,
      { role: 'user', parts: [result('a'), result('b'), result('c'), ...question.parts] },
    ])
  }
  for (const model of [claude, gpt]) {
    const response = await world.gateway.fetch(pathOf(model), { key, body: { contents } })
    t.is(response.status, 200, `${model}: ${await response.text()}`)
  }
  const [{ content }] = (world.anthropic.requests[0]!.body as Any).messages.slice(2)
  t.deepEqual(
    content.map(({ type, tool_use_id }: Any) => tool_use_id ?? type),
    ['a', 'b', 'c', 'text'],
  )
  const { messages } = world.openai.requests[0]!.body as Any
  t.deepEqual(
    messages.slice(2).map(({ role, tool_call_id }: Any) => tool_call_id ?? role),
    ['a', 'b', 'c', 'user'],
  )
})

test.serial('maxOutputTokens is lowered to what the cap allows, and routing fields do not reach Gemini', async t => {
  const account = await world.gateway.account({ usd: '10' })
  const key = await world.gateway.key(account.organisationId, 'live', { monthly_spend_cap_usd: 0.01 })
  const body = {
    ...hi,
    generationConfig: { temperature: 0.5, maxOutputTokens: 60_000 },
    mode: 'cost',
    provider: { only: ['gemini'] },
  }
  const response = await world.gateway.fetch(pathOf(gemini), { key, body })
  t.is(response.status, 200, await response.text())
  t.regex(response.headers.get('x-gateway-max-tokens-clamped')!, /^\d+$/)
  const sent = world.gemini.requests[0]!.body as Any
  t.deepEqual(Object.keys(sent), ['contents', 'generationConfig'])
  t.is(sent.generationConfig.temperature, 0.5)
  t.true(sent.generationConfig.maxOutputTokens < 60_000)
})

test.serial('auto chooses a model, and a model whose dialect cannot say the request is not chosen', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  const chosen = await world.gateway.fetch(pathOf('auto'), { key, body: hi })
  t.is(chosen.status, 200)
  t.truthy(chosen.headers.get('x-gateway-model'))
  const coding = await world.gateway.fetch(pathOf('auto'), { key, body: { ...hi, tools: [{ codeExecution: {} }] } })
  t.is(coding.status, 200, await coding.text())
  t.is(coding.headers.get('x-gateway-provider'), 'gemini')
})

test.serial('countTokens is Gemini’s own count, and ours for other models', async t => {
  const account = await world.gateway.account({ usd: '10' })
  const { live: key } = account
  const count = async (model: string, body: object) => {
    const response = await world.gateway.fetch(pathOf(model, 'countTokens'), { key, body })
    const text = await response.text()
    t.is(response.status, 200, text)
    return JSON.parse(text)
  }
  world.gemini.next(json(200, { totalTokens: 4711, promptTokensDetails: [] }))
  const whole = {
    generateContentRequest: { model: `models/${gemini}`, ...hi, systemInstruction: { parts: [{ text: 'Be brief' }] } },
  }
  t.deepEqual(await count(gemini, whole), { totalTokens: 4711 })
  const sent = world.gemini.requests[0]!.body as Any
  t.is(sent.generateContentRequest.model, `models/${gemini}`)
  t.is(sent.generateContentRequest.systemInstruction.parts[0].text, 'Be brief')
  t.true((await count(claude, hi)).totalTokens > 0)
  t.is(world.anthropic.requests.length, 0)
  await refuses(
    t,
    await world.gateway.fetch(pathOf(gemini, 'countTokens'), { key, body: {} }),
    400,
    'missing_field',
    'contents',
  )
  t.is(await chargedNano(world, account), 0)
})

test.serial('embeddings by any model: one, several, by @google/genai, with task and title at Gemini', async t => {
  const account = await world.gateway.account({ usd: '10' })
  const { live: key } = account
  const content = { parts: [{ text: 'Hello' }] }
  const asked = { content, taskType: 'RETRIEVAL_DOCUMENT', title: 'A', outputDimensionality: 8 }
  const one = await world.gateway.fetch(pathOf('gemini-embedding-001', 'embedContent'), { key, body: asked })
  const { embedding } = (await one.json()) as Any
  t.is(embedding.values.length, 8)
  const [request] = (world.gemini.requests[0]!.body as Any).requests
  t.is(request.taskType, 'RETRIEVAL_DOCUMENT')
  t.is(request.title, 'A')
  const several = await client(key).models.embedContent({
    model: 'text-embedding-3-small',
    contents: ['a', 'b'],
    config: { outputDimensionality: 4 },
  })
  t.is(several.embeddings!.length, 2)
  t.is((world.openai.requests[0]!.body as Any).dimensions, 4)
  const dropped = await world.gateway.fetch(pathOf('text-embedding-3-small', 'embedContent'), { key, body: asked })
  t.is(dropped.headers.get('x-gateway-dropped'), 'taskType, title')
  const mixed = { requests: [asked, { ...asked, taskType: 'CLUSTERING' }] }
  const refused = await world.gateway.fetch(pathOf('gemini-embedding-001', 'batchEmbedContents'), { key, body: mixed })
  await refuses(t, refused, 400, 'invalid_request', 'requests.1.taskType')
  t.true((await chargedNano(world, account)) > 0)
})

test.serial(
  'an Idempotency-Key repeats the answer of generateContent and embedContent, but not of another model',
  async t => {
    const account = await world.gateway.account({ usd: '10' })
    const headers = { 'idempotency-key': 'once-1' }
    const send = (path: string, body: object, more = headers) =>
      world.gateway.fetch(path, { key: account.live, body, headers: more })
    const first = await (await send(pathOf(gemini), hi)).text()
    const again = await send(pathOf(gemini), hi)
    t.is(again.headers.get('idempotent-replayed'), 'true')
    t.is(await again.text(), first)
    await refuses(t, await send(pathOf(claude), hi), 409, 'idempotency_key_reused')
    const embed = { content: { parts: [{ text: 'Hello' }] } }
    const other = { 'idempotency-key': 'once-2' }
    const vector = await (await send(pathOf('gemini-embedding-001', 'embedContent'), embed, other)).text()
    t.is(await (await send(pathOf('gemini-embedding-001', 'embedContent'), embed, other)).text(), vector)
    t.is(world.gemini.requests.length, 2)
  },
)

test.serial('the models are listed in pages, and read one by one', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  const names: string[] = []
  let token = ''
  do {
    const response = await world.gateway.fetch(`/v1beta/models?pageSize=7${token && `&pageToken=${token}`}`, {
      headers: { 'x-goog-api-key': key },
    })
    const page = (await response.json()) as Any
    t.true(page.models.length <= 7)
    names.push(...page.models.map((model: Any) => model.name))
    token = page.nextPageToken ?? ''
  } while (token)
  t.is(new Set(names).size, names.length)
  for (const id of ['auto', gemini, claude, gpt, 'gemini-embedding-001']) t.true(names.includes(`models/${id}`), id)
  const listed: string[] = []
  for await (const model of await client(key).models.list({ config: { pageSize: 10 } })) listed.push(model.name!)
  t.deepEqual(listed, names)
  const asPython = await world.gateway.fetch('/v1/models', { headers: { 'x-goog-api-key': key } })
  t.is(((await asPython.json()) as Any).models[0].name, names[0])
  t.is((await world.gateway.fetch(`/v1/models/${claude}`, { headers: { 'x-goog-api-key': key } })).status, 200)
  const model = await client(key).models.get({ model: claude })
  t.is(model.name, `models/${claude}`)
  t.true(model.supportedActions!.includes('generateContent'))
  await refuses(t, await world.gateway.fetch('/v1beta/models/nope', { key }), 404, 'model_not_found')
  await refuses(
    t,
    await world.gateway.fetch('/v1beta/models?pageToken=x', { key }),
    400,
    'invalid_request',
    'pageToken',
  )
})

test.serial('an answer of the sandbox for test keys: text, stream, functions, count, embeddings', async t => {
  const { test: key } = await world.gateway.account()
  const ai = client(key)
  for (const model of [gemini, claude]) {
    t.true((await ai.models.generateContent({ model, contents: 'Hello' })).text!.length > 0)
    let text = ''
    for await (const chunk of await ai.models.generateContentStream({ model, contents: 'Hello' }))
      text += chunk.text ?? ''
    t.true(text.length > 0)
    t.true((await ai.models.countTokens({ model, contents: 'Hello' })).totalTokens! > 0)
    const called = await ai.models.generateContent({
      model,
      contents: 'Hello',
      config: {
        tools: [{ functionDeclarations: [{ name: 'f', parametersJsonSchema: { type: 'object', properties: {} } }] }],
        toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.ANY } },
        thinkingConfig: { thinkingLevel: ThinkingLevel.LOW },
      },
    })
    t.is(called.functionCalls![0]!.name, 'f')
  }
  t.is((await ai.models.embedContent({ model: 'gemini-embedding-001', contents: 'Hello' })).embeddings!.length, 1)
  t.is(world.gemini.requests.length, 0)
})

test.serial('usage has thoughts and cached tokens apart, and images of an answer pass', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  world.gemini.next(geminiParts({ text: 'Hm', thought: true }, { text: 'Hi' }))
  const native = await world.gateway.fetch(pathOf(gemini), { key, body: hi })
  const { usageMetadata } = (await native.json()) as Any
  t.is(usageMetadata.thoughtsTokenCount, 3)
  const logged = await generationOf(world, native.headers.get('x-generation-id')!)
  t.is(logged.completionTokens, 7)
  world.openai.next((request, response) => {
    const usage = {
      prompt_tokens: 20,
      completion_tokens: 10,
      total_tokens: 30,
      prompt_tokens_details: { cached_tokens: 12 },
      completion_tokens_details: { reasoning_tokens: 4 },
    }
    const choices = [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'length' }]
    json(200, { id: 'c', object: 'chat.completion', created: 1, model: 'm', choices, usage })(request, response)
  })
  const translated = await world.gateway.fetch(pathOf(gpt), { key, body: hi })
  const answer = (await translated.json()) as Any
  t.deepEqual(answer.usageMetadata, {
    promptTokenCount: 20,
    candidatesTokenCount: 6,
    totalTokenCount: 30,
    thoughtsTokenCount: 4,
    cachedContentTokenCount: 12,
  })
  t.is(answer.candidates[0].finishReason, 'MAX_TOKENS')
})

test.serial('200 for a system instruction with the role that @google/generative-ai gives it', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  const systemInstruction = { role: 'system', parts: [{ text: 'Be brief' }] }
  for (const model of [gemini, claude, gpt]) {
    const response = await world.gateway.fetch(pathOf(model), { key, body: { ...hi, systemInstruction } })
    t.is(response.status, 200, `${model}: ${await response.text()}`)
    const generateContentRequest = { model: `models/${model}`, ...hi, systemInstruction }
    const counting = { key, body: { generateContentRequest } }
    const counted = await world.gateway.fetch(pathOf(model, 'countTokens'), counting)
    t.is(counted.status, 200, `${model}: ${await counted.text()}`)
  }
  const [request] = world.gemini.requests
  t.deepEqual((request!.body as Any).systemInstruction, systemInstruction)
  t.true(JSON.stringify(world.anthropic.requests[0]!.body).includes('Be brief'))
  t.like((world.openai.requests[0]!.body as Any).messages[0], { content: 'Be brief' })
  const inContents = { contents: [systemInstruction, ...hi.contents] }
  await refuses(
    t,
    await world.gateway.fetch(pathOf(gemini), { key, body: inContents }),
    400,
    'invalid_request',
    'contents.0.role',
  )
})
