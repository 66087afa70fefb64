import { editBody, memberText } from '../base/json-member.ts'
import { inputItems, type ResponsesItem, type ResponsesRequest } from '../kinds/responses.ts'

/** A request for a response, with the bytes that it was read from. */
export type ResponsesTurn = { body: ResponsesRequest; raw: Buffer }

/**
 * Returns the request with the whole conversation as its `input`: the earlier items, then the new ones. The fields that
 * named the earlier items are removed; all else of the raw body keeps its characters.
 */
export function withContext({ body, raw }: ResponsesTurn, items: readonly ResponsesItem[]): ResponsesTurn {
  // A request to compact was one of its turn, and may only be the last item.
  const earlier = items.filter(({ type }) => type !== 'compaction_trigger')
  const { previous_response_id: _, conversation: __, ...rest } = body
  const input = [...earlier, ...inputItems(body)]
  const removed = { previous_response_id: undefined, conversation: undefined }
  const edited = editBody(raw, body, { ...removed, input }, inputText(body, raw, earlier))
  return { body: { ...rest, input }, raw: typeof edited === 'string' ? Buffer.from(edited) : edited }
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
