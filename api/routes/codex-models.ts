import type { z } from 'zod'
import { serviceTiers } from '../../shared/base/service-tier.ts'
import { endpoints as routes } from '../../shared/catalog/schema.ts'
import type { codexModel } from '../schemas/codex.ts'
import type { modelRow } from '../schemas/models.ts'

type Row = z.infer<typeof modelRow>
type CodexModel = z.infer<typeof codexModel>

/** The base instructions in the catalog. Codex sends them as the first message, in place of its built-in instructions. */
const baseInstructions = `You are a coding agent in a terminal, working in the user's repository. Use the tools to read files, to \
change them and to run commands. Keep going until the task is done, and make the smallest change that does it completely. \
Follow the conventions of the code base and its AGENTS.md files. Run the project's tests after a change where there are any. \
Never discard changes that are not yours. End with a short summary of what you changed and what you could not verify.`

const reasoningLevels = [
  { effort: 'low', description: 'Fast' },
  { effort: 'medium', description: 'Balanced' },
  { effort: 'high', description: 'Thorough' },
]
/** Codex leaves out a tier that its model does not list (github.com/openai/codex/issues/31562). */
const tierTexts = {
  flex: { name: 'Flex', description: 'Cheaper, when capacity is free' },
  priority: { name: 'Fast', description: 'Faster, at a higher price' },
}
/** Codex truncates a longer output of a tool. */
const maxToolOutputTokens = 10_000
/** Codex compacts a conversation before it fills more of the context window. */
const usableContextPercent = 95

/** The models that Codex can work with, which needs tools; the best first, after `auto`. */
export function codexModels(rows: Row[]): CodexModel[] {
  const isUsable = ({ id, endpoint, supported_parameters }: Row) =>
    endpoint === routes.chat && (id === 'auto' || supported_parameters.includes('tools'))
  const rank = ({ id, quality }: Row) => (id === 'auto' ? Number.POSITIVE_INFINITY : (quality ?? 0))
  return rows
    .filter(isUsable)
    .sort((a, b) => rank(b) - rank(a))
    .map(presentCodexModel)
}

/** A model in Codex's format. Without `apply_patch`, which not every target takes, Codex edits files in the shell. */
function presentCodexModel(row: Row, index: number): CodexModel {
  const supports = (parameter: string) => row.supported_parameters.includes(parameter)
  const thinks = supports('reasoning_effort')
  return {
    slug: row.id,
    display_name: row.name,
    description: row.description,
    default_reasoning_level: thinks ? 'medium' : null,
    supported_reasoning_levels: thinks ? reasoningLevels : [],
    shell_type: 'shell_command',
    visibility: 'list',
    supported_in_api: true,
    priority: index,
    availability_nux: null,
    upgrade: null,
    base_instructions: baseInstructions,
    supports_reasoning_summaries: thinks,
    default_reasoning_summary: thinks ? 'auto' : 'none',
    support_verbosity: false,
    default_verbosity: null,
    apply_patch_tool_type: null,
    web_search_tool_type: 'text',
    truncation_policy: { mode: 'tokens', limit: maxToolOutputTokens },
    supports_parallel_tool_calls: supports('parallel_tool_calls'),
    supports_image_detail_original: false,
    context_window: row.context_length,
    max_context_window: row.context_length,
    auto_compact_token_limit: null,
    effective_context_window_percent: usableContextPercent,
    experimental_supported_tools: [],
    input_modalities: row.input_modalities.filter(modality => modality === 'text' || modality === 'image'),
    service_tiers: serviceTiers.filter(tier => row.pricing?.[`prompt_${tier}`]).map(id => ({ id, ...tierTexts[id] })),
  }
}
