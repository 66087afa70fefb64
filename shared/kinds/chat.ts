import { z } from 'zod'
import type { Usage } from '../base/usage.ts'
import { paidFields } from './paid-fields.ts'

const text = z.looseObject({ type: z.literal('text'), text: z.string() })
const imageUrl = z.looseObject({
  type: z.literal('image_url'),
  image_url: z.looseObject({ url: z.string().min(1), detail: z.string().optional() }),
})
const inputAudio = z.looseObject({
  type: z.literal('input_audio'),
  input_audio: z.looseObject({ data: z.string().min(1), format: z.string().min(1) }),
})
const file = z.looseObject({
  type: z.literal('file'),
  file: z.looseObject({
    file_id: z.never({ error: 'is not supported: send the file itself in `file_data`' }).optional(),
    file_data: z.string().optional(),
    filename: z.string().optional(),
  }),
})
const refusal = z.looseObject({ type: z.literal('refusal'), refusal: z.string() })

const textContent = z.union([z.string(), z.array(text).min(1)])
const userContent = z.union([
  z.string(),
  z.array(z.discriminatedUnion('type', [text, imageUrl, inputAudio, file])).min(1),
])

const toolCall = z.discriminatedUnion('type', [
  z.looseObject({
    id: z.string().min(1),
    type: z.literal('function'),
    function: z.looseObject({ name: z.string().min(1), arguments: z.string() }),
  }),
  z.looseObject({
    id: z.string().min(1),
    type: z.literal('custom'),
    custom: z.looseObject({ name: z.string().min(1), input: z.string() }),
  }),
])

const functionCall = z.looseObject({ name: z.string().min(1), arguments: z.string() })

const message = z.discriminatedUnion('role', [
  z.looseObject({ role: z.literal('developer'), content: textContent }),
  z.looseObject({ role: z.literal('system'), content: textContent }),
  z.looseObject({ role: z.literal('user'), content: userContent }),
  z.looseObject({
    role: z.literal('assistant'),
    content: z.union([z.string(), z.array(z.discriminatedUnion('type', [text, refusal]))]).nullish(),
    tool_calls: z.array(toolCall).nullish(),
    function_call: functionCall.nullish().describe('Deprecated for `tool_calls`.'),
    refusal: z.string().nullish(),
    audio: z.looseObject({ id: z.string() }).nullish(),
    reasoning_content: z.string().nullish(),
  }),
  z.looseObject({ role: z.literal('tool'), tool_call_id: z.string().min(1), content: textContent }),
  z.looseObject({ role: z.literal('function'), name: z.string(), content: z.string().nullable() }),
])
export type ChatMessage = z.infer<typeof message>

const toolName = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/)
const callable = z.looseObject({
  name: toolName,
  description: z.string().optional(),
  parameters: z.record(z.string(), z.unknown()).optional(),
  strict: z.boolean().nullish(),
})
const tool = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('function'), function: callable }),
  z.looseObject({ type: z.literal('custom'), custom: z.looseObject({ name: toolName }) }),
])

const tokens = z.int().min(1).max(10_000_000)

const providerPreferences = z.strictObject({
  order: z.array(z.string()).max(50).optional(),
  only: z.array(z.string()).max(50).optional(),
  ignore: z.array(z.string()).max(50).optional(),
  allow_fallbacks: z.boolean().optional(),
})

/** The extra fields of CONTRACT §4, on every chat-shaped route. */
const routing = {
  mode: z
    .enum(['cost', 'balanced', 'quality'])
    .optional()
    .describe('Routing mode; overrides the key’s own for this call.'),
  models: z.array(z.string().min(1)).min(1).max(10).optional().describe('Ordered fallback list of model slugs.'),
  provider: providerPreferences.optional().describe('Provider preferences.'),
  metadata: z.record(z.string(), z.string()).nullish(),
  prompt_cache_key: z
    .string()
    .max(1_000)
    .nullish()
    .describe('Names the conversation: its requests stay with one provider, so that its prompt cache is hit.'),
}

/** `POST /v1/chat/completions` and `/v1/route`: the OpenAI chat shape (unknown fields are not an error) plus the routing fields. */
export const chatRequest = z.looseObject({
  model: z.string().min(1).max(200).describe('`auto` or a model slug.'),
  messages: z.array(message).min(1).max(16_384),
  ...routing,
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().optional() }).nullish(),
  max_tokens: tokens.nullish(),
  max_completion_tokens: tokens.nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  n: z.int().min(1).max(128).nullish(),
  stop: z.union([z.string(), z.array(z.string()).max(4)]).nullish(),
  seed: z.int().nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(20).nullish(),
  logit_bias: z.record(z.string(), z.number()).nullish(),
  tools: z.array(tool).max(1024).optional(),
  tool_choice: z
    .union([
      z.enum(['none', 'auto', 'required']),
      z.looseObject({ type: z.literal('function'), function: z.looseObject({ name: z.string().min(1) }) }),
      z.looseObject({ type: z.enum(['custom', 'allowed_tools']) }),
    ])
    .optional(),
  parallel_tool_calls: z.boolean().optional(),
  functions: z.array(callable).max(1024).optional().describe('Deprecated for `tools`.'),
  function_call: z
    .union([z.enum(['none', 'auto']), z.looseObject({ name: z.string().min(1) })])
    .optional()
    .describe('Deprecated for `tool_choice`.'),
  response_format: z
    .discriminatedUnion('type', [
      z.looseObject({ type: z.literal('text') }),
      z.looseObject({ type: z.literal('json_object') }),
      z.looseObject({
        type: z.literal('json_schema'),
        json_schema: z.looseObject({
          name: z.string().min(1),
          description: z.string().optional(),
          schema: z.record(z.string(), z.unknown()).optional(),
          strict: z.boolean().nullish(),
        }),
      }),
    ])
    .optional(),
  modalities: z
    .array(z.enum(['text', 'image', 'audio']))
    .min(1)
    .nullish(),
  audio: z
    .looseObject({
      voice: z.union([z.string(), z.looseObject({ id: z.string() })]),
      format: z.enum(['wav', 'aac', 'mp3', 'flac', 'opus', 'pcm16']),
    })
    .nullish()
    .describe('Needed where `modalities` have `audio`. Streams take `pcm16` only.'),
  reasoning_effort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']).nullish(),
  user: z.string().optional(),
  ...paidFields,
})
export type ChatRequest = z.infer<typeof chatRequest>

export type FunctionCall = { name: string; arguments: string }
export type ToolCall = { id: string; type: 'function'; function: FunctionCall }
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'function_call' | 'content_filter' | 'error'

/** A whole answer, as `object: "chat.completion"` has it; adapters give it without our own fields. */
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
      tool_calls?: ToolCall[]
      function_call?: FunctionCall
      images?: { type: 'image_url'; image_url: { url: string } }[]
      audio?: { id: string; data: string; expires_at: number; transcript: string } | null
    }
    logprobs?: unknown
    finish_reason: FinishReason
  }[]
  usage?: Usage
  provider?: string
}

export type ChatDelta = {
  role?: 'assistant'
  content?: string | null
  refusal?: string | null
  reasoning_content?: string
  tool_calls?: { index: number; id?: string; type?: 'function'; function: Partial<FunctionCall> }[]
  function_call?: Partial<FunctionCall>
  images?: { type: 'image_url'; image_url: { url: string } }[]
  audio?: { id?: string; data?: string; transcript?: string; expires_at?: number }
}

/** One streamed piece. The chunk that ends an answer carries `finish_reason`; usage comes with it or in a last chunk without choices. */
export type ChatChunk = {
  id: string
  object: 'chat.completion.chunk'
  created: number
  model: string
  choices: { index: number; delta: ChatDelta; logprobs?: unknown; finish_reason: FinishReason | null }[]
  usage?: Usage | null
  provider?: string
}
