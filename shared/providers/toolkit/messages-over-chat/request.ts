import { createHash } from 'node:crypto'
import type { ChatRequest } from '../../../kinds/chat.ts'
import { type MessagesRequest, outputFormatOf } from '../../../kinds/messages.ts'
import { asksFor, messagesMembers } from '../../../kinds/request-members.ts'
import type { Target } from '../../contract.ts'
import { invalid, unsupported } from '../field-refusals.ts'
import { isStrict } from '../is-strict.ts'
import { chatMessages } from './chat-messages.ts'
import { requestedEffort } from './reasoning.ts'
import { unexpectedTag } from './refusals.ts'
import { chatTools } from './tools.ts'

/** The most stop sequences that the chat format has; later ones are left out. */
const maxStops = 4

/**
 * Translates a Messages request to a chat request for a target. What changes only the course of an answer is ignored
 * (`context_management`, `speed`, `service_tier`). Throws a GatewayError 400 naming the field that cannot be
 * translated; the message has `(capability_rejected: <class>)` where Anthropic's clients know how to go on without it.
 */
export function toChatRequest(body: MessagesRequest, target: Target): ChatRequest {
  refuseFields(body)
  const { model, max_tokens, stream, temperature, top_p, top_k, cache_control, prompt_cache_key } = body
  const userId = body.metadata?.user_id
  return {
    model,
    messages: chatMessages(body, target),
    max_completion_tokens: max_tokens,
    ...(stream && { stream }),
    ...(temperature != null && { temperature: Math.min(Math.max(temperature, 0), 2) }),
    ...(top_p != null && { top_p }),
    ...(top_k != null && { top_k }),
    ...stops(body),
    ...chatTools(body),
    ...effort(body),
    ...responseFormat(body),
    // Never the id itself, which may name a person or a device.
    ...(userId && { safety_identifier: createHash('sha256').update(userId).digest('hex') }),
    ...(typeof prompt_cache_key === 'string' && { prompt_cache_key }),
    ...(cache_control && { cache_control }),
  }
}

/** Refuses what only Anthropic's API can fulfil, if its omission would change the answer or where it is made. */
function refuseFields(body: MessagesRequest): void {
  for (const [name, member] of messagesMembers)
    if (member.matters && asksFor(member, body[name]))
      throw unsupported(name, 'Extra inputs are not permitted: this model is not served by Anthropic’s API')
}

function stops({ stop_sequences }: MessagesRequest): Pick<ChatRequest, 'stop'> {
  const stop = (stop_sequences ?? []).filter(sequence => sequence !== '').slice(0, maxStops)
  return stop.length > 0 ? { stop } : {}
}

function effort(body: MessagesRequest): Pick<ChatRequest, 'reasoning_effort'> {
  const reasoning_effort = requestedEffort(body)
  return reasoning_effort ? { reasoning_effort } : {}
}

function responseFormat(body: MessagesRequest): Pick<ChatRequest, 'response_format'> {
  const format = outputFormatOf(body)
  const param = body.output_config?.format ? 'output_config.format' : 'output_format'
  if (!format) return {}
  if (format.type !== 'json_schema') throw unexpectedTag(param, format.type)
  const { schema } = format
  if (!schema) throw invalid(`${param}.schema`, 'Field required')
  const json_schema = { name: 'answer', schema, ...(isStrict(schema) && { strict: true }) }
  return { response_format: { type: 'json_schema', json_schema } }
}
