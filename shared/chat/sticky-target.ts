import { z } from 'zod'
import type { Catalog } from '../catalog/catalog.ts'
import { cachesByMarks } from '../catalog/traits.ts'
import type { EngineServices } from '../engine/engine-services.ts'
import type { Policy } from '../keys/policy.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Platform } from '../platform.ts'
import type { Call } from '../providers/contract.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { envelopesOf } from '../providers/toolkit/generate-content-over-chat/reasoning-state.ts'
import { isEnvelope, openReasoningSealer, ReasoningSealer } from '../providers/toolkit/reasoning-envelope.ts'
import type { Credential } from '../providers/upstreams.ts'
import { parseModelSelector, type RoutingRequest } from '../routing/options.ts'
import { requestFormats } from '../routing/request-formats.ts'
import type { StickyTarget } from '../routing/router.ts'
import { stickySessionKey } from '../routing/sticky-sessions.ts'

type SessionRequest = {
  kind: DirectKind
  body: RoutingRequest
  session: string | null
  /** Whether nothing but the gateway has named the session, whose conversation may have this request only. */
  begins?: boolean
  /** Whether the gateway may mark what is to be cached, which only the session's target then has. */
  marksCache?: boolean
}

/** `sessionKey`: the session's key in Redis; null without a session. `marksCache`: whether what it repeats is marked. */
export type FoundSession = { sticky: StickyTarget | null; sessionKey: string | null; marksCache: boolean }

/**
 * The session of a request, and the target that it should go to: the one that made the reasoning state in it, else the one
 * that last served its session. At once where there is neither. The name derived for an unnamed conversation
 * does not leave this function.
 */
export function findStickyTarget(
  services: Pick<EngineServices, 'catalog' | 'signingSecret' | 'stickySessions'>,
  policy: Policy,
  { kind, body, session: given, begins = false, marksCache: mayMark = false }: SessionRequest,
): FoundSession | Promise<FoundSession> {
  const isNamed = given !== null && !begins
  const agent = mayMark && !isNamed ? unnamedSession(services.catalog, policy, body) : null
  const session = isNamed ? given : (agent ?? given)
  // A single request would pay for a cache write that nothing reads.
  const marksCache = mayMark && (isNamed || agent !== null)
  const hasState = requestFormats[kind].isConversation && hasReasoningState(body as Conversation)
  if (!hasState && session === null) return { sticky: null, sessionKey: null, marksCache }
  const sessionKey = session === null ? null : stickySessionKey(policy, session, body)
  const recalled = recall(services, policy, hasState ? (body as Conversation) : null, sessionKey)
  return recalled.then(sticky => ({ sticky, sessionKey, marksCache }))
}

/** `body`: a request with reasoning state; null without. */
async function recall(
  services: Pick<EngineServices, 'catalog' | 'signingSecret' | 'stickySessions'>,
  policy: Policy,
  body: Conversation | null,
  sessionKey: string | null,
): Promise<StickyTarget | null> {
  const origin = body && (await findOrigin(services, policy, body))
  return origin ?? (sessionKey === null ? null : services.stickySessions.recall(sessionKey))
}

async function findOrigin(
  { catalog, signingSecret }: Pick<Platform, 'catalog' | 'signingSecret'>,
  policy: Policy,
  body: Conversation,
): Promise<StickyTarget | null> {
  const sealer = await openReasoningSealer(signingSecret, policy)
  return sealer && findReasoningOrigin(catalog, body, sealer)
}

type Reasoning = Pick<Call<DirectKind>, 'reasoning'>

/**
 * How a call carries reasoning state; undefined for kinds without it, and in the sandbox. At once if the signing secret is
 * known. `refused`: the provider has refused the state in the request.
 */
export function reasoningOf(
  { signingSecret }: Pick<Platform, 'signingSecret'>,
  policy: Policy,
  { kind, credential, refused }: { kind: DirectKind; credential: Credential | null; refused: boolean },
): Reasoning | Promise<Reasoning> {
  // The sandbox has no state, but its responses can be compacted.
  if (!requestFormats[kind].isConversation || (policy.environment === 'test' && kind !== 'responses')) return {}
  const credentialId = credential?.id ?? null
  const reasoning = (secret: string) => {
    const open = () => new ReasoningSealer(secret, policy, signingSecret.older)
    return { reasoning: new CarriedReasoning(open, credentialId, refused) }
  }
  const { current } = signingSecret
  return current === null ? signingSecret.get().then(reasoning, () => ({})) : reasoning(current)
}

/** How one call carries reasoning state: its sealer is opened when there is some, as in hardly any call. */
class CarriedReasoning {
  readonly credentialId: string | null
  readonly refused: boolean
  readonly #open: () => ReasoningSealer
  #sealer: ReasoningSealer | null = null

  constructor(open: () => ReasoningSealer, credentialId: string | null, refused: boolean) {
    this.#open = open
    this.credentialId = credentialId
    this.refused = refused
  }

  get sealer(): ReasoningSealer {
    this.#sealer ??= this.#open()
    return this.#sealer
  }
}

/** How much of its first message identifies a conversation. */
const maxBeginning = 8_192

/** The parts of a chat, Gemini or Responses request that show whether an agent is at work. */
type AgentTurns = {
  tools?: readonly unknown[] | null
  messages?: readonly Turn[]
  input?: string | readonly Turn[]
  contents?: readonly Turn[]
}
type Turn = { role?: unknown; content?: unknown; parts?: unknown }

/**
 * A name for the conversation of an agent that gives none: a chat or Responses request with tools and earlier answers, for a
 * model that caches what is marked only; null for others. Conversations of a key that begin alike have the same name, which
 * does no harm: they share what is cached. `auto` may choose another model in every turn, so it needs a name.
 */
function unnamedSession(catalog: Catalog, { keyId }: Policy, request: RoutingRequest): string | null {
  const { tools, messages, input, contents } = request as AgentTurns
  if (!tools?.length) return null
  const { model } = parseModelSelector(catalog, request.model, 'chat')
  if (!model || !catalog.targets(model).some(cachesByMarks)) return null
  const turns = messages ?? contents ?? input
  if (!Array.isArray(turns) || !turns.some(isAnswer)) return null
  const beginning = textOf(turns.find(({ role }: Turn) => role === 'user'))
  return beginning && `${keyId}\n${beginning}`
}

/** Calls of tools are items of their own in Responses. */
function isAnswer({ role, type }: Turn & { type?: unknown }): boolean {
  return role === 'assistant' || role === 'model' || type === 'function_call' || type === 'custom_tool_call'
}

function textOf(turn: Turn | undefined): string {
  const { content = turn?.parts } = turn ?? {}
  if (typeof content === 'string') return content.slice(0, maxBeginning)
  if (!Array.isArray(content)) return ''
  return content
    .map(part => (typeof part?.text === 'string' ? part.text : ''))
    .join('\n')
    .slice(0, maxBeginning)
}

/** The fields of a body that may name its conversation. */
export type NamingBody = {
  prompt_cache_key?: string | null | undefined
  session_id?: unknown
  metadata?: Record<string, string> | null | undefined
}

/** Longer values are not read; Claude Code's has 170 characters. */
const maxUserIdLength = 1_024
const userId = z.object({ session_id: z.string().min(1) })
/** The form of older versions. */
const olderUserId = /^user_.*_session_([\w-]+)$/

/**
 * The session that Claude Code puts into `metadata.user_id`; null if there is none. Other values name a person, whose
 * conversations are independent.
 */
export function sessionInMetadata({ metadata }: NamingBody): string | null {
  const value = metadata?.user_id
  if (typeof value !== 'string' || value.length > maxUserIdLength) return null
  if (!value.startsWith('{')) return olderUserId.exec(value)?.[1] ?? null
  try {
    return userId.safeParse(JSON.parse(value)).data?.session_id ?? null
  } catch {
    return null
  }
}

/** Envelopes that are opened in search of one that is valid. */
const maxOpened = 16

/** The parts of a chat, Messages, Gemini or Responses request that may hold reasoning state. */
type Conversation = { model: string; models?: string[] | undefined } & Turns
type Turns = { messages?: readonly Message[] | undefined; input?: unknown; contents?: readonly object[] | undefined }
type Message = { role: string; content?: unknown; reasoning_details?: unknown }

/** Whether a conversation may contain reasoning state of the gateway's. */
function hasReasoningState(turns: Turns): boolean {
  return !envelopesIn(turns).next().done
}

/**
 * The target that made the latest reasoning state in a conversation; null if there is no valid state, or if the request
 * names other models.
 */
function findReasoningOrigin(
  catalog: Catalog,
  { model, models = [], ...turns }: Conversation,
  sealer: ReasoningSealer,
): StickyTarget | null {
  let opened = 0
  for (const envelope of envelopesIn(turns)) {
    if (++opened > maxOpened) return null
    const state = sealer.open(envelope)
    if (!state) continue
    const isNamed = [model, ...models].some(slug => {
      const selector = parseModelSelector(catalog, slug, 'chat')
      return selector.auto || selector.model?.id === state.model
    })
    const { provider, credentialId } = state
    return isNamed ? { model: state.model, provider, credentialId, madeState: true } : null
  }
  return null
}

/** The envelopes of a conversation, the latest first. */
function* envelopesIn({ messages = [], input, contents = [] }: Turns): Generator<string, void> {
  const items = Array.isArray(input) ? input : []
  for (let at = items.length - 1; at >= 0; at--) {
    const { type, encrypted_content: text } = items[at]
    if (type === 'reasoning' && typeof text === 'string' && isEnvelope(text)) yield text
  }
  for (let at = contents.length - 1; at >= 0; at--) yield* envelopesOf(contents[at])
  for (let at = messages.length - 1; at >= 0; at--) {
    const { role, content, reasoning_details: details } = messages[at]!
    if (role !== 'assistant') continue
    for (const parts of [details, content]) {
      if (!Array.isArray(parts)) continue
      for (const part of parts.toReversed()) {
        for (const text of [part?.signature, part?.data]) if (typeof text === 'string' && isEnvelope(text)) yield text
      }
    }
  }
}

/**
 * How providers say that they do not accept reasoning state which they made: "Invalid `signature` in `thinking` block",
 * "bound to a different conversation", "Thought signature is not valid", "The encrypted content could not be verified".
 */
const stateRefusal =
  /invalid `?(?:signature|data)`?|thought[ _]signature|encrypted[ _]content|redacted_thinking|bound to a different conversation/i

/** Whether a provider does not accept the reasoning state of a request. */
export function isStateRefusal(error: unknown): error is ProviderError {
  return error instanceof ProviderError && error.reason === 'invalid_request' && stateRefusal.test(error.message)
}
