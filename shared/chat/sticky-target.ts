import type { Policy } from '../keys/policy.ts'
import { type DirectKind, isConversation } from '../kinds/index.ts'
import type { Call } from '../providers/contract.ts'
import { openReasoningSealer, type ReasoningSealer } from '../providers/toolkit/reasoning-envelope.ts'
import type { Credential } from '../providers/upstreams.ts'
import type { RoutingRequest } from '../routing/options.ts'
import { type Conversation, findReasoningOrigin, hasReasoningState } from '../routing/reasoning-origin.ts'
import type { StickyTarget } from '../routing/router.ts'
import { stickySessionKey } from '../routing/sticky-sessions.ts'
import { unnamedSession } from '../routing/unnamed-session.ts'
import type { Services } from '../services.ts'

type Asked = {
  kind: DirectKind
  body: RoutingRequest
  session: string | null
  /** Whether the gateway marks what is to be cached, which only its target then has. */
  marksCache?: boolean
}

type Found = { sticky: StickyTarget | null; sessionKey: string | null }

/**
 * The target that a request should go to: the one that made the reasoning state in it, else the one that last served its
 * session. `sessionKey` is the session's key in Redis; null without a session. At once where there is neither.
 */
export function findStickyTarget(
  services: Pick<Services, 'catalog' | 'signingSecret' | 'stickySessions'>,
  policy: Policy,
  { kind, body, session: named, marksCache = false }: Asked,
): Found | Promise<Found> {
  const session = named ?? (marksCache ? unnamedSession(services.catalog, policy, body) : null)
  const hasState = isConversation(kind) && hasReasoningState(body as Conversation)
  if (!hasState && session === null) return { sticky: null, sessionKey: null }
  const sessionKey = session === null ? null : stickySessionKey(policy, session, body)
  return recall(services, policy, hasState ? (body as Conversation) : null, sessionKey)
}

/** `body`: a request with reasoning state; null without. */
async function recall(
  services: Pick<Services, 'catalog' | 'signingSecret' | 'stickySessions'>,
  policy: Policy,
  body: Conversation | null,
  sessionKey: string | null,
): Promise<Found> {
  const origin = body && (await findOrigin(services, policy, body))
  const sticky = origin ?? (sessionKey === null ? null : await services.stickySessions.recall(sessionKey))
  return { sticky, sessionKey }
}

async function findOrigin(
  { catalog, signingSecret }: Pick<Services, 'catalog' | 'signingSecret'>,
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
  { signingSecret }: Pick<Services, 'signingSecret'>,
  policy: Policy,
  { kind, credential, refused }: { kind: DirectKind; credential: Credential | null; refused: boolean },
): Reasoning | Promise<Reasoning> {
  if (!isConversation(kind) || policy.environment === 'test') return {}
  const credentialId = credential?.id ?? null
  const reasoning = (sealer: ReasoningSealer | null) => (sealer ? { reasoning: { sealer, credentialId, refused } } : {})
  const sealer = openReasoningSealer(signingSecret, policy)
  return sealer instanceof Promise ? sealer.then(reasoning) : reasoning(sealer)
}
