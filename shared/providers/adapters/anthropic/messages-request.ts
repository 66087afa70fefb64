import { GatewayError } from '../../../base/errors.ts'
import { editBody, memberText } from '../../../base/json-member.ts'
import { sellsWebSearches } from '../../../catalog/traits.ts'
import { asksFor1hCache } from '../../../kinds/cache-marks.ts'
import type { MessagesRequest, MessagesTool } from '../../../kinds/messages.ts'
import { maxWebSearches } from '../../../kinds/web-search.ts'
import type { Call, Target } from '../../contract.ts'
import { maxCacheTtl } from '../../toolkit/request-fields.ts'
import { continuesWithoutThinking, cutOwnThinking, type OwnThinking, withoutOwnThinking } from './own-thinking.ts'

/** The gateway's own fields, which the API would refuse. */
const ownMembers = ['mode', 'models', 'provider']
/** The API refuses smaller thinking budgets. */
const minBudgetTokens = 1024

/**
 * The body for the provider: the client's bytes in their order, with the provider's name of the model, without the
 * gateway's own fields and the thinking of other models (`ownThinking`), and, if the call's ceiling is lower, with that
 * as `max_tokens`. A thinking budget has to be below `max_tokens`, so it is lowered with it. Where too little is left,
 * and where a budget requires thinking that was removed, thinking is disabled, and the edit of `context_management` that
 * requires thinking is removed.
 */
export function editedBody(
  { body, raw, target, maxTokens }: Call<'messages'>,
  ownThinking: OwnThinking,
): Buffer | string {
  const changes: Record<string, unknown> = {}
  const { upstream_model: model } = target.deployment
  if (body.model !== model) changes.model = model
  for (const name of ownMembers) if (name in body) changes[name] = undefined
  if (maxTokens !== null && maxTokens < body.max_tokens) Object.assign(changes, limitsOf(body, maxTokens))
  if (body.thinking?.type === 'enabled' && continuesWithoutThinking(body, ownThinking))
    Object.assign(changes, disabledThinking(body))
  if (ownThinking.size > 0) changes.messages = withoutOwnThinking(body.messages, ownThinking)
  const messages = raw && ownThinking.size > 0 ? memberText(raw.toString('latin1'), 'messages') : null
  const cut = messages && cutOwnThinking(messages, ownThinking)
  return editBody(raw, body, changes, new Map(cut ? [['messages', cut]] : []))
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
  /^(?:custom|(?:bash|text_editor|computer|memory|web_fetch|tool_search_tool_\w+?)_\d{8}|tool_search_tool_\w+|mcp_toolset)$/
const webSearch = /^web_search_\d{8}$/

/**
 * Refuses what the provider bills apart from the tokens and the catalog has no price for: tools that the provider runs,
 * faster or regional inference, other models that it falls back to, and caches of one hour without a price. Searches of
 * the web need a price and a bound, `max_uses`. Throws a GatewayError `unsupported_capability` in the provider's own
 * words, by which clients leave the feature out, or `invalid_request` without the bound.
 */
export function refuseUnpriced({ body, target }: Pick<Call<'messages'>, 'body' | 'target'>): void {
  for (const [index, tool] of (body.tools ?? []).entries()) checkTool(tool, index, target)
  for (const [field, allowed] of usualValues) {
    const value = body[field]
    const isUsual = value == null || allowed.includes(value as string) || (Array.isArray(value) && value.length === 0)
    if (!isUsual) throw unsupported(`${field}: Extra inputs are not permitted`, field)
  }
  if (maxCacheTtl(target.deployment) !== '1h' && asksFor1hCache(body))
    throw unsupported(
      'cache_control.ttl: this model has no price for caches of one hour. (capability_rejected: cache_control_field)',
      'cache_control.ttl',
    )
}

/** Fields that change the price of every token or the model, and their values that do not. */
const usualValues: readonly [field: string, allowed: readonly string[]][] = [
  ['speed', ['standard']],
  ['inference_geo', ['global']],
  ['service_tier', ['auto', 'standard_only']],
  ['fallbacks', []],
]

function checkTool({ type, max_uses: max }: MessagesTool, index: number, { deployment }: Target): void {
  if (!type || freeTools.test(type)) return
  if (webSearch.test(type) && sellsWebSearches(deployment)) {
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
