import { GatewayError } from '../../../base/errors.ts'
import {
  isItem,
  isMessageItem,
  partsOf,
  type ResponsesItem,
  type ResponsesPart,
  type ResponsesRequest,
} from '../../../kinds/responses.ts'
import { isListedItem } from '../../../kinds/responses-members.ts'
import type { Target } from '../../contract.ts'
import { withFittedCallIds } from '../../profile/fit-responses.ts'
import { isEnvelope } from '../../toolkit/reasoning-envelope.ts'

/** The input that a provider receives, the same value if all may be sent. */
type SentInput = { input: ResponsesRequest['input']; dropped: string[]; reasoningDropped: boolean }

/**
 * Drops reasoning that the provider cannot read: that of another provider, and items that hold no state, which the
 * provider would look for among its stored ones. Longer cache lifetimes have no price, so they are dropped as well.
 * Throws a GatewayError `unsupported_capability` for items that may not be sent.
 */
export function inputFor({ input: given }: ResponsesRequest, target: Target): SentInput {
  if (typeof given === 'string') return { input: given, dropped: [], reasoningDropped: false }
  const input = withFittedCallIds(given, target)
  const sent: ResponsesItem[] = []
  let reasoningDropped = false
  let shortensCache = false
  for (const [index, item] of input.entries()) {
    if (!isListedItem(item.type)) throw refusedItem(`input.${index}.type`, String(item.type))
    assertOwnTools(item, `input.${index}`)
    if (isItem(item, 'reasoning') && !isReadable(item.encrypted_content)) {
      reasoningDropped ||= Boolean(item.encrypted_content)
      continue
    }
    const cleaned = cleanItem(item)
    shortensCache ||= cleaned !== item
    sent.push(cleaned)
  }
  const dropped = shortensCache ? ['input.content.prompt_cache_breakpoint.ttl'] : []
  const isSame = !shortensCache && sent.length === input.length
  return { input: isSame ? (input as ResponsesItem[]) : sent, dropped, reasoningDropped }
}

/** Tools that a search has loaded may be the client's own only: those that the provider runs have no price here. */
function assertOwnTools(item: ResponsesItem, param: string): void {
  const { type, tools } = item as { type?: unknown; tools?: unknown }
  if (type !== 'tool_search_output' || !Array.isArray(tools)) return
  const isOwn = (tool: { type?: unknown; tools?: unknown }): boolean =>
    tool.type === 'function' ||
    tool.type === 'custom' ||
    (tool.type === 'namespace' && Array.isArray(tool.tools) && tool.tools.every(isOwn))
  const at = tools.findIndex(tool => !isOwn(tool ?? {}))
  if (at >= 0) throw refused(`${param}.tools.${at}.type`, 'Only functions and custom tools can be loaded here.')
}

function isReadable(state: string | null | undefined): boolean {
  return Boolean(state) && !isEnvelope(state!)
}

/** The item without what has no price; the same object if there is nothing such. */
function cleanItem(item: ResponsesItem): ResponsesItem {
  const name = isMessageItem(item) ? 'content' : 'output'
  const parts = partsOf(item)
  const isList = Array.isArray((item as Record<string, unknown>)[name])
  const cleaned = parts.map(cleanPart)
  if (cleaned.every((part, index) => part === parts[index])) return item
  return { ...item, [name]: isList ? cleaned : cleaned[0] }
}

function cleanPart(part: ResponsesPart): ResponsesPart {
  const { prompt_cache_breakpoint: mark } = part as { prompt_cache_breakpoint?: { ttl?: unknown } | null }
  if (mark?.ttl == null) return part
  return { ...part, prompt_cache_breakpoint: { ...mark, ttl: undefined } }
}

function refusedItem(param: string, type: string): GatewayError {
  if (type === 'item_reference')
    return refused(param, 'Items are not stored: send the item itself instead of a reference.')
  return refused(param, `Items of the type ${type.slice(0, 100)} are not supported here.`)
}

function refused(param: string, message: string): GatewayError {
  return new GatewayError('unsupported_capability', message, { param })
}
