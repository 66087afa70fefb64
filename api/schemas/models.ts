import { z } from 'zod'
import { ratedTasks } from '../../shared/catalog/schema.ts'
import { codexModel } from './codex.ts'

/** Responses with models in the gateway's own format. */

export const modelRow = z
  .looseObject({
    id: z.string(),
    object: z.literal('model'),
    created: z.int(),
    owned_by: z.string(),
    type: z.string(),
    endpoint: z.string(),
    aliases: z.array(z.string()).describe('Alternative ids of the model for requests.'),
    name: z.string(),
    display_name: z.string().describe('Alias of `name`.'),
    description: z.string(),
    context_length: z.int().nullable(),
    context_window: z.int().nullable().describe('Alias of `context_length`.'),
    max_output_tokens: z.int().nullable(),
    input_modalities: z.array(z.string()),
    output_modalities: z.array(z.string()),
    supported_parameters: z.array(z.string()),
    pricing: z
      .record(z.string(), z.string())
      .describe(
        'USD per unit as decimal strings, including the service’s margin. `minimum_per_request` is what the shortest request costs.',
      ),
    providers: z.array(z.string()),
    provider_terms: z
      .array(
        z.strictObject({
          provider: z.string(),
          data_collection: z.boolean().nullable().describe('Whether it may train on requests or keep them.'),
          zdr: z.boolean().nullable().describe('Whether it keeps nothing of a request.'),
          quantization: z.string().nullable().describe('The precision of the weights.'),
        }),
      )
      .describe('What is known of each provider; null = not known.'),
    quality: z.number().nullable(),
    task_qualities: z
      .partialRecord(z.enum(ratedTasks), z.number())
      .describe('Qualities for classes of tasks, which `auto` uses in place of `quality`.'),
    expires_on: z.string().nullable(),
  })
  .meta({ id: 'Model' })

export const modelList = z
  .strictObject({
    object: z.literal('list'),
    data: z.array(modelRow),
    models: z.array(codexModel).optional().describe('With `client_version` only: the models as Codex reads them.'),
  })
  .meta({ id: 'ModelList' })
