import { examineImage } from '../io/images.ts'
import { ProviderError } from '../providers/contract.ts'

type Message = Record<string, unknown>
type Answer = { choices?: unknown }

/** Whether an answer has images. */
export function hasImages({ choices }: Answer): boolean {
  if (!Array.isArray(choices)) return false
  for (const { message } of choices) if (Array.isArray(message?.images) && message.images.length > 0) return true
  return false
}

/**
 * Takes images that cannot be decoded out of a whole answer; gives how many they were. Throws a ProviderError
 * `invalid_response` when they were all there was.
 */
export async function dropBroken(answer: Answer): Promise<number> {
  let lost = 0
  for (const message of messagesOf(answer)) {
    if (!Array.isArray(message.images)) continue
    const { images } = message
    const verdicts = await Promise.all(images.map(isDecodable))
    const good = images.filter((_, i) => verdicts[i])
    lost += images.length - good.length
    if (good.length > 0) message.images = good
    else delete message.images
  }
  if (lost > 0 && !messagesOf(answer).some(saysSomething))
    throw new ProviderError('invalid_response', 'No image of the provider’s answer can be decoded.')
  return lost
}

const dataUri = /^data:[^,]{0,200};base64,/

/** Whether an image of an answer is one; never rejects. What is behind another address than a `data:` URI is not looked at. */
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

/** Thoughts about an image that is not there are none. */
function saysSomething({ content, refusal, tool_calls, audio, images }: Message): boolean {
  return Boolean(content || refusal || images || audio) || (Array.isArray(tool_calls) && tool_calls.length > 0)
}
