import { editBody } from '../../../base/json-member.ts'
import { canReason } from '../../../catalog/traits.ts'
import type { ResponsesRequest } from '../../../kinds/responses.ts'
import { webSearchLimit } from '../../../kinds/web-search.ts'
import type { Call, UpstreamRequest } from '../../contract.ts'
import { isNoticeable, withDropped } from '../../toolkit/request-fields.ts'
import { inputFor } from './responses-input.ts'
import { toolsFor } from './responses-tools.ts'

/** Top-level fields to write into the body; an undefined one is removed. */
type Changes = Record<string, unknown>

const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/))

/** The fields that may be sent: none is billed apart from its tokens. docs/decisions/paid-fields.md */
const allowedFields = words(`
  model input instructions stream stream_options max_output_tokens max_tool_calls temperature top_p
  top_logprobs tools tool_choice parallel_tool_calls reasoning text include truncation metadata
  prompt_cache_key safety_identifier user store`)
const reasoningFields = words('effort summary generate_summary context max_tokens exclude enabled')
/** Always as the gateway sets them: what has no price, or what it does not offer. */
const silentFields = words('store background previous_response_id conversation client_metadata')
const reasoningState = 'reasoning.encrypted_content'

/**
 * The request for a provider with this dialect: the client's bytes in their order, apart from the members of the top
 * level that have to differ. Nothing is stored at the provider, so answers of reasoning models have the state of the
 * reasoning, unless the client said itself that nothing is to be stored. Throws a GatewayError `unsupported_capability`.
 */
export function requestOf(call: Call<'responses'>): UpstreamRequest {
  const { body, target, maxTokens } = call
  const fields: Record<string, unknown> = body
  const changes: Changes = {}
  const dropped: string[] = []
  const set = (name: string, value: unknown) => {
    if (fields[name] !== value) changes[name] = value
  }
  const { responses_fields: own } = target.provider.quirks ?? {}
  for (const [name, value] of Object.entries(fields)) {
    if (allowedFields.has(name) || (Array.isArray(own) && own.includes(name))) continue
    changes[name] = undefined
    if (isNoticeable(name, value) && !silentFields.has(name)) dropped.push(name)
  }
  const { tools, dropped: droppedTools } = toolsFor(body, target)
  const { input, dropped: droppedParts, reasoningDropped } = inputFor(body)
  set('tools', tools)
  set('input', input)
  // Each search is charged, so their number has a bound, which is reserved.
  const searches = webSearchLimit({ tools, max_tool_calls: body.max_tool_calls })
  if (searches > 0) set('max_tool_calls', searches)
  set('reasoning', onlyKnown(body.reasoning, dropped))
  set('include', includesOf(call))
  set('model', target.deployment.upstream_model)
  set('store', false)
  delete changes.service_tier
  set('service_tier', target.provider.quirks?.service_tier)
  if (maxTokens !== null && maxTokens < (body.max_output_tokens ?? Number.POSITIVE_INFINITY))
    set('max_output_tokens', maxTokens)
  const request: UpstreamRequest = {
    method: 'POST',
    path: '/responses',
    headers: { 'content-type': 'application/json' },
    body: editBody(call.raw, body, changes),
    ...(reasoningDropped && { reasoningDropped }),
  }
  return withDropped(request, [...dropped, ...droppedTools, ...droppedParts])
}

function includesOf({ body: { include, store }, target }: Call<'responses'>): ResponsesRequest['include'] {
  if (store === false || !canReason(target.deployment) || include?.includes(reasoningState)) return include
  return [...(include ?? []), reasoningState]
}

function onlyKnown(reasoning: ResponsesRequest['reasoning'], dropped: string[]): ResponsesRequest['reasoning'] {
  const unknown = Object.keys(reasoning ?? {}).filter(name => !reasoningFields.has(name))
  if (unknown.length === 0) return reasoning
  dropped.push(...unknown.map(name => `reasoning.${name}`))
  return Object.fromEntries(Object.entries(reasoning!).filter(([name]) => reasoningFields.has(name)))
}
