import type { ResponsesRequest } from './responses.ts'
import type { ResponsesObject } from './responses-answer.ts'
import type { ResponsesTool } from './responses-tools.ts'

/** `createdAt`: Unix time in seconds. */
type Identity = { id: string; model: string; createdAt: number }

/**
 * A response that has begun: every field that Open Responses requires, with the settings of its request. Takes the
 * request as the client sent it.
 */
export function newResponse({ id, model, createdAt }: Identity, request: ResponsesRequest): ResponsesObject {
  const { reasoning, text } = request
  return {
    id,
    object: 'response',
    created_at: createdAt,
    completed_at: null,
    status: 'in_progress',
    incomplete_details: null,
    model,
    previous_response_id: null,
    instructions: request.instructions ?? null,
    output: [],
    error: null,
    tools: (request.tools ?? []).map(shownTool),
    tool_choice: request.tool_choice ?? 'auto',
    truncation: request.truncation ?? 'disabled',
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    text: { ...text, format: text?.format ?? { type: 'text' } },
    top_p: request.top_p ?? 1,
    presence_penalty: request.presence_penalty ?? 0,
    frequency_penalty: request.frequency_penalty ?? 0,
    top_logprobs: request.top_logprobs ?? 0,
    temperature: request.temperature ?? 1,
    reasoning: { effort: reasoning?.effort ?? null, summary: reasoning?.summary ?? null },
    usage: null,
    max_output_tokens: request.max_output_tokens ?? null,
    max_tool_calls: request.max_tool_calls ?? null,
    store: false,
    background: false,
    service_tier: 'default',
    metadata: request.metadata ?? {},
    safety_identifier: request.safety_identifier ?? null,
    prompt_cache_key: request.prompt_cache_key ?? null,
  }
}

/** A function has all its fields in an answer. */
function shownTool(tool: ResponsesTool): ResponsesTool {
  return tool.type === 'function' ? { description: null, parameters: null, strict: null, ...tool } : tool
}
