import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import { isObject } from '../base/is-object.ts'
import type { OwnError } from '../base/validate.ts'
import { cacheControl, marked } from './cache-marks.ts'
import { chatRequest } from './chat.ts'

/**
 * Message threads of Anthropic's API: the provider keeps the conversation in the operator's account, so that a turn has
 * only the new messages. The provider charges for the whole conversation, which the gateway cannot measure, and anyone who
 * knows the id of a message can continue its thread. They are refused for all models, in the way upon which Anthropic's SDKs go on by themselves with
 * the whole conversation in each turn (`tool_runner`, which has threads by default since version 2.4 in Python and 1.2 in
 * TypeScript): anthropic/lib/threads/_thread_state.py `recovers_from`, @anthropic-ai/sdk/lib/internal/threads/ThreadState
 * `recoversFrom`. They read only `error.details`, and know both codes by their statuses 400 and 404
 * (@anthropic-ai/sdk/core/error-classes).
 */
const messageThread = z
  .unknown()
  .refine(thread => thread == null, { params: { toError: threadError } satisfies OwnError })
  .optional()
  .meta({ 'x-internal': true })

/**
 * The Messages format of Anthropic's API. The schema checks what the gateway reads; unknown fields, block types and
 * tools pass, because clients use fields that are newer than any list of them.
 */

const textBlock = z
  .looseObject({ type: z.literal('text'), text: z.string(), ...marked })
  .meta({ id: 'MessagesTextBlock' })

/** An image or a document: bytes in base64, a URL, or, for documents, plain text or content blocks. */
const source = z.looseObject({
  type: z.string(),
  media_type: z.string().optional(),
  data: z.string().optional(),
  url: z.string().optional(),
})

const imageBlock = z.looseObject({ type: z.literal('image'), source, ...marked }).meta({ id: 'MessagesImageBlock' })
const documentBlock = z
  .looseObject({
    type: z.literal('document'),
    source,
    title: z.string().nullish(),
    context: z.string().nullish(),
    ...marked,
  })
  .meta({ id: 'MessagesDocumentBlock' })
const toolUseBlock = z
  .looseObject({
    type: z.literal('tool_use'),
    id: z.string().min(1),
    name: z.string().min(1),
    input: z.record(z.string(), z.unknown()),
    ...marked,
  })
  .meta({ id: 'MessagesToolUseBlock' })
const thinkingBlock = z
  .looseObject({ type: z.literal('thinking'), thinking: z.string(), signature: z.string().optional() })
  .meta({ id: 'MessagesThinkingBlock' })
const redactedThinkingBlock = z
  .looseObject({ type: z.literal('redacted_thinking'), data: z.string() })
  .meta({ id: 'MessagesRedactedThinkingBlock' })

/** A block of a type that only its provider knows. */
const otherBlock = (known: readonly string[]) =>
  z.looseObject({
    type: z.string().refine(type => !known.includes(type), { error: 'is not a valid block.', abort: true }),
  })

const resultBlock = z.union([
  z.discriminatedUnion('type', [textBlock, imageBlock, documentBlock]),
  otherBlock(['text', 'image', 'document']),
])
const toolResultBlock = z
  .looseObject({
    type: z.literal('tool_result'),
    tool_use_id: z.string().min(1),
    content: z.union([z.string(), z.array(resultBlock)]).nullish(),
    is_error: z.boolean().nullish(),
    ...marked,
  })
  .meta({ id: 'MessagesToolResultBlock' })

const knownBlocks = [
  textBlock,
  imageBlock,
  documentBlock,
  toolUseBlock,
  toolResultBlock,
  thinkingBlock,
  redactedThinkingBlock,
] as const
const knownBlock = z.discriminatedUnion('type', knownBlocks)
const block = z.union([knownBlock, otherBlock(knownBlocks.map(({ shape }) => shape.type.value))])

const message = z
  .looseObject({
    role: z.enum(['user', 'assistant', 'system']),
    content: z.union([z.string(), z.array(block)]),
  })
  .meta({ id: 'MessagesMessage' })

const tool = z
  .looseObject({
    type: z
      .string()
      .nullish()
      .describe('Absent or `custom` for a tool of the client; otherwise a tool of the provider.'),
    max_uses: z
      .int()
      .min(1)
      .nullish()
      .describe('The most uses of a tool of the provider; required for web searches, which are charged.'),
    name: z.string().min(1).optional(),
    description: z.string().nullish(),
    input_schema: z.record(z.string(), z.unknown()).optional().describe('A JSON Schema of the input.'),
    strict: z.boolean().nullish(),
    ...marked,
  })
  .meta({ id: 'MessagesTool' })

const outputFormat = z.looseObject({ type: z.string(), schema: z.record(z.string(), z.unknown()).optional() }).nullish()

const shared = {
  // Checked first: a continued thread may have no messages.
  thread: messageThread,
  model: chatRequest.shape.model,
  messages: z.array(message).min(1).max(100_000).describe('The conversation so far, oldest first.'),
  system: z
    .union([z.string(), z.array(textBlock)])
    .nullish()
    .describe('The system prompt.'),
  tools: z.array(tool).max(1024).nullish().describe('What the model may call.'),
  tool_choice: z
    .looseObject({
      type: z.string(),
      name: z.string().optional(),
      disable_parallel_tool_use: z.boolean().nullish(),
    })
    .nullish()
    .describe('Which tool is called: `auto`, `any`, `tool` with its name, or `none`.'),
  thinking: z
    .looseObject({ type: z.string(), budget_tokens: z.int().nullish() })
    .nullish()
    .describe('`enabled` with `budget_tokens`, `adaptive`, or `disabled`.'),
  output_config: z
    .looseObject({
      effort: z.string().nullish(),
      format: outputFormat,
    })
    .nullish()
    .describe('The effort of the answer, and its JSON schema.'),
  output_format: outputFormat.describe('The former name of `output_config.format`.'),
  context_management: z
    .looseObject({ edits: z.array(z.looseObject({ type: z.string() })).nullish() })
    .nullish()
    .describe('What the provider removes from the conversation.'),
  cache_control: cacheControl.nullish().describe('Caches the prompt up to its last block, without a mark there.'),
  mode: chatRequest.shape.mode,
  models: chatRequest.shape.models,
  provider: chatRequest.shape.provider,
  session_id: chatRequest.shape.session_id,
}

/** `POST /v1/messages`: Anthropic's shape plus the routing fields. */
export const messagesRequest = z.looseObject({
  ...shared,
  max_tokens: z.int().min(1).max(10_000_000).describe('The most tokens that the answer may have, thinking included.'),
  metadata: z.looseObject({ user_id: z.string().nullish() }).nullish().describe('`user_id` names the end user.'),
  stop_sequences: z.array(z.string()).max(8_192).nullish().describe('Texts at which the answer stops.'),
  stream: chatRequest.shape.stream,
  temperature: z.number().min(0).max(2).nullish().describe('Sampling temperature.'),
  top_p: z.number().min(0).max(1).nullish().describe('Nucleus sampling.'),
  top_k: z.int().min(0).nullish().describe('Samples from the most likely tokens only.'),
})
export type MessagesRequest = z.infer<typeof messagesRequest>

/** `POST /v1/messages/count_tokens`: a Messages request without what concerns only its answer. */
export const countTokensRequest = z.looseObject({
  ...shared,
  max_tokens: messagesRequest.shape.max_tokens.nullish(),
})

export type MessagesMessage = MessagesRequest['messages'][number]
export type MessagesTool = z.infer<typeof tool>
export type MessagesBlock = z.infer<typeof block>
export type KnownMessagesBlock = z.infer<typeof knownBlock>
export type MessagesResultBlock = z.infer<typeof resultBlock>

/** What the answer has to match; LiteLLM sends the name of the former beta (@anthropic-ai/sdk: deprecated in beta). */
export function outputFormatOf({ output_config, output_format }: MessagesRequest): MessagesRequest['output_format'] {
  return output_config?.format ?? output_format
}

/** Whether a block of a request has a known type; narrows its TypeScript type. */
export function isBlock<T extends KnownMessagesBlock['type']>(
  block: MessagesBlock | MessagesResultBlock,
  type: T,
): block is Extract<KnownMessagesBlock, { type: T }> {
  return block.type === type
}

/** Token counts of a Message; `input_tokens` excludes cache reads and writes. */
export type MessagesUsage = {
  input_tokens: number
  output_tokens: number
  cache_creation_input_tokens?: number | null
  cache_read_input_tokens?: number | null
  cache_creation?: { ephemeral_5m_input_tokens: number; ephemeral_1h_input_tokens: number } | null
  [other: string]: unknown
}

export type MessagesStopReason =
  | 'end_turn'
  | 'max_tokens'
  | 'stop_sequence'
  | 'tool_use'
  | 'pause_turn'
  | 'refusal'
  | 'model_context_window_exceeded'

/**
 * A page that a text cites. Anthropic's own have an `encrypted_index`, by which its API finds what it quoted; those that the gateway
 * translated have none, and `cited_text` only where the provider states it.
 */
export type MessagesCitation = {
  type: 'web_search_result_location'
  url: string
  title: string | null
  cited_text: string
  encrypted_index: string
}

/** A block of an answer. Blocks of other types come from Anthropic's own API only. */
export type MessagesAnswerBlock =
  | { type: 'text'; text: string; citations?: unknown }
  | { type: 'thinking'; thinking: string; signature: string }
  | { type: 'redacted_thinking'; data: string }
  | { type: 'tool_use'; id: string; name: string; input: unknown }

/** A complete answer. */
export type Message = {
  id: string
  type: 'message'
  role: 'assistant'
  model: string
  content: MessagesAnswerBlock[]
  stop_reason: MessagesStopReason | null
  stop_sequence: string | null
  usage: MessagesUsage
  [other: string]: unknown
}

/** A delta of a block in a stream. */
export type MessagesDelta =
  | { type: 'text_delta'; text: string }
  | { type: 'input_json_delta'; partial_json: string }
  | { type: 'thinking_delta'; thinking: string }
  | { type: 'signature_delta'; signature: string }
  | { type: 'citations_delta'; citation: MessagesCitation }

/** An event of a streamed answer. The usage of `message_delta` is cumulative and replaces that of `message_start`. */
export type MessageEvent =
  | { type: 'message_start'; message: Message }
  | { type: 'content_block_start'; index: number; content_block: MessagesAnswerBlock }
  | { type: 'content_block_delta'; index: number; delta: MessagesDelta }
  | { type: 'content_block_stop'; index: number }
  | {
      type: 'message_delta'
      delta: { stop_reason: MessagesStopReason | null; stop_sequence: string | null }
      usage: Partial<MessagesUsage> & { output_tokens: number }
    }
  | { type: 'message_stop' }
  | { type: 'ping' }

/** The texts of an answer's blocks: what the model wrote, for counting. */
export function messageTexts(blocks: readonly object[]): string[] {
  return blocks.flatMap(block => {
    const { type, text, thinking, name, input } = block as Record<string, unknown>
    const isCall = type === 'tool_use' || type === 'server_tool_use'
    const hasInput = isCall && typeof input === 'object' && input !== null && Object.keys(input).length > 0
    const texts = [text, thinking, isCall ? name : undefined, hasInput ? JSON.stringify(input) : undefined]
    return texts.filter(one => typeof one === 'string' && one !== '') as string[]
  })
}

/** Whether a block of an answer is the result of a web search that the provider bills; a failed one holds an error. */
export function isSearchResult(block: object): boolean {
  const { type, content } = block as { type?: unknown; content?: unknown }
  return type === 'web_search_tool_result' && Array.isArray(content)
}

/**
 * Visits the blocks of a conversation at any depth: in the results of tools, also of those that the provider runs, and in
 * documents that consist of blocks. The schema has not checked all of these.
 */
export function visitBlocks(
  messages: readonly MessagesMessage[],
  visit: (block: MessagesBlock | MessagesResultBlock) => void,
): void {
  for (const { content } of messages) visitNested(content, visit)
}

function visitNested(value: unknown, visit: (block: MessagesBlock | MessagesResultBlock) => void): void {
  if (Array.isArray(value)) for (const one of value) visitNested(one, visit)
  if (typeof value !== 'object' || value === null) return
  const { type, content, source } = value as {
    type?: unknown
    content?: unknown
    source?: { content?: unknown } | null
  }
  if (typeof type === 'string') visit(value as MessagesBlock)
  visitNested(content, visit)
  visitNested(source?.content, visit)
}

/**
 * The messages with blocks replaced, those in results of tools and in documents among them. What a block that is replaced has
 * inside is not visited.
 */
export function mapBlocks<M extends MessagesMessage>(
  messages: readonly M[],
  replace: (block: MessagesBlock | MessagesResultBlock) => object,
): M[] {
  return messages.map(message => ({ ...message, content: mapNested(message.content, replace) }))
}

function mapNested(value: unknown, replace: (block: MessagesBlock | MessagesResultBlock) => object): unknown {
  if (Array.isArray(value)) return value.map(one => mapNested(one, replace))
  if (!isObject(value)) return value
  const replaced = typeof value.type === 'string' ? replace(value as MessagesBlock) : value
  if (replaced !== value) return replaced
  const { content, source } = value
  return {
    ...value,
    ...(Array.isArray(content) && { content: mapNested(content, replace) }),
    ...(isObject(source) &&
      source.content !== undefined && { source: { ...source, content: mapNested(source.content, replace) } }),
  }
}

/** The source of an image, or of a document that is a file; null for any other block. */
export function mediaSourceOf(block: MessagesBlock | MessagesResultBlock): MessagesMediaSource | null {
  if (block.type !== 'image' && block.type !== 'document') return null
  const source = (block as { source?: unknown }).source
  if (typeof source !== 'object' || source === null) return null
  const { type, data, url } = source as Record<string, unknown>
  if (block.type === 'document' && (type === 'text' || type === 'content')) return null
  return { kind: block.type, type, data: typeof data === 'string' ? data : '', url: typeof url === 'string' ? url : '' }
}
type MessagesMediaSource = { kind: 'image' | 'document'; type: unknown; data: string; url: string }

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
