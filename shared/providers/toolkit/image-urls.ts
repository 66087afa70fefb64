import type { ChatRequest } from '../../kinds/chat.ts'

/** The distinct http(s) URLs of the images in a conversation. */
export function imageUrls({ messages }: Pick<ChatRequest, 'messages'>): string[] {
  const urls = new Set<string>()
  for (const message of messages) {
    if (message.role !== 'user' || typeof message.content === 'string') continue
    for (const part of message.content)
      if (part.type === 'image_url' && /^https?:/i.test(part.image_url.url)) urls.add(part.image_url.url)
  }
  return [...urls]
}
