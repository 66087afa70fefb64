import type { ChatRequest } from '../../../kinds/chat.ts'
import type { DirectKind } from '../../../kinds/index.ts'
import type { Call, DirectAdapter, Target } from '../../contract.ts'

/** The chat call of a call in another format, translated once for `request`, `answer` and `stream` together. */
export function chatCalls<K extends DirectKind>(
  translate: (call: Call<K>) => ChatRequest,
): (call: Call<K>) => Call<'chat'> {
  const translations = new WeakMap<Call<K>, Call<'chat'>>()
  return call => {
    let translated = translations.get(call)
    if (!translated) {
      translated = { ...call, body: translate(call), raw: null }
      translations.set(call, translated)
    }
    return translated
  }
}

/** The URLs among those of some images that a chat provider needs as bytes. */
export function remoteImages(
  chat: DirectAdapter<'chat'>,
  model: string,
  urls: readonly string[],
  target: Target,
): string[] {
  if (urls.length === 0) return []
  const content = urls.map(url => ({ type: 'image_url' as const, image_url: { url } }))
  return chat.remoteMedia?.({ model, messages: [{ role: 'user', content }] }, target) ?? []
}
