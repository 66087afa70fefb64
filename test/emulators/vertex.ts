import { anthropicReply } from './anthropic.ts'
import { hasImageUrl, onlyBase64 } from './bedrock.ts'
import { Emulator, events, json, type Recorded, type Reply } from './emulator.ts'
import { countTokens, geminiError, geminiReply } from './gemini.ts'
import { answerTo as mediaAnswerTo } from './gemini-media.ts'
import type { Json } from './slow-work.ts'
import { openModelReply } from './vertex-open-models.ts'

/** A project at Vertex AI. */
export type VertexOptions = {
  project: string
  /** Whether an access token is valid. */
  acceptsToken(token: string): boolean
  /** The API key of express mode. */
  apiKey?: string
  /** The locations of models that are not in all of them, by the beginning of their names. */
  locations?: Record<string, string[]>
}

/**
 * Google's Vertex AI on a local port: Gemini, embeddings and Veo at `publishers/google`, Claude at `publishers/anthropic`, open
 * models and Grok at `endpoints/openapi`. The forms of requests are those of `@google/genai` with `vertexai: true` and of
 * `@anthropic-ai/vertex-sdk`.
 */
export function startVertex(options: VertexOptions): Promise<Emulator> {
  const anthropic = anthropicReply()
  const operations = new Map<string, number>()
  return Emulator.start((request, response) => route(request, options, anthropic, operations)(request, response))
}

const unauthenticated = geminiError(
  401,
  'UNAUTHENTICATED',
  'Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.',
)

const denied = (name: string) =>
  geminiError(
    403,
    'PERMISSION_DENIED',
    `Permission 'aiplatform.endpoints.predict' denied on resource '//aiplatform.googleapis.com/${name}' (or it may not exist).`,
  )

const place =
  /^\/(v1|v1beta1)(?:\/projects\/([^/]+)\/locations\/([^/]+))?\/publishers\/(google|anthropic)\/models\/([^/:]+):(\w+)$/
const openPlace = /^\/v1(?:beta1)?\/projects\/([^/]+)\/locations\/([^/]+)\/endpoints\/openapi\/chat\/completions$/

function route(
  request: Recorded,
  { project, acceptsToken, apiKey, locations = {} }: VertexOptions,
  anthropic: Reply,
  operations: Map<string, number>,
): Reply {
  const token = /^Bearer (\S+)$/.exec(request.headers.authorization ?? '')?.[1]
  const [, ofOpen, openLocation = ''] = openPlace.exec(request.path) ?? []
  if (ofOpen !== undefined && request.method === 'POST') {
    if (!(token && acceptsToken(token))) return unauthenticated
    return ofOpen === project ? openModelReply({ project, location: openLocation }) : denied(`projects/${ofOpen}`)
  }
  const found = place.exec(request.path)
  if (!found || request.method !== 'POST') return geminiError(404, 'NOT_FOUND', 'Not Found')
  const [, version, ofProject, location = 'global', publisher, model = '', method = ''] = found
  const isExpress = ofProject === undefined && apiKey !== undefined && request.headers['x-goog-api-key'] === apiKey
  if (!isExpress && !(token && acceptsToken(token))) return unauthenticated
  const name = `projects/${ofProject}/locations/${location}/publishers/${publisher}/models/${model}`
  if (ofProject !== undefined && ofProject !== project) return denied(name)
  const [, served = null] = Object.entries(locations).find(([prefix]) => model.startsWith(prefix)) ?? []
  if (served && !served.includes(location) && publisher === 'anthropic')
    return geminiError(400, 'FAILED_PRECONDITION', `Publisher Model \`${name}\` is not servable in region ${location}.`)
  if (served && !served.includes(location))
    return geminiError(
      404,
      'NOT_FOUND',
      `Publisher Model \`${name}\` was not found or your project does not have access to it. Please ensure you are using a valid model version.`,
    )
  if (publisher === 'anthropic') return claude(request, model, method, anthropic)
  if (version !== 'v1beta1') return geminiError(404, 'NOT_FOUND', 'Not Found')
  return google(request, { name, model, method }, operations)
}

/** Gemini's voices are there only (docs.cloud.google.com/gemini-enterprise-agent-platform/models/text-to-speech/overview). */
const isMultiRegion = /\/locations\/(?:global|us|eu)\//

type Called = { name: string; model: string; method: string }

function google(request: Recorded, { name, model, method }: Called, operations: Map<string, number>): Reply {
  if (method === 'predict' || method === 'embedContent') return embed(request.body, model, method)
  if (method === 'predictLongRunning') return startVideo(request.body, name, operations)
  if (method === 'fetchPredictOperation') return fetchVideo(request.body, operations)
  if (request.body?.contents?.some(({ role }: Json) => role === undefined))
    return geminiError(400, 'INVALID_ARGUMENT', 'Please use a valid role: user, model.')
  if (method === 'countTokens') {
    const stranger = strangerIn(request.body, ['contents', 'systemInstruction', 'tools', 'generationConfig'])
    if (stranger) return cannotFind(stranger)
    return json(200, { totalTokens: countTokens(JSON.stringify(request.body.contents)) })
  }
  const { streamFunctionCallArguments: inParts } = request.body?.toolConfig?.functionCallingConfig ?? {}
  // vercel/ai#14352: whole answers have none.
  if (inParts && method !== 'streamGenerateContent')
    return geminiError(400, 'INVALID_ARGUMENT', 'Request contains an invalid argument.')
  if (inParts) return callInParts
  const headers = { ...request.headers, 'x-goog-api-key': 'emulated' }
  const inner = { ...request, path: `/v1beta/models/${model}:${method}`, headers }
  if (model.endsWith('-tts'))
    return isMultiRegion.test(name)
      ? async (_request, response) => (await mediaAnswerTo(inner))(inner, response)
      : geminiError(404, 'NOT_FOUND', `Publisher Model \`${name}\` was not found.`)
  return (_request, response) => geminiReply(inner, response)
}

/** A call whose arguments are streamed: a name first, and `{}` at the end, as recorded in vercel/ai#13929. */
const callInParts = events(
  [
    { functionCall: { name: 'weather', willContinue: true }, thoughtSignature: 'c2lnbmVk' },
    {
      functionCall: {
        partialArgs: [{ jsonPath: '$.city', stringValue: 'Os', willContinue: true }],
        willContinue: true,
      },
    },
    { functionCall: { partialArgs: [{ jsonPath: '$.city', stringValue: 'lo' }], willContinue: true } },
    { functionCall: {} },
  ].map((part, index, all) => {
    const isLast = index === all.length - 1
    const candidate = { index: 0, content: { role: 'model', parts: [part] }, ...(isLast && { finishReason: 'STOP' }) }
    const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 }
    return `data: ${JSON.stringify({ candidates: [candidate], ...(isLast && { usageMetadata }) })}\r\n\r\n`
  }),
)

const cannotFind = (field: string) =>
  geminiError(400, 'INVALID_ARGUMENT', `Invalid JSON payload received. Unknown name "${field}": Cannot find field.`)

function strangerIn(body: Json, known: readonly string[]): string | undefined {
  return Object.keys(body ?? {}).find(field => !known.includes(field))
}

/** `gemini-embedding-001` has `predict`, newer models have `embedContent`. */
function embed(body: Json, model: string, method: string): Reply {
  const isPredicted = model === 'gemini-embedding-001'
  if (isPredicted !== (method === 'predict'))
    return geminiError(400, 'FAILED_PRECONDITION', `The model ${model} does not support ${method}.`)
  const stranger = strangerIn(body, isPredicted ? ['instances', 'parameters'] : ['content', 'embedContentConfig'])
  if (stranger) return cannotFind(stranger)
  const settings = (isPredicted ? body.parameters : body.embedContentConfig) ?? {}
  const values = Array.from({ length: settings.outputDimensionality ?? 8 }, (_, index) => (index + 1) / 10)
  if (!isPredicted) {
    const tokens = countTokens(body.content.parts[0].text)
    return json(200, { embedding: { values }, usageMetadata: { promptTokenCount: tokens } })
  }
  if (body.instances.length !== 1)
    return geminiError(400, 'INVALID_ARGUMENT', 'The maximum batch size is 1 for this model.')
  const statistics = { truncated: false, token_count: countTokens(body.instances[0].content) }
  return json(200, { predictions: [{ embeddings: { statistics, values } }], metadata: { billableCharacterCount: 1 } })
}

function startVideo(body: Json, model: string, operations: Map<string, number>): Reply {
  const stranger = strangerIn(body, ['instances', 'parameters'])
  if (stranger) return cannotFind(stranger)
  if (body.parameters?.generateAudio === undefined)
    return geminiError(400, 'INVALID_ARGUMENT', 'generateAudio is required for Veo 3 models.')
  const name = `${model}/operations/${operations.size + 1}00-emulated`
  operations.set(name, 0)
  return json(200, { name })
}

/** Ended at the second look. */
function fetchVideo({ operationName }: Json, operations: Map<string, number>): Reply {
  const looks = operations.get(operationName)
  if (looks === undefined) return geminiError(404, 'NOT_FOUND', 'The operation was not found.')
  operations.set(operationName, looks + 1)
  if (looks === 0) return json(200, { name: operationName })
  const bytesBase64Encoded = Buffer.from('a video').toString('base64')
  const response = { raiMediaFilteredCount: 0, videos: [{ bytesBase64Encoded, mimeType: 'video/mp4' }] }
  return json(200, { name: operationName, done: true, response })
}

/** That of the documentation, and those of Anthropic's own API, of which `@anthropic-ai/vertex-sdk` sends the newest. */
const claudeVersion = /^(?:vertex-2023-10-16|20\d\d-\d\d-\d\d)$/

/**
 * What Claude refuses there, in its words: anthropics/claude-code#12429, #34802. The betas that it takes are
 * those that LiteLLM 1.110.2 sends (`anthropic_beta_headers_config.json`, `vertex_ai` and `vertex_ai_header_only`).
 */
const knownBetas =
  /^(?:afk-mode|claude-code|compact|computer-use-2025|context|dangerous|effort|extended-cache|fallback-credit|fine-grained|inline-tools|interleaved|mid-|model-context|oauth|output-128k|pdfs|per-turn|prompt-caching|redact|server-side-fallback-2026-06|structured-outputs|task-budgets|thinking|token|tool|web-search)/

function betaFault(header: string): Reply | null {
  const refused = header.split(',').filter(name => !knownBetas.test(name.trim()))
  const names = refused.map(name => `\`${name.trim()}\``).join(', ')
  return refused.length === 0
    ? null
    : claudeError(
        `Unexpected value(s) ${names} for the \`anthropic-beta\` header. Please consult our documentation at docs.anthropic.com or try again without the header.`,
      )
}

function claudeError(message: string): Reply {
  return json(400, { type: 'error', error: { type: 'invalid_request_error', message } })
}

function claude(request: Recorded, model: string, method: string, anthropic: Reply): Reply {
  const { body } = request
  if (!claudeVersion.test(body?.anthropic_version ?? '')) return claudeError('anthropic_version: Field required')
  const { anthropic_version: _, ...message } = body
  if (model === 'count-tokens') {
    if (request.headers['anthropic-beta']) return claudeError('invalid beta flag')
    if (!message.model) return claudeError('model: Field required')
    return json(200, { input_tokens: countTokens(JSON.stringify(message.messages)) })
  }
  const { 'anthropic-beta': betas } = request.headers
  const fault = betas ? betaFault(String(betas)) : null
  if (fault) return fault
  if (message.model !== undefined) return claudeError('model: Extra inputs are not permitted')
  if ((method === 'streamRawPredict') !== (message.stream === true))
    return geminiError(
      400,
      'FAILED_PRECONDITION',
      'Please use streamRawPredict for streams, and rawPredict for others.',
    )
  if (hasImageUrl(message)) return claudeError(onlyBase64)
  const headers = { ...request.headers, 'x-api-key': 'emulated', 'anthropic-version': '2023-06-01' }
  const inner = { ...request, path: '/v1/messages', headers, body: { ...message, model: model.split('@')[0] } }
  return (_request, response) => anthropic(inner, response)
}
