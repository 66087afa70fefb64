import { editBody } from '../../../base/json-member.ts'
import type { Protocol, UpstreamRequest } from '../../contract.ts'
import { fittedChat } from '../../profile/fit-chat.ts'
import { chat } from '../anthropic/chat.ts'
import { failure } from '../anthropic/failure.ts'
import { messages } from '../anthropic/messages.ts'
import { partnerFailure } from './failure.ts'

const modelsPath = '/publishers/anthropic/models/'
const version = 'vertex-2023-10-16'

/**
 * Claude at Google's Vertex AI: Messages whose model is in the path and whose version is in the body. Source: `@anthropic-ai/vertex-sdk`,
 * and platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai.
 */
export const vertexAnthropic: Protocol = {
  direct: {
    chat: fittedChat({
      ...chat,
      request: call => atVertex(chat.request(call), call.target.deployment.upstream_model, call.body.stream === true),
    }),
    messages: {
      ...messages,
      request: call =>
        atVertex(messages.request(call), call.target.deployment.upstream_model, call.body.stream === true),
      countTokens: call => countAtVertex(messages.countTokens!(call)),
    },
  },
  failure: partnerFailure(failure),
}

function atVertex(request: UpstreamRequest, model: string, isStreamed: boolean): UpstreamRequest {
  const path = `${modelsPath}${model}:${isStreamed ? 'streamRawPredict' : 'rawPredict'}`
  return withVersion({ ...request, path }, { model: undefined })
}

/** Counting takes the model in the body, and no betas. */
function countAtVertex(request: UpstreamRequest): UpstreamRequest {
  const { 'anthropic-beta': _, ...headers } = request.headers
  return withVersion({ ...request, path: `${modelsPath}count-tokens:rawPredict`, headers }, {})
}

function withVersion(request: UpstreamRequest, changes: Record<string, unknown>): UpstreamRequest {
  const { 'anthropic-version': _, ...headers } = request.headers
  const raw = Buffer.from(request.body)
  // It has one tier.
  const edits = { ...changes, service_tier: undefined, anthropic_version: version }
  const body = editBody(raw, JSON.parse(raw.toString()), edits)
  return { ...request, headers, body }
}
