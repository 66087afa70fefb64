import type { ChatMessage, ChatRequest } from '../../kinds/chat.ts'
import type { Call } from '../contract.ts'

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

/** The call with the bytes of the images that were fetched for it in place of their URLs. */
export function withFetchedImages(call: Call<'chat'>): Call<'chat'> {
  const { media, body } = call
  const inlined = (message: ChatMessage): ChatMessage => {
    if (message.role !== 'user' || typeof message.content === 'string') return message
    const content = message.content.map(part => {
      const fetched = part.type === 'image_url' ? media.get(part.image_url.url) : undefined
      if (part.type !== 'image_url' || !fetched) return part
      const url = `data:${fetched.contentType};base64,${fetched.bytes.toString('base64')}`
      return { ...part, image_url: { ...part.image_url, url } }
    })
    return { ...message, content }
  }
  return { ...call, body: { ...body, messages: body.messages.map(inlined) }, raw: null }
}
