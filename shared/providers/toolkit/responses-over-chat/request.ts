import { type Effort, efforts } from '../../../catalog/chat-profile.ts'
import type { ChatRequest } from '../../../kinds/chat.ts'
import { asksToCompact, type ResponsesRequest } from '../../../kinds/responses.ts'
import type { Call, Target } from '../../contract.ts'
import { chatMessages } from './chat-messages.ts'
import { invalid } from './refusals.ts'
import { chatTools } from './tools.ts'

/** What `include` has for the log probabilities of the text. */
const includedLogprobs = 'message.output_text.logprobs'

/**
 * Translates a Responses request to a chat request for a target. What changes only the course of an answer is ignored
 * (`truncation`, `max_tool_calls`, `service_tier`). Throws a GatewayError 400 naming the field that cannot be translated.
 */
export function toChatRequest(
  body: ResponsesRequest,
  target: Target,
  reasoning?: Call<'responses'>['reasoning'],
): ChatRequest {
  const compacts = asksToCompact(body)
  const { model, max_output_tokens, stream, temperature, top_p, presence_penalty, frequency_penalty } = body
  const { text, prompt_cache_key, safety_identifier, user } = body
  return {
    model,
    messages: chatMessages({ body, target, ...(reasoning && { reasoning }) }),
    ...(max_output_tokens != null && { max_completion_tokens: max_output_tokens }),
    ...(stream && { stream }),
    ...(temperature != null && { temperature }),
    ...(top_p != null && { top_p }),
    ...(presence_penalty != null && { presence_penalty }),
    ...(frequency_penalty != null && { frequency_penalty }),
    ...logprobs(body),
    ...(compacts ? uncalledTools(body) : chatTools(body)),
    ...effort(body),
    ...(!compacts && responseFormat(body)),
    ...(!compacts && text?.verbosity != null && { verbosity: text.verbosity }),
    ...(prompt_cache_key != null && { prompt_cache_key }),
    ...(safety_identifier != null && { safety_identifier }),
    ...(user != null && { user }),
  }
}

/** The tools of earlier calls, which several providers demand, and none of which is to be called. */
function uncalledTools(body: ResponsesRequest): Pick<ChatRequest, 'tools' | 'tool_choice'> {
  const { tools } = chatTools({ ...body, tool_choice: null })
  return tools ? { tools, tool_choice: 'none' } : {}
}

function logprobs({ top_logprobs, include }: ResponsesRequest): Pick<ChatRequest, 'logprobs' | 'top_logprobs'> {
  if (top_logprobs) return { logprobs: true, top_logprobs }
  return include?.includes(includedLogprobs) ? { logprobs: true } : {}
}

function effort({ reasoning }: ResponsesRequest): Pick<ChatRequest, 'reasoning_effort'> {
  const named = reasoning?.effort
  if (named == null) return {}
  if (!isEffort(named)) throw invalid('reasoning.effort', `The effort must be one of ${efforts.join(', ')}.`)
  return { reasoning_effort: named }
}

function responseFormat({ text }: ResponsesRequest): Pick<ChatRequest, 'response_format'> {
  const format = text?.format
  if (!format || format.type === 'text') return {}
  if (format.type === 'json_object') return { response_format: { type: 'json_object' } }
  if (format.type !== 'json_schema')
    throw invalid('text.format.type', 'The format must be text, json_object or json_schema.')
  const { name, description, schema, strict } = format
  if (!name) throw invalid('text.format.name', 'A JSON schema needs a name.')
  if (!schema) throw invalid('text.format.schema', 'The schema is missing.')
  const json_schema = { name, ...(description != null && { description }), schema, ...(strict != null && { strict }) }
  return { response_format: { type: 'json_schema', json_schema } }
}

/** Whether a name is one of the efforts of the chat format. */
function isEffort(name: string): name is Effort {
  return efforts.includes(name as Effort)
}
