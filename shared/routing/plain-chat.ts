import type { ChatRequest } from '../kinds/chat.ts'
import { ownFields } from '../providers/toolkit/request-fields.ts'

type Message = ChatRequest['messages'][number]

/** The fields that every dialect has, or may leave out. */
const plainFields: ReadonlySet<string> = new Set([
  ...ownFields,
  ...['model', 'messages', 'stream', 'stream_options', 'max_tokens', 'max_completion_tokens', 'stop', 'user'],
  ...['temperature', 'top_p', 'tools', 'tool_choice', 'parallel_tool_calls'],
])
/** The least of the providers' limits. */
const maxTools = 128
const plainMessageFields: ReadonlySet<string> = new Set(['role', 'content', 'name', 'tool_calls', 'tool_call_id'])

/**
 * Whether a chat request has only what every dialect can express: text, functions that the model may call, and the usual
 * settings. Most requests do, so that `auto` need not translate them to find out.
 */
export function isPlainChat(body: ChatRequest): boolean {
  for (const field in body) if (!plainFields.has(field)) return false
  const { tools, tool_choice: choice, messages } = body
  if (choice !== undefined && choice !== 'auto' && choice !== 'none') return false
  if (tools && tools.length > maxTools) return false
  // Not every model continues an answer.
  if (messages.at(-1)!.role === 'assistant') return false
  return (tools?.every(isFunction) ?? true) && messages.every(isPlainMessage)
}

function isPlainMessage(message: Message): boolean {
  for (const field in message) if (!plainMessageFields.has(field)) return false
  if (message.role === 'function') return false
  if (message.role === 'assistant' && message.tool_calls?.every(isFunction) === false) return false
  const { content } = message
  return typeof content === 'string' || content == null || content.every(part => part.type === 'text')
}

function isFunction({ type }: { type: string }): boolean {
  return type === 'function'
}
