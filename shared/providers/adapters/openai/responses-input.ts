import { GatewayError } from '../../../base/errors.ts'
import {
  imageOf,
  isItem,
  isMessageItem,
  isPart,
  partsOf,
  type ResponsesItem,
  type ResponsesPart,
  type ResponsesRequest,
} from '../../../kinds/responses.ts'
import { isEnvelope } from '../../toolkit/reasoning-envelope.ts'

/** The input that a provider receives, the same value if all may be sent. */
type SentInput = { input: ResponsesRequest['input']; dropped: string[]; reasoningDropped: boolean }

/**
 * The items that may be sent: they hold only what the client itself sent. Others add tools, or refer to what is stored
 * in the operator's account.
 */
const knownItems: ReadonlySet<string> = new Set(
  `function_call function_call_output custom_tool_call custom_tool_call_output reasoning compaction
   web_search_call file_search_call image_generation_call code_interpreter_call computer_call computer_call_output
   local_shell_call local_shell_call_output shell_call shell_call_output apply_patch_call apply_patch_call_output
   mcp_list_tools mcp_approval_request mcp_approval_response mcp_call tool_search_call`.split(/\s+/),
)

/**
 * Drops reasoning that the provider cannot read: that of another provider, and items that hold no state, which the
 * provider would look for among its stored ones. Longer cache lifetimes have no price, so they are dropped as well.
 * Throws a GatewayError `unsupported_capability` for items and files that are stored at the provider.
 */
export function inputFor({ input }: ResponsesRequest): SentInput {
  if (typeof input === 'string') return { input, dropped: [], reasoningDropped: false }
  const sent: ResponsesItem[] = []
  let reasoningDropped = false
  let shortensCache = false
  for (const [index, item] of input.entries()) {
    const path = `input.${index}`
    if (!isMessageItem(item) && !knownItems.has(item.type)) throw refusedItem(`${path}.type`, item.type)
    if (isItem(item, 'reasoning') && !isReadable(item.encrypted_content)) {
      reasoningDropped ||= Boolean(item.encrypted_content)
      continue
    }
    const cleaned = cleanItem(item, path)
    shortensCache ||= cleaned !== item
    sent.push(cleaned)
  }
  const dropped = shortensCache ? ['input.content.prompt_cache_breakpoint.ttl'] : []
  const isSame = !shortensCache && sent.length === input.length
  return { input: isSame ? input : sent, dropped, reasoningDropped }
}

function isReadable(state: string | null | undefined): boolean {
  return Boolean(state) && !isEnvelope(state!)
}

/** The item without what has no price; the same object if there is nothing such. */
function cleanItem(item: ResponsesItem, path: string): ResponsesItem {
  const name = isMessageItem(item) ? 'content' : 'output'
  const parts = partsOf(item)
  const isList = Array.isArray((item as Record<string, unknown>)[name])
  const cleaned = parts.map((part, index) => cleanPart(part, `${path}.${name}${isList ? `.${index}` : ''}`))
  if (cleaned.every((part, index) => part === parts[index])) return item
  return { ...item, [name]: isList ? cleaned : cleaned[0] }
}

function cleanPart(part: ResponsesPart, path: string): ResponsesPart {
  if (imageOf(part)?.fileId || (isPart(part, 'input_file') && part.file_id))
    throw refused(`${path}.file_id`, 'Files by id are not supported here.')
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
