import { z } from 'zod'
import { serviceTiers } from '../../shared/base/service-tier.ts'

/** Responses in the format of Codex's model catalog. */

const text = z.string()

export const codexModel = z
  .strictObject({
    slug: text.describe('The model’s id, for requests.'),
    display_name: text,
    description: text,
    default_reasoning_level: text.nullable(),
    supported_reasoning_levels: z.array(z.strictObject({ effort: text, description: text })),
    shell_type: z.literal('shell_command'),
    visibility: z.literal('list'),
    supported_in_api: z.literal(true),
    priority: z.int().describe('The position in Codex’s menu, lowest first.'),
    availability_nux: z.null(),
    upgrade: z.null(),
    base_instructions: text,
    supports_reasoning_summaries: z.boolean(),
    default_reasoning_summary: z.enum(['auto', 'none']),
    support_verbosity: z.literal(false),
    default_verbosity: z.null(),
    apply_patch_tool_type: z.null(),
    web_search_tool_type: z.literal('text'),
    truncation_policy: z.strictObject({ mode: z.literal('tokens'), limit: z.int() }),
    supports_parallel_tool_calls: z.boolean(),
    supports_image_detail_original: z.literal(false),
    context_window: z.int().nullable().describe('The context length.'),
    max_context_window: z.int().nullable(),
    auto_compact_token_limit: z.null(),
    effective_context_window_percent: z.int(),
    experimental_supported_tools: z.array(text),
    input_modalities: z.array(z.enum(['text', 'image'])),
    service_tiers: z
      .array(z.strictObject({ id: z.enum(serviceTiers), name: text, description: text }))
      .describe('Codex sends no other.'),
  })
  .meta({ id: 'CodexModel' })
