import type { Deployment, ModelRow, ProviderRow } from './schema.ts'

/** One model at one provider, as far as its limits are concerned. */
type Served = { deployment: Deployment; provider: ProviderRow }

/** A deployment's own trait, else its provider's quirk of the same name. */
function factOf({ deployment, provider }: Served, name: string): unknown {
  return deployment.traits?.[name] ?? provider.quirks?.[name]
}

function positive(value: unknown): number | null {
  return typeof value === 'number' && value > 0 ? value : null
}

/** The most tokens one input image can be billed as; null where it is not known. */
export function maxImageTokens(served: Served): number | null {
  return positive(factOf(served, 'image_tokens_max'))
}

/** The most tokens one second of input sound can be billed as; null where it is not known. */
export function maxAudioTokensPerSecond(served: Served): number | null {
  return positive(factOf(served, 'audio_tokens_per_second'))
}

/** The most tokens the picture of one page of a document can be billed as, beside its text; null where it is not known. */
export function maxPageTokens(served: Served): number | null {
  return positive(factOf(served, 'page_tokens_max')) ?? maxImageTokens(served)
}

/** Whether the text of a document is billed beside the pictures of its pages: taken for granted unless `documents_text` denies it. */
export function billsDocumentText(served: Served): boolean {
  return factOf(served, 'documents_text') !== false
}

/**
 * The longest prompt the provider takes, in tokens, whatever is in it: the row's context length, or the provider's own where
 * that is longer. Null where neither is known.
 */
export function maxPromptTokens({ model, deployment }: { model: ModelRow; deployment: Deployment }): number | null {
  return positive(deployment.traits?.context_length) ?? model.context_length
}

/** Whether reasoning and tool calls are produced beside the output limit, so that the limit does not bound what is billed. */
export function reasonsBesideLimit(served: Served): boolean {
  return factOf(served, 'reasoning_beside_limit') === true
}

/** Whether the model may produce reasoning, which is billed as output and need not be shown: the text of an answer is then not all of it. */
export function canReason({ traits = {} }: Deployment): boolean {
  return traits.reasoning === true || traits.reasons === true || traits.thinking !== undefined
}
