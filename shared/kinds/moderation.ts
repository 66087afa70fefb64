import { z } from 'zod'
import { common, ofOpenRouter, unsupported } from './media.ts'
import { type SyncKindRow, zeroQuantity } from './sync-kind.ts'

const maxInputs = 2_048

const part = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text'), text: z.string() }),
  z.looseObject({ type: z.literal('image_url'), image_url: z.looseObject({ url: z.string().min(1) }) }),
])

/** `POST /v1/moderations`, in OpenAI's shape. */
export const moderationRequest = z
  .looseObject({
    ...ofOpenRouter,
    model: common.model,
    input: z
      .union([z.string(), z.array(z.string()).min(1).max(maxInputs), z.array(part).min(1).max(maxInputs)])
      .describe('A text, several texts, or parts: texts and images.'),
  })
  .meta({ id: 'CreateModerationRequest' })
type ModerationRequest = z.infer<typeof moderationRequest>

/** The fields of a request that are read; others are named as dropped. */
export const moderationFields: ReadonlySet<string> = new Set(Object.keys(moderationRequest.shape))

/** Adapter input of a moderation: the `input` of the request. */
export type ModerationInput = { input: ModerationRequest['input'] }

/** What was found in each input, in OpenAI's shape. */
export type ModerationResult = { flagged: boolean; categories: Record<string, boolean | null> } & Record<
  string,
  unknown
>
export type ModerationOutput = { model: string; results: ModerationResult[] }

export const moderation: SyncKindRow<ModerationRequest, ModerationInput> = {
  idPrefix: 'modr',
  path: '/v1/moderations',
  modelsPath: '/v1/models',
  type: 'moderation',
  request: moderationRequest,
  references: () => [],
  input({ input }, model) {
    const hasImage = typeof input !== 'string' && input.some(one => typeof one === 'object' && one.type === 'image_url')
    if (hasImage && !model.input_modalities.includes('image')) throw unsupported(model, 'input', 'reads no images')
    return { input }
  },
  // No provider asks money for it.
  maxQuantity: () => zeroQuantity,
}
