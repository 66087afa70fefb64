import { z } from 'zod'
import type { Usage } from '../base/usage.ts'
import { chatRequest } from './chat.ts'
import { openRouterFields, paidFields } from './paid-fields.ts'

const tokenArray = z
  .array(z.int().nonnegative({ abort: true }))
  .min(1)
  .max(1_000_000)

/** How many tokens a completion may have where the request does not say, as at OpenAI. */
export const usualMaxTokens = 16

/** `POST /v1/completions`: the legacy OpenAI completions shape plus the routing fields. */
export const completionRequest = z.looseObject({
  model: chatRequest.shape.model,
  prompt: z
    .union([z.string(), z.array(z.string()).min(1).max(2048), tokenArray, z.array(tokenArray).min(1).max(2048)])
    .describe('A text, several texts, or the same as token ids.'),
  mode: chatRequest.shape.mode,
  models: chatRequest.shape.models,
  provider: chatRequest.shape.provider,
  metadata: chatRequest.shape.metadata,
  prompt_cache_key: chatRequest.shape.prompt_cache_key,
  stream: chatRequest.shape.stream,
  stream_options: chatRequest.shape.stream_options,
  max_tokens: z
    .int()
    .min(0)
    .max(10_000_000)
    .nullish()
    .describe('The most tokens that each completion may have; 0, with `echo` and `logprobs`, only rates the prompt.'),
  temperature: chatRequest.shape.temperature,
  top_p: chatRequest.shape.top_p,
  frequency_penalty: chatRequest.shape.frequency_penalty,
  presence_penalty: chatRequest.shape.presence_penalty,
  n: chatRequest.shape.n,
  best_of: z.int().min(1).max(20).nullish().describe('Make so many and give the best `n`.'),
  stop: chatRequest.shape.stop,
  seed: chatRequest.shape.seed,
  logprobs: z
    .int()
    .min(0)
    .max(5)
    .nullish()
    .describe('The number of most likely tokens whose log probabilities are returned.'),
  echo: z.boolean().nullish().meta({ default: false, description: 'Begin the answer with the prompt.' }),
  suffix: z.string().nullish().describe('The text that comes after the completion.'),
  user: chatRequest.shape.user,
  ...openRouterFields,
  ...paidFields,
})
export type CompletionRequest = z.infer<typeof completionRequest>

export type CompletionChoice = {
  index: number
  text: string
  logprobs: unknown
  finish_reason: 'stop' | 'length' | 'content_filter' | 'error' | null
}
/** A complete response and a streamed chunk have one shape: in a stream `text` is the delta. */
export type Completion = {
  id: string
  object: 'text_completion'
  created: number
  model: string
  choices: CompletionChoice[]
  usage?: Usage | null
  provider?: string
}
