import { z } from 'zod'

/** Responses in the format of Anthropic's API. */

export const anthropicModel = z
  .strictObject({
    type: z.literal('model'),
    id: z.string(),
    display_name: z.string(),
    description: z.string(),
    created_at: z.iso.datetime(),
    max_input_tokens: z.int().nullable().describe('The context length.'),
    max_tokens: z.int().nullable().describe('The maximum output length.'),
    capabilities: z.null(),
    line: z.null(),
    lifecycle: z.enum(['active', 'deprecated']),
    deprecated_at: z.null(),
    retires_at: z.iso.datetime().nullable(),
  })
  .meta({ id: 'AnthropicModel' })

export const anthropicModelList = z
  .strictObject({
    data: z.array(anthropicModel),
    has_more: z.boolean(),
    first_id: z.string().nullable(),
    last_id: z.string().nullable().describe('The value of `after_id` for the next page.'),
  })
  .meta({ id: 'AnthropicModelList' })
