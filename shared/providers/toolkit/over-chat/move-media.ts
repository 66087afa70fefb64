import type { ChatMessage, ChatRequest } from '../../../kinds/chat.ts'
import { resultParts, textParts, toolText, type UserPart } from './user-parts.ts'

type ToolMessage = Extract<ChatMessage, { role: 'tool' }>

/**
 * The request with the images and files of tool messages in the user message after them, as the translations of Messages
 * and Responses have them: OpenAI's chat completions and most servers take only text in a tool message. Almost always the
 * same object.
 */
export function withMovedMedia(body: ChatRequest): ChatRequest {
  if (!body.messages.some(message => mediaOf(message).length > 0)) return body
  const messages: ChatMessage[] = []
  const names = new Map<string, string>()
  let waiting: UserPart[] = []
  const pushWaiting = () => {
    if (waiting.length > 0) messages.push({ role: 'user', content: waiting })
    waiting = []
  }
  for (const message of body.messages) {
    if (message.role === 'tool') {
      const { tool_call_id: id } = message
      const media = mediaOf(message)
      messages.push(media.length > 0 ? { ...message, content: textOf(message, media) } : message)
      waiting.push(...resultParts({ id, name: names.get(id) ?? 'the tool' }, media))
    } else if (message.role === 'user' && waiting.length > 0) {
      const { content } = message
      messages.push({
        ...message,
        content: [...waiting, ...(typeof content === 'string' ? textParts(content) : content)],
      })
      waiting = []
    } else {
      pushWaiting()
      messages.push(message)
    }
    if (message.role === 'assistant')
      for (const call of message.tool_calls ?? [])
        names.set(call.id, call.type === 'custom' ? call.custom.name : call.function.name)
  }
  pushWaiting()
  return { ...body, messages }
}

function partsOf({ content }: ToolMessage): readonly UserPart[] {
  return typeof content === 'string' ? [] : content
}

function mediaOf(message: ChatMessage): UserPart[] {
  return message.role === 'tool' ? partsOf(message).filter(({ type }) => type !== 'text') : []
}

/** What stays in the tool message. */
function textOf(message: ToolMessage, media: readonly UserPart[]): ToolMessage['content'] {
  const texts = partsOf(message).filter(part => part.type === 'text')
  return texts.length > 0 ? texts : toolText('', media)
}
