import type { Attributes } from '@opentelemetry/api'
import { familyOf } from '../catalog/regions.ts'
import type { UsageEvent } from '../wallet/usage-event.ts'

// Names of the semantic conventions: HTTP and errors are stable, those of generative AI are not (version 1.41), so all are here.

export const schemaUrl = 'https://opentelemetry.io/schemas/1.41.0'

/** Names of providers in the conventions, where they differ from ours. */
const providerNames: Record<string, string> = {
  azure: 'azure.ai.openai',
  bedrock: 'aws.bedrock',
  gemini: 'gcp.gemini',
  mistral: 'mistral_ai',
  vertex: 'gcp.vertex_ai',
  xai: 'x_ai',
}

/** The attributes of a call to a model at a provider. */
export function callAttributes(operation: string, model: string, provider: string): Attributes {
  return {
    'gen_ai.operation.name': operation,
    'gen_ai.provider.name': providerNames[familyOf(provider)] ?? familyOf(provider),
    'gen_ai.request.model': model,
  }
}

type Usage = Pick<
  UsageEvent,
  | ('promptTokens' | 'completionTokens' | 'cachedTokens' | 'reasoningTokens' | 'streamed' | 'finishReason')
  | ('upstreamId' | 'id' | 'model' | 'provider' | 'mode' | 'attempts' | 'cost' | 'environment')
> & { cacheWriteTokens?: number | null }

/** The attributes that the usage event of a run adds to the call that answered it. */
export function usageAttributes(event: Usage): Attributes {
  const attributes: Attributes = {
    'gen_ai.usage.input_tokens': event.promptTokens,
    'gen_ai.usage.output_tokens': event.completionTokens,
    'gen_ai.request.stream': event.streamed,
  }
  if (event.cachedTokens > 0) attributes['gen_ai.usage.cache_read.input_tokens'] = event.cachedTokens
  if (event.cacheWriteTokens) attributes['gen_ai.usage.cache_creation.input_tokens'] = event.cacheWriteTokens
  if (event.reasoningTokens > 0) attributes['gen_ai.usage.reasoning.output_tokens'] = event.reasoningTokens
  if (event.finishReason) attributes['gen_ai.response.finish_reasons'] = [event.finishReason]
  if (event.upstreamId) attributes['gen_ai.response.id'] = event.upstreamId
  return attributes
}

/** The attributes that the usage event of a run adds to the whole trace's first span. */
export function runAttributes(event: Usage): Attributes {
  return {
    'headgate.generation.id': event.id,
    'headgate.model': event.model,
    'headgate.provider': event.provider ?? '',
    'headgate.mode': event.mode ?? '',
    'headgate.attempts': event.attempts,
    'headgate.cost_usd': event.cost / 1e9,
    'headgate.environment': event.environment,
  }
}

/** The first chunk of a stream, in seconds after the call began. */
export function firstChunkAttributes(ms: number): Attributes {
  return { 'gen_ai.response.time_to_first_chunk': ms / 1_000 }
}

/** A finished HTTP request to the gateway. */
type ServedRequest = {
  method: string
  /** The path of the endpoint, with its parameters' names; null = no endpoint. */
  route: string | null
  path: string
  status: number
  requestId: string
  errorCode: string | null
  userAgent: string | undefined
  organisationId: string | undefined
  keyId: string | undefined
}

const maxTextLength = 256

/** The attributes of a request to the gateway. */
export function requestAttributes(request: ServedRequest): Attributes {
  const { method, route, path, status, requestId, errorCode, userAgent, organisationId, keyId } = request
  const attributes: Attributes = {
    'http.request.method': method,
    'url.path': path.slice(0, maxTextLength),
    'http.response.status_code': status,
    'headgate.request.id': requestId,
  }
  if (route) attributes['http.route'] = route
  if (userAgent) attributes['user_agent.original'] = userAgent.slice(0, maxTextLength)
  if (organisationId) attributes['headgate.organisation.id'] = organisationId
  if (keyId) attributes['headgate.key.id'] = keyId
  if (errorCode) attributes['error.type'] = errorCode
  return attributes
}

/** The attributes of a step of queued work. `id`: of its row, if that is known. */
export function workAttributes(queue: string, id: string | undefined, operation: 'send' | 'process'): Attributes {
  return {
    'messaging.system': 'bullmq',
    'messaging.destination.name': queue,
    ...(id && { 'messaging.message.id': id }),
    'messaging.operation.type': operation,
  }
}

/** The attributes of an attempt to deliver a webhook. */
export function deliveryAttributes(id: string, type: string, host: string, attempt: number): Attributes {
  return {
    'http.request.method': 'POST',
    'server.address': host,
    'http.request.resend_count': attempt - 1,
    'headgate.webhook.id': id,
    'headgate.webhook.type': type,
  }
}
