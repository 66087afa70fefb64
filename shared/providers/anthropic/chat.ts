import type { DirectAdapter } from '../contract.ts'
import { completionFrom } from './answer.ts'
import { messagesBody } from './request.ts'
import { MessageDecoder } from './stream.ts'

/** The version that still takes sampling parameters; newer ones refuse them for every model. */
export const version = { 'anthropic-version': '2023-06-01' }

/** `POST /v1/messages`. */
export const chat: DirectAdapter<'chat'> = {
  native: false,
  request: call => ({
    method: 'POST',
    path: '/v1/messages',
    headers: { 'content-type': 'application/json', ...version },
    body: JSON.stringify(messagesBody(call)),
  }),
  answer: json => completionFrom(json),
  stream: () => new MessageDecoder(),
}
