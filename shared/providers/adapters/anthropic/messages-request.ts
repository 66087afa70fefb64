import { asText } from '../../../base/as-text.ts'
import { GatewayError } from '../../../base/errors.ts'
import { isObject } from '../../../base/is-object.ts'
import { editBody, memberText } from '../../../base/json-member.ts'
import { hasWebSearchPrice, profileOf } from '../../../catalog/traits.ts'
import { asksFor1hCache } from '../../../kinds/cache-marks.ts'
import {
  isBlock,
  type MessagesBlock,
  type MessagesMessage,
  type MessagesRequest,
  type MessagesTool,
} from '../../../kinds/messages.ts'
import { asksFor, messagesMembers } from '../../../kinds/request-members.ts'
import { maxWebSearches } from '../../../kinds/web-search.ts'
import type { Call, Target } from '../../contract.ts'
import { CallIds } from '../../profile/call-ids.ts'
import { withTrimmedEnd } from '../../profile/trimmed-end.ts'
import { maxCacheTtl, unsentMembers } from '../../toolkit/request-fields.ts'
import { withMarkAtEnd } from './content.ts'
import { withFetchedImages } from './fetched-images.ts'
import { continuesWithoutThinking, cutOwnThinking, type OwnThinking, withoutOwnThinking } from './own-thinking.ts'

/** The API refuses smaller thinking budgets. */
const minBudgetTokens = 1024

/**
 * The body for the provider: the client's bytes in their order, with the provider's name of the model, without the
 * members that are not sent (`dropped`: those that the client may miss), without the thinking of other models
 * (`ownThinking`), without those of betas that the provider does not take (`closed`), and, if the call's ceiling is lower, with that as `max_tokens`. A thinking budget has to be below
 * `max_tokens`, so it is lowered with it. Where too little is left, and where a budget requires thinking that is not there,
 * thinking is disabled, and the edit of `context_management` that requires thinking is removed.
 */
export function editedBody(
  { body, raw, target, maxTokens, media, passesUnknown }: Call<'messages'>,
  ownThinking: OwnThinking,
  closed: readonly string[] = [],
): { body: Buffer | string; dropped: string[] } {
  const { removed, dropped } = unsentMembers('messages', body, passesUnknown)
  const changes: Record<string, unknown> = {}
  for (const name of removed) changes[name] = undefined
  for (const name of closed) {
    if ((body as Record<string, unknown>)[name] == null) continue
    changes[name] = undefined
    dropped.push(name)
  }
  const { upstream_model: model } = target.deployment
  if (body.model !== model) changes.model = model
  if (maxTokens !== null && maxTokens < body.max_tokens) Object.assign(changes, limitsOf(body, maxTokens))
  if (body.thinking?.type === 'enabled' && continuesWithoutThinking(body, ownThinking)) {
    Object.assign(changes, disabledThinking(body))
    dropped.push('thinking')
  }
  const fitted = withFetchedImages(withFittedEnd(withFittedBlocks(body.messages, target), target), media)
  if (fitted !== body.messages || ownThinking.size > 0) changes.messages = withoutOwnThinking(fitted, ownThinking)
  if (body.cache_control && profileOf(target).cache_marks !== 'top_level') {
    const sent = (changes.messages ?? body.messages) as readonly MessagesMessage[]
    Object.assign(changes, { cache_control: undefined, messages: withMarkAtEnd(sent, body.cache_control) })
  }
  // Where only thinking is removed, all other characters stay.
  const isCut = raw && ownThinking.size > 0 && fitted === body.messages && !('cache_control' in changes)
  const text = isCut ? memberText(raw.toString('latin1'), 'messages') : null
  const cut = text && cutOwnThinking(text, ownThinking)
  return { body: editBody(raw, body, changes, new Map(cut ? [['messages', cut]] : [])), dropped }
}

/**
 * The messages with ids of tool calls that the API accepts, and without citations that it cannot know: other models may have made
 * them. The same list if all are.
 */
function withFittedBlocks(messages: readonly MessagesMessage[], target: Target): readonly MessagesMessage[] {
  // Ids that recur are refused or not by the API itself.
  const ids = new CallIds({ ...profileOf(target), unique_call_ids: false })
  const isFitted = (block: MessagesBlock) => {
    if (isBlock(block, 'tool_use')) return ids.ofCall(block.id) === block.id
    if (isBlock(block, 'text')) return !Array.isArray(block.citations) || !block.citations.some(isTranslated)
    return !isBlock(block, 'tool_result') || ids.ofResult(block.tool_use_id) === block.tool_use_id
  }
  if (messages.every(({ content }) => typeof content === 'string' || content.every(isFitted))) return messages
  const fittedBlock = (block: MessagesBlock): MessagesBlock => {
    if (isBlock(block, 'tool_use')) return { ...block, id: ids.ofCall(block.id) }
    if (isBlock(block, 'text')) return withoutTranslated(block)
    return isBlock(block, 'tool_result') ? { ...block, tool_use_id: ids.ofResult(block.tool_use_id) } : block
  }
  return messages.map(message =>
    typeof message.content === 'string' ? message : { ...message, content: message.content.map(fittedBlock) },
  )
}

/** Whether a citation comes from an answer that the gateway translated: it lacks the index by which the API finds the page. */
function isTranslated(citation: unknown): boolean {
  return isObject(citation) && citation.type === 'web_search_result_location' && citation.encrypted_index === ''
}

function withoutTranslated({ citations, ...text }: Extract<MessagesBlock, { type: 'text' }>): MessagesBlock {
  const own = Array.isArray(citations) ? citations.filter(citation => !isTranslated(citation)) : []
  return own.length > 0 ? { ...text, citations: own } : text
}

/** The messages whose last one, if it is an answer to continue, ends as the API accepts. The same list if it does. */
function withFittedEnd(messages: readonly MessagesMessage[], target: Target): readonly MessagesMessage[] {
  const last = messages.at(-1)
  if (last?.role !== 'assistant' || profileOf(target).prefill !== 'trimmed') return messages
  const fitted = withTrimmedEnd(last)
  return fitted === last ? messages : [...messages.slice(0, -1), fitted]
}

/** The fields that a lower `max_tokens` changes; undefined removes one. */
function limitsOf(body: MessagesRequest, maxTokens: number): Record<string, unknown> {
  const limits: Record<string, unknown> = { max_tokens: maxTokens }
  const { thinking } = body
  const budget = thinking?.budget_tokens
  if (!thinking || typeof budget !== 'number' || budget < maxTokens) return limits
  if (maxTokens > minBudgetTokens) return { ...limits, thinking: { ...thinking, budget_tokens: maxTokens - 1 } }
  return { ...limits, ...disabledThinking(body) }
}

/** The fields that disable thinking; undefined removes one. */
function disabledThinking({ context_management: management }: MessagesRequest): Record<string, unknown> {
  const thinking = { type: 'disabled' }
  const edits = management?.edits
  const kept = edits?.filter(({ type }) => !type.startsWith('clear_thinking_')) ?? []
  if (!edits || kept.length === edits.length) return { thinking }
  return { thinking, context_management: kept.length > 0 ? { ...management, edits: kept } : undefined }
}

/** Tools that cost nothing beside their tokens; those of the client have no type, or `custom`. */
const freeTools =
  /^(?:custom|(?:bash|text_editor|(?:computer|browser)_toolset|computer|memory|web_fetch|tool_search_tool_\w+?)_\d{8}|tool_search_tool_\w+|mcp_toolset)$/
const webSearch = /^web_search_\d{8}$/

/**
 * Refuses what the provider bills apart from the tokens and the catalog has no price for: tools that the provider runs,
 * and caches of one hour without a price. Searches of the web need a price and a bound, `max_uses`. Throws a GatewayError
 * `unsupported_capability` in the provider's own words, by which clients leave the feature out, or `invalid_request`
 * without the bound.
 */
export function refuseUnpriced({ body, target }: Pick<Call<'messages'>, 'body' | 'target'>): void {
  for (const [index, tool] of (body.tools ?? []).entries()) checkTool(tool, index, target)
  if (maxCacheTtl(target.deployment) !== '1h' && asksFor1hCache(body))
    throw unsupported(
      'cache_control.ttl: this model has no price for caches of one hour. (capability_rejected: cache_control_field)',
      'cache_control.ttl',
    )
}

/**
 * Refuses members that would use the operator's account beyond the tokens: its containers, its tunnels to private
 * servers, other prices. Throws a GatewayError `unsupported_capability` in the provider's own words.
 */
export function refuseMembers(body: MessagesRequest): void {
  for (const [name, member] of messagesMembers)
    if (member.is === 'refused' && asksFor(member, body[name]))
      throw unsupported(`${name}: Extra inputs are not permitted`, name)
  refuseTunnels(body)
}

/** The hosts of tunnels to private MCP servers, each of which belongs to one account of the provider. */
const tunnelHost = /(?:^|\.)tunnel\.anthropic\.com\.?$/i

/**
 * Refuses MCP servers behind a tunnel: the provider leads every request of the operator's account through it
 * (platform.claude.com/docs/en/agents-and-tools/mcp-tunnels/overview).
 */
function refuseTunnels({ mcp_servers: servers }: MessagesRequest): void {
  if (!Array.isArray(servers)) return
  for (const [index, server] of servers.entries()) {
    const url = URL.parse(asText((server as { url?: unknown } | null)?.url))
    const param = `mcp_servers.${index}.url`
    if (url && tunnelHost.test(url.hostname))
      throw unsupported(`${param}: servers behind tunnels of the provider’s account cannot be used`, param)
  }
}

function checkTool({ type, max_uses: max }: MessagesTool, index: number, { deployment }: Target): void {
  if (!type || freeTools.test(type)) return
  if (webSearch.test(type) && hasWebSearchPrice(deployment)) {
    if (max != null && max <= maxWebSearches) return
    const param = `tools.${index}.max_uses`
    const message = `${param}: each web search is charged, so set the most that may be made, from 1 to ${maxWebSearches}.`
    throw new GatewayError('invalid_request', message, { param })
  }
  const message = `tools.${index}: Input tag '${type.slice(0, 100)}' found using 'type' does not match any of the expected tags`
  throw unsupported(message, `tools.${index}.type`)
}

function unsupported(message: string, param: string): GatewayError {
  return new GatewayError('unsupported_capability', message, { param })
}
