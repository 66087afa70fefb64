import { createHash } from 'node:crypto'
import { Emulator, events, json, type Recorded, type Reply } from './emulator.ts'
import { generateFault, isSigning, signaturePrefix } from './gemini-rules.ts'
import { schemaInPrompt } from './openai.ts'

// biome-ignore lint/suspicious/noExplicitAny: bodies are validated by the rules before they are read
type Json = any

/** What an image, an answer's image and a thinking answer count for. */
export const tokenCounts = { imageInput: 258, audioInput: 32, imageOutput: 1290, thoughts: 30 }
/** Every four characters are a token. */
export const countTokens = (text: string) => Math.ceil(text.length / 4)
/** A PNG of one pixel. */
export const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** Google's Gemini API on a local port, under `/v1` and `/v1beta`: echoes the last user text, `Echo: <text>`. */
export function startGeminiEmulator(port = 0): Promise<Emulator> {
  return Emulator.start(geminiReply, port)
}

const methods: Record<string, (model: string, request: Recorded) => Reply> = {
  generateContent,
  streamGenerateContent: generateContent,
  countTokens: countTokensOf,
  batchEmbedContents,
  embedContent: (_model, { body }) => json(200, { embedding: { values: vector(body) } }),
}

/** What the Gemini API answers. */
export const geminiReply: Reply = (request, response) => route(request)(request, response)

function route(request: Recorded): Reply {
  const [, model = '', method = ''] = /^\/v1(?:beta)?\/models\/([^/:]+):(\w+)$/.exec(request.path) ?? []
  const key = request.headers['x-goog-api-key']
  if (!key) return geminiError(403, 'PERMISSION_DENIED', "Method doesn't allow unregistered callers.")
  if (key === 'invalid') return invalidApiKey
  const serve = request.method === 'POST' ? methods[method] : undefined
  if (serve && !model.startsWith('missing')) return serve(model, request)
  return geminiError(
    404,
    'NOT_FOUND',
    `models/${model} is not found for API version v1beta, or is not supported for ${method}.`,
  )
}

/** Contents, or a whole request, which names the model: https://ai.google.dev/api/tokens. */
function countTokensOf(model: string, { body }: Recorded): Reply {
  const { generateContentRequest: whole, contents } = body
  if (whole && contents)
    return geminiError(400, 'INVALID_ARGUMENT', 'Only one of contents and generateContentRequest may be set.')
  if (whole && whole.model !== `models/${model}`)
    return geminiError(
      400,
      'INVALID_ARGUMENT',
      '* CountTokensRequest.generate_content_request.model: unexpected model name format\n',
    )
  const fault = generateFault(model, whole ?? body)
  if (fault !== null) return geminiError(400, 'INVALID_ARGUMENT', fault)
  return json(200, { totalTokens: promptUsage(whole ?? body).promptTokenCount })
}

function generateContent(model: string, request: Recorded): Reply {
  const fault = generateFault(model, request.body)
  if (fault !== null) return geminiError(400, 'INVALID_ARGUMENT', fault)
  const { parts, finishReason } = answerTo(model, request.body)
  const config = request.body.generationConfig ?? {}
  const count = config.candidateCount ?? 1
  const usageMetadata = usage(request.body, parts, count)
  const common = {
    modelVersion: model,
    responseId: `gemini-${createHash('sha256').update(request.raw).digest('hex').slice(0, 16)}`,
  }
  const candidates = (some: Json[], end: boolean) =>
    Array.from({ length: count }, (_, index) => ({
      content: { role: 'model', parts: some },
      index,
      ...(end && { finishReason }),
      ...(config.responseLogprobs && { logprobsResult: logprobs(some, config.logprobs ?? 0) }),
    }))
  // https://ai.google.dev/gemini-api/docs/priority-inference
  const tier = { 'x-gemini-service-tier': request.body.serviceTier ?? 'standard' }
  if (!isStream(request)) return json(200, { candidates: candidates(parts, true), usageMetadata, ...common }, tier)
  const steps = parts.flatMap(pieces)
  const { promptTokenCount } = usageMetadata
  return streamed(
    steps.map((part, index) => {
      const last = index === steps.length - 1
      const counted = last ? usageMetadata : { promptTokenCount, totalTokenCount: promptTokenCount }
      return { candidates: candidates([part], last), usageMetadata: counted, ...common }
    }),
    'close',
    tier,
  )
}

function isStream(request: Recorded): boolean {
  return request.path.endsWith(':streamGenerateContent')
}

/** Server-sent events with `alt=sse`, else one JSON array. */
function streamed(answers: object[], end: 'close' | 'cut' = 'close', headers: Record<string, string> = {}): Reply {
  return (request, response) => {
    if (request.query.get('alt') !== 'sse') return json(200, answers, headers)(request, response)
    return events(
      answers.map(answer => `data: ${JSON.stringify(answer)}\r\n\r\n`),
      { end, headers },
    )(request, response)
  }
}

/** A text part in pieces of about eight characters; any other part whole. */
function pieces(part: Json): Json[] {
  if (part.text === undefined) return [part]
  const characters = [...part.text]
  const length = Math.max(1, Math.ceil(characters.length / 8))
  return Array.from({ length }, (_, index) => ({ ...part, text: characters.slice(index * 8, index * 8 + 8).join('') }))
}

function answerTo(model: string, body: Json): { parts: Json[]; finishReason: string } {
  const config = body.generationConfig ?? {}
  const calls = functionCalls(model, body)
  const thoughts = config.thinkingConfig?.includeThoughts ? [{ text: 'Thinking it over.', thought: true }] : []
  if (calls.length > 0) return { parts: [...thoughts, ...calls], finishReason: 'STOP' }
  const whole = answerText(body, config)
  const stop = Math.min(
    ...(config.stopSequences ?? []).map((text: string) => whole.indexOf(text)).filter((at: number) => at >= 0),
  )
  const text = whole.slice(0, Math.min(stop, (config.maxOutputTokens ?? Number.POSITIVE_INFINITY) * 4))
  const finishReason = text.length < Math.min(stop, whole.length) ? 'MAX_TOKENS' : 'STOP'
  const modalities: string[] = config.responseModalities ?? ['TEXT']
  const image = modalities.includes('IMAGE') ? [{ inlineData: { mimeType: 'image/png', data: pixel } }] : []
  return { parts: [...thoughts, ...(modalities.includes('TEXT') ? [{ text }] : []), ...image], finishReason }
}

function answerText(body: Json, config: Json): string {
  const { parts } = body.contents.at(-1)
  const results = parts.filter((part: Json) => part.functionResponse).map((part: Json) => part.functionResponse)
  const text = results.length > 0 ? `Results: ${JSON.stringify(results)}` : lastText(body)
  const asked = schemaInPrompt((body.systemInstruction?.parts ?? []).map((part: Json) => part.text ?? '').join('\n'))
  if (asked) return JSON.stringify(instance(asked, text))
  if (config.responseMimeType !== 'application/json') return results.length > 0 ? text : `Echo: ${text}`
  const schema = config.responseJsonSchema ?? config.responseSchema
  return JSON.stringify(schema ? instance(schema, text) : { echo: text })
}

function lastText(body: Json): string {
  const said = body.contents.findLast((content: Json) => content.role === 'user')
  return (said?.parts ?? []).map((part: Json) => part.text ?? '').join('')
}

/** A call per city named in a text about the weather, or one call where calling is demanded. */
function functionCalls(model: string, body: Json): Json[] {
  const { mode = 'AUTO', allowedFunctionNames } = body.toolConfig?.functionCallingConfig ?? {}
  const declarations: Json[] = (body.tools ?? []).flatMap((tool: Json) => tool.functionDeclarations ?? [])
  const text = lastText(body)
  const isAnswered = body.contents.at(-1).parts.some((part: Json) => part.functionResponse)
  const wanted = mode === 'ANY' || (mode !== 'NONE' && !isAnswered && /weather/i.test(text))
  if (!wanted || declarations.length === 0) return []
  const name = allowedFunctionNames?.[0] ?? declarations[0].name
  const cities = text.slice(1).match(/\p{Lu}\p{L}+/gu) ?? ['Oslo']
  return cities.map((city, index) => {
    if (!isSigning(model)) return { functionCall: { name, args: { city } } }
    const functionCall = { id: `fc${body.contents.length}-${index + 1}`, name, args: { city } }
    // Of parallel calls only the first is signed.
    const thoughtSignature = Buffer.from(`${signaturePrefix}${city}\xff\xfe`, 'latin1').toString('base64')
    return index === 0 ? { functionCall, thoughtSignature } : { functionCall }
  })
}

/** A value that satisfies a simple JSON schema (or its OpenAPI form with upper-case types). */
function instance(schema: Json, text: string): unknown {
  if (schema.enum) return schema.enum[0]
  const type = String(schema.type ?? 'object').toLowerCase()
  if (type === 'object') {
    return Object.fromEntries(
      Object.entries(schema.properties ?? {}).map(([name, inner]) => [name, instance(inner, text)]),
    )
  }
  if (type === 'array') return [instance(schema.items ?? { type: 'string' }, text)]
  if (type === 'boolean') return true
  return type === 'string' ? text : 1
}

function logprobs(parts: Json[], top: number): object {
  const chosenCandidates = parts
    .filter(part => part.text)
    .map(({ text }) => ({ token: text, tokenId: 1, logProbability: -0.5 }))
  const topCandidates = chosenCandidates.map(chosen => ({
    candidates: [chosen, { token: '?', tokenId: 2, logProbability: -2 }].slice(0, top),
  }))
  return { chosenCandidates, topCandidates }
}

function promptUsage(body: Json): { promptTokenCount: number; promptTokensDetails: object[] } {
  const parts = [
    ...(body?.systemInstruction?.parts ?? []),
    ...(body?.contents ?? []).flatMap((content: Json) => content.parts),
  ]
  const ofType = (type: string) => parts.filter(part => part.inlineData?.mimeType.startsWith(type)).length
  const details = [
    { modality: 'TEXT', tokenCount: countTokens(parts.map(part => part.text ?? '').join('')) },
    { modality: 'IMAGE', tokenCount: ofType('image/') * tokenCounts.imageInput },
    { modality: 'AUDIO', tokenCount: ofType('audio/') * tokenCounts.audioInput },
  ].filter(detail => detail.tokenCount > 0)
  return { promptTokenCount: details.reduce((sum, detail) => sum + detail.tokenCount, 0), promptTokensDetails: details }
}

function usage(body: Json, parts: Json[], candidateCount: number) {
  const { thinkingLevel, thinkingBudget } = body.generationConfig?.thinkingConfig ?? {}
  const thinks = (thinkingLevel ?? 'MINIMAL') !== 'MINIMAL' || (thinkingBudget ?? 0) !== 0
  const thoughtsTokenCount = thinks ? tokenCounts.thoughts : 0
  const images = parts.filter(part => part.inlineData).length * tokenCounts.imageOutput
  const texts = parts
    .filter(part => !part.thought)
    .map(part => part.text ?? (part.functionCall ? JSON.stringify(part.functionCall) : ''))
  const candidatesTokenCount = (countTokens(texts.join('')) + images) * candidateCount
  const prompt = promptUsage(body)
  return {
    ...prompt,
    candidatesTokenCount,
    ...(thinks && { thoughtsTokenCount }),
    ...(images && { candidatesTokensDetails: [{ modality: 'IMAGE', tokenCount: images * candidateCount }] }),
    totalTokenCount: prompt.promptTokenCount + candidatesTokenCount + thoughtsTokenCount,
  }
}

function batchEmbedContents(model: string, { body }: Recorded): Reply {
  const requests: Json[] = body?.requests ?? []
  const fault = (message: string) => geminiError(400, 'INVALID_ARGUMENT', message)
  if (requests.length === 0) return fault('* BatchEmbedContentsRequest.requests: requests must not be empty\n')
  if (requests.length > 100)
    return fault('* BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch\n')
  if (requests.some(request => request.model !== `models/${model}`))
    return fault('* BatchEmbedContentsRequest.requests[0].model: does not match the model of the batch\n')
  return json(200, { embeddings: requests.map(request => ({ values: vector(request) })) })
}

const fullDimensions = 3072

/** A vector made from the text's hash: of unit length only when it is whole, as with the real one. */
function vector(request: Json): number[] {
  const text = (request?.content?.parts ?? []).map((part: Json) => part.text ?? '').join('')
  const values: number[] = []
  for (let block = 0; values.length < fullDimensions; block++) {
    for (const byte of createHash('sha256').update(`${block}:${text}`).digest()) values.push(byte - 127.5)
  }
  const length = Math.hypot(...values)
  return values.slice(0, request?.outputDimensionality ?? fullDimensions).map(value => value / length)
}

/** An error as Google writes it; a stream without `alt=sse` has it inside an array. */
export function geminiError(code: number, status: string, message: string, details: object[] = []): Reply {
  return (request, response) => {
    const body = { error: { code, message, status, ...(details.length > 0 && { details }) } }
    return json(code, isStream(request) && request.query.get('alt') !== 'sse' ? [body] : body)(request, response)
  }
}

export const invalidApiKey = geminiError(400, 'INVALID_ARGUMENT', 'API key not valid. Please pass a valid API key.', [
  { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'API_KEY_INVALID', domain: 'googleapis.com' },
])

/** 429 with the wait in the body, where Google has it. */
export function rateLimited(retryDelay = '31s'): Reply {
  const retryInfo = { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay }
  return geminiError(429, 'RESOURCE_EXHAUSTED', 'You exceeded your current quota.', [retryInfo])
}

/** A refused prompt: no candidates at all. */
export function blockedPrompt(blockReason = 'SAFETY'): Reply {
  return oneAnswer({ promptFeedback: { blockReason }, usageMetadata: { promptTokenCount: 8, totalTokenCount: 8 } })
}

/** One candidate that ends for this reason, after this text. */
export function finished(finishReason: string, text = ''): Reply {
  const content = text ? { role: 'model', parts: [{ text }] } : {}
  return oneAnswer({
    candidates: [{ content, finishReason, index: 0 }],
    usageMetadata: { promptTokenCount: 8, totalTokenCount: 8 },
  })
}

export const malformedFunctionCall = finished('MALFORMED_FUNCTION_CALL')

function oneAnswer(answer: object): Reply {
  return (request, response) => (isStream(request) ? streamed([answer]) : json(200, answer))(request, response)
}

/** One event of a stream that a test composes; `more` adds to its top level. */
export function piece(text: string | null, finishReason?: string, more: object = {}): object {
  const content = { role: 'model', parts: text === null ? [] : [{ text }] }
  return { candidates: [{ content, index: 0, ...(finishReason && { finishReason }) }], responseId: 'r', ...more }
}

/** A stream that gives these texts and breaks before its end. */
export function cutStream(texts: string[]): Reply {
  return streamed(
    texts.map(text => ({ candidates: [{ content: { role: 'model', parts: [{ text }] }, index: 0 }] })),
    'cut',
  )
}
