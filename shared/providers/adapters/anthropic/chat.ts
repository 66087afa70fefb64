import { profileOf } from '../../../catalog/traits.ts'
import { asksFor1hCache } from '../../../kinds/cache-marks.ts'
import type { DirectAdapter } from '../../contract.ts'
import { imageUrls } from '../../toolkit/image-urls.ts'
import { withReasoningState } from '../../toolkit/reasoning-state.ts'
import { withDropped } from '../../toolkit/request-fields.ts'
import { completionFrom } from './answer.ts'
import { messagesRequest } from './request.ts'
import { MessageDecoder } from './stream.ts'

/** The version that still accepts sampling parameters; newer ones reject them for every model. */
export const version = { 'anthropic-version': '2023-06-01' }

/** `POST /v1/messages`. */
export const chat: DirectAdapter<'chat'> = withReasoningState({
  native: false,
  request(call) {
    const { body, dropped, cacheMarked } = messagesRequest(call)
    const headers = { 'content-type': 'application/json', ...version }
    const request = { method: 'POST' as const, path: '/v1/messages', headers, body: JSON.stringify(body) }
    return withDropped(cacheMarked ? { ...request, cacheMarked } : request, dropped)
  },
  // It fetches images itself, but by https only.
  remoteMedia: (body, target) => imageUrls(body).filter(url => !profileOf(target).image_urls || /^http:/i.test(url)),
  answer: (json, { body }) => completionFrom(json, asksFor1hCache(body)),
  stream: ({ body }) => new MessageDecoder(asksFor1hCache(body)),
})
