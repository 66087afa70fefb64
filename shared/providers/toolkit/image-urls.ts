import type { ChatRequest } from '../../kinds/chat.ts'

/** The http(s) URLs of the images in a conversation, as often as they are named. */
export function imageUrls({ messages }: Pick<ChatRequest, 'messages'>): string[] {
  const urls: string[] = []
  for (const message of messages) {
    if (message.role !== 'user' || typeof message.content === 'string') continue
    for (const part of message.content)
      if (part.type === 'image_url' && /^https?:/i.test(part.image_url.url)) urls.push(part.image_url.url)
  }
  return urls
}
