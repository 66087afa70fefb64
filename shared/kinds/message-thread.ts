import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import type { OwnError } from '../base/validate.ts'

/**
 * Message threads of Anthropic's API: the provider keeps the conversation in the operator's account, so that a turn has
 * only the new messages. The provider charges for the whole conversation, which the gateway cannot measure, and anyone who
 * knows the id of a message can continue its thread. They are refused for all models, in the way upon which Anthropic's SDKs go on by themselves with
 * the whole conversation in each turn (`tool_runner`, which has threads by default since version 2.4 in Python and 1.2 in
 * TypeScript): anthropic/lib/threads/_thread_state.py `recovers_from`, @anthropic-ai/sdk/lib/internal/threads/ThreadState
 * `recoversFrom`. They read only `error.details`, and know both codes by their statuses 400 and 404
 * (@anthropic-ai/sdk/core/error-classes).
 */
export const messageThread = z
  .unknown()
  .refine(thread => thread == null, { params: { toError: threadError } satisfies OwnError })
  .optional()
  .meta({ 'x-internal': true })

/** The refusal of a thread: a new one cannot be kept, and an earlier one does not exist. */
function threadError(thread: unknown, param: string): GatewayError {
  if (typeof thread === 'object' && (thread as { type?: unknown } | null)?.type === 'continue') {
    const message = `${param}: no conversation is kept under this message id; send all messages without \`thread\``
    return new GatewayError('not_found', message, { param, metadata: { error_code: 'thread_not_found' } })
  }
  const message = `${param}: this service keeps no conversations; send all messages without \`thread\``
  const metadata = { error_code: 'thread_unsupported_request', unsupported: ['thread'] }
  return new GatewayError('unsupported_capability', message, { param, metadata })
}
