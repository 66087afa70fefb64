import type { IncomingHttpHeaders } from 'node:http'
import { GatewayError } from '../../shared/base/errors.ts'
import { route, worldOf } from '../../shared/chat/router.ts'
import { run } from '../../shared/chat/run.ts'
import { sessionKey } from '../../shared/chat/sessions.ts'
import type { Scope } from '../../shared/keys/policy.ts'
import type { Features } from '../../shared/kinds/features.ts'
import { chatFeatures, completionFeatures, embeddingFeatures } from '../../shared/kinds/features.ts'
import { type DirectKind, type DirectKinds, directKinds } from '../../shared/kinds/index.ts'
import type { Candidate } from '../../shared/wallet/routing-record.ts'
import { type AnswerHeaderName, generationHeaders } from '../answer-headers.ts'
import { chatCompletion, completion, embeddings, routingDecision } from '../answers.ts'
import { type Direct, direct, endpoint } from '../endpoint.ts'
import { admitFree } from '../middleware/key.ts'
import { modelErrors } from './model-errors.ts'

type Named = { prompt_cache_key?: string | null | undefined }
type Streamable = Named & {
  stream?: boolean | null | undefined
  stream_options?: { include_usage?: boolean | undefined } | null | undefined
}

const longestSessionId = 256
const sessionHeader = {
  name: 'x-session-id',
  maxLength: longestSessionId,
  description:
    'Names the conversation, as `prompt_cache_key` does, which it goes before: its requests stay with one model, provider and API key, so that prompt caches are hit.',
}

/** What the caller names its conversation: the `x-session-id` header, else `prompt_cache_key`. Throws 400. */
function sessionOf(headers: IncomingHttpHeaders, { prompt_cache_key }: Named): string | null {
  const id = String(headers['x-session-id'] ?? '')
  if (id.length > longestSessionId)
    throw new GatewayError('invalid_request', `x-session-id may have at most ${longestSessionId} characters.`, {
      param: 'x-session-id',
    })
  return id || prompt_cache_key || null
}

/** Runs a validated request and lets the run answer through the request's own client. */
async function answer<K extends DirectKind>(
  kind: K,
  scope: Scope,
  request: Direct<DirectKinds[K]['request']>,
  features: Features,
): Promise<void> {
  const { services, known, body, raw, requestId, client, headers, wide } = request
  const { stream, stream_options } = body as Streamable
  const report = await run(
    services,
    {
      kind,
      known,
      scope,
      body,
      raw,
      features,
      requestId,
      session: sessionOf(headers, body as Named),
      stream: stream === true,
      includeUsage: stream_options?.include_usage === true,
      bulk: null,
    },
    client,
  )
  Object.assign(wide, report)
}

const answerHeaders: AnswerHeaderName[] = [...generationHeaders, 'x-gateway-max-tokens-clamped', 'x-gateway-dropped']
const example = {
  model: 'auto',
  messages: [
    { role: 'system', content: 'You are a helpful assistant.' },
    { role: 'user', content: 'Hello!' },
  ],
}
const chatErrors = ['context_length_exceeded', 'url_not_allowed', ...modelErrors] as const

export const chatCompletions = direct({
  method: 'post',
  path: '/v1/chat/completions',
  operationId: 'createChatCompletion',
  tag: 'Chat',
  summary: 'Create a chat completion',
  description:
    'The OpenAI chat shape both ways. `model: "auto"` lets the gateway choose. With `stream: true` the answer is server-sent events of `chat.completion.chunk` objects, ended by `data: [DONE]`.',
  access: { scope: 'chat' },
  headers: [sessionHeader],
  body: directKinds.chat,
  example,
  answers: {
    200: { description: 'The completion, or its event stream.', schema: chatCompletion, headers: answerHeaders },
  },
  errors: [...chatErrors],
  handle: request => answer('chat', 'chat', request, chatFeatures(request.body, request.raw.length)),
})

export const completions = direct({
  method: 'post',
  path: '/v1/completions',
  operationId: 'createCompletion',
  tag: 'Chat',
  summary: 'Create a completion',
  description:
    'Served by completion models, or by a chat model that gets each prompt as one user message (up to 128 prompts of text; no logprobs, suffix or best_of then). The choices of several prompts are numbered through: those of the first prompt, then those of the second.',
  access: { scope: 'completions' },
  headers: [sessionHeader],
  body: directKinds.completion,
  example: { model: 'gpt-4o-mini', prompt: 'Say this is a test', max_tokens: 16 },
  answers: {
    200: { description: 'The completion, or its event stream.', schema: completion, headers: answerHeaders },
  },
  errors: [...chatErrors],
  handle: request => answer('completion', 'completions', request, completionFeatures(request.body, request.raw.length)),
})

export const createEmbeddings = direct({
  method: 'post',
  path: '/v1/embeddings',
  operationId: 'createEmbedding',
  tag: 'Embeddings',
  summary: 'Create embeddings',
  access: { scope: 'embeddings' },
  body: directKinds.embedding,
  example: { model: 'text-embedding-3-small', input: 'The food was delicious and the waiter was friendly.' },
  answers: {
    200: {
      description: 'One vector per input, in the order of the input.',
      schema: embeddings,
      headers: answerHeaders,
    },
  },
  errors: [...chatErrors],
  handle: request => answer('embedding', 'embeddings', request, embeddingFeatures(request.body, request.raw.length)),
})

export const routeDecision = endpoint({
  method: 'post',
  path: '/v1/route',
  operationId: 'createRoutingDecision',
  tag: 'Chat',
  summary: 'Preview a routing decision',
  description:
    'Takes the body of a chat completion and gives the routing decision only. No provider is called and nothing is charged.',
  access: { scope: 'chat' },
  headers: [sessionHeader],
  body: directKinds.chat,
  example,
  answers: {
    200: {
      description: 'The decision.',
      schema: routingDecision,
      headers: ['x-gateway-model', 'x-gateway-provider', 'x-gateway-mode', 'x-sandbox'],
    },
  },
  errors: [
    'context_length_exceeded',
    'unsupported_capability',
    'model_not_allowed',
    'model_not_found',
    'no_provider_available',
  ],
  async handle({ services, known, body, raw, headers, ctx }) {
    ctx.set(await admitFree(services, known))
    const features = chatFeatures(body, raw.length)
    const { policy } = known
    const session = sessionOf(headers, body)
    const home = session === null ? null : await services.sessions.recall(sessionKey(policy, session, body))
    const world = worldOf(services, services.config.marginPpm)
    const asking = { policy, kind: 'chat', request: body, features, home } as const
    const { mode, reason, targets, candidates } = route(world, asking, Number.POSITIVE_INFINITY)
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
      estimated_cost_usd: (chosen?.estimatedCostNano ?? 0) / 1e9,
      candidates: candidates.map(candidateJson),
      fallbacks: rest.map(({ model, provider }) => `${model.id}@${provider.name}`),
    }
  },
})

/** A candidate of a decision as every route shows it. */
export function candidateJson({ model, provider, score, quality, estimatedCostNano, latencyMs, excluded }: Candidate) {
  return {
    model,
    provider,
    score,
    quality,
    estimated_cost_usd: estimatedCostNano === null ? null : estimatedCostNano / 1e9,
    latency_ms: latencyMs === null ? null : Math.round(latencyMs),
    excluded,
  }
}
