import type { Protocol } from '../../contract.ts'
import { fittedChat } from '../../profile/fit-chat.ts'
import { batch } from './batches.ts'
import { chat, version } from './chat.ts'
import { failure } from './failure.ts'
import { messages } from './messages.ts'

/** The Anthropic Messages protocol. The quirk `batches` of the provider's row: its server also has Message Batches. */
export const anthropic: Protocol = {
  direct: { chat: fittedChat(chat), messages },
  batch,
  credentialCheck: () => ({ path: '/v1/models?limit=1', headers: version }),
  failure,
}
