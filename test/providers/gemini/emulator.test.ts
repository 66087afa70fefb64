import {
  ApiError,
  BlockedReason,
  type Content,
  FinishReason,
  FunctionCallingConfigMode,
  GoogleGenAI,
  ThinkingLevel,
} from '@google/genai'
import {
  blockedPrompt,
  countTokens,
  cutStream,
  malformedFunctionCall,
  pixel,
  rateLimited,
  startGeminiEmulator,
  tokenCounts,
} from '../../emulators/gemini.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

// The official SDK is the judge of the emulator.

const emulator = use(test, startGeminiEmulator)
const sdk = use(test, () => client('AIza-test'))

function client(apiKey: string, apiVersion = 'v1beta') {
  return new GoogleGenAI({ apiKey, apiVersion, httpOptions: { baseUrl: emulator.url } })
}

const model = 'gemini-3.5-flash'
const weather = {
  name: 'get_weather',
  parametersJsonSchema: { type: 'object', properties: { city: { type: 'string' } } },
}
const tools = [{ functionDeclarations: [weather] }]

/** What the raw endpoint says to this body. */
async function post(path: string, body: unknown, headers: Record<string, string> = { 'x-goog-api-key': 'k' }) {
  const response = await fetch(emulator.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  // biome-ignore lint/suspicious/noExplicitAny: bodies of every shape
  return { status: response.status, body: (await response.json()) as any }
}

test.serial('200 plain: echo, usage and finish reason, under both versions', async t => {
  for (const version of ['v1', 'v1beta']) {
    const answer = await client('k', version).models.generateContent({
      model,
      contents: 'Hello there',
      config: {
        systemInstruction: 'Be kind',
        maxOutputTokens: 100,
        thinkingConfig: { thinkingLevel: ThinkingLevel.LOW },
      },
    })
    t.is(answer.text, 'Echo: Hello there')
    t.is(answer.candidates?.[0]?.finishReason, FinishReason.STOP)
    const { promptTokenCount = 0, candidatesTokenCount = 0, ...counts } = answer.usageMetadata ?? {}
    t.is(promptTokenCount, countTokens('Be kindHello there'))
    t.is(candidatesTokenCount, countTokens('Echo: Hello there'))
    t.like(counts, { thoughtsTokenCount: 30, totalTokenCount: promptTokenCount + candidatesTokenCount + 30 })
    t.is(emulator.requests.at(-1)?.path, `/${version}/models/${model}:generateContent`)
  }
})

test.serial('200 stream: pieces add up, finish reason and usage at the end only', async t => {
  const pieces: string[] = []
  const reasons: unknown[] = []
  let last: number | undefined
  for await (const chunk of await sdk.models.generateContentStream({ model, contents: 'Größe 🙂 of a longer text' })) {
    pieces.push(chunk.text ?? '')
    reasons.push(chunk.candidates?.[0]?.finishReason)
    last = chunk.usageMetadata?.candidatesTokenCount
  }
  t.is(pieces.join(''), 'Echo: Größe 🙂 of a longer text')
  t.true(pieces.length > 2)
  t.deepEqual([...new Set(reasons.slice(0, -1))], [undefined])
  t.is(reasons.at(-1), 'STOP')
  t.is(last, countTokens(pieces.join('')))
})

test.serial('200 stream without alt=sse is one JSON array', async t => {
  const { body } = await post(`/v1beta/models/${model}:streamGenerateContent`, {
    contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
  })
  t.true(Array.isArray(body))
  t.is(body.at(-1).candidates[0].finishReason, FinishReason.STOP)
})

test.serial('200 tools: two cities are two calls, only the first signed, and results are answered', async t => {
  const question: Content = { role: 'user', parts: [{ text: 'What is the weather in Oslo and Rome?' }] }
  const called = await sdk.models.generateContent({ model, contents: [question], config: { tools } })
  t.deepEqual(
    called.functionCalls?.map(call => [call.name, call.args]),
    [
      ['get_weather', { city: 'Oslo' }],
      ['get_weather', { city: 'Rome' }],
    ],
  )
  const turn = called.candidates![0]!.content!
  t.deepEqual(
    turn.parts!.map(part => typeof part.thoughtSignature),
    ['string', 'undefined'],
  )
  const results: Content = {
    role: 'user',
    parts: called.functionCalls!.map(({ id, name }) => ({
      functionResponse: { id, name, response: { output: '5C' } },
    })),
  }
  const answered = await sdk.models.generateContent({ model, contents: [question, turn, results], config: { tools } })
  t.regex(answered.text ?? '', /^Results: .*5C.*5C/)
  delete turn.parts![0]!.thoughtSignature
  const unsigned = sdk.models.generateContent({ model, contents: [question, turn, results], config: { tools } })
  t.like(await t.throwsAsync(unsigned, { instanceOf: ApiError, message: /missing a thought_signature/ }), {
    status: 400,
  })
  const older = await sdk.models.generateContent({
    model: 'gemini-2.5-flash',
    contents: [question, turn, results],
    config: { tools },
  })
  t.regex(older.text ?? '', /^Results/)
})

test.serial('200 tools by mode: ANY calls the allowed one, NONE never', async t => {
  const ask = (functionCallingConfig: object) =>
    sdk.models.generateContent({
      model,
      contents: 'The weather?',
      config: { tools, toolConfig: { functionCallingConfig } },
    })
  const any = await ask({ mode: FunctionCallingConfigMode.ANY, allowedFunctionNames: ['get_weather'] })
  t.is(any.functionCalls?.length, 1)
  t.is((await ask({ mode: FunctionCallingConfigMode.NONE })).text, 'Echo: The weather?')
})

test.serial('200 JSON by schema, image part, truncation, stop sequence, candidates, logprobs', async t => {
  const schema = { type: 'object', properties: { city: { type: 'string' }, degrees: { type: 'number' } } }
  const ask = (config: object) => sdk.models.generateContent({ model, contents: 'Hello', config })
  const structured = await ask({ responseMimeType: 'application/json', responseJsonSchema: schema })
  t.deepEqual(JSON.parse(structured.text ?? ''), { city: 'Hello', degrees: 1 })
  const painted = await ask({ responseModalities: ['TEXT', 'IMAGE'] })
  t.is(painted.candidates?.[0]?.content?.parts?.[1]?.inlineData?.data, pixel)
  t.is(painted.usageMetadata?.candidatesTokensDetails?.[0]?.tokenCount, tokenCounts.imageOutput)
  const cut = await ask({ maxOutputTokens: 1 })
  t.is(cut.text, 'Echo')
  t.is(cut.candidates?.[0]?.finishReason, FinishReason.MAX_TOKENS)
  t.is((await ask({ stopSequences: ['lo'] })).text, 'Echo: Hel')
  t.is((await ask({ candidateCount: 2 })).candidates?.length, 2)
  const scored = await ask({ responseLogprobs: true, logprobs: 1 })
  t.is(scored.candidates?.[0]?.logprobsResult?.chosenCandidates?.[0]?.logProbability, -0.5)
})

test.serial('200 embeddings and token counts', async t => {
  const embed = (contents: string[], config = {}) =>
    sdk.models.embedContent({ model: 'gemini-embedding-001', contents, config })
  const { embeddings = [] } = await embed(['a', 'b', 'a'])
  t.is(embeddings.length, 3)
  t.deepEqual(embeddings[0]?.values, embeddings[2]?.values)
  t.notDeepEqual(embeddings[0]?.values, embeddings[1]?.values)
  t.true(Math.abs(Math.hypot(...embeddings[0]!.values!) - 1) < 1e-9)
  const reduced = (await embed(['a'], { outputDimensionality: 8 })).embeddings![0]!.values!
  t.is(reduced.length, 8)
  t.true(Math.hypot(...reduced) < 0.9)
  await t.throwsAsync(embed(Array(101).fill('a')), { message: /at most 100/ })
  const one = await post('/v1/models/gemini-embedding-001:embedContent', { content: { parts: [{ text: 'a' }] } })
  t.deepEqual(one.body.embedding.values, embeddings[0]?.values)
  t.is((await sdk.models.countTokens({ model, contents: '12345678' })).totalTokens, 2)
})

const user = { role: 'user', parts: [{ text: 'Hi' }] }
const refusals: [string, object, RegExp][] = [
  ['no contents', {}, /contents is not specified/],
  ['unknown field', { contents: [user], max_tokens: 3 }, /Unknown name "max_tokens"/],
  [
    'unknown setting',
    { contents: [user], generationConfig: { top_p: 1 } },
    /Unknown name "top_p" at 'generation_config'/,
  ],
  ['foreign role', { contents: [{ ...user, role: 'assistant' }] }, /valid role: user, model/],
  ['empty part', { contents: [{ role: 'user', parts: [{ text: '' }] }] }, /oneof field 'data'/],
  [
    'bad base64',
    { contents: [{ role: 'user', parts: [{ inlineData: { mimeType: 'image/png', data: '%' } }] }] },
    /Base64/,
  ],
  [
    'two thinking settings',
    { contents: [user], generationConfig: { thinkingConfig: { thinkingLevel: 'LOW', thinkingBudget: 1 } } },
    /only one/,
  ],
  [
    'unanswered calls',
    { contents: [user, { role: 'model', parts: [{ functionCall: { name: 'f' } }] }, user] },
    /number of function response parts/,
  ],
]
for (const [name, body, message] of refusals) {
  test.serial(`400 INVALID_ARGUMENT for ${name}`, async t => {
    const answer = await post(`/v1beta/models/${model}:generateContent`, body)
    t.is(answer.status, 400)
    t.like(answer.body.error, { code: 400, status: 'INVALID_ARGUMENT' })
    t.regex(answer.body.error.message, message)
  })
}

test.serial('403 without a key, 400 with a wrong one, 404 for an unknown model', async t => {
  const keyless = await post(`/v1beta/models/${model}:generateContent`, { contents: [user] }, {})
  t.like(keyless, { status: 403, body: { error: { status: 'PERMISSION_DENIED' } } })
  await t.throwsAsync(client('invalid').models.generateContent({ model, contents: 'Hi' }), {
    message: /API key not valid/,
  })
  await t.throwsAsync(sdk.models.generateContent({ model: 'missing-model', contents: 'Hi' }), { message: /NOT_FOUND/ })
})

test.serial('failure replies: 429 with RetryInfo, blocked prompt, malformed call, cut stream', async t => {
  emulator.next(rateLimited('7s'), blockedPrompt(), malformedFunctionCall, cutStream(['Hel', 'lo']))
  const ask = { model, contents: 'Hi' }
  const limited = await t.throwsAsync(sdk.models.generateContent(ask), {
    instanceOf: ApiError,
    message: /"retryDelay":"7s"/,
  })
  t.like(limited, { status: 429 })
  t.is((await sdk.models.generateContent(ask)).promptFeedback?.blockReason, BlockedReason.SAFETY)
  t.is((await sdk.models.generateContent(ask)).candidates?.[0]?.finishReason, FinishReason.MALFORMED_FUNCTION_CALL)
  const pieces: unknown[] = []
  await t.throwsAsync(async () => {
    for await (const chunk of await sdk.models.generateContentStream(ask)) pieces.push(chunk.text)
  })
  // A broken connection may take unread pieces with it.
  t.deepEqual(pieces, ['Hel', 'lo'].slice(0, pieces.length))
})
