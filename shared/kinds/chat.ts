import { z } from 'zod'
import { int64 } from '../base/exact-numbers.ts'
import { isObject } from '../base/is-object.ts'
import { alsoTaking } from '../base/other-forms.ts'
import type { Usage } from '../base/usage.ts'
import { providerPreferences } from '../catalog/provider-preferences.ts'
import { answerFormat } from './answer-format.ts'
import { cacheControl, marked } from './cache-marks.ts'
import { nestedChoice, nestedTool } from './flat-tools.ts'
import { openRouterFields, paidFields, webSearchOptions } from './paid-fields.ts'
import { earlierReasoning, type ReasoningDetail } from './reasoning.ts'

/** The parts of a message's content. */

const text = z.looseObject({ type: z.literal('text'), text: z.string(), ...marked }).meta({ id: 'ChatTextPart' })
/** Mistral's clients write the URL alone (@mistralai/mistralai, ImageURLChunk; @ai-sdk/mistral, convertToMistralChatMessages). */
const image = alsoTaking(
  z.looseObject({
    url: z.string().min(1).describe('An https URL, an upload’s URL, or a `data:` URI.'),
    detail: z.string().optional().describe('`auto`, `low` or `high`, where the model knows it.'),
  }),
  value => (typeof value === 'string' ? { url: value } : value),
)
const imageUrl = z
  .looseObject({
    type: z.literal('image_url'),
    image_url: image,
    ...marked,
  })
  .meta({ id: 'ChatImagePart' })
const inputAudio = z
  .looseObject({
    type: z.literal('input_audio'),
    input_audio: z.looseObject({
      data: z.string().min(1).describe('The sound in base64.'),
      format: z.string().min(1).describe('Such as `wav` or `mp3`.'),
    }),
    ...marked,
  })
  .meta({ id: 'ChatAudioPart' })
const file = z
  .looseObject({
    type: z.literal('file'),
    file: z.looseObject({
      file_id: z
        .never({ error: 'is not supported: send the file itself in `file_data`' })
        .optional()
        .meta({ 'x-internal': true }),
      file_data: z.string().optional().describe('The file as a `data:` URI.'),
      filename: z.string().optional(),
    }),
    ...marked,
  })
  .meta({ id: 'ChatFilePart' })
/** Mistral's clients write the URL of a document alone (@mistralai/mistralai, DocumentURLChunk; @ai-sdk/mistral). */
function withDocumentAsFile(part: unknown): unknown {
  if (!isObject(part) || part.type !== 'document_url') return part
  const { type, document_url: file_data, document_name: name, ...rest } = part
  return { ...rest, type: 'file', file: { file_data, filename: name ?? 'document.pdf' } }
}
const refusal = z
  .looseObject({ type: z.literal('refusal'), refusal: z.string(), ...marked })
  .meta({ id: 'ChatRefusalPart' })

/** The thinking in an answer of Mistral, which its clients hand back; the gateway makes it `reasoning_content`. */
const thinking = z
  .looseObject({
    type: z.literal('thinking'),
    thinking: z.union([z.string(), z.array(z.looseObject({ type: z.string(), text: z.string().optional() }))]),
  })
  .meta({ id: 'ChatThinkingPart' })

const textContent = z.union([z.string(), z.array(text).min(1)])
const userPart = alsoTaking(
  z.discriminatedUnion('type', [text, imageUrl, inputAudio, file]).meta({ id: 'ChatUserPart' }),
  withDocumentAsFile,
)
const userContent = z.union([z.string(), z.array(userPart).min(1)])
const toolPart = alsoTaking(
  z.discriminatedUnion('type', [text, imageUrl, file]).meta({ id: 'ChatToolPart' }),
  withDocumentAsFile,
)
/** Tools that take screenshots answer with images. Routing moves those and files to the user, after which there are texts only. */
const resultContent = z.union([z.string(), z.array(toolPart).min(1)]) as unknown as typeof textContent

/** Mistral’s API and clients leave it out; `completeChat` sets it. */
const functionType = z.literal('function').optional() as unknown as z.ZodLiteral<'function'>

/** Mistral's clients may hand them back as an object (mistralai, FunctionCall). */
export const callArguments = alsoTaking(z.string().describe('JSON, as the model wrote it.'), value =>
  isObject(value) ? JSON.stringify(value) : value,
)
const functionToolCall = {
  id: z.string().min(1),
  type: z.literal('function'),
  function: z.looseObject({ name: z.string().min(1), arguments: callArguments }),
}
const customToolCall = z
  .looseObject({
    id: z.string().min(1),
    type: z.literal('custom'),
    custom: z.looseObject({ name: z.string().min(1), input: z.string() }),
  })
  .meta({ id: 'ChatCustomToolCall' })
/** A tool call in an answer. */
export const toolCall = z
  .discriminatedUnion('type', [z.looseObject(functionToolCall).meta({ id: 'ChatFunctionToolCall' }), customToolCall])
  .meta({ id: 'ChatToolCall' })
/** The same handed back in a request. */
const earlierToolCall = z
  .discriminatedUnion('type', [
    z.looseObject({ ...functionToolCall, type: functionType }).meta({ id: 'ChatFunctionToolCallInput' }),
    customToolCall,
  ])
  .meta({ id: 'ChatToolCallInput' })

/** Parts `thinking` are read by `completeChat`, after which there are none. */
const assistantContent = z.union([
  z.string(),
  z.array(z.discriminatedUnion('type', [text, refusal, thinking])),
]) as unknown as z.ZodUnion<[z.ZodString, z.ZodArray<z.ZodDiscriminatedUnion<[typeof text, typeof refusal], 'type'>>]>

const functionCall = z.looseObject({ name: z.string().min(1), arguments: z.string() })

const message = z
  .discriminatedUnion('role', [
    z
      .looseObject({ role: z.literal('developer'), content: textContent, ...marked })
      .meta({ id: 'ChatDeveloperMessage' }),
    z.looseObject({ role: z.literal('system'), content: textContent, ...marked }).meta({ id: 'ChatSystemMessage' }),
    z.looseObject({ role: z.literal('user'), content: userContent, ...marked }).meta({ id: 'ChatUserMessage' }),
    z
      .looseObject({
        role: z.literal('assistant'),
        content: assistantContent.nullish(),
        tool_calls: z.array(earlierToolCall).nullish(),
        function_call: functionCall.nullish().describe('Deprecated for `tool_calls`.'),
        refusal: z.string().nullish(),
        ...marked,
        audio: z.looseObject({ id: z.string() }).nullish().describe('The audio of an earlier answer, by its id.'),
        ...earlierReasoning,
      })
      .meta({ id: 'ChatAssistantMessage' }),
    z
      .looseObject({ role: z.literal('tool'), tool_call_id: z.string().min(1), content: resultContent, ...marked })
      .meta({ id: 'ChatToolMessage' }),
    z
      .looseObject({ role: z.literal('function'), name: z.string(), content: z.string().nullable(), ...marked })
      .meta({ id: 'ChatFunctionMessage', deprecated: true }),
  ])
  .meta({ id: 'ChatMessage' })
export type ChatMessage = z.infer<typeof message>

/** Where a provider does not take a name, another one is sent. */
const toolName = z.string().regex(/^[a-zA-Z0-9_.:-]{1,128}$/)
const callable = z.looseObject({
  name: toolName,
  description: z.string().optional(),
  parameters: z.record(z.string(), z.unknown()).optional().describe('A JSON Schema of the arguments.'),
  strict: z.boolean().optional().describe('Whether the arguments must fit the schema exactly.'),
})
const tool = alsoTaking(
  z
    .discriminatedUnion('type', [
      z.looseObject({ type: functionType, function: callable, ...marked }).meta({ id: 'ChatFunctionTool' }),
      z
        .looseObject({ type: z.literal('custom'), custom: z.looseObject({ name: toolName }), ...marked })
        .meta({ id: 'ChatCustomTool' }),
    ])
    .meta({ id: 'ChatTool' }),
  nestedTool,
)

const toolChoice = alsoTaking(
  z.union([
    z.enum(['none', 'auto', 'required', 'validated']),
    z.looseObject({ type: z.literal('function'), function: z.looseObject({ name: z.string().min(1) }) }),
    z.looseObject({ type: z.enum(['custom', 'allowed_tools']) }),
  ]),
  nestedChoice,
)

const tokens = z.int().min(1).max(10_000_000)

/** The routing fields of every chat-shaped route (docs/routing.md). */
const routing = {
  mode: z
    .enum(['cost', 'balanced', 'quality'])
    .optional()
    .describe('Routing mode; overrides the key’s own for this call.'),
  models: z.array(z.string().min(1)).min(1).max(10).optional().describe('Ordered fallback list of model slugs.'),
  provider: providerPreferences.optional().describe('Provider preferences.'),
  metadata: z.record(z.string(), z.string()).nullish().describe('Your own labels.'),
  prompt_cache_key: z
    .string()
    .max(1_000)
    .nullish()
    .describe('Names the conversation: its requests stay with one provider, so that its prompt cache is hit.'),
}

/** `POST /v1/chat/completions` and `/v1/route`: the OpenAI chat shape (unknown fields are not an error) plus the routing fields. */
export const chatRequest = z.looseObject({
  model: z.string().min(1).max(200).describe('`auto` or a model slug.'),
  messages: z.array(message).min(1).max(16_384).describe('The conversation so far, oldest first.'),
  ...routing,
  stream: z
    .boolean()
    .nullish()
    .meta({ default: false, description: 'Send the answer as server-sent events while it is made.' }),
  stream_options: z
    .looseObject({
      include_usage: z
        .boolean()
        .optional()
        .meta({ default: false, description: 'Send the usage in a last chunk of its own, without choices.' }),
    })
    .nullish()
    .describe('What a stream has beside the answer.'),
  max_tokens: tokens.nullish().describe('The older name of `max_completion_tokens`.'),
  max_completion_tokens: tokens
    .nullish()
    .describe('The most tokens that the answer may have, hidden reasoning included.'),
  temperature: z
    .number()
    .min(0)
    .max(2)
    .nullish()
    .describe('Sampling temperature; without it, the model’s own default.'),
  top_p: z.number().min(0).max(1).nullish().describe('Nucleus sampling; without it, the model’s own default.'),
  frequency_penalty: z.number().min(-2).max(2).nullish().describe('Lowers the odds of tokens by how often they came.'),
  presence_penalty: z.number().min(-2).max(2).nullish().describe('Lowers the odds of tokens that came at all.'),
  n: z.int().min(1).max(128).nullish().meta({ default: 1, description: 'How many answers to make.' }),
  stop: z
    .union([z.string(), z.array(z.string()).max(4)])
    .nullish()
    .describe('Up to four texts at which the answer stops.'),
  // As at OpenAI.
  seed: int64.nullish().describe('For answers that can be repeated, as far as the provider can.'),
  logprobs: z
    .boolean()
    .nullish()
    .meta({ default: false, description: 'Give the log probability of each token of the answer.' }),
  top_logprobs: z
    .int()
    .min(0)
    .max(20)
    .nullish()
    .describe('How many likely tokens to give at each position; needs `logprobs`.'),
  logit_bias: z.record(z.string(), z.number()).nullish().describe('Raises or lowers the odds of tokens, by token id.'),
  cache_control: cacheControl.nullish().describe('Caches the prompt up to its last message, without a mark there.'),
  tools: z.array(tool).max(1024).optional().describe('What the model may call.'),
  tool_choice: toolChoice
    .optional()
    .describe('Which tool is called: `none`, `auto` (the default), `validated`, `required`, or the one named.'),
  parallel_tool_calls: z.boolean().optional().describe('Whether several tools may be called at once.'),
  functions: z.array(callable).max(1024).optional().describe('Deprecated for `tools`.'),
  function_call: z
    .union([z.enum(['none', 'auto']), z.looseObject({ name: z.string().min(1) })])
    .optional()
    .describe('Deprecated for `tool_choice`.'),
  response_format: answerFormat.optional().describe('The form of the answer: text, JSON, or JSON of a schema.'),
  modalities: z
    .array(z.enum(['text', 'image', 'audio']))
    .min(1)
    .nullish()
    .describe('What the answer may consist of; without it, text.'),
  audio: z
    .looseObject({
      voice: z.union([z.string(), z.looseObject({ id: z.string() })]),
      format: z.enum(['wav', 'aac', 'mp3', 'flac', 'opus', 'pcm16']),
    })
    .nullish()
    .describe('Needed where `modalities` have `audio`. Streams take `pcm16` only.'),
  reasoning_effort: z
    .enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max', 'default'])
    .nullish()
    .describe('How much a reasoning model thinks before it answers.'),
  user: z.string().optional().describe('An id of your end user, for the providers’ abuse monitoring.'),
  ...openRouterFields,
  ...paidFields,
  web_search_options: webSearchOptions,
})
export type ChatRequest = z.infer<typeof chatRequest>

type FunctionCall = { name: string; arguments: string }
export type ToolCall = { id: string; type: 'function'; function: FunctionCall }
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'function_call' | 'content_filter' | 'error'

/** The calls in an answer: of tools, or of a function in the older form. */
export type Called = 'tool_calls' | 'function_call' | null

/**
 * The finish reason of an answer with these calls. Servers end calls with `stop` (Ollama, vLLM, OpenVINO, Google's
 * OpenAI endpoint; Amazon Bedrock: strands-agents/harness-sdk#644, #1810), by which clients end their loop. OpenAI itself does so
 * only for the one function that `tool_choice` names: there it stays (`isForced`). Others claim calls that they do not make, upon
 * which clients wait or ask again and again (Kilo-Org/kilocode#7773, strands-rl/strands-env#252, earendil-works/pi#9681).
 */
export function finishWith(reason: FinishReason, called: Called, isForced = false): FinishReason {
  if (called) return reason === 'stop' && !isForced ? called : reason
  return reason === 'tool_calls' || reason === 'function_call' ? 'stop' : reason
}

/** A complete response with `object: "chat.completion"`; adapters return it without the gateway's own fields. */
export type ChatCompletion = {
  id: string
  object: 'chat.completion'
  created: number
  model: string
  choices: {
    index: number
    message: {
      role: 'assistant'
      content: string | null
      refusal?: string | null
      reasoning_content?: string
      reasoning_details?: ReasoningDetail[]
      tool_calls?: ToolCall[]
      function_call?: FunctionCall
      images?: { type: 'image_url'; image_url: { url: string } }[]
      audio?: { id: string; data: string; expires_at: number; transcript: string } | null
      annotations?: UrlCitation[]
    }
    logprobs?: unknown
    finish_reason: FinishReason
  }[]
  usage?: Usage
  provider?: string
  citations?: string[]
  search_results?: SearchResult[]
}

/** A place of a text, and the page that it cites; in the form of OpenAI's chat completions. */
export type UrlCitation = {
  type: 'url_citation'
  url_citation: { start_index: number; end_index: number; url: string; title: string }
}

/** A page that a provider's own search has found, in the form of Perplexity's chat completions. */
export type SearchResult = {
  id: number
  title: string
  url: string
  date?: string
  last_updated?: string
  snippet?: string
  source?: string
}

export type ChatDelta = {
  role?: 'assistant'
  content?: string | null
  refusal?: string | null
  reasoning_content?: string
  reasoning_details?: ReasoningDetail[]
  tool_calls?: { index: number; id?: string; type?: 'function'; function: Partial<FunctionCall> }[]
  function_call?: Partial<FunctionCall>
  images?: { type: 'image_url'; image_url: { url: string } }[]
  audio?: { id?: string; data?: string; transcript?: string; expires_at?: number }
  annotations?: UrlCitation[]
}

/**
 * A streamed chunk. The chunk that ends a choice carries `finish_reason`; usage is sent with it or in a last chunk
 * without choices.
 */
export type ChatChunk = {
  id: string
  object: 'chat.completion.chunk'
  created: number
  model: string
  choices: { index: number; delta: ChatDelta; logprobs?: unknown; finish_reason: FinishReason | null }[]
  usage?: Usage | null
  provider?: string
  citations?: string[]
  search_results?: SearchResult[]
}

type Assistant = Extract<ChatMessage, { role: 'assistant' }>
type Json = Record<string, unknown>

/**
 * A valid chat request with what it may leave out or say in another way: the `type` of tools and calls, and thinking as
 * parts of an answer's content, which becomes `reasoning_content`, and the effort in `reasoning`. Almost always the same object.
 */
export function completeChat(request: ChatRequest): ChatRequest {
  const body = withNamedEffort(request)
  const { tools, messages } = body
  const completeTools = tools && mapUnlessSame(tools, withType)
  const completeMessages = mapUnlessSame(messages, completeMessage)
  if (completeTools === tools && completeMessages === messages) return body
  return { ...body, messages: completeMessages, ...(completeTools && { tools: completeTools }) }
}

/** OpenRouter's `reasoning` with an effort alone is `reasoning_effort`, which is the name for all providers. */
function withNamedEffort(body: ChatRequest): ChatRequest {
  const { reasoning, ...rest } = body
  if (!isObject(reasoning) || body.reasoning_effort != null) return body
  const effort = reasoning.enabled === false ? 'none' : reasoning.effort
  const named = chatRequest.shape.reasoning_effort.safeParse(effort).data
  if (named == null) return body
  const isAlone = Object.keys(reasoning).every(name => name === 'effort' || name === 'enabled')
  return { ...(isAlone ? rest : body), reasoning_effort: named } as ChatRequest
}

function completeMessage(message: ChatMessage): ChatMessage {
  if (message.role !== 'assistant') return message
  const { tool_calls: calls, content } = message
  const completeCalls = calls && mapUnlessSame(calls, withType)
  const typed = completeCalls === calls ? message : { ...message, tool_calls: completeCalls }
  return Array.isArray(content) && content.some(isThinking) ? withoutThinking(typed) : typed
}

function withType<T extends { type: string }>(entry: T): T {
  return entry.type === undefined ? { ...entry, type: 'function' } : entry
}

function isThinking(part: { type: string }): boolean {
  return part.type === 'thinking'
}

function withoutThinking(message: Assistant): Assistant {
  const parts = message.content as Exclude<Assistant['content'], string | null | undefined>
  const others = parts.filter(part => !isThinking(part))
  const thoughts = parts.filter(isThinking).map(part => thoughtOf(part as unknown as Json))
  const reasoning_content = (message.reasoning_content ?? '') + thoughts.join('')
  return { ...message, content: others.length > 0 ? others : null, reasoning_content }
}

function thoughtOf({ thinking }: Json): string {
  if (typeof thinking === 'string') return thinking
  return (thinking as Json[]).map(({ text }) => (typeof text === 'string' ? text : '')).join('')
}

function mapUnlessSame<T>(list: T[], read: (entry: T) => T): T[] {
  for (let i = 0; i < list.length; i++) if (read(list[i]!) !== list[i]) return list.map(read)
  return list
}

/** Whether a request uses the predecessors of `tools`: `functions`, `function_call`, or function messages. */
export function hasFunctions({ functions, function_call, messages }: ChatRequest): boolean {
  return functions !== undefined || function_call !== undefined || messages.some(isOfFunction)
}

function isOfFunction(message: ChatMessage): boolean {
  return message.role === 'function' || (message.role === 'assistant' && message.function_call != null)
}
