import type { Protocol } from '../contract.ts'
import { batch } from './batches.ts'
import { chat } from './chat.ts'
import { failure } from './failure.ts'

/** The Anthropic Messages protocol. The quirk `batches` of the provider's row: its server has Message Batches, too. */
export const anthropic: Protocol = { direct: { chat }, batch, failure }
