import type { EngineServices } from '../engine/engine-services.ts'
import type { Policy } from '../keys/policy.ts'
import { type DirectKind, isConversation } from '../kinds/index.ts'
import type { Platform } from '../platform.ts'
import type { Call } from '../providers/contract.ts'
import { openReasoningSealer, type ReasoningSealer } from '../providers/toolkit/reasoning-envelope.ts'
import type { Credential } from '../providers/upstreams.ts'
import type { RoutingRequest } from '../routing/options.ts'
import { type Conversation, findReasoningOrigin, hasReasoningState } from '../routing/reasoning-origin.ts'
import type { StickyTarget } from '../routing/router.ts'
import { unnamedSession } from '../routing/session-name.ts'
import { stickySessionKey } from '../routing/sticky-sessions.ts'

type Asked = {
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
 * that last served its session. At once where there is neither. What an agent that gives no name begins with stays here.
 */
export function findStickyTarget(
  services: Pick<EngineServices, 'catalog' | 'signingSecret' | 'stickySessions'>,
  policy: Policy,
  { kind, body, session: given, begins = false, marksCache: mayMark = false }: Asked,
): FoundSession | Promise<FoundSession> {
  const isNamed = given !== null && !begins
  const agent = mayMark && !isNamed ? unnamedSession(services.catalog, policy, body) : null
  const session = isNamed ? given : (agent ?? given)
  // One request alone would pay for writing what nothing reads.
  const marksCache = mayMark && (isNamed || agent !== null)
  const hasState = isConversation(kind) && hasReasoningState(body as Conversation)
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
  if (!isConversation(kind) || policy.environment === 'test') return {}
  const credentialId = credential?.id ?? null
  const reasoning = (sealer: ReasoningSealer | null) => (sealer ? { reasoning: { sealer, credentialId, refused } } : {})
  const sealer = openReasoningSealer(signingSecret, policy)
  return sealer instanceof Promise ? sealer.then(reasoning) : reasoning(sealer)
}
