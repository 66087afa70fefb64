import { imageTokens } from '../../../catalog/image-tokens.ts'
import type { ChatMessage, ChatRequest } from '../../../kinds/chat.ts'

const bytesPerToken = 4
/** A page of a PDF has far fewer tokens than its bytes in base64. */
const documentCharactersPerToken = 32

/** The prompt tokens that a stream states before the provider has counted them. */
export function estimateTokens({ messages, tools }: ChatRequest): number {
  const toolTokens = tools ? textTokens(JSON.stringify(tools)) : 0
  return Math.ceil(messages.reduce((sum, message) => sum + messageTokens(message), toolTokens))
}

function messageTokens(message: ChatMessage): number {
  const calls = message.role === 'assistant' && message.tool_calls ? textTokens(JSON.stringify(message.tool_calls)) : 0
  const { content } = message
  const parts = typeof content === 'string' ? [{ type: 'text' as const, text: content }] : (content ?? [])
  return parts.reduce((sum, part) => sum + partTokens(part), calls)
}

type Part = Exclude<ChatMessage['content'], string | null | undefined>[number]

function partTokens(part: Part): number {
  switch (part.type) {
    case 'text':
      return textTokens(part.text)
    case 'image_url':
      return imageTokens.inputEstimate
    case 'file':
      return (part.file.file_data?.length ?? 0) / documentCharactersPerToken
    default:
      return 0
  }
}

/** A fraction of a token for short texts, so that pieces can be added. */
export function textTokens(text: string): number {
  return Buffer.byteLength(text) / bytesPerToken
}
