import { noteUnknown } from '../base/unknown-names.ts'
import { accountHeaders, knownBetas, sentHeaders } from './anthropic-headers.ts'
import { paidFields } from './paid-fields.ts'

/**
 * Every member that the top level of a request has in the provider's own format, and what the gateway does with it. It
 * exists because of those that do more than buy tokens: they keep state in the operator's account at the provider, which
 * all organisations share, read what others have there, or cost extra. A test compares the tables with the types of the
 * newest SDKs, so a member that a provider adds has to be decided on. docs/decisions/paid-fields.md
 *
 * Sources: `anthropic` is @anthropic-ai/sdk, resources/beta/messages/messages.ts (MessageCreateParamsBase), `openai` is
 * openai, resources/responses/responses.ts and resources/chat/completions/completions.ts; the comments of their types are
 * the reference of the API.
 */
type Member = {
  /**
   * `sent`: as it is, for tokens or at a price. `ours`: the gateway reads, scopes or sets it; the client's value does not
   * reach the provider. `refused`: 400 naming it. `dropped`: not sent, and named in `x-gateway-dropped`.
   */
  is: 'sent' | 'ours' | 'refused' | 'dropped'
  /** What it would do beside buying tokens. */
  concern?: 'state' | 'data' | 'cost'
  why?: string
  source?: string
  /** The values that ask for nothing: these are sent. */
  allows?: (value: unknown) => boolean
  /** Whether the answer would be another one without it, so that models of other formats refuse it, too. */
  matters?: true
}
export type MemberTable = ReadonlyMap<string, Member>

type Rows = { [names: string]: Member }

/** A table of rows, each of which may have several names. */
function table(...parts: Rows[]): MemberTable {
  const rows = parts.flatMap(part => Object.entries(part))
  return new Map(
    rows.flatMap(([names, row]) =>
      names
        .trim()
        .split(/\s+/)
        .map((name): [string, Member] => [name, row]),
    ),
  )
}

const oneOf = (values: readonly unknown[]) => (value: unknown) => values.includes(value)
const field = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined

/** The gateway's own fields of every request. */
const own: Rows = {
  'mode models provider': { is: 'ours', why: 'routing of the gateway' },
  session_id: { is: 'ours', why: 'OpenRouter’s name of the session' },
}

/** Members of OpenRouter's and xAI's formats that OpenAI's do not have (@openrouter/sdk, models/chatrequest.ts). */
const otherVendors: Rows = {
  'image_config modalities deferred agent_count stop_server_tools_when': {
    is: 'dropped',
    concern: 'cost',
    why: 'larger images, other kinds of answers, more agents or rounds of tools, for which there is no price',
    source: 'openrouter.ai/docs/api/reference/parameters, docs.x.ai/docs/api-reference',
  },
  'trace debug route transforms usage plugins preset': {
    is: 'dropped',
    concern: 'state',
    why: 'traces and settings in the operator’s account; routing and changes of the prompt are the gateway’s own',
    source: '@openrouter/sdk, models/chatrequest.ts',
  },
}

/** `POST /v1/messages` and its `count_tokens`. */
export const messagesMembers: MemberTable = table(own, otherVendors, {
  'model messages system max_tokens stop_sequences stream temperature top_p top_k': { is: 'sent' },
  'tool_choice thinking output_config output_format metadata': { is: 'sent' },
  prompt_cache_key: { is: 'ours', why: 'names the session, as in chat completions' },
  tools: {
    is: 'sent',
    concern: 'cost',
    why: 'each tool is free, has a price, or is refused: docs/decisions/messages.md',
  },
  cache_control: {
    is: 'sent',
    concern: 'cost',
    why: 'a lifetime of one hour needs a price: docs/decisions/messages.md',
  },
  context_management: { is: 'sent', concern: 'cost', why: 'a summary reads the prompt again, which is reserved' },
  compaction: {
    is: 'sent',
    why: 'the answer is a summary of `messages`, which is stored nowhere',
    source: 'anthropic: BetaCompactionConfig',
    matters: true,
  },
  mcp_servers: {
    is: 'sent',
    concern: 'data',
    why: 'what servers return is reserved; those behind the operator’s tunnels are refused (`refuseTunnels`)',
    source: 'anthropic: BetaTunnel.domain; platform.claude.com/docs/en/agents-and-tools/mcp-tunnels/overview',
    matters: true,
  },
  thread: {
    is: 'refused',
    concern: 'state',
    why: 'the provider keeps the conversation, charges all of it, and whoever knows an id continues it',
    source: 'anthropic: BetaMessageThreadParam; refused in the SDK’s own words by message-threads.ts',
    matters: true,
  },
  container: {
    is: 'refused',
    concern: 'state',
    why: 'a container of the operator’s account, billed by the hour, and its skills',
    source: 'anthropic: BetaContainerParams, BetaSkillParams',
    matters: true,
  },
  billing_policy: {
    is: 'refused',
    concern: 'cost',
    why: 'bills the customer behind a user profile of the operator’s account',
    source: 'anthropic: BetaBillingPolicy',
    allows: value => oneOf([undefined, 'self'])(field(value, 'bill_to')),
    matters: true,
  },
  inference_geo: {
    is: 'refused',
    concern: 'cost',
    why: 'a region has a price of its own',
    source: 'anthropic: inference_geo; platform.claude.com/docs/en/about-claude/pricing',
    allows: oneOf(['global']),
    matters: true,
  },
  speed: {
    is: 'refused',
    concern: 'cost',
    why: 'fast tokens have another price',
    source: 'anthropic: speed; platform.claude.com/docs/en/build-with-claude/fast-mode',
    allows: oneOf(['standard']),
  },
  service_tier: {
    is: 'refused',
    concern: 'cost',
    why: 'another tier has another price',
    source: 'anthropic: service_tier',
    allows: oneOf(['auto', 'standard_only']),
  },
  fallbacks: {
    is: 'refused',
    concern: 'cost',
    why: 'other models at other prices',
    source: 'anthropic: BetaFallbacksParam',
  },
  fallback_credit_token: {
    is: 'sent',
    concern: 'cost',
    why: 'makes a repetition cheaper, and works with the very body whose refusal it came with only',
    source: 'anthropic: fallback_credit_token',
  },
  diagnostics: {
    is: 'dropped',
    concern: 'data',
    why: 'compares the prompt with that of any message in the operator’s account',
    source: 'anthropic: BetaDiagnosticsParam',
    allows: value => field(value, 'previous_message_id') == null,
  },
  'user_profile_id workspace_id': {
    is: 'dropped',
    concern: 'data',
    why: 'profiles and workspaces of the operator’s account; the SDK sends them as headers',
    source: 'anthropic: MessageCreateParamsBase, “Header param”',
  },
})

/** `POST /v1/responses`. */
export const responsesMembers: MemberTable = table(own, otherVendors, {
  'model input instructions stream stream_options max_output_tokens max_tool_calls': { is: 'sent' },
  'temperature top_p top_logprobs tool_choice parallel_tool_calls reasoning text include truncation': { is: 'sent' },
  'metadata safety_identifier user': { is: 'sent', why: 'nothing is stored, so they are in the answer only' },
  prompt_cache_key: { is: 'sent', why: 'a prefix is only found by who sends the same prefix' },
  tools: {
    is: 'sent',
    concern: 'cost',
    why: 'functions, custom tools and web searches at a price; others are dropped',
  },
  'store background previous_response_id conversation': {
    is: 'ours',
    concern: 'state',
    why: 'kept by the gateway, for the organisation: docs/decisions/stored-responses.md',
    source: 'openai: ResponseCreateParamsBase',
  },
  service_tier: {
    is: 'dropped',
    concern: 'cost',
    why: 'a tier is sent where the target has a price for it: docs/decisions/service-tiers.md',
    source: 'openai: ServiceTier',
  },
  client_metadata: { is: 'ours', why: 'Codex sends it in every request; it has no effect' },
  prompt: {
    is: 'refused',
    concern: 'data',
    why: 'a template that is stored in the operator’s account',
    source: 'openai: ResponsePrompt',
    matters: true,
  },
  'presence_penalty frequency_penalty': {
    is: 'dropped',
    why: 'OpenAI refuses them; see `responses_fields` of a provider',
  },
  context_management: {
    is: 'dropped',
    concern: 'cost',
    why: 'sent where the target compacts, which is reserved; done by the gateway elsewhere: docs/decisions/responses.md',
    source: 'openai: ResponseCreateParams.ContextManagement',
  },
  image: { is: 'dropped', concern: 'cost', why: 'the prompt is read in another form than reserved' },
  'prompt_cache_retention prompt_cache_options': {
    is: 'dropped',
    concern: 'cost',
    why: 'longer lifetimes have no price; `comparison_response_id` reads what another response was asked',
    source: 'openai: PromptCacheOptions; developers.openai.com/api/docs/guides/prompt-caching',
  },
  'moderation access_programs multi_agent': {
    is: 'dropped',
    concern: 'cost',
    why: 'a second model, a programme that the operator’s account was admitted to, more agents',
    source: 'openai: ResponseCreateParams.Moderation, AccessPrograms; resources/beta/responses: MultiAgent',
  },
  [Object.keys(paidFields).join(' ')]: { is: 'dropped', concern: 'cost', why: 'has no price' },
  'top_k cache_control documents': { is: 'dropped', why: 'not in this format' },
})

/** `POST /v1beta/models/{model}:generateContent` and its siblings (@google/genai, `GenerateContentParameters`). */
export const generateContentMembers: MemberTable = table(own, {
  'contents systemInstruction toolConfig generationConfig safetySettings': { is: 'sent' },
  'model stream alt': { is: 'ours', why: 'in the path and the query' },
  tools: { is: 'sent', concern: 'cost', why: 'each tool is free, has a price, or is refused: `refuseUnpricedTools`' },
  cachedContent: {
    is: 'refused',
    concern: 'data',
    why: 'a cache in the operator’s account, whose tokens are not reserved',
    source: 'ai.google.dev/api/caching',
    matters: true,
  },
  'labels modelArmorConfig store': { is: 'dropped', concern: 'state', why: 'kept in the operator’s account' },
  serviceTier: {
    is: 'dropped',
    concern: 'cost',
    why: 'a tier is sent where the target has a price for it: docs/decisions/service-tiers.md',
  },
})

/** What chat completions, completions and embeddings do not send, of the members that providers have. */
export const unsentChatMembers: MemberTable = table(own, otherVendors, {
  [Object.keys(paidFields).join(' ')]: { is: 'refused', concern: 'cost', why: 'has no price', matters: true },
  'store service_tier': { is: 'ours', concern: 'cost', why: 'never stored, at a tier with a price' },
  metadata: { is: 'ours', concern: 'state', why: 'labels of the gateway’s own log' },
  'prompt_cache_retention prompt_cache_options': { is: 'dropped', concern: 'cost', why: 'has no price' },
  moderation: { is: 'dropped', concern: 'cost', why: 'a second model without a price' },
  cache_control: { is: 'ours', concern: 'cost', why: 'sent to providers that take marks, for lifetimes with a price' },
})

/** Whether a member is sent with this value. */
export function isSent({ is, allows }: Member, value: unknown): boolean {
  return is === 'sent' || allows?.(value) === true
}

/** Whether the value of a member asks for what it does beside buying tokens. */
export function asksFor({ allows }: Member, value: unknown): boolean {
  return value != null && !(Array.isArray(value) && value.length === 0) && !allows?.(value)
}

/** The tables of the formats whose requests reach a provider of the same format as they are. */
export const memberTables = {
  messages: messagesMembers,
  responses: responsesMembers,
  generate_content: generateContentMembers,
}

/** A request may have thousands of either. */
const maxNoted = 50

type ForwardedNames = { headers: Record<string, string>; dropped?: readonly string[] }

/** Notes the members of a request, and the headers and betas of its client, that the gateway does not know. */
export function noteUnknownMembers(kind: keyof typeof memberTables, body: object, forwarded?: ForwardedNames): void {
  const members = memberTables[kind]
  let noted = 0
  for (const name in body) {
    if (members.has(name)) continue
    noteUnknown('field', `${kind}.${name}`)
    if (++noted === maxNoted) break
  }
  if (!forwarded) return
  const { headers, dropped = [] } = forwarded
  for (const name of [...Object.keys(headers), ...dropped])
    if (!sentHeaders.has(name) && !accountHeaders.has(name)) noteUnknown('header', name)
  const betas = headers['anthropic-beta']
  if (!betas) return
  for (const text of betas.split(',', maxNoted)) {
    const name = text.trim()
    if (name !== '' && !knownBetas.has(name)) noteUnknown('beta', name)
  }
}
