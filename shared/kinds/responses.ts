import { z } from 'zod'
import { isObject } from '../base/is-object.ts'
import { alsoTaking } from '../base/other-forms.ts'
import { callArguments, chatRequest } from './chat.ts'
import { responsesTool } from './responses-tools.ts'

/**
 * The Responses format of OpenAI's API and of Open Responses (version 2026-04-24). The schema checks what the gateway
 * reads; unknown fields, items and tools pass, because clients use fields that are newer than any list of them. The
 * types of answers are in `responses-answer.ts`; `newResponse` of `response-object.ts` creates one.
 */

/** An object of a type that only its provider knows. */
const otherThan = (known: readonly string[], what: string) =>
  z.looseObject({
    type: z.string().refine(type => !known.includes(type), { error: `is not a valid ${what}.`, abort: true }),
  })

const inputText = z.looseObject({ type: z.literal('input_text'), text: z.string() }).meta({ id: 'ResponsesInputText' })
const outputText = z
  .looseObject({ type: z.literal('output_text'), text: z.string() })
  .meta({ id: 'ResponsesOutputTextInput' })
const refusal = z.looseObject({ type: z.literal('refusal'), refusal: z.string() }).meta({ id: 'ResponsesRefusalInput' })
const inputImage = alsoTaking(
  z
    .looseObject({
      type: z.literal('input_image'),
      image_url: z.string().nullish().describe('A URL, or a `data:` URI.'),
      file_id: z.string().nullish(),
      detail: z.string().nullish(),
    })
    .meta({ id: 'ResponsesInputImage' }),
  withImageUrl,
)
const inputFile = z
  .looseObject({
    type: z.literal('input_file'),
    filename: z.string().nullish(),
    file_data: z.string().nullish().describe('The bytes in base64, or a `data:` URI.'),
    file_url: z.string().nullish(),
    file_id: z.string().nullish(),
  })
  .meta({ id: 'ResponsesInputFile' })
const inputAudio = z
  .looseObject({
    type: z.literal('input_audio'),
    input_audio: z.looseObject({ data: z.string(), format: z.string() }),
  })
  .meta({ id: 'ResponsesInputAudio' })

/** An image in the form of chat completions. */
function withImageUrl(part: unknown): unknown {
  if (!isObject(part) || !isObject(part.image_url)) return part
  const { url, detail } = part.image_url
  return { ...part, image_url: url, ...(part.detail == null && detail != null && { detail }) }
}

const knownParts = [inputText, outputText, refusal, inputImage, inputFile, inputAudio] as const
const knownPart = z.discriminatedUnion('type', knownParts)
const part = z.union([
  knownPart,
  otherThan(
    knownParts.map(({ shape }) => shape.type.value),
    'content part',
  ),
])
const toolOutput = z.union([z.string(), z.array(part)])

const messageFields = {
  role: z.enum(['user', 'assistant', 'system', 'developer']),
  content: z.union([z.string(), z.array(part)]),
  phase: z.string().nullish(),
}
const message = z.looseObject({ type: z.literal('message'), ...messageFields }).meta({ id: 'ResponsesMessage' })
/** The type of a message may be absent. */
const untypedMessage = z
  .looseObject(messageFields)
  .refine(item => item.type === undefined, 'is not a valid input item.')
  .meta({ id: 'ResponsesUntypedMessage' })
const functionCall = z
  .looseObject({
    type: z.literal('function_call'),
    id: z.string().nullish(),
    call_id: z.string().min(1),
    name: z.string().min(1),
    namespace: z.string().nullish(),
    arguments: callArguments,
  })
  .meta({ id: 'ResponsesFunctionCall' })
const functionCallOutput = z
  .looseObject({ type: z.literal('function_call_output'), call_id: z.string().min(1), output: toolOutput })
  .meta({ id: 'ResponsesFunctionCallOutput' })
const customToolCall = z
  .looseObject({
    type: z.literal('custom_tool_call'),
    id: z.string().nullish(),
    call_id: z.string().min(1),
    name: z.string().min(1),
    namespace: z.string().nullish(),
    input: z.string(),
  })
  .meta({ id: 'ResponsesCustomToolCall' })
const customToolCallOutput = z
  .looseObject({ type: z.literal('custom_tool_call_output'), call_id: z.string().min(1), output: toolOutput })
  .meta({ id: 'ResponsesCustomToolCallOutput' })
const textPart = z.looseObject({ type: z.string(), text: z.string() })
const reasoningItem = z
  .looseObject({
    type: z.literal('reasoning'),
    id: z.string().nullish(),
    summary: z.array(textPart).nullish(),
    content: z.array(textPart).nullish(),
    encrypted_content: z.string().nullish().describe('The state of the reasoning, as an earlier answer had it.'),
  })
  .meta({ id: 'ResponsesReasoning' })

/** Its type may be absent: openai, ResponseInputItem.ItemReference. */
const itemReference = z
  .looseObject({ type: z.literal('item_reference').nullish(), id: z.string().min(1) })
  .refine(item => item.role === undefined, 'is not a valid input item.')
  .meta({ id: 'ResponsesItemReference' })
const itemTools = z.array(responsesTool).max(1024)
const additionalTools = z
  .looseObject({
    type: z.literal('additional_tools'),
    id: z.string().nullish(),
    role: z.literal('developer').nullish(),
    tools: itemTools.describe('Tools that the model may call from here on, beside `tools`.'),
  })
  .meta({ id: 'ResponsesAdditionalTools' })
const toolSearchOutput = z
  .looseObject({ type: z.literal('tool_search_output'), call_id: z.string().nullish(), tools: itemTools })
  .meta({ id: 'ResponsesToolSearchOutput' })

const toolSearchCall = z
  .looseObject({
    type: z.literal('tool_search_call'),
    id: z.string().nullish(),
    call_id: z.string().nullish(),
    execution: z.string().nullish().describe('`client` where the client searches; otherwise its provider did.'),
  })
  .meta({ id: 'ResponsesToolSearchCall' })
const state = z.string().min(1).describe('The conversation until here, as an earlier answer had it.')
const compaction = z
  .looseObject({ type: z.literal('compaction'), id: z.string().nullish(), encrypted_content: state })
  .meta({ id: 'ResponsesCompaction' })
/** Codex's other name of the same item (openai/codex, protocol/src/models.rs, `ResponseItem::Compaction`). */
const compactionSummary = z.looseObject({ ...compaction.shape, type: z.literal('compaction_summary') })
const compactionTrigger = z
  .looseObject({ type: z.literal('compaction_trigger'), id: z.string().nullish() })
  .meta({ id: 'ResponsesCompactionTrigger', description: 'Asks for a `compaction` item instead of an answer.' })

const knownItems = [
  message,
  functionCall,
  functionCallOutput,
  customToolCall,
  customToolCallOutput,
  reasoningItem,
  additionalTools,
  toolSearchCall,
  toolSearchOutput,
  compaction,
  compactionSummary,
  compactionTrigger,
] as const
const knownItem = z.discriminatedUnion('type', knownItems)
export const responsesItem = z.union([
  knownItem,
  untypedMessage,
  itemReference,
  otherThan([...knownItems.map(({ shape }) => shape.type.value), 'item_reference'], 'input item'),
])

/** `POST /v1/responses`: OpenAI's shape plus the routing fields. */
export const responsesRequest = z.looseObject({
  model: chatRequest.shape.model,
  input: z
    .union([z.string(), z.array(responsesItem).max(100_000)])
    .describe(
      'A prompt, or the items of the conversation so far, oldest first. May be empty beside `previous_response_id` or `conversation`.',
    ),
  instructions: z.string().nullish().describe('The system prompt.'),
  stream: chatRequest.shape.stream,
  max_output_tokens: chatRequest.shape.max_completion_tokens,
  max_tool_calls: z
    .int()
    .min(1)
    .nullish()
    .describe(
      'The most calls of tools that the provider runs. With web searches, which are charged each: 5 by default, 20 at the most.',
    ),
  temperature: chatRequest.shape.temperature,
  top_p: chatRequest.shape.top_p,
  presence_penalty: chatRequest.shape.presence_penalty,
  frequency_penalty: chatRequest.shape.frequency_penalty,
  top_logprobs: chatRequest.shape.top_logprobs.describe('How many likely tokens to give at each position.'),
  tools: z.array(responsesTool).max(1024).nullish().describe('What the model may call.'),
  tool_choice: z
    .union([
      z.enum(['none', 'auto', 'required', 'validated']),
      z.looseObject({
        type: z.string(),
        name: z.string().optional(),
        mode: z.string().optional(),
        tools: z
          .array(z.looseObject({ type: z.string(), name: z.string().optional() }))
          .max(1024)
          .optional(),
      }),
    ])
    .nullish()
    .describe(
      'Which tool is called: `none`, `auto` (the default), `required`, a tool by type and name, or `allowed_tools`.',
    ),
  parallel_tool_calls: z.boolean().nullish().describe('Whether several tools may be called at once.'),
  reasoning: z
    .looseObject({
      effort: z.string().nullish(),
      summary: z.string().nullish(),
      generate_summary: z.string().nullish(),
    })
    .nullish()
    .describe('How much a reasoning model thinks, and whether it summarises that.'),
  text: z
    .looseObject({
      format: z
        .looseObject({
          type: z.string(),
          name: z.string().optional(),
          description: z.string().nullish(),
          schema: z.record(z.string(), z.unknown()).optional(),
          strict: z.boolean().nullish(),
        })
        .nullish(),
      verbosity: z.string().nullish(),
    })
    .nullish()
    .describe('The form of the text: `text`, `json_object`, or `json_schema` with a schema.'),
  include: z.array(z.string()).max(64).nullish().describe('What else to return, e.g. `reasoning.encrypted_content`.'),
  truncation: z.enum(['auto', 'disabled']).nullish().describe('Whether a conversation that is too long is shortened.'),
  store: z
    .boolean()
    .nullish()
    .describe('Whether the response is stored; by default if the organisation keeps responses.'),
  background: z
    .boolean()
    .nullish()
    .describe('True: the answer is a response with the status `queued`, to be retrieved until it ends; needs storage.'),
  previous_response_id: z
    .string()
    .nullish()
    .describe(
      'The stored response that this one continues: its input and output, and those before it, precede `input`.',
    ),
  conversation: z
    .union([z.string(), z.looseObject({ id: z.string() })])
    .nullish()
    .describe('The conversation whose items precede `input`; input and output are added to it.'),
  stream_options: z
    .looseObject({ include_obfuscation: z.boolean().nullish() })
    .nullish()
    .describe('What the events have beside the answer.'),
  metadata: z.record(z.string(), z.string()).nullish().describe('Your own labels.'),
  context_management: z
    .array(z.looseObject({ type: z.string(), compact_threshold: z.int().min(1).nullish() }))
    .max(16)
    .nullish()
    .describe(
      '`[{"type": "compaction", "compact_threshold": 100000}]`: a conversation of more tokens is compacted before the answer, whose first item is then a `compaction`. Without a threshold, at 90 % of the model’s context.',
    ),
  prompt_cache_key: chatRequest.shape.prompt_cache_key,
  safety_identifier: z.string().nullish().describe('An id of your end user, for the providers’ abuse monitoring.'),
  user: z.string().nullish().describe('The older name of `safety_identifier` and `prompt_cache_key`.'),
  mode: chatRequest.shape.mode,
  models: chatRequest.shape.models,
  provider: chatRequest.shape.provider,
  session_id: chatRequest.shape.session_id,
})
/** `POST /v1/responses/input_tokens`. */
export const countInputRequest = responsesRequest.extend({ input: responsesRequest.shape.input.nullish() })

export type ResponsesRequest = z.infer<typeof responsesRequest>

export type ResponsesItem = z.infer<typeof responsesItem>
export type ResponsesMessage = z.infer<typeof message> | z.infer<typeof untypedMessage>
export type KnownResponsesItem = Exclude<z.infer<typeof knownItem>, { type: 'message' }>
export type ResponsesPart = z.infer<typeof part>
type KnownResponsesPart = z.infer<typeof knownPart>

/** Whether an input item has a known type other than `message`; narrows its TypeScript type. */
export function isItem<T extends KnownResponsesItem['type']>(
  item: ResponsesItem,
  type: T,
): item is Extract<KnownResponsesItem, { type: T }> {
  return item.type === type
}

type ItemOf<T extends KnownResponsesItem['type']> = Extract<KnownResponsesItem, { type: T }>
export type ToolCallItem = ItemOf<'function_call'> | ItemOf<'custom_tool_call'>
export type ToolOutputItem = ItemOf<'function_call_output'> | ItemOf<'custom_tool_call_output'>

/** Whether an input item is a call of a function or of a custom tool. */
export function isToolCall(item: ResponsesItem): item is ToolCallItem {
  return isItem(item, 'function_call') || isItem(item, 'custom_tool_call')
}

/** Whether an input item is the output of such a call. */
export function isToolOutput(item: ResponsesItem): item is ToolOutputItem {
  return isItem(item, 'function_call_output') || isItem(item, 'custom_tool_call_output')
}

/** Whether an input item is a message; their `type` may be absent. */
export function isMessageItem(item: ResponsesItem): item is ResponsesMessage {
  return item.type === 'message' || (item.type === undefined && item.role !== undefined)
}

/** Why a reference is refused that nothing has replaced by its item. */
export const unresolvedReference =
  'Items are not stored: send the item itself instead of a reference. References work in /v1/responses where the organisation keeps responses.'

/** Whether an input item stands for a stored one. */
export function isReference(item: ResponsesItem): item is z.infer<typeof itemReference> {
  return item.type === 'item_reference' || (item.type == null && !isMessageItem(item))
}

/** An item that stands for the conversation before it. */
export type CompactionItem = z.infer<typeof compaction> | z.infer<typeof compactionSummary>

/** Whether an input item stands for the conversation before it. */
export function isCompaction(item: ResponsesItem): item is CompactionItem {
  return item.type === 'compaction' || item.type === 'compaction_summary'
}

/** The input of a request as items: a prompt is a message of the user. */
export function inputItems({ input }: Pick<ResponsesRequest, 'input'>): ResponsesItem[] {
  if (typeof input !== 'string') return input
  return input === '' ? [] : [{ type: 'message', role: 'user', content: input }]
}

/** The tokens of context from which on a request wants its conversation to be compacted; null if it states none. */
export function compactionThreshold({ context_management: entries }: ContextManagement): number | null {
  return entries?.find(({ type }) => type === 'compaction')?.compact_threshold ?? null
}

/** Whether a request wants its conversation to be compacted before the answer, if it is long. */
export function asksToManageContext({ context_management: entries }: ContextManagement): boolean {
  return entries?.some(({ type }) => type === 'compaction') === true
}

type ContextManagement = Pick<ResponsesRequest, 'context_management'>

/** Whether a request asks for a compaction of its conversation instead of an answer. */
export function asksToCompact({ input }: Pick<ResponsesRequest, 'input'>): boolean {
  return typeof input !== 'string' && input.at(-1)?.type === 'compaction_trigger'
}

/** Whether a content part has a known type; narrows its TypeScript type. */
export function isPart<T extends KnownResponsesPart['type']>(
  part: ResponsesPart,
  type: T,
): part is Extract<KnownResponsesPart, { type: T }> {
  return part.type === type
}

/** Names of chat fields in a Responses request. Positions of messages are not those of the items. */
const names = new Map([
  ['messages', 'input'],
  ['max_tokens', 'max_output_tokens'],
  ['max_completion_tokens', 'max_output_tokens'],
  ['response_format', 'text.format'],
  ['reasoning_effort', 'reasoning.effort'],
  ['verbosity', 'text.verbosity'],
  ['logprobs', 'include'],
])

/** The name in a Responses request of a field by its path in a chat request; other paths stay as they are. */
export function nameInResponses(path: string): string {
  return names.get(path.split(/[.[]/, 1)[0]!) ?? path
}

/** The parts of a message or of a tool's output, which may be a single one: that of a computer is a screenshot. */
export function partsOf(item: ResponsesItem): readonly ResponsesPart[] {
  const parts = isMessageItem(item) ? item.content : (item as { output?: unknown }).output
  if (Array.isArray(parts)) return parts
  return typeof parts === 'object' && parts !== null ? [parts as ResponsesPart] : []
}

export const maxStreamIdLength = 256

/**
 * `response.create`, by which a client of a WebSocket begins a turn: a request whose `input` may be empty, because the
 * earlier response that it names has the conversation.
 */
export const responseCreate = responsesRequest.extend({
  type: z.literal('response.create'),
  input: z.union([z.string().min(1), z.array(responsesItem).max(100_000)]),
  generate: z.boolean().nullish().describe('False: the turn only adds its input to the conversation.'),
  stream_id: z
    .string()
    .min(1)
    .max(maxStreamIdLength)
    .nullish()
    .describe('Your name of the turn, which each of its events repeats.'),
})
export type ResponseCreate = z.infer<typeof responseCreate>
