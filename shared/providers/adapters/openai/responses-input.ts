import { GatewayError } from '../../../base/errors.ts'
import { compacts } from '../../../catalog/traits.ts'
import {
  type CompactionItem,
  isCompaction,
  isItem,
  isMessageItem,
  isReference,
  partsOf,
  type ResponsesItem,
  type ResponsesPart,
  type ResponsesRequest,
  unresolvedReference,
} from '../../../kinds/responses.ts'
import { isListedItem } from '../../../kinds/responses-members.ts'
import type { Call } from '../../contract.ts'
import { withFittedItems } from '../../profile/fit-responses.ts'
import { summaryIn } from '../../toolkit/compaction.ts'
import { isEnvelope } from '../../toolkit/reasoning-envelope.ts'
import { sentTools } from './responses-tools.ts'

/** The input that a provider receives, the same value if all may be sent. */
type SentInput = {
  input: ResponsesRequest['input']
  dropped: string[]
  adjusted: string[]
  reasoningSent: boolean
  reasoningDropped: boolean
}

/**
 * Drops reasoning that the provider cannot read: what the gateway has sealed, what the provider has refused, and items
 * that hold no state, which the provider would look for among its stored ones. Who made other state is not known until
 * it is refused. Longer cache lifetimes and tools that the provider runs have no price, so
 * they are dropped as well. Throws a GatewayError `unsupported_capability` for items that may not be sent.
 */
export function inputFor(call: Pick<Call<'responses'>, 'body' | 'target' | 'reasoning'>): SentInput {
  const { target, reasoning } = call
  const { input: given } = call.body
  if (typeof given === 'string')
    return { input: given, dropped: [], adjusted: [], reasoningSent: false, reasoningDropped: false }
  const input = withFittedItems(given, target)
  const sent: ResponsesItem[] = []
  const dropped = new Set<string>()
  const adjusted = new Set<string>()
  let reasoningSent = false
  let reasoningDropped = false
  for (const [index, item] of input.entries()) {
    if (isReference(item)) throw refused(`input.${index}.type`, unresolvedReference)
    if (!isListedItem(item.type)) throw refusedItem(`input.${index}.type`, String(item.type))
    assertOwnTools(item, `input.${index}`)
    if (isItem(item, 'reasoning')) {
      const isSent = isReadable(item.encrypted_content) && !reasoning?.refused
      reasoningSent ||= isSent
      reasoningDropped ||= !isSent && Boolean(item.encrypted_content)
      if (!isSent) continue
    }
    if (isItem(item, 'additional_tools')) {
      const { tools, ...changed } = sentTools(item.tools, target)
      for (const name of changed.dropped) dropped.add(name)
      for (const name of changed.adjusted) adjusted.add(name)
      if (tools.length > 0) sent.push(tools === item.tools ? item : { ...item, tools: [...tools] })
      continue
    }
    sent.push(isCompaction(item) ? sentCompaction(item, index, call) : cleanItem(withoutInternals(item), dropped))
  }
  const isSame = sent.length === input.length && sent.every((item, index) => item === input[index])
  return {
    input: isSame ? (input as ResponsesItem[]) : sent,
    dropped: [...dropped],
    adjusted: [...adjusted],
    reasoningSent,
    reasoningDropped,
  }
}

/** A compaction as the provider can read it: its own, or the text of a summary that the gateway has sealed. */
function sentCompaction(
  item: CompactionItem,
  index: number,
  { target, reasoning }: Pick<Call<'responses'>, 'target' | 'reasoning'>,
): ResponsesItem {
  const { encrypted_content: state } = item
  if (!isEnvelope(state) && compacts(target)) return item.type === 'compaction' ? item : { ...item, type: 'compaction' }
  const text = summaryIn(item, `input.${index}`, { ...(reasoning && { reasoning }) })
  return { type: 'message', role: 'user', content: [{ type: 'input_text', text }] }
}

/**
 * The item without Codex's notes to its own service, which it sends wherever it takes the provider for OpenAI. Others refuse
 * them as an unknown parameter (Wei-Shaw/sub2api#7066), and they tell the model nothing.
 */
function withoutInternals(item: ResponsesItem): ResponsesItem {
  if (!('internal_chat_message_metadata_passthrough' in item)) return item
  const { internal_chat_message_metadata_passthrough: _, ...rest } = item
  return rest as ResponsesItem
}

/** Tools that a search has loaded may be the client's own only: those that the provider runs have no price here. */
function assertOwnTools(item: ResponsesItem, param: string): void {
  if (!isItem(item, 'tool_search_output')) return
  const isOwn = (tool: { type?: unknown; tools?: unknown }): boolean =>
    tool.type === 'function' ||
    tool.type === 'custom' ||
    (tool.type === 'namespace' && Array.isArray(tool.tools) && tool.tools.every(isOwn))
  const at = item.tools.findIndex(tool => !isOwn(tool))
  if (at >= 0) throw refused(`${param}.tools.${at}.type`, 'Only functions and custom tools can be loaded here.')
}

function isReadable(state: string | null | undefined): boolean {
  return Boolean(state) && !isEnvelope(state!)
}

/** The item without what has no price, which is named in `dropped`; the same object if there is nothing such. */
function cleanItem(item: ResponsesItem, dropped: Set<string>): ResponsesItem {
  const name = isMessageItem(item) ? 'content' : 'output'
  const parts = partsOf(item)
  const isList = Array.isArray((item as Record<string, unknown>)[name])
  const cleaned = parts.map(cleanPart)
  if (cleaned.every((part, index) => part === parts[index])) return item
  dropped.add('input.content.prompt_cache_breakpoint.ttl')
  return { ...item, [name]: isList ? cleaned : cleaned[0] }
}

function cleanPart(part: ResponsesPart): ResponsesPart {
  const { prompt_cache_breakpoint: mark } = part as { prompt_cache_breakpoint?: { ttl?: unknown } | null }
  if (mark?.ttl == null) return part
  return { ...part, prompt_cache_breakpoint: { ...mark, ttl: undefined } }
}

function refusedItem(param: string, type: string): GatewayError {
  return refused(param, `Items of the type ${type.slice(0, 100)} are not supported here.`)
}

function refused(param: string, message: string): GatewayError {
  return new GatewayError('unsupported_capability', message, { param })
}
