import { z } from 'zod'
import type { Usage } from '../base/usage.ts'
import { chatRequest } from './chat.ts'
import { openRouterFields, paidFields } from './paid-fields.ts'

const tokenArray = z
  .array(z.int().nonnegative({ abort: true }))
  .min(1)
  .max(8192)

/** `POST /v1/embeddings`: the OpenAI embeddings shape plus the routing fields. */
export const embeddingRequest = z.looseObject({
  model: chatRequest.shape.model,
  input: z
    .union([
      z.string().min(1),
      z.array(z.string().min(1)).min(1).max(2048),
      tokenArray,
      z.array(tokenArray).min(1).max(2048),
    ])
    .describe('A text, several texts, or the same as token ids.'),
  dimensions: z
    .int()
    .min(1)
    .max(65_536)
    .nullish()
    .describe('The length of the vectors, where the model lets it be chosen.'),
  encoding_format: z
    .enum(['float', 'base64'])
    .nullish()
    .meta({ default: 'float', description: '`base64` is 32-bit little-endian floats.' }),
  mode: chatRequest.shape.mode,
  models: chatRequest.shape.models,
  provider: chatRequest.shape.provider,
  user: chatRequest.shape.user,
  ...openRouterFields,
  ...paidFields,
})
export type EmbeddingRequest = z.infer<typeof embeddingRequest>

export type Embeddings = {
  /** Adapters give none. */
  id?: string
  object: 'list'
  model: string
  data: { object: 'embedding'; index: number; embedding: number[] | string }[]
  /** Absent if the provider reports no usage. */
  usage?: Omit<Usage, 'completion_tokens'>
  provider?: string
}
