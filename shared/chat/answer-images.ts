import { examineImage } from '../io/media/images.ts'
import { ProviderError } from '../providers/provider-error.ts'

type Message = Record<string, unknown>
type Answer = { choices?: unknown }

/** Whether an answer has images. */
export function hasImages({ choices }: Answer): boolean {
  if (!Array.isArray(choices)) return false
  for (const { message } of choices) if (Array.isArray(message?.images) && message.images.length > 0) return true
  return false
}

/**
 * Removes undecodable images from a complete answer and returns their number. Throws a ProviderError `invalid_response`
 * when nothing else was in the answer.
 */
export async function dropUndecodableImages(answer: Answer): Promise<number> {
  let lostCount = 0
  for (const message of messagesOf(answer)) {
    if (!Array.isArray(message.images)) continue
    const { images } = message
    const verdicts = await Promise.all(images.map(isDecodable))
    const decodable = images.filter((_, i) => verdicts[i])
    lostCount += images.length - decodable.length
    if (decodable.length > 0) message.images = decodable
    else delete message.images
  }
  if (lostCount > 0 && !messagesOf(answer).some(hasContent))
    throw new ProviderError('invalid_response', 'No image of the provider’s answer can be decoded.')
  return lostCount
}

const dataUri = /^data:[^,]{0,200};base64,/

/** Whether an image of an answer is valid; never rejects. URLs other than `data:` URIs are not fetched. */
export async function isDecodable(image: unknown): Promise<boolean> {
  const { url } = ((image as { image_url?: unknown } | null)?.image_url ?? {}) as { url?: unknown }
  if (typeof url !== 'string') return false
  if (!url.startsWith('data:')) return URL.canParse(url)
  const [head] = dataUri.exec(url) ?? []
  if (head === undefined) return false
  const facts = await examineImage(Buffer.from(url.slice(head.length), 'base64')).catch(() => null)
  return facts !== null
}

function messagesOf({ choices }: Answer): Message[] {
  return Array.isArray(choices) ? choices.flatMap(choice => choice.message ?? []) : []
}

/** Reasoning alone does not count as content. */
function hasContent({ content, refusal, tool_calls, audio, images }: Message): boolean {
  return Boolean(content || refusal || images || audio) || (Array.isArray(tool_calls) && tool_calls.length > 0)
}
