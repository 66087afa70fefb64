import type { ChatMessage } from '../../../kinds/chat.ts'
import type { ReasoningDetail } from '../../../kinds/reasoning.ts'
import type { ResponsesItem, ResponsesPart } from '../../../kinds/responses.ts'
import { unsupported } from '../field-refusals.ts'
import { withReasoning } from './reasoning.ts'

type Message<Role> = Extract<ChatMessage, { role: Role }>
type Call = NonNullable<Message<'assistant'>['tool_calls']>[number]
type UserPart = Exclude<Message<'user'>['content'], string>[number]

/**
 * The messages of a chat request as the items of a Responses request. Calls and results are items of their own, and reasoning
 * stands where the answer had it. Items have no ids: the provider has stored none, and refuses ids that it does not know.
 */
export function inputOf(messages: readonly ChatMessage[]): ResponsesItem[] {
  const customCalls = new Set<string>()
  for (const message of messages)
    if (message.role === 'assistant')
      for (const call of message.tool_calls ?? []) if (call.type === 'custom') customCalls.add(call.id)
  return messages.flatMap((message, index) => itemsOf(message, `messages.${index}`, customCalls))
}

function itemsOf(message: ChatMessage, param: string, customCalls: ReadonlySet<string>): ResponsesItem[] {
  switch (message.role) {
    case 'system':
    case 'developer':
      return [{ type: 'message', role: message.role, content: textsOf(message.content) }]
    case 'user':
      return [{ type: 'message', role: 'user', content: userContent(message.content, `${param}.content`) }]
    case 'assistant':
      return answerItems(message)
    case 'tool': {
      const { tool_call_id: call_id, content } = message
      const type = customCalls.has(call_id) ? 'custom_tool_call_output' : 'function_call_output'
      return [{ type, call_id, output: textsOf(content) }]
    }
    case 'function':
      throw unsupported(`${param}.role`, 'use the role "tool" with a tool_call_id')
  }
}

function textsOf(content: string | readonly { text: string }[]): string | ResponsesPart[] {
  return typeof content === 'string' ? content : content.map(({ text }) => ({ type: 'input_text', text }))
}

function userContent(content: Message<'user'>['content'], param: string): string | ResponsesPart[] {
  return typeof content === 'string' ? content : content.map((part, at) => userPart(part, `${param}.${at}`))
}

function userPart(part: UserPart, param: string): ResponsesPart {
  switch (part.type) {
    case 'text':
      return { type: 'input_text', text: part.text }
    case 'image_url':
      return { type: 'input_image', image_url: part.image_url.url, detail: part.image_url.detail ?? 'auto' }
    case 'file': {
      const { filename, file_data } = part.file
      return { type: 'input_file', ...(filename !== undefined && { filename }), ...(file_data && { file_data }) }
    }
    default:
      throw unsupported(`${param}.type`, 'this model takes texts, images and files only')
  }
}

function answerItems(message: Message<'assistant'>): ResponsesItem[] {
  const calls = (message.tool_calls ?? []).map(callItem)
  const content = answerContent(message)
  // "Missing or dropped phase can cause preambles to be treated as final answers" (https://github.com/openclaw/openclaw/issues/42634).
  const phase = calls.length > 0 ? 'commentary' : 'final_answer'
  const text: ResponsesItem[] = content.length > 0 ? [{ type: 'message', role: 'assistant', content, phase }] : []
  return withReasoning([...text, ...calls], (message.reasoning_details ?? []) as ReasoningDetail[])
}

function answerContent({ content, refusal }: Message<'assistant'>): ResponsesPart[] {
  const parts = typeof content === 'string' ? [{ type: 'text' as const, text: content }] : (content ?? [])
  const texts = parts.flatMap((part): ResponsesPart[] => {
    if (part.type === 'refusal') return [{ type: 'refusal', refusal: part.refusal }]
    return part.text === '' ? [] : [{ type: 'output_text', text: part.text }]
  })
  return refusal ? [...texts, { type: 'refusal', refusal }] : texts
}

function callItem(call: Call): ResponsesItem {
  if (call.type === 'custom') {
    const { name, input } = call.custom
    return { type: 'custom_tool_call', call_id: call.id, name, input }
  }
  const { name, arguments: args } = call.function
  return { type: 'function_call', call_id: call.id, name, arguments: args }
}
