import { isObject } from '../../../base/is-object.ts'
import { type MessagesMessage, mediaSourceOf, visitBlocks } from '../../../kinds/messages.ts'
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
  return media.size === 0 ? messages : (withImages(messages, media) as Messages)
}

function withImages(value: unknown, media: Media): unknown {
  if (Array.isArray(value)) return value.map(one => withImages(one, media))
  if (!isObject(value)) return value
  const { type, source, content } = value
  if (type === 'image' && isObject(source) && source.type === 'url') {
    const fetched = media.get(String(source.url))
    if (!fetched) return value
    const { contentType: media_type, bytes } = fetched
    return { ...value, source: { type: 'base64', media_type, data: bytes.toString('base64') } }
  }
  const inner =
    isObject(source) && source.content ? { source: { ...source, content: withImages(source.content, media) } } : {}
  return { ...value, ...(Array.isArray(content) && { content: withImages(content, media) }), ...inner }
}
