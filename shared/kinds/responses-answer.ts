/** The answers of the Responses format: the response, its items, and the events of its stream. */

/** Token counts of a response. `input_tokens` includes cached ones, `output_tokens` those of hidden reasoning. */
export type ResponsesUsage = {
  input_tokens: number
  input_tokens_details: { cached_tokens: number; cache_write_tokens?: number; [other: string]: unknown }
  output_tokens: number
  output_tokens_details: { reasoning_tokens: number; [other: string]: unknown }
  total_tokens: number
  [other: string]: unknown
}

export type ResponsesStatus = 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled'
/** The status of an item. */
type ResponsesItemStatus = 'in_progress' | 'completed' | 'incomplete'

/** A place of a text, and the page that it cites. */
export type ResponsesUrlCitation = {
  type: 'url_citation'
  start_index: number
  end_index: number
  url: string
  title: string
}
export type ResponsesOutputText = { type: 'output_text'; text: string; annotations: unknown[]; logprobs: unknown[] }
export type ResponsesOutputPart = ResponsesOutputText | { type: 'refusal'; refusal: string }
export type ResponsesReasoningText = { type: 'reasoning_text'; text: string }
export type ResponsesSummaryText = { type: 'summary_text'; text: string }

/** An item of an answer. Items of other types come from native providers only. */
export type ResponsesOutputItem =
  | {
      type: 'message'
      id: string
      role: 'assistant'
      status: ResponsesItemStatus
      content: ResponsesOutputPart[]
      phase?: string | null
    }
  | {
      type: 'function_call'
      id: string
      call_id: string
      name: string
      namespace?: string
      arguments: string
      status: ResponsesItemStatus
    }
  | {
      type: 'custom_tool_call'
      id: string
      call_id: string
      name: string
      namespace?: string
      input: string
      status: ResponsesItemStatus
    }
  | {
      type: 'reasoning'
      id: string
      summary: ResponsesSummaryText[]
      content?: ResponsesReasoningText[]
      encrypted_content?: string | null
      status?: ResponsesItemStatus
    }
  | {
      type: 'tool_search_call'
      id: string
      /** Null where the provider searches. */
      call_id: string | null
      execution: 'client' | 'server'
      arguments: unknown
      status: ResponsesItemStatus
    }
  | {
      type: 'tool_search_output'
      id: string
      call_id: string | null
      execution: 'client' | 'server'
      tools: readonly unknown[]
      status: ResponsesItemStatus
    }
  | { type: 'compaction'; id: string; encrypted_content: string; status?: ResponsesItemStatus }

type ResponsesError = { code: string; message: string }

/** A complete response. Every field is always present; native providers may leave some out and add others. */
export type ResponsesObject = {
  id: string
  object: 'response'
  /** Unix time in seconds. */
  created_at: number
  completed_at: number | null
  status: ResponsesStatus
  incomplete_details: { reason: string } | null
  model: string
  previous_response_id: string | null
  instructions: unknown
  output: ResponsesOutputItem[]
  error: ResponsesError | null
  tools: unknown[]
  tool_choice: unknown
  truncation: string
  parallel_tool_calls: boolean
  text: unknown
  top_p: number
  presence_penalty: number
  frequency_penalty: number
  top_logprobs: number
  temperature: number
  reasoning: unknown
  usage: ResponsesUsage | null
  max_output_tokens: number | null
  max_tool_calls: number | null
  store: boolean
  background: boolean
  service_tier: string
  metadata: Record<string, string>
  safety_identifier: string | null
  prompt_cache_key: string | null
  [other: string]: unknown
}

/** The place of an event's text within the answer. */
type AtItem = { item_id: string; output_index: number }
type AtPart = AtItem & { content_index: number }
type AtSummary = AtItem & { summary_index: number }

/** An event of a streamed answer, without its number. Events of other types come from native providers only. */
export type UnnumberedResponsesEvent =
  | {
      type:
        | 'response.created'
        | 'response.queued'
        | 'response.in_progress'
        | 'response.completed'
        | 'response.incomplete'
        | 'response.failed'
      response: ResponsesObject
    }
  | {
      type: 'response.output_item.added' | 'response.output_item.done'
      output_index: number
      item: ResponsesOutputItem
    }
  | (AtPart & {
      type: 'response.content_part.added' | 'response.content_part.done'
      part: ResponsesOutputPart | ResponsesReasoningText
    })
  | (AtPart & { type: 'response.output_text.delta'; delta: string; logprobs: unknown[] })
  | (AtPart & {
      type: 'response.output_text.annotation.added'
      annotation_index: number
      annotation: ResponsesUrlCitation
    })
  | (AtPart & { type: 'response.output_text.done'; text: string; logprobs: unknown[] })
  | (AtPart & { type: 'response.refusal.delta' | 'response.reasoning_text.delta'; delta: string })
  | (AtPart & { type: 'response.refusal.done'; refusal: string })
  | (AtPart & { type: 'response.reasoning_text.done'; text: string })
  | (AtSummary & {
      type: 'response.reasoning_summary_part.added' | 'response.reasoning_summary_part.done'
      part: ResponsesSummaryText
    })
  | (AtSummary & { type: 'response.reasoning_summary_text.delta'; delta: string })
  | (AtSummary & { type: 'response.reasoning_summary_text.done'; text: string })
  | (AtItem & {
      type: 'response.function_call_arguments.delta' | 'response.custom_tool_call_input.delta'
      delta: string
    })
  | (AtItem & { type: 'response.function_call_arguments.done'; name: string; arguments: string })
  | (AtItem & { type: 'response.custom_tool_call_input.done'; input: string })
  | (AtItem & { type: 'response.compaction.compacting' })
  | { type: 'error'; error: ResponsesError & { type: string; param: string | null } }

/** An event of a streamed answer; `sequence_number` counts from 0. */
export type ResponsesEvent = UnnumberedResponsesEvent & { sequence_number: number }
