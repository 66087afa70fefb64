import type { ResponsesItem } from '../kinds/responses.ts'
import { listedIds } from './item-ids.ts'
import type { ResponseServices } from './response-services.ts'
import type { ResponseRow } from './stored-responses.ts'

/** A stored response as its client received it. */
export async function presentResponse(
  { storedResponses }: ResponseServices,
  { id, inputCount }: ResponseRow,
): Promise<object> {
  const head = await storedResponses.readHead(id)
  const [items] = await storedResponses.readItems([id])
  return { ...head, output: items!.slice(inputCount) }
}

/** The input items of a stored response, each with its id, or with one by its position if it has none. */
export async function presentInput(
  { storedResponses }: ResponseServices,
  { id, inputCount }: ResponseRow,
): Promise<(ResponsesItem & { id: string })[]> {
  const [items] = (await storedResponses.readItems([id])) as ResponsesItem[][]
  const input = items!.slice(0, inputCount)
  const ids = listedIds(id, input)
  return input.map((item, index) => shownItem(item, ids[index]!))
}

/** Types of items that have a `status` wherever OpenAI returns them, and need none in requests (openai 7, ConversationItem and ResponseItem). */
const typesWithStatus: ReadonlySet<string> = new Set([
  'message',
  'function_call',
  'function_call_output',
  'custom_tool_call',
  'custom_tool_call_output',
  'tool_search_call',
  'tool_search_output',
])

type Item = { type?: string; status?: unknown; role?: string; content?: unknown; output?: unknown }
type Part = { type?: string; annotations?: unknown; logprobs?: unknown; detail?: unknown }

/** An item of a list: with its id there, and with what requests may leave out: its type, its status and members of its parts. */
export function shownItem(item: object, id: string): ResponsesItem & { id: string } {
  const { type = 'message', status, role, content, output } = item as Item
  const textPart = { type: role === 'assistant' ? 'output_text' : 'input_text', text: content }
  return {
    ...item,
    type,
    id,
    ...(typesWithStatus.has(type) && { status: status ?? 'completed' }),
    ...(type === 'message' && { content: shownParts(typeof content === 'string' ? [textPart] : content) }),
    ...(Array.isArray(output) && { output: shownParts(output) }),
  } as ResponsesItem & { id: string }
}

function shownParts(parts: unknown): unknown {
  return Array.isArray(parts) ? parts.map(shownPart) : parts
}

function shownPart(part: Part): Part {
  if (part.type === 'output_text')
    return { ...part, annotations: part.annotations ?? [], logprobs: part.logprobs ?? [] }
  return part.type === 'input_image' ? { ...part, detail: part.detail ?? 'auto' } : part
}
