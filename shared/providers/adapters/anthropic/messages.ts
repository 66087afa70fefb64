import { asksFor1hCache } from '../../../kinds/cache-marks.ts'
import type { Message } from '../../../kinds/messages.ts'
import type { Call, DirectAdapter, UpstreamRequest } from '../../contract.ts'
import { Counters } from './answer.ts'
import { version } from './chat.ts'
import { editedBody, refuseUnpriced } from './messages-request.ts'
import { MessageEventReader } from './messages-stream.ts'
import { findOwnThinking } from './own-thinking.ts'
import { malformed, objectIn, textIn } from './wire.ts'

/** `POST /v1/messages` for clients of the same dialect: their bytes, apart from what `editedBody` changes. */
export const messages: DirectAdapter<'messages'> = {
  native: true,
  request(call) {
    refuseUnpriced(call)
    return post('/v1/messages', call)
  },
  answer(json) {
    const message = objectIn(json, 'message')
    textIn(message.id, 'id')
    textIn(message.stop_reason, 'stop_reason')
    if (!Array.isArray(message.content)) throw malformed('content is not a list')
    for (const block of message.content) textIn(objectIn(block, 'content block').type, 'content block type')
    return json as Message
  },
  stream: ({ body }) => new MessageEventReader(asksFor1hCache(body)),
  usage(json, { body }) {
    const counters = new Counters(asksFor1hCache(body))
    counters.report(objectIn(json, 'message').usage)
    return counters.usage
  },
  countTokens: call => post('/v1/messages/count_tokens', call),
}

function post(path: string, call: Call<'messages'>): UpstreamRequest {
  const { found, hasState } = findOwnThinking(call.body.messages)
  const { headers, query } = call.forwarded ?? { headers: {}, query: '' }
  return {
    method: 'POST',
    path: path + query,
    headers: { 'content-type': 'application/json', ...version, ...headers },
    body: editedBody(call, found),
    reasoningDropped: hasState,
  }
}
