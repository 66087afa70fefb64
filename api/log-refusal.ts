import type { GatewayError } from '../shared/base/errors.ts'
import type { ResolvedKey } from '../shared/keys/policies.ts'
import { queuedKinds, syncKinds } from '../shared/kinds/index.ts'
import type { Platform } from '../shared/platform.ts'
import type { Refusal } from '../shared/wallet/refusal-log.ts'
import { refusedKeyOf } from './auth/api-keys.ts'
import type { ServedEndpoint, State } from './state.ts'

/** The kind of work of each endpoint that runs a model or accepts work, by its path. */
const kinds = new Map<string, string>([
  ['/v1/chat/completions', 'chat'],
  ['/v1/completions', 'completion'],
  ['/v1/messages', 'messages'],
  ['/v1/responses', 'responses'],
  ['/v1/responses/compact', 'responses'],
  ['/v1/embeddings', 'embedding'],
  ['/v1beta/models/{model}:generateContent', 'generate_content'],
  ['/v1beta/models/{model}:streamGenerateContent', 'generate_content'],
  ['/v1beta/models/{model}:embedContent', 'embedding'],
  ['/v1beta/models/{model}:batchEmbedContents', 'embedding'],
  ['/v1/images/generations', 'image'],
  ['/v1/images/edits', 'image'],
  ['/v1/audio/translations', 'transcription'],
  ['/v1/jobs', 'async'],
  ['/v1/batches', 'batch'],
  ...Object.entries({ ...syncKinds, ...queuedKinds }).map(([kind, { path }]) => [path, kind] as const),
])

/** The kind of work of an endpoint; undefined if it runs no model and accepts no work. */
export function kindOf(endpoint: ServedEndpoint | null): string | undefined {
  return endpoint?.method === 'post' ? kinds.get(endpoint.path) : undefined
}

/**
 * Logs a request that failed before it ran, if its key is known and its endpoint runs a model or accepts work. Returns the
 * id of its row; null if it was not logged or counts in the row of an earlier refusal.
 */
export function logRefusedRequest(
  state: State,
  failure: GatewayError,
  status: number,
  durationMs: number,
): string | null {
  const { services, endpoint, body, headers, requestId, startedMs, apiKey } = state
  const kind = kindOf(endpoint)
  if (kind === undefined) return null
  const { model = headers['x-gateway-model'], stream } = Object(body) as { model?: unknown; stream?: unknown }
  const asked = { key: apiKey, model, streamed: stream === true }
  return logRefusal(services, asked, { kind, failure, requestId, startedMs, status, durationMs })
}

type RefusedCall = { key: ResolvedKey | undefined; model: unknown; streamed: boolean }

/**
 * Logs a call that failed before it ran, if its key is known. Returns the id of its row; null if it was not logged or counts
 * in the row of an earlier refusal.
 */
export function logRefusal(
  { refusalLog, catalog }: Platform,
  { key, model: asked, streamed }: RefusedCall,
  refusal: Omit<Refusal, 'policy' | 'model' | 'streamed'>,
): string | null {
  const known = key ?? refusedKeyOf(refusal.failure)
  if (!known) return null
  const model = (typeof asked === 'string' && catalog.find(asked)?.id) || ''
  return refusalLog.add({ ...refusal, policy: known.policy, model, streamed })
}
