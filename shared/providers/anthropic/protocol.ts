import type { DirectAdapter, Protocol } from '../contract.ts'
import { completionFrom } from './answer.ts'
import { failure } from './failure.ts'
import { messagesBody } from './request.ts'
import { MessageDecoder } from './stream.ts'

/** The version that still takes sampling parameters; newer ones refuse them for every model. */
const version = '2023-06-01'

const chat: DirectAdapter<'chat'> = {
  native: false,
  request: call => ({
    method: 'POST',
    path: '/v1/messages',
    headers: { 'content-type': 'application/json', 'anthropic-version': version },
    body: JSON.stringify(messagesBody(call)),
  }),
  answer: json => completionFrom(json),
  stream: () => new MessageDecoder(),
}

/** The Anthropic Messages protocol. */
export const anthropic: Protocol = { direct: { chat }, failure }
