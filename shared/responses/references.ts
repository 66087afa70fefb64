import { GatewayError } from '../base/errors.ts'
import { editBody } from '../base/json-member.ts'
import { validateRequest } from '../base/validate.ts'
import type { FileOwner } from '../files/files.ts'
import { directKinds } from '../kinds/index.ts'
import { isReference, type ResponsesItem, type ResponsesRequest } from '../kinds/responses.ts'
import type { ResponsesTurn } from './context.ts'
import { listedIds, ownId } from './item-ids.ts'
import type { ContextBudget } from './previous-items.ts'
import type { ResponseServices } from './response-services.ts'

/** The most references of one request. */
const maxReferences = 5_000
/** Responses that one query reads, and queries of one request. The newest response of a conversation mostly has all items. */
const responsesPerQuery = 8
const maxQueries = 16

/** A request whose input has no references, and the session of the newest response that it refers to. */
type ResolvedTurn = { turn: ResponsesTurn; session: string | null }
type Found = { items: Map<string, ResponsesItem>; session: string | null }

/** Whether the input refers to stored items. */
export function hasReferences({ input }: Partial<Pick<ResponsesRequest, 'input'>>): boolean {
  return Array.isArray(input) && input.some(isReference)
}

/**
 * Replaces the references in the input of a request by the items that they name, of the owner's stored responses, newest first,
 * and conversations. `earlierIds`: of the items that precede the input. What is read is within `budget`. Throws 400 if
 * nothing is stored for the organisation, it is too much, or an item would be sent twice, 404 for one that does not exist.
 */
export async function resolveReferences(
  services: ResponseServices,
  owner: FileOwner,
  turn: ResponsesTurn,
  { budget, earlierIds }: { budget: ContextBudget; earlierIds: readonly string[] },
): Promise<ResolvedTurn> {
  const { body, raw } = turn
  if (!hasReferences(body)) return { turn, session: null }
  const given = body.input as ResponsesItem[]
  const missing = namedIds(given)
  if (missing.size > maxReferences) {
    const message = `\`input\`: a request may refer to ${maxReferences} items at most. Send the items themselves.`
    throw new GatewayError('invalid_request', message, { param: 'input' })
  }
  const found: Found = { items: new Map(), session: null }
  for (const id of earlierIds) if (missing.has(id)) throw duplicateItem(id)
  await assertKept(services, owner, given)
  await findInResponses(services, owner, missing, { found, budget })
  await findInConversations(services, owner, missing, { found, budget })
  for (const id of missing) throw itemNotFound(id)
  const input = given.map(item => (isReference(item) ? found.items.get(item.id)! : item))
  const edited = Buffer.from(editBody(raw, body, { input }))
  return { turn: validateRequest(directKinds.responses, { ...body, input }, edited), session: found.session }
}

/** The ids that the references of an input name. Throws 400 for one that is named twice. */
function namedIds(input: readonly ResponsesItem[]): Set<string> {
  const ids = new Set<string>()
  for (const item of input) {
    if (!isReference(item)) continue
    if (ids.has(item.id)) throw duplicateItem(item.id)
    ids.add(item.id)
  }
  return ids
}

/** In OpenAI's words: openai/openai-agents-python#1789, microsoft/agent-framework#5690. */
function duplicateItem(id: string): GatewayError {
  const message = `Duplicate item found with id ${shownId(id)}. Remove duplicate items from your input and try again.`
  return new GatewayError('invalid_request', message, { param: 'input' })
}

type Search = { found: Found; budget: ContextBudget }

function take({ items }: Found, missing: Set<string>, id: string, item: ResponsesItem): void {
  if (missing.delete(id)) items.set(id, item)
}

/** One query for all ids; others only if the newest responses have not all of them. */
async function findInResponses(
  { storedResponses }: ResponseServices,
  owner: FileOwner,
  missing: Set<string>,
  { found, budget }: Search,
): Promise<void> {
  for (let query = 0; query < maxQueries; query++) {
    const ids = [...missing].filter(isStorable)
    if (ids.length === 0) return
    const holders = await storedResponses.findHolders(owner, ids, responsesPerQuery)
    for (const { id, session, itemIds, itemsBytes } of holders) {
      if (!itemIds.some(itemId => missing.has(itemId))) continue
      const [items] = (await storedResponses.readItems([id], budget.take('input', itemsBytes))) as ResponsesItem[][]
      const listed = listedIds(id, items!)
      for (const [index, item] of items!.entries()) take(found, missing, listed[index]!, item)
      found.session ??= session
    }
    if (holders.length < responsesPerQuery) return
  }
}

async function findInConversations(
  { conversations }: ResponseServices,
  owner: FileOwner,
  missing: Set<string>,
  { found, budget }: Search,
): Promise<void> {
  const ids = [...missing].filter(isStorable)
  if (ids.length === 0) return
  const places = await conversations.findItems(owner, ids)
  const bytes = places.reduce((sum, { itemBytes }) => sum + itemBytes, 0)
  const read = await conversations.readPlaces(places, budget.take('input', bytes))
  for (const { id, item } of read) take(found, missing, id, item as ResponsesItem)
}

/** Ids that an item in the store can have. */
function isStorable(id: string): boolean {
  return ownId({ id }) !== null
}

async function assertKept(
  { responseSettings }: ResponseServices,
  { organisationId }: FileOwner,
  input: readonly ResponsesItem[],
): Promise<void> {
  const { keeps } = await responseSettings.read(organisationId)
  if (keeps) return
  const param = `input.${input.findIndex(isReference)}.type`
  const message =
    'Items are not stored for this organisation: send the item itself instead of a reference, with `store: false` where the client has that setting, or turn on "Keep responses" in the dashboard.'
  throw new GatewayError('unsupported_capability', message, { param })
}

/** In OpenAI's words, by which clients know it: vercel/ai#7543. */
function itemNotFound(id: string): GatewayError {
  const message = `Item with id '${shownId(id)}' not found. Items are not persisted when \`store\` is set to false. Try again with \`store\` set to true, or remove this item from your input.`
  return new GatewayError('not_found', message, { param: 'input' })
}

function shownId(id: string): string {
  return id.slice(0, 100)
}
