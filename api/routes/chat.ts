import type { IncomingHttpHeaders } from 'node:http'
import { isObject } from '../../shared/base/is-object.ts'
import { validateRequest } from '../../shared/base/validate.ts'
import { chatFormats } from '../../shared/chat/chat-formats.ts'
import { FunctionCallsWriter } from '../../shared/chat/function-calls-writer.ts'
import { run } from '../../shared/chat/run.ts'
import type { ChatRunInput, Serve } from '../../shared/chat/run-input.ts'
import { findStickyTarget, type NamingBody } from '../../shared/chat/sticky-target.ts'
import type { RequestLabels } from '../../shared/engine/report.ts'
import type { ResponseWriter } from '../../shared/engine/response-writer.ts'
import { withoutBlocks } from '../../shared/kinds/content-blocks.ts'
import { isFlatTool } from '../../shared/kinds/flat-tools.ts'
import { type DirectKind, type DirectKinds, directKinds } from '../../shared/kinds/index.ts'
import type { Platform } from '../../shared/platform.ts'
import { chatBodyOf } from '../../shared/providers/toolkit/responses-over-chat/chat-body.ts'
import { chatFeatures, completionFeatures, embeddingFeatures, type Features } from '../../shared/routing/features.ts'
import { snapshotOf } from '../../shared/routing/options.ts'
import { withServiceTier } from '../../shared/routing/pricing.ts'
import { route } from '../../shared/routing/router.ts'
import type { Candidate } from '../../shared/wallet/routing-record.ts'
import { endpoint, endpointWithoutKoa, type JsonBody, type RequestWithoutKoa } from '../endpoint.ts'
import { chatCompletion, completion, embeddings, routingDecision } from '../schemas/core.ts'
import { chatHeaders, directHeaders } from '../schemas/headers.ts'
import { directErrors } from './model-errors.ts'
import {
  allowsCacheMarks,
  cacheDirectiveOf,
  cacheHeader,
  cacheMarksHeader,
  labelHeaders,
  labelsOf,
  sessionHeaders,
  sessionOf,
  structuredCheckOf,
  structuredHeader,
  timeoutHeader,
  timeoutsOf,
} from './request-headers.ts'

const example = {
  model: 'auto',
  messages: [
    { role: 'system', content: 'You are a helpful assistant.' },
    { role: 'user', content: 'Hello!' },
  ],
}

export const chatCompletions = endpointWithoutKoa({
  method: 'post',
  path: '/v1/chat/completions',
  operationId: 'createChatCompletion',
  tag: 'Chat',
  summary: 'Create a chat completion',
  description:
    'Accepts and returns the OpenAI chat format. `model: "auto"` lets the gateway choose the model. With `stream: true` the response is a stream of server-sent `chat.completion.chunk` events, terminated by `data: [DONE]`. A body with the `input` of a response in place of `messages` is taken as well.',
  access: { scope: 'chat' },
  headers: [...sessionHeaders, cacheMarksHeader, timeoutHeader, cacheHeader, structuredHeader, ...labelHeaders],
  body: directKinds.chat,
  readBody: readChatBody,
  presets: 'chat',
  example,
  answers: {
    200: {
      description: 'The completion, or its event stream.',
      schema: chatCompletion,
      headers: [...chatHeaders, 'x-gateway-cache-marked'],
    },
  },
  errors: [...directErrors, 'service_tier_not_allowed'],
  handle(request) {
    const { body, client } = request
    const features = chatFeatures(body, request.raw.length)
    if (!body.tools?.some(isFlatTool)) return runDirect('chat', request, features)
    const { services, apiKey, raw, requestId, headers, logFields, releaseRaw } = request
    const own = { services, apiKey, body, raw, requestId, headers, logFields, releaseRaw }
    return runDirect('chat', { ...own, client: new FunctionCallsWriter(client) }, features)
  },
})

/**
 * Cursor sends bodies of Responses to this route, or messages with the blocks of Anthropic's API, and reads answers of chat
 * (forum.cursor.com/t/159298, where its authors confirm it).
 */
function readChatBody(given: JsonBody): JsonBody {
  const { value, raw } = given
  if (!isObject(value)) return given
  if (hasItems(value))
    return withText(chatBodyOf(validateRequest(directKinds.responses, withoutMessages(value), raw).body))
  return hasInputSchemas(value) ? withText(withoutBlocks(value)) : given
}

/** Whether a body has the items of Responses in place of the messages of chat. */
function hasItems({ input, messages }: Record<string, unknown>): boolean {
  return Array.isArray(input) && (messages == null || (Array.isArray(messages) && messages.length === 0))
}

/** Whether a body has tools in the form of Anthropic: then its messages may have blocks. */
function hasInputSchemas({ tools }: Record<string, unknown>): boolean {
  return Array.isArray(tools) && tools.some(tool => isObject(tool) && tool.input_schema !== undefined)
}

function withoutMessages({ messages: _, ...body }: Record<string, unknown>): unknown {
  return body
}

function withText(value: object): JsonBody {
  return { value, raw: Buffer.from(JSON.stringify(value)) }
}

export const completions = endpointWithoutKoa({
  method: 'post',
  path: '/v1/completions',
  operationId: 'createCompletion',
  tag: 'Chat',
  summary: 'Create a completion',
  description:
    'Served by a completion model, or by a chat model that receives each prompt as one user message (up to 128 text prompts; without logprobs, suffix and best_of). Choices of multiple prompts are numbered consecutively, in the order of the prompts.',
  access: { scope: 'completions' },
  headers: [...sessionHeaders, timeoutHeader, cacheHeader, ...labelHeaders],
  body: directKinds.completion,
  presets: 'completion',
  example: { model: 'gpt-4o-mini', prompt: 'Say this is a test', max_tokens: 16 },
  answers: {
    200: { description: 'The completion, or its event stream.', schema: completion, headers: directHeaders },
  },
  errors: [...directErrors],
  handle: request => runDirect('completion', request, completionFeatures(request.body, request.raw.length)),
})

export const createEmbeddings = endpointWithoutKoa({
  method: 'post',
  path: '/v1/embeddings',
  operationId: 'createEmbedding',
  tag: 'Embeddings',
  summary: 'Create embeddings',
  access: { scope: 'embeddings' },
  headers: [timeoutHeader, cacheHeader, ...labelHeaders],
  body: directKinds.embedding,
  presets: 'embedding',
  example: { model: 'text-embedding-3-small', input: 'The food was delicious and the waiter was friendly.' },
  answers: {
    200: {
      description: 'One embedding per input, in the order of the inputs.',
      schema: embeddings,
      headers: directHeaders,
    },
  },
  errors: [...directErrors],
  handle: request => runDirect('embedding', request, embeddingFeatures(request.body, request.raw.length)),
})

export const routeDecision = endpoint({
  method: 'post',
  path: '/v1/route',
  operationId: 'createRoutingDecision',
  tag: 'Chat',
  summary: 'Preview a routing decision',
  description:
    'Returns the routing decision for the body of a chat completion. No provider is called and nothing is charged.',
  access: { scope: 'chat' },
  free: true,
  headers: sessionHeaders,
  body: directKinds.chat,
  presets: 'chat',
  example,
  answers: {
    200: {
      description: 'The routing decision.',
      schema: routingDecision,
      headers: ['x-gateway-model', 'x-gateway-provider', 'x-gateway-mode', 'x-sandbox'],
    },
  },
  errors: [
    'context_length_exceeded',
    'unsupported_capability',
    'model_not_allowed',
    'no_own_key',
    'own_key_refused',
    'service_tier_not_allowed',
    'model_not_found',
    'no_provider_available',
  ],
  async handle({ services, apiKey, body, raw, headers, requestId, ctx }) {
    const features = withServiceTier('chat', body, chatFeatures(body, raw.length))
    const { policy } = apiKey
    const session = sessionOf(headers, body)
    const marksCache = services.config.cacheMarks
    const { sticky } = await findStickyTarget(services, policy, { kind: 'chat', body, session, marksCache })
    const inputs = snapshotOf(services, services.config.marginPpm)
    const learned = await services.learnedQualities.read(policy)
    const seed = session ?? requestId
    const query = { policy, kind: 'chat', request: body, features, sticky, learned, seed, session } as const
    const { mode, reason, targets, candidates, arm, alias } = route(inputs, query, 'preview')
    const [first, ...rest] = targets
    const chosen = candidates.find(
      candidate => candidate.model === first!.model.id && candidate.provider === first!.provider.name,
    )
    ctx.set({ 'x-gateway-model': first!.model.id, 'x-gateway-provider': first!.provider.name, 'x-gateway-mode': mode })
    if (policy.environment === 'test') ctx.set('x-sandbox', 'true')
    return {
      object: 'routing.decision',
      model: first!.model.id,
      provider: first!.provider.name,
      mode,
      reason,
      ...(arm && { arm }),
      ...(alias && { alias }),
      estimated_cost_usd: (chosen?.estimatedCostNano ?? 0) / 1e9,
      candidates: candidates.map(presentCandidate),
      fallbacks: rest.map(({ model, provider }) => `${model.id}@${provider.name}`),
    }
  },
})

/** Presents a candidate of a decision, for every route that shows one. */
export function presentCandidate({
  model,
  provider,
  score,
  quality,
  learned = 0,
  estimatedCostNano,
  latencyMs,
  excluded,
}: Candidate) {
  return {
    model,
    provider,
    score,
    quality,
    learned,
    estimated_cost_usd: estimatedCostNano === null ? null : estimatedCostNano / 1e9,
    latency_ms: latencyMs === null ? null : Math.round(latencyMs),
    excluded,
  }
}

type Streamable = {
  stream?: boolean | null | undefined
  stream_options?: { include_usage?: boolean | undefined } | null | undefined
}

type OwnInput<K extends DirectKind> = {
  /** The fields that may name the conversation; the body itself by default. */
  naming?: NamingBody
  /** Whether nothing but the gateway names the conversation, which may have this request only. */
  begins?: boolean
  forwarded?: ChatRunInput<K>['forwarded']
  /** What runs instead of the request as the client sent it. */
  turn?: { body: DirectKinds[K]['request']; raw: Buffer }
  storage?: ChatRunInput<K>['storage']
  present?: ChatRunInput<K>['present']
}

/** The labels of a request with the preset that it used. */
function withPreset(labels: RequestLabels | null, preset: unknown): RequestLabels | null {
  return typeof preset === 'string' ? { ...labels, preset } : labels
}

/** What a run needs of its request. */
export type RunRequest<Body> = Pick<
  RequestWithoutKoa<Body>,
  'services' | 'apiKey' | 'body' | 'raw' | 'requestId' | 'headers' | 'logFields'
> & { client: ResponseWriter; releaseRaw?: (() => void) | undefined }

/** Runs a validated request; the run responds through the request's own client. */
export async function runDirect<K extends DirectKind>(
  kind: K,
  request: RunRequest<DirectKinds[K]['request']>,
  features: Features,
  own: OwnInput<K> = {},
): Promise<void> {
  const { services, apiKey, client, headers, logFields } = request
  // Without bytes of the body in a variable, which would keep them until the answer has ended.
  const input = inputOf(kind, request, features, own)
  const serve = apiKey.policy.cache ? serveFromCache<K>(services, headers) : undefined
  Object.assign(logFields, await run(services, input, client, serve))
}

function inputOf<K extends DirectKind>(
  kind: K,
  request: RunRequest<DirectKinds[K]['request']>,
  features: Features,
  { naming = request.body as NamingBody, begins = false, forwarded, turn, storage, present }: OwnInput<K>,
): ChatRunInput<K> {
  const { services, apiKey, body: sent, raw, requestId, headers, logFields, releaseRaw } = request
  const { stream, stream_options } = sent as Streamable
  const body = turn?.body ?? sent
  return {
    kind,
    key: apiKey,
    body,
    raw: turn?.raw ?? raw,
    ...(releaseRaw && !turn && { releaseRaw }),
    features: withServiceTier(kind, body, features),
    requestId,
    session: sessionOf(headers, naming),
    begins,
    marksCache: chatFormats[kind].marksCache && allowsCacheMarks(headers) && services.config.cacheMarks,
    labels: withPreset(labelsOf(headers), logFields.preset),
    timeouts: timeoutsOf(headers, sent, services),
    structuredCheck: structuredCheckOf(headers),
    stream: stream === true,
    includeUsage: stream_options?.include_usage === true,
    ...(forwarded && { forwarded }),
    ...(storage && { storage }),
    ...(present && { present }),
    bulk: null,
  }
}

/** Serves requests of a key whose policy has the response cache on. */
function serveFromCache<K extends DirectKind>(cache: Platform, headers: IncomingHttpHeaders): Serve<K> {
  return async (services, input, client) => {
    const directive = cacheDirectiveOf(headers)
    const { runCached } = await import('../../shared/chat/cached-run.ts')
    return runCached({ ...cache, ...services }, input, directive, client)
  }
}
