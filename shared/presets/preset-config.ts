import { z } from 'zod'
import { providerPreferences } from '../catalog/provider-preferences.ts'
import { modes } from '../keys/policy.ts'

export const presetName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, 'must be lower-case letters, digits, _ and -, beginning with a letter or digit')

const slug = z.string().min(1).max(100)
/** A preset names models, never another preset. */
const modelSlug = slug.refine(text => !text.includes('@preset/'), 'must be a model, not a preset')
const maxSystemLength = 200_000

/** What a preset stands for: members of a chat completion, in OpenAI's names, and the system prompt. */
export const presetConfig = z
  .strictObject({
    model: modelSlug.optional().describe('The model. A preset without one needs a model in each request.'),
    models: z.array(modelSlug).min(1).max(20).optional().describe('Models to try after it.'),
    system: z.string().min(1).max(maxSystemLength).optional().describe('The system prompt of requests without one.'),
    mode: z.enum(modes).optional().describe('How `auto` chooses the model.'),
    provider: providerPreferences
      .extend({})
      .meta({ id: 'PresetProviderPreferences' })
      .optional()
      .describe('Which providers may serve it, and in which order.'),
    temperature: z.number().min(0).max(2).optional().describe('As in a chat completion.'),
    top_p: z.number().min(0).max(1).optional().describe('As in a chat completion.'),
    top_k: z.int().min(0).optional().describe('As in a chat completion.'),
    min_p: z.number().min(0).max(1).optional().describe('As in a chat completion.'),
    frequency_penalty: z.number().min(-2).max(2).optional().describe('As in a chat completion.'),
    presence_penalty: z.number().min(-2).max(2).optional().describe('As in a chat completion.'),
    repetition_penalty: z.number().min(0).max(2).optional().describe('As in a chat completion.'),
    seed: z.int().optional().describe('As in a chat completion.'),
    stop: z.array(z.string().min(1).max(500)).min(1).max(4).optional().describe('As in a chat completion.'),
    max_tokens: z.int().min(1).optional().describe('As in a chat completion.'),
    reasoning_effort: z
      .enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'])
      .optional()
      .describe('As in a chat completion.'),
    verbosity: z.enum(['low', 'medium', 'high']).optional().describe('As in a chat completion.'),
    parallel_tool_calls: z.boolean().optional().describe('As in a chat completion.'),
    response_format: z
      .looseObject({ type: z.enum(['text', 'json_object', 'json_schema']) })
      .optional()
      .describe('As in a chat completion.'),
  })
  .refine(config => Object.keys(config).length > 0, 'must have at least one member')
  .meta({ id: 'PresetConfig' })
export type PresetConfig = z.output<typeof presetConfig>
