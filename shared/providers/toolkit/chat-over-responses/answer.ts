import { isObject } from '../../../base/is-object.ts'
import { createdAt } from '../../../base/time.ts'
import type { Usage } from '../../../base/usage.ts'
import type { ChatCompletion, FinishReason, ToolCall } from '../../../kinds/chat.ts'
import type { ReasoningDetail } from '../../../kinds/reasoning.ts'
import type { ResponsesObject, ResponsesOutputItem } from '../../../kinds/responses-answer.ts'
import { invalidResponse, textIn } from '../json-fields.ts'
import { stateDetail, summaryDetail } from './reasoning.ts'

type Item<Type> = Extract<ResponsesOutputItem, { type: Type }>
type Summary = Item<'reasoning'>['summary']

/** A complete response as a chat completion. */
export function toCompletion(response: ResponsesObject, usage: Usage | undefined): ChatCompletion {
  const { id, created_at: created, model, output } = response
  const said = output.map(textsOfItem)
  const text = said
    .map(one => one.text)
    .filter(Boolean)
    .join(messageBreak)
  const refusal = said.map(one => one.refusal).join('')
  const calls = output.flatMap(item => (isCall(item) ? toolCall(item) : []))
  const thoughts = output.map(item => (item.type === 'reasoning' ? summaryOf(item.summary) : '')).filter(Boolean)
  const details = output.flatMap(reasoningDetails)
  return {
    id,
    object: 'chat.completion',
    created: createdAt(created),
    model,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: text === '' ? null : text,
          refusal: refusal === '' ? null : refusal,
          ...(thoughts.length > 0 && { reasoning_content: thoughts.join(summaryBreak) }),
          ...(details.length > 0 && { reasoning_details: details }),
          ...(calls.length > 0 && { tool_calls: calls }),
        },
        logprobs: null,
        finish_reason: finishOf(response, calls.length > 0),
      },
    ],
    ...(usage && { usage }),
  }
}

/** The text and the refusal of a message; '' of other items. */
export function textsOfItem(item: ResponsesOutputItem): { text: string; refusal: string } {
  const parts = item.type === 'message' && Array.isArray(item.content) ? item.content.filter(isObject) : []
  const text = parts.map(part => (part.type === 'output_text' ? textIn(part.text, 'a text') : '')).join('')
  const refusal = parts.map(part => (part.type === 'refusal' ? textIn(part.refusal, 'a refusal') : '')).join('')
  return { text, refusal }
}

/** What stands between two messages of an answer, such as the commentary and the final answer of GPT (microsoft/vscode#312163). */
export const messageBreak = '\n\n'

/** What stands between the parts of a summary. */
export const summaryBreak = '\n\n'

/** How an answer ended, in the words of chat. */
export function finishOf({ status, incomplete_details: details }: ResponsesObject, hasCalls: boolean): FinishReason {
  if (status === 'incomplete') return details?.reason === 'content_filter' ? 'content_filter' : 'length'
  return hasCalls ? 'tool_calls' : 'stop'
}

export type CallItem = Item<'function_call'> | Item<'custom_tool_call'>

/** Whether an item is a call of a tool that the client runs. Throws a ProviderError for one without its id or name. */
export function isCall(item: ResponsesOutputItem): item is CallItem {
  if (item.type !== 'function_call' && item.type !== 'custom_tool_call') return false
  if (typeof item.call_id !== 'string' || typeof item.name !== 'string')
    throw invalidResponse('a call has no id or name')
  return true
}

/** What a call is given: JSON, or the text of a custom tool. */
export function argumentsOf(item: CallItem): string {
  const text = item.type === 'custom_tool_call' ? item.input : item.arguments || '{}'
  return typeof text === 'string' ? text : ''
}

function toolCall(item: CallItem): ToolCall {
  const { call_id: id, name } = item
  if (item.type === 'function_call') return { id, type: 'function', function: { name, arguments: argumentsOf(item) } }
  return { id, type: 'custom', custom: { name, input: argumentsOf(item) } } as unknown as ToolCall
}

function reasoningDetails(item: ResponsesOutputItem, index: number): ReasoningDetail[] {
  if (item.type !== 'reasoning') return []
  const summary = summaryOf(item.summary)
  const state = stateOf(item)
  return [
    ...(summary === '' ? [] : [summaryDetail(index, summary)]),
    ...(state === null ? [] : [stateDetail(index, state)]),
  ]
}

/** The encrypted reasoning of an item; null where there is none. */
export function stateOf(item: ResponsesOutputItem): string | null {
  const state = item.type === 'reasoning' ? item.encrypted_content : null
  return typeof state === 'string' && state !== '' ? state : null
}

function summaryOf(summary: Summary | null | undefined): string {
  return Array.isArray(summary) ? summary.map(part => textIn(part?.text, 'a summary')).join(summaryBreak) : ''
}
