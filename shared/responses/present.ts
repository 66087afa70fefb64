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

/** An item of a list: with its id there, and with the type and the parts of a message, which requests may leave out. */
export function shownItem(item: object, id: string): ResponsesItem & { id: string } {
  const { type = 'message', content, role } = item as { type?: string; content?: unknown; role?: string }
  const shown = { ...item, type, id }
  if (type !== 'message' || typeof content !== 'string') return shown as ResponsesItem & { id: string }
  const part =
    role === 'assistant'
      ? { type: 'output_text', text: content, annotations: [], logprobs: [] }
      : { type: 'input_text', text: content }
  return { ...shown, content: [part] } as ResponsesItem & { id: string }
}
