import type { DirectAdapter } from '../contract.ts'
import { withDropped } from '../request-fields.ts'
import { completionFrom } from './answer.ts'
import { messagesRequest } from './request.ts'
import { MessageDecoder } from './stream.ts'

/** The version that still takes sampling parameters; newer ones refuse them for every model. */
export const version = { 'anthropic-version': '2023-06-01' }

/** `POST /v1/messages`. */
export const chat: DirectAdapter<'chat'> = {
  native: false,
  request(call) {
    const { body, dropped } = messagesRequest(call)
    const headers = { 'content-type': 'application/json', ...version }
    return withDropped({ method: 'POST' as const, path: '/v1/messages', headers, body: JSON.stringify(body) }, dropped)
  },
  answer: json => completionFrom(json),
  stream: () => new MessageDecoder(),
}
