import { z } from 'zod'
import { type ChatProfile, chatProfile, type GivenProfile } from './chat-profile.ts'
import protocolProfiles from './protocol-profiles.json' with { type: 'json' }
import type { Quantization } from './provider-preferences.ts'
import type { ProviderQuirks, servedTraits } from './provider-quirks.ts'
import type { Deployment, ModelRow, ProviderRow } from './schema.ts'

/** A model at a provider, reduced to its limits. */
type ServedModel = { deployment: Deployment; provider: ProviderRow }

/** A deployment's own trait, else its provider's quirk of the same name. */
function traitOf<Name extends keyof typeof servedTraits>(
  { deployment, provider }: ServedModel,
  name: Name,
): ProviderQuirks[Name] {
  return deployment.traits?.[name] ?? provider.quirks?.[name]
}

/** Whether the model has been retired by its maker on a date such as "2026-11-26". Other providers may still serve it. */
export function isRetired({ expires_on }: Pick<ModelRow, 'expires_on'>, date: string): boolean {
  return expires_on !== null && expires_on <= date
}

/** The maximum tokens one input image can be billed as; null if unknown. */
export function maxImageTokens(served: ServedModel): number | null {
  return traitOf(served, 'image_tokens_max') ?? null
}

/** The maximum tokens one second of input audio can be billed as; null if unknown. */
export function maxAudioTokensPerSecond(served: ServedModel): number | null {
  return traitOf(served, 'audio_tokens_per_second') ?? null
}

/** The maximum tokens the image of one document page can be billed as, beside its text; null if unknown. */
export function maxPageTokens(served: ServedModel): number | null {
  return traitOf(served, 'page_tokens_max') ?? maxImageTokens(served)
}

/**
 * Whether the text of a document is billed in addition to the images of its pages: assumed unless `documents_text` is
 * false.
 */
export function billsDocumentText(served: ServedModel): boolean {
  return traitOf(served, 'documents_text') !== false
}

/**
 * The maximum prompt the provider accepts, in tokens of any content: the row's context length, or the provider's own if
 * it is longer. Null if neither is known.
 */
export function maxPromptTokens({ model, deployment }: { model: ModelRow; deployment: Deployment }): number | null {
  return deployment.traits?.context_length ?? model.context_length
}

/**
 * Whether reasoning and tool calls are not counted towards the output limit, so that the limit does not bound the
 * billed output.
 */
export function reasonsBesideLimit(served: ServedModel): boolean {
  return traitOf(served, 'reasoning_beside_limit') === true
}

/**
 * Whether the model may produce reasoning, which is billed as output and may be hidden: the text of a response is then
 * only a part of the billed output.
 */
export function canReason({ traits = {} }: Deployment): boolean {
  return traits.reasoning === true || traits.thinking !== undefined
}

/**
 * Whether the provider serves the model by OpenAI's Responses format as well: then requests in it are sent as they are.
 */
export function servesResponses(served: ServedModel): boolean {
  return traitOf(served, 'responses') === true
}

/** The formats of the files that the provider transcribes, by their usual extensions; null for any. */
export function transcribedFormats(served: ServedModel): readonly string[] | null {
  return traitOf(served, 'file_formats') ?? null
}

/** Whether searches of the web by the provider's own tool have a price. Without one, the tool is not offered. */
export function hasWebSearchPrice({ price }: Deployment): boolean {
  return price.unit === 'token' && price.web_search !== undefined
}

/** Whether its Responses format has tools of the type `namespace`. */
export function takesNamespaces(served: ServedModel): boolean {
  return traitOf(served, 'namespace_tools') === true
}

/** Whether its Responses compact a conversation (`compaction_trigger`), and read what they have compacted. */
export function compacts(served: ServedModel): boolean {
  return traitOf(served, 'compaction') === true
}

/** Whether the model's tokenizer is that of `shared/kinds/tokenizer.ts` (`tokenizer` is `o200k`), so that our counts are its own. */
export function hasOurTokenizer(served: ServedModel): boolean {
  return traitOf(served, 'tokenizer') === 'o200k'
}

/** Whether prompts are cached only where marks ask for it, and writing and reading the cache have their own prices. */
export function cachesByMarks(served: ServedModel): boolean {
  const { price } = served.deployment
  const isPriced = price.unit === 'token' && price.cache_write !== undefined && price.cached_input !== undefined
  return isPriced && profileOf(served).cache_marks !== 'none'
}

/**
 * Whether the provider, by its terms, may train on requests or keep them for other purposes than answering and finding abuse;
 * null if that is not known.
 */
export function collectsData(served: ServedModel): boolean | null {
  return traitOf(served, 'data_collection') ?? null
}

/** Whether the provider keeps nothing of a request; null if that is not known. */
export function retainsNothing(served: ServedModel): boolean | null {
  return traitOf(served, 'zdr') ?? null
}

/** The precision of the weights that the provider serves; null if that is not known. */
export function quantizationOf(served: ServedModel): Quantization | null {
  return traitOf(served, 'quantization') ?? null
}

/** What servers of OpenAI's dialect usually accept. */
const defaults: ChatProfile = {
  developer_role: false,
  system_turns: false,
  system_only: true,
  assistant_first: true,
  user_after_tool: true,
  prefill: 'plain',
  refusals: false,
  null_fields: false,
  list_content: true,
  image_urls: true,
  reasoning_field: 'reasoning_content',
  tool_call_id: 'any',
  any_item_ids: true,
  unique_call_ids: false,
  any_arguments: false,
  tool_name: 'word_64',
  chat_tools: true,
  custom_tools: false,
  allowed_tools: false,
  validated_tools: false,
  strict_tools: true,
  strict_schemas: 'any',
  tool_search: false,
  forced_tools: true,
  forced_tools_while_reasoning: true,
  tools_with_format: true,
  json_mode: true,
  json_word: false,
  schema_format: true,
  stream_with_format: true,
  schema: 'with_properties',
  root_combinators: true,
  property_key: 'any',
  sampling: 'all',
  blank_stops: true,
  max_stops: 4,
  cache_marks: 'none',
  empty_answers: false,
  contact_ids: true,
  effort_off: 'effort',
}

const ownProfiles = z.record(z.string(), chatProfile.extend({ like: z.string().optional() })).parse(protocolProfiles)
/** What the APIs of other protocols accept; `like`: what another protocol's does, but for its own members. */
const byProtocol: Record<string, GivenProfile> = Object.fromEntries(
  Object.entries(ownProfiles).map(([name, { like, ...own }]) => [name, like ? { ...ownProfiles[like], ...own } : own]),
)

type WithProfile = { profile?: GivenProfile | undefined }
type Provider = WithProfile & { protocol: string }
const profiles = new WeakMap<WithProfile, { provider: Provider; profile: ChatProfile }>()

/** The profile of a model at a provider. */
export function profileOf({ deployment, provider }: { deployment: WithProfile; provider: Provider }): ChatProfile {
  const known = profiles.get(deployment)
  if (known?.provider === provider) return known.profile
  const profile = { ...defaults, ...byProtocol[provider.protocol], ...provider.profile, ...deployment.profile }
  profiles.set(deployment, { provider, profile })
  return profile
}

/** The parameters of a model that at least one of its targets takes. */
export function takenParameters(
  { supported_parameters: listed }: { supported_parameters: string[] },
  targets: readonly { deployment: WithProfile; provider: Provider }[],
): string[] {
  if (targets.length === 0) return listed
  const profiles = targets.map(profileOf)
  return listed.filter(name => profiles.some(profile => !isRefused(name, profile)))
}

function isRefused(name: string, { refused_fields: refused, sampling }: ChatProfile): boolean {
  return refused?.includes(name) === true || (sampling === 'none' && (name === 'temperature' || name === 'top_p'))
}
