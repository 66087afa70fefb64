import type { ChatMessage } from '../kinds/chat.ts'

/** Messages and parts of a message that are searched, from the end. */
const maxSearched = 50
/** Characters that are kept from either end of a text. */
const window = 1_000

/**
 * The beginning and the end of the last user message that has text; '' if there is none among the last messages. In an
 * agent's conversation it is the task, which results of tools follow.
 */
export function lastTextOf(messages: readonly ChatMessage[]): string {
  const first = Math.max(0, messages.length - maxSearched)
  for (let index = messages.length - 1; index >= first; index--) {
    const message = messages[index]!
    if (message.role !== 'user') continue
    const text = textOf(message.content)
    if (text !== '') return text.length > 2 * window ? `${text.slice(0, window)}\n${text.slice(-window)}` : text
  }
  return ''
}

function textOf(content: Extract<ChatMessage, { role: 'user' }>['content']): string {
  if (typeof content === 'string') return content
  return content
    .slice(-maxSearched)
    .flatMap(part => (part.type === 'text' ? part.text : []))
    .join('\n')
}
