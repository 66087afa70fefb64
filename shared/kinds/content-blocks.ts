import { isObject } from '../base/is-object.ts'

type Message = Record<string, unknown>

/**
 * A chat request with the blocks of Anthropic's Messages in its messages, in the form of chat. Cursor sends them to
 * `/v1/chat/completions` for Claude models, with tools that have an `input_schema` (automazeio/vibeproxy#411,
 * router-for-me/CLIProxyAPI#1165). What is no such block stays, to be validated.
 */
export function withoutBlocks(body: Message): Message {
  const { messages } = body
  return Array.isArray(messages) ? { ...body, messages: messages.flatMap(chatMessages) } : body
}

function chatMessages(message: unknown): unknown[] {
  if (!isObject(message) || !Array.isArray(message.content)) return [message]
  const blocks: unknown[] = message.content
  if (message.role === 'assistant') return [withCalls(message, blocks)]
  if (message.role !== 'user') return [message]
  const others = blocks.filter(block => !isBlock(block, 'tool_result')).map(chatPart)
  const results = blocks.filter(block => isBlock(block, 'tool_result')).map(toolMessage)
  return others.length > 0 || results.length === 0 ? [...results, { ...message, content: others }] : results
}

/** An assistant's message with its blocks `tool_use` as calls. */
function withCalls(message: Message, blocks: readonly unknown[]): Message {
  const uses = blocks.filter(block => isBlock(block, 'tool_use'))
  if (uses.length === 0) return message
  const calls = uses.map(({ id, name, input }) => {
    return { id, type: 'function', function: { name, arguments: JSON.stringify(input ?? {}) } }
  })
  const others = blocks.filter(block => !isBlock(block, 'tool_use'))
  return { ...message, content: others.length > 0 ? others : null, tool_calls: calls }
}

function toolMessage({ tool_use_id, content, is_error: isError, cache_control }: Message): Message {
  const given = Array.isArray(content) && content.length > 0 ? content.map(chatPart) : (content ?? '')
  const text = Array.isArray(given) && given.length === 0 ? '' : given
  const shown = isError === true && typeof text === 'string' ? `Error: ${text}` : text
  return { role: 'tool', tool_call_id: tool_use_id, content: shown, ...(cache_control != null && { cache_control }) }
}

/** An image as a part of chat. */
function chatPart(block: unknown): unknown {
  if (!isBlock(block, 'image') || !isObject(block.source)) return block
  const { type: _, source, ...rest } = block
  const url = urlOf(source as Message)
  return url === null ? block : { ...rest, type: 'image_url', image_url: { url } }
}

function urlOf({ type, url, media_type: mediaType, data }: Message): string | null {
  if (type === 'url') return typeof url === 'string' ? url : null
  return typeof mediaType === 'string' && typeof data === 'string' ? `data:${mediaType};base64,${data}` : null
}

function isBlock(block: unknown, type: string): block is Message {
  return isObject(block) && block.type === type
}
