import { isDeepStrictEqual } from 'node:util'
import { editBody, memberText } from '../base/json-member.ts'
import {
  inputItems,
  isToolCall,
  isToolOutput,
  type ResponsesItem,
  type ResponsesRequest,
  type ToolCallItem,
  type ToolOutputItem,
} from '../kinds/responses.ts'
import { isListedItem } from '../kinds/responses-members.ts'

/** A request for a response, with the bytes that it was read from. */
export type ResponsesTurn = { body: ResponsesRequest; raw: Buffer }

/**
 * Returns the request with the whole conversation as its `input`: the earlier items, then the new ones. The fields that
 * named the earlier items are removed; all else of the raw body keeps its characters.
 */
export function withContext({ body, raw }: ResponsesTurn, items: readonly ResponsesItem[]): ResponsesTurn {
  // A request to compact was one of its turn, and may only be the last item. What a provider has added to an answer under a type that
  // is not known here cannot be sent: it would end the conversation.
  const earlier = items.filter(({ type }) => type !== 'compaction_trigger' && isListedItem(type))
  const { previous_response_id: _, conversation: __, ...rest } = body
  const input = [...earlier, ...inputItems(body)]
  const removed = { previous_response_id: undefined, conversation: undefined }
  const edited = editBody(raw, body, { ...removed, input }, inputText(body, raw, earlier))
  return { body: { ...rest, input }, raw: typeof edited === 'string' ? Buffer.from(edited) : edited }
}

/**
 * Returns the request without what it repeats of the earlier items: LiveKit sends a call again with its output (livekit/agents#5136),
 * the agents of Semantic Kernel the outputs of earlier rounds. OpenAI takes both; other dialects have one output for each call.
 */
export function withoutRepeats({ body, raw }: ResponsesTurn, earlier: readonly ResponsesItem[]): ResponsesTurn {
  const items = inputItems(body)
  if (!items.some(item => isToolCall(item) || isToolOutput(item))) return { body, raw }
  const last = new Map<string, Exchange>()
  for (const item of earlier)
    if (isToolCall(item)) last.set(item.call_id, { call: item, output: null })
    else if (isToolOutput(item) && last.has(item.call_id)) last.get(item.call_id)!.output = item
  const input = items.filter(item => {
    if (!isToolCall(item) && !isToolOutput(item)) return true
    const exchange = last.get(item.call_id)
    if (exchange && isRepeat(item, exchange)) return false
    // What comes after a new call or output of this id belongs to that.
    last.delete(item.call_id)
    return true
  })
  if (input.length === items.length) return { body, raw }
  return { body: { ...body, input }, raw: Buffer.from(editBody(raw, body, { input })) }
}

/** The last call of an id among the earlier items, and its output, if that is there as well. */
type Exchange = { call: ToolCallItem; output: ToolOutputItem | null }

/** Whether an item is a call that waits for its output, or the output that a call has. */
function isRepeat(item: ToolCallItem | ToolOutputItem, { call, output }: Exchange): boolean {
  if (isToolOutput(item)) return output?.type === item.type && isDeepStrictEqual(output.output, item.output)
  return output === null && call.name === item.name && argumentsOf(call) === argumentsOf(item)
}

function argumentsOf(call: ToolCallItem): string {
  return call.type === 'function_call' ? call.arguments : call.input
}

/** The new value of `input`, with the new items as the client wrote them. */
function inputText(
  { input }: ResponsesRequest,
  raw: Buffer,
  earlier: readonly ResponsesItem[],
): ReadonlyMap<string, string> {
  const hasItems = typeof input !== 'string' && input.length > 0
  const written = hasItems ? memberText(raw.toString('latin1'), 'input') : null
  if (written === null) return new Map()
  const before = Buffer.from(JSON.stringify(earlier).slice(1, -1)).toString('latin1')
  const items = written.slice(1)
  return new Map([['input', before === '' ? written : `[${before},${items}`]])
}
