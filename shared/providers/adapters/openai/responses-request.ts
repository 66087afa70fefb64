import { editBody } from '../../../base/json-member.ts'
import { namesIn } from '../../../base/names.ts'
import { canReason, compacts } from '../../../catalog/traits.ts'
import type { ResponsesRequest } from '../../../kinds/responses.ts'
import { webSearchLimit } from '../../../kinds/web-search.ts'
import type { Call, Target, UpstreamRequest } from '../../contract.ts'
import { fitResponses, withFittedFormat } from '../../profile/fit-responses.ts'
import { unsentMembers, withDropped } from '../../toolkit/request-fields.ts'
import { inputFor } from './responses-input.ts'
import { toolsFor } from './responses-tools.ts'

/** Top-level fields to write into the body; an undefined one is removed. */
type Changes = Record<string, unknown>

const reasoningFields = namesIn('effort summary generate_summary context max_tokens exclude enabled')
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
  const set = (name: string, value: unknown) => {
    if (fields[name] !== value) changes[name] = value
  }
  const { responses_fields: own } = target.provider.quirks ?? {}
  const takes = (name: string) =>
    own?.includes(name) === true || (name === 'context_management' && isManagedBy(target, body))
  const unsent = unsentMembers('responses', body, call.passesUnknown)
  for (const name of unsent.removed) if (!takes(name)) changes[name] = undefined
  const dropped = unsent.dropped.filter(name => !takes(name))
  const { tools, dropped: droppedTools, adjusted: adjustedTools } = toolsFor(body, target)
  const { input, dropped: droppedParts, adjusted: adjustedParts, reasoningSent, reasoningDropped } = inputFor(call)
  const fitted = fitResponses(body, target)
  Object.assign(changes, fitted.changes)
  const { text, adjusted: adjustedFormat } = withFittedFormat(body.text, target)
  set('tools', tools)
  set('input', input)
  set('text', text)
  // Each search is charged, so their number has a bound, which is reserved.
  const searches = webSearchLimit({ tools, input, max_tool_calls: body.max_tool_calls })
  if (searches > 0) set('max_tool_calls', searches)
  if (body.tool_choice === 'validated') changes.tool_choice = 'auto'
  set('reasoning', onlyKnown((fitted.changes.reasoning ?? body.reasoning) as typeof body.reasoning, dropped))
  set('include', includesOf(call))
  set('model', target.deployment.upstream_model)
  // "Only set this when you set `stream: true`" (openai, ResponseCreateParams).
  if (!body.stream) set('stream_options', undefined)
  delete changes.store
  set('store', false)
  delete changes.service_tier
  set('service_tier', target.tier ?? target.provider.quirks?.service_tier)
  const limit = (changes.max_output_tokens ?? body.max_output_tokens ?? Number.POSITIVE_INFINITY) as number
  if (maxTokens !== null && maxTokens < limit) changes.max_output_tokens = maxTokens
  const formatNames = adjustedFormat.map(member => `text.format.${member}`)
  const adjustedNames = [...adjustedTools, ...adjustedParts, ...formatNames]
  const adjusted = [...fitted.adjusted, ...new Set(adjustedNames)]
  const request: UpstreamRequest = {
    method: 'POST',
    path: '/responses',
    headers: { 'content-type': 'application/json' },
    body: editBody(call.raw, body, changes),
    ...(reasoningSent && { reasoningSent }),
    ...(reasoningDropped && { reasoningDropped }),
    ...(adjusted.length > 0 && { adjusted }),
  }
  return withDropped(request, [...fitted.dropped, ...dropped, ...droppedTools, ...droppedParts])
}

/** Whether a provider compacts the context of a request: what else it would do to it is not known. */
function isManagedBy(target: Target, { context_management: entries }: ResponsesRequest): boolean {
  return compacts(target) && entries?.every(({ type }) => type === 'compaction') === true
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
