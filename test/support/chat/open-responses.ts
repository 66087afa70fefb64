import { z } from 'zod'

/**
 * What Open Responses (version 2026-04-24) requires of answers: its compliance suite checks responses, items and events
 * by schemas in which every field is present, null included.
 */
const status = z.enum(['in_progress', 'completed', 'incomplete'])
const textPart = z.strictObject({
  type: z.literal('output_text'),
  text: z.string(),
  annotations: z.array(z.unknown()),
  logprobs: z.array(z.looseObject({ token: z.string(), logprob: z.number() })),
})
const refusalPart = z.strictObject({ type: z.literal('refusal'), refusal: z.string() })
const reasoningPart = z.strictObject({ type: z.literal('reasoning_text'), text: z.string() })
const summaryPart = z.strictObject({ type: z.literal('summary_text'), text: z.string() })

const named = { call_id: z.string().min(1), name: z.string().min(1), namespace: z.string().optional(), status }
const item = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('message'),
    id: z.string().startsWith('msg_'),
    status,
    role: z.literal('assistant'),
    content: z.array(z.discriminatedUnion('type', [textPart, refusalPart])),
  }),
  z.strictObject({
    type: z.literal('function_call'),
    id: z.string().startsWith('fc_'),
    ...named,
    arguments: z.string(),
  }),
  z.strictObject({
    type: z.literal('custom_tool_call'),
    id: z.string().startsWith('ctc_'),
    ...named,
    input: z.string(),
  }),
  z.strictObject({
    type: z.literal('reasoning'),
    id: z.string().startsWith('rs_'),
    // The specification has none; OpenAI leaves it out, and the gateway sends it.
    status: status.optional(),
    summary: z.array(summaryPart),
    content: z.array(reasoningPart).optional(),
    encrypted_content: z.string().nullable(),
  }),
])

const count = z.int().min(0)
const usage = z.strictObject({
  input_tokens: count,
  input_tokens_details: z.looseObject({ cached_tokens: count }),
  output_tokens: count,
  output_tokens_details: z.looseObject({ reasoning_tokens: count }),
  total_tokens: count,
})

const functionTool = z.looseObject({
  type: z.literal('function'),
  name: z.string(),
  description: z.string().nullable(),
  parameters: z.record(z.string(), z.unknown()).nullable(),
  strict: z.boolean().nullable(),
})
const otherTool = z.looseObject({ type: z.string().refine(type => type !== 'function') })

export const openResponse = z.object({
  id: z.string().startsWith('resp_'),
  object: z.literal('response'),
  created_at: z.int(),
  completed_at: z.int().nullable(),
  status: z.enum(['queued', 'in_progress', 'completed', 'incomplete', 'failed']),
  incomplete_details: z.strictObject({ reason: z.string() }).nullable(),
  model: z.string(),
  previous_response_id: z.string().nullable(),
  instructions: z.string().nullable(),
  output: z.array(item),
  error: z.looseObject({ code: z.string(), message: z.string() }).nullable(),
  tools: z.array(z.union([functionTool, otherTool])),
  tool_choice: z.union([z.string(), z.looseObject({ type: z.string() })]),
  truncation: z.enum(['auto', 'disabled']),
  parallel_tool_calls: z.boolean(),
  text: z.looseObject({ format: z.looseObject({ type: z.string() }) }),
  top_p: z.number(),
  presence_penalty: z.number(),
  frequency_penalty: z.number(),
  top_logprobs: z.int(),
  temperature: z.number(),
  reasoning: z.looseObject({ effort: z.string().nullable(), summary: z.string().nullable() }).nullable(),
  usage: usage.nullable(),
  max_output_tokens: z.int().nullable(),
  max_tool_calls: z.int().nullable(),
  store: z.boolean(),
  background: z.boolean(),
  service_tier: z.string(),
  metadata: z.record(z.string(), z.string()),
  safety_identifier: z.string().nullable(),
  prompt_cache_key: z.string().nullable(),
})

const numbered = { sequence_number: count }
const atItem = { ...numbered, item_id: z.string().min(1), output_index: count }
const atPart = { ...atItem, content_index: count }
const atSummary = { ...atItem, summary_index: count }
const logprobs = z.array(z.looseObject({ token: z.string() }))
const anyPart = z.discriminatedUnion('type', [textPart, refusalPart, reasoningPart])
const delta = z.string().min(1)
const event = <T extends string, S extends z.ZodRawShape>(type: T, shape: S) =>
  z.strictObject({ type: z.literal(type), ...shape })

export const openResponseEvent = z.discriminatedUnion('type', [
  event('response.created', { ...numbered, response: openResponse }),
  event('response.in_progress', { ...numbered, response: openResponse }),
  event('response.completed', { ...numbered, response: openResponse }),
  event('response.incomplete', { ...numbered, response: openResponse }),
  event('response.failed', { ...numbered, response: openResponse }),
  event('error', {
    ...numbered,
    error: z.strictObject({ type: z.string(), code: z.string(), message: z.string(), param: z.null() }),
  }),
  event('response.output_item.added', { ...numbered, output_index: count, item }),
  event('response.output_item.done', { ...numbered, output_index: count, item }),
  event('response.content_part.added', { ...atPart, part: anyPart }),
  event('response.content_part.done', { ...atPart, part: anyPart }),
  event('response.output_text.delta', { ...atPart, delta, logprobs }),
  event('response.output_text.done', { ...atPart, text: z.string(), logprobs }),
  event('response.refusal.delta', { ...atPart, delta }),
  event('response.refusal.done', { ...atPart, refusal: z.string() }),
  event('response.reasoning_text.delta', { ...atPart, delta }),
  event('response.reasoning_text.done', { ...atPart, text: z.string() }),
  event('response.reasoning_summary_part.added', { ...atSummary, part: summaryPart }),
  event('response.reasoning_summary_part.done', { ...atSummary, part: summaryPart }),
  event('response.reasoning_summary_text.delta', { ...atSummary, delta }),
  event('response.reasoning_summary_text.done', { ...atSummary, text: z.string() }),
  event('response.function_call_arguments.delta', { ...atItem, delta }),
  event('response.function_call_arguments.done', { ...atItem, name: z.string(), arguments: z.string() }),
  event('response.custom_tool_call_input.delta', { ...atItem, delta }),
  event('response.custom_tool_call_input.done', { ...atItem, input: z.string() }),
])
