import type { DirectAdapter } from '../../contract.ts'
import { imageUrls } from '../../toolkit/image-urls.ts'
import { withReasoningState } from '../../toolkit/reasoning-state.ts'
import { withDropped } from '../../toolkit/request-fields.ts'
import { completionFrom } from './answer.ts'
import { converseRequest } from './request.ts'
import { ConverseDecoder } from './stream.ts'

/** The path of a model's operation. Ids have colons, ARNs slashes. */
export function modelPath(upstreamModel: string, operation: string): string {
  return `/model/${encodeURIComponent(upstreamModel)}/${operation}`
}

/** `POST /model/{modelId}/converse`, and `/converse-stream` for streams. */
export const chat: DirectAdapter<'chat'> = withReasoningState({
  native: false,
  request(call) {
    const { body, dropped, cacheMarked } = converseRequest(call)
    const operation = call.body.stream ? 'converse-stream' : 'converse'
    const request = {
      method: 'POST' as const,
      path: modelPath(call.target.deployment.upstream_model, operation),
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }
    return withDropped(cacheMarked ? { ...request, cacheMarked } : request, dropped)
  },
  // It takes bytes, or files of the account's own storage.
  remoteMedia: imageUrls,
  answer: completionFrom,
  stream: call => new ConverseDecoder(call),
})
