import type { DirectKind } from '../kinds/index.ts'
import type { ChatFormat } from './chat-format.ts'
import { chatFormat, completionFormat, embeddingFormat } from './choices-format.ts'
import { generateContentFormat } from './generate-content-format.ts'
import { messagesFormat } from './messages-format.ts'
import { responsesFormat } from './responses-format.ts'

/** The dialects of the API, by the kind of their requests. */
export const chatFormats: { readonly [K in DirectKind]: ChatFormat<K> } = {
  chat: chatFormat,
  completion: completionFormat,
  embedding: embeddingFormat,
  messages: messagesFormat,
  responses: responsesFormat,
  generate_content: generateContentFormat,
}

/** The dialect of a kind that is known only as one of several. */
export function chatFormatOf<K extends DirectKind>(kind: K): ChatFormat<K> {
  return chatFormats[kind]
}
