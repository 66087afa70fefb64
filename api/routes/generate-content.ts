import { type ErrorCode, GatewayError } from '../../shared/base/errors.ts'
import { isObject } from '../../shared/base/is-object.ts'
import { countContentTokens } from '../../shared/chat/count-tokens.ts'
import { countGeminiTokensRequest, type GenerateContentRequest } from '../../shared/kinds/generate-content.ts'
import { withCamelNames } from '../../shared/kinds/generate-content-names.ts'
import { directKinds } from '../../shared/kinds/index.ts'
import { generateContentFeatures } from '../../shared/routing/generate-content-features.ts'
import type { Endpoint, RequestWithoutKoa } from '../endpoint.ts'
import { googleAliases, modelInPath } from '../google-dialect.ts'
import { geminiTokenCount, generatedContent, generatedEvent } from '../schemas/gemini.ts'
import { type AnswerHeaderName, chatHeaders } from '../schemas/headers.ts'
import { runDirect } from './chat.ts'
import { directErrors } from './model-errors.ts'
import { cacheHeader, cacheMarksHeader, labelHeaders, sessionHeaders, structuredHeader } from './request-headers.ts'

/** Images and documents are inline: Google's limit is 20 MB of them, in base64. */
const maxBodyBytes = 32 * 1024 * 1024
const errors: ErrorCode[] = [...directErrors, 'service_tier_not_allowed']
const example = {
  systemInstruction: { parts: [{ text: 'You are a helpful assistant.' }] },
  contents: [{ role: 'user', parts: [{ text: 'Hello!' }] }],
}

/** Reads a JSON body: names in snake case become those in camel case, and the path has the model. */
export function readGoogleBody(
  { value, raw }: { value: unknown; raw: Buffer },
  params: Record<string, string>,
  members: Record<string, unknown> = {},
): { value: unknown; raw: Buffer } {
  if (!isObject(value)) return { value, raw }
  const named = withCamelNames(value) as Record<string, unknown>
  const sent = named === value ? raw : Buffer.from(JSON.stringify(named))
  return { value: { ...named, ...members, model: modelInPath(params) }, raw: sent }
}

type GenerateRequest = RequestWithoutKoa<GenerateContentRequest>

const shared = {
  method: 'post',
  deep: true,
  dialect: 'google',
  tag: 'Gemini',
  access: { scope: 'chat' },
  bypassesKoa: true,
  maxBodyBytes,
  example,
  errors,
} satisfies Partial<Endpoint>

const generating = {
  ...shared,
  headers: [...sessionHeaders, cacheMarksHeader, cacheHeader, structuredHeader, ...labelHeaders],
  body: directKinds.generate_content,
  presets: 'generate_content' as const,
  handle: (request: GenerateRequest) =>
    runDirect('generate_content', request, generateContentFeatures(request.body, request.raw.length), { naming: {} }),
}
const answerHeaders: AnswerHeaderName[] = [...chatHeaders, 'x-gateway-cache-marked']

const generateContent: Endpoint = {
  ...generating,
  path: '/v1beta/models/{model}:generateContent',
  aliases: googleAliases('generateContent'),
  operationId: 'generateContent',
  summary: 'Generate content',
  description:
    'Accepts and returns the format of Google’s Gemini API, and takes any chat model. Gemini’s own models receive the request as you sent it, apart from the routing fields and a `maxOutputTokens` lowered by the key’s spend cap; for all others it is translated to a chat completion. The key may also be sent as `x-goog-api-key` or `?key=`. The same paths under `/v1` and `/v1alpha`, and those of Vertex AI, are served as well.',
  readBody: (body, params) => readGoogleBody(body, params),
  answers: { 200: { description: 'The answer.', schema: generatedContent, headers: answerHeaders } },
}

const streamGenerateContent: Endpoint = {
  ...generating,
  path: '/v1beta/models/{model}:streamGenerateContent',
  aliases: googleAliases('streamGenerateContent'),
  operationId: 'streamGenerateContent',
  summary: 'Generate content as a stream',
  description:
    'As `generateContent`, with the answer in parts: server-sent events with `?alt=sse`, otherwise one JSON array whose items are sent as they are made.',
  readBody(body, params, search) {
    const alt = new URLSearchParams(search).get('alt') ?? 'json'
    if (alt === 'sse' || alt === 'json') return readGoogleBody(body, params, { stream: true, alt })
    throw new GatewayError('invalid_request', '`alt` must be `sse` or `json`.', { param: 'alt' })
  },
  answers: {
    200: {
      description: 'The parts of the answer.',
      schema: generatedEvent.array(),
      events: generatedEvent,
      headers: answerHeaders,
    },
  },
}

const countContent: Endpoint = {
  ...shared,
  path: '/v1beta/models/{model}:countTokens',
  aliases: googleAliases('countTokens'),
  operationId: 'countContentTokens',
  summary: 'Count the tokens of contents',
  description:
    'Counts the tokens that the request would have as a prompt. Free of charge; counts as a request against the key’s limits. Gemini’s own models count them exactly; for all others the result is an estimate that is rather too high.',
  body: countGeminiTokensRequest.meta({ id: 'CountContentTokensRequest' }),
  presets: 'generate_content_count',
  readBody: (body, params) => readGoogleBody(body, params),
  free: true,
  answers: { 200: { description: 'The number of tokens.', schema: geminiTokenCount } },
  async handle({ services, apiKey, body: { model, ...body }, raw, client }) {
    const counted = { ...(body.generateContentRequest ?? body), model } as GenerateContentRequest
    if (!counted.contents) throw new GatewayError('missing_field', '`contents` is required.', { param: 'contents' })
    const features = generateContentFeatures(counted, raw.length)
    const totalTokens = await countContentTokens(services, { key: apiKey, body: counted, raw: null, features, client })
    client.answer({}, JSON.stringify({ totalTokens }))
  },
}

/** The routes in the format of Google's Gemini API that generate or count content. */
export const generateContentRoutes = [generateContent, streamGenerateContent, countContent]
