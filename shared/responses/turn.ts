import { setImmediate } from 'node:timers/promises'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { editBody } from '../base/json-member.ts'
import { validateRequest } from '../base/validate.ts'
import type { ResponseStorage } from '../chat/run-input.ts'
import type { FileOwner } from '../files/files.ts'
import type { HeldBytes } from '../io/byte-budget.ts'
import { isOutage } from '../io/outage.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import { directKinds } from '../kinds/index.ts'
import { inputItems, type ResponsesItem, type ResponsesRequest } from '../kinds/responses.ts'
import { type ResponsesTurn, withContext, withoutRepeats } from './context.ts'
import { ContextBudget, type Earlier, readChain, readConversation } from './previous-items.ts'
import { hasReferences, resolveReferences } from './references.ts'
import type { ResponseServices } from './response-services.ts'
import { type StoredTurn, TurnStorage } from './turn-storage.ts'

/** A request with its earlier items; `own`: the items that it adds to them, of which none is a reference. */
type ContinuedTurn = ResponsesTurn & { own: ResponsesItem[] }

/** `storage` is null if nothing is stored. */
export type OpenTurn = ContinuedTurn & {
  storage: ResponseStorage | null
  /** The session of the conversation for routing, if the request names none. */
  session: string | null
  /** Whether the gateway has named that session just now: nothing says yet that its conversation goes on. */
  begins: boolean
}

type Named = Pick<ResponsesRequest, 'store' | 'previous_response_id' | 'conversation' | 'background'>

/** Whether a request needs nothing that is stored, as far as this process can tell without PostgreSQL. */
export function isStateless(
  { responseSettings }: ResponseServices,
  { policy }: ResolvedKey,
  body: Named & Pick<ResponsesRequest, 'input'>,
): boolean {
  const { store, previous_response_id: previous, conversation } = body
  if (previous != null || conversation != null || store === true || hasReferences(body)) return false
  return store === false || responseSettings.cached(policy.organisationId) === false
}

/**
 * Reads what a request continues, and prepares the storage of its response. The earlier items count towards `held`;
 * `session`: the one that the request names. Throws a GatewayError: 400 if nothing is stored for the organisation or the conversation is too long, 400 and 404 for what does
 * not exist, 403 `quota_exceeded` if the request asks for storage.
 */
export async function openTurn(
  services: ResponseServices,
  { policy }: ResolvedKey,
  turn: ResponsesTurn,
  { held, session: named }: { held: HeldBytes; session: string | null },
): Promise<OpenTurn> {
  const { organisationId, environment, keyId } = policy
  const owner = { organisationId, environment }
  const { body } = turn
  const isStored = (await storesResponses(services, organisationId, body)) && body.store !== false
  const previousId = body.previous_response_id ?? null
  const conversationId = conversationOf(body)
  if (body.store === true || conversationId !== null) await services.files.quota.assertRoom(owner)
  const whole = await readWhole(services, owner, turn, held)
  if (!isStored && previousId === null && conversationId === null)
    return { ...whole.turn, own: whole.own, storage: null, session: whole.session, begins: false }
  const session = sessionFor(named, whole)
  return {
    ...whole.turn,
    own: whole.own,
    storage: new TurnStorage(services, {
      owner,
      keyId,
      isStored,
      previousId,
      conversationId,
      session,
      input: whole.own,
    }),
    session,
    begins: named === null && whole.session === null,
  }
}

/** A request for a response in the background, with its earlier items and what is stored with it. */
type BackgroundTurn = ResponsesTurn & Pick<StoredTurn, 'previousId' | 'conversationId' | 'session' | 'input'>

/** Reads what a request for a response in the background continues. Throws as `openTurn` does, and 400 without storage. */
export async function openBackground(
  services: ResponseServices,
  { policy: { organisationId, environment } }: ResolvedKey,
  turn: ResponsesTurn,
  { held, session: named }: { held: HeldBytes; session: string | null },
): Promise<BackgroundTurn> {
  const { body } = turn
  await storesResponses(services, organisationId, body)
  if (body.store === false) {
    const message = '`background`: only a stored response can be retrieved later. Leave out `store`, or set it to true.'
    throw new GatewayError('invalid_request', message, { param: 'background' })
  }
  const whole = await readWhole(services, { organisationId, environment }, turn, held)
  return {
    ...whole.turn,
    previousId: body.previous_response_id ?? null,
    conversationId: conversationOf(body),
    session: sessionFor(named, whole),
    input: whole.own,
  }
}

/** The session of a conversation for routing: as named by the request, that of the earlier turns, or a new one. */
function sessionFor(named: string | null, { session }: Whole): string {
  return (named ?? session ?? newId('sess')).replaceAll('\0', '')
}

/** Returns a request with what it continues, of which nothing is stored. Throws as `openTurn` does. */
export async function expandTurn(
  services: ResponseServices,
  { policy: { organisationId, environment } }: ResolvedKey,
  turn: ResponsesTurn,
  held: HeldBytes,
): Promise<ContinuedTurn> {
  if (neededField({ ...turn.body, store: null, background: null }) === null && !hasReferences(turn.body))
    return { ...turn, own: inputItems(turn.body) }
  await storesResponses(services, organisationId, turn.body)
  const whole = await readWhole(services, { organisationId, environment }, turn, held)
  return { ...whole.turn, own: whole.own }
}

/** The whole conversation as one request, its own input, and the session of what it continues or refers to. */
type Whole = { turn: ResponsesTurn; own: ResponsesItem[]; session: string | null }

/** Reads what a request continues and refers to. */
async function readWhole(
  services: ResponseServices,
  owner: FileOwner,
  turn: ResponsesTurn,
  held: HeldBytes,
): Promise<Whole> {
  const budget = new ContextBudget(held, turn.raw)
  const earlier = await readEarlier(services, owner, turn, budget)
  if (earlier) await setImmediate()
  const resolved = await resolveReferences(services, owner, turn, { budget, earlierIds: earlier?.ids ?? [] })
  const added = earlier ? withoutRepeats(resolved.turn, earlier.items) : resolved.turn
  return {
    turn: earlier ? combined(added, earlier) : added,
    own: inputItems(added.body),
    session: earlier?.session ?? resolved.session,
  }
}

/** The id of the conversation that a request names. */
function conversationOf({ conversation }: Named): string | null {
  return typeof conversation === 'object' ? (conversation?.id ?? null) : (conversation ?? null)
}

/** Reads the items that precede those of a request; null if it continues nothing. */
function readEarlier(
  services: ResponseServices,
  owner: FileOwner,
  { body }: ResponsesTurn,
  budget: ContextBudget,
): Promise<Earlier> | null {
  const previousId = body.previous_response_id ?? null
  const conversationId = conversationOf(body)
  if (previousId !== null && conversationId !== null) {
    const message = "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Send one of them."
    throw new GatewayError('invalid_request', message, { param: 'conversation' })
  }
  if (previousId !== null) return readChain(services, previousId, owner, budget)
  return conversationId === null ? null : readConversation(services, conversationId, owner, budget)
}

/** The whole conversation as one request, which must be valid as if the client had sent it. */
function combined(turn: ResponsesTurn, { items }: Earlier): ResponsesTurn {
  const isKept = conversationOf(turn.body) !== null && turn.body.store === false
  const { body, raw } = withContext(isKept ? withoutStore(turn) : turn, items)
  return validateRequest(directKinds.responses, body, raw)
}

/** Without `store: false`, as answers have the state of their reasoning, which the conversation needs. */
function withoutStore({ body, raw }: ResponsesTurn): ResponsesTurn {
  const { store: _, ...rest } = body
  const edited = editBody(raw, body, { store: undefined })
  return { body: rest, raw: Buffer.from(edited) }
}

/** Whether the organisation stores responses. Throws 400 if it does not and the request needs that. */
async function storesResponses(
  services: ResponseServices,
  organisationId: string,
  body: ResponsesRequest,
): Promise<boolean> {
  const param = neededField(body)
  try {
    const { keeps } = await services.responseSettings.read(organisationId)
    if (keeps || param === null) return keeps
  } catch (error) {
    if (param !== null || !isOutage(error)) throw error
    // PostgreSQL is not needed to answer a request that does not ask for storage.
    return false
  }
  const isOptional = param === 'store' || param === 'background'
  const advice = isOptional ? 'Leave it out or set it to false' : 'Send the whole conversation as `input`'
  const message = `\`${param}\`: responses are not stored for this organisation. ${advice}, or turn on "Keep responses" in the dashboard.`
  throw new GatewayError('unsupported_capability', message, { param })
}

function neededField({ store, previous_response_id: previous, conversation, background }: Named): string | null {
  if (background === true) return 'background'
  if (previous != null) return 'previous_response_id'
  if (conversation != null) return 'conversation'
  return store === true ? 'store' : null
}
