import type { ReasoningDetail } from '../../../kinds/reasoning.ts'
import type { ResponsesItem } from '../../../kinds/responses.ts'

/** OpenRouter's name of the format. */
const format = 'openai-responses-v1'

/** A part of the summary of a reasoning item; `index`: the place of the item in the output. */
export function summaryDetail(index: number, summary: string): ReasoningDetail {
  return { type: 'reasoning.summary', summary, format, index }
}

/** The state of a reasoning item. */
export function stateDetail(index: number, data: string): ReasoningDetail {
  return { type: 'reasoning.encrypted', data, format, index }
}

/**
 * The items of an answer with its reasoning at the places that it had in the output; before them where these are not known, as
 * in other formats. It is never last: "reasoning was provided without its required following item". The
 * summary is for readers only, and an id would be looked for among stored items (LiteLLM 1.110.2,
 * `_reasoning_item_to_response_input`: the state is "verified on its own").
 */
export function withReasoning(items: ResponsesItem[], details: readonly ReasoningDetail[]): ResponsesItem[] {
  const states = details.filter(({ data }) => data)
  if (items.length === 0 || states.length === 0) return items
  const placed = [...items]
  for (const [position, detail] of states.entries()) {
    const isPlaced = detail.format === format && Number.isSafeInteger(detail.index) && detail.index! >= 0
    const at = Math.min(isPlaced ? detail.index! : position, placed.length - 1)
    placed.splice(at, 0, { type: 'reasoning', summary: [], encrypted_content: detail.data! })
  }
  return placed
}
