import type { Protocol } from '../../contract.ts'
import { fittedChat } from '../../profile/fit-chat.ts'
import { withOneCall } from '../../toolkit/one-call.ts'
import { chat } from './chat.ts'
import { embedding } from './embedding.ts'
import { readAsEvents } from './event-stream.ts'
import { failure } from './failure.ts'
import { rerank } from './rerank.ts'

/** The runtime of Amazon Bedrock: Converse for chat with the models of all vendors, InvokeModel for embeddings. */
export const bedrock: Protocol = {
  direct: { chat: fittedChat(withOneCall(chat)), embedding },
  synchronous: { rerank },
  eventSink: readAsEvents,
  // ListAsyncInvokes: free, and an operation of the same endpoint.
  credentialCheck: () => ({ path: '/async-invoke?maxResults=1' }),
  failure,
}
