import type { ChatMessage, ChatRequest } from './chat.ts'

type Assistant = Extract<ChatMessage, { role: 'assistant' }>
type Json = Record<string, unknown>

/**
 * A valid chat request with what it may leave out or say in another way: the `type` of tools and calls, and thinking as
 * parts of an answer's content, which becomes `reasoning_content`. Almost always the same object.
 */
export function completeChat(body: ChatRequest): ChatRequest {
  const { tools, messages } = body
  const completeTools = tools && mapUnlessSame(tools, withType)
  const completeMessages = mapUnlessSame(messages, completeMessage)
  if (completeTools === tools && completeMessages === messages) return body
  return { ...body, messages: completeMessages, ...(completeTools && { tools: completeTools }) }
}

function completeMessage(message: ChatMessage): ChatMessage {
  if (message.role !== 'assistant') return message
  const { tool_calls: calls, content } = message
  const completeCalls = calls && mapUnlessSame(calls, withType)
  const typed = completeCalls === calls ? message : { ...message, tool_calls: completeCalls }
  return Array.isArray(content) && content.some(isThinking) ? withoutThinking(typed) : typed
}

function withType<T extends { type: string }>(entry: T): T {
  return entry.type === undefined ? { ...entry, type: 'function' } : entry
}

function isThinking(part: { type: string }): boolean {
  return part.type === 'thinking'
}

function withoutThinking(message: Assistant): Assistant {
  const parts = message.content as Exclude<Assistant['content'], string | null | undefined>
  const others = parts.filter(part => !isThinking(part))
  const thoughts = parts.filter(isThinking).map(part => thoughtOf(part as unknown as Json))
  const reasoning_content = (message.reasoning_content ?? '') + thoughts.join('')
  return { ...message, content: others.length > 0 ? others : null, reasoning_content }
}

function thoughtOf({ thinking }: Json): string {
  if (typeof thinking === 'string') return thinking
  return (thinking as Json[]).map(({ text }) => (typeof text === 'string' ? text : '')).join('')
}

function mapUnlessSame<T>(list: T[], read: (entry: T) => T): T[] {
  for (let i = 0; i < list.length; i++) if (read(list[i]!) !== list[i]) return list.map(read)
  return list
}
