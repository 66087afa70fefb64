import { type MessagesMessage, mapBlocks, mediaSourceOf, visitBlocks } from '../../../kinds/messages.ts'
import type { Call } from '../../contract.ts'

type Messages = readonly MessagesMessage[]
type Media = Call<'messages'>['media']

/** The http(s) URLs of the images in a conversation, those in results of tools among them. */
export function imageUrlsIn(messages: Messages): string[] {
  const urls: string[] = []
  visitBlocks(messages, block => {
    const media = mediaSourceOf(block)
    if (media?.kind === 'image' && media.type === 'url' && /^https?:/i.test(media.url)) urls.push(media.url)
  })
  return urls
}

/**
 * The messages with the bytes of images that were fetched: "base64 image sources only" at Bedrock and Vertex AI
 * (platform.claude.com/docs/en/build-with-claude/vision). The same list if none were.
 */
export function withFetchedImages(messages: Messages, media: Media): Messages {
  if (media.size === 0) return messages
  return mapBlocks(messages, block => {
    const source = mediaSourceOf(block)
    const fetched = source?.kind === 'image' && source.type === 'url' ? media.get(source.url) : undefined
    if (!fetched) return block
    const { contentType: media_type, bytes } = fetched
    return { ...block, source: { type: 'base64', media_type, data: bytes.toString('base64') } }
  })
}
