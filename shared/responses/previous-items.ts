import { GatewayError } from '../base/errors.ts'
import { JsonMeter } from '../base/json.ts'
import type { FileOwner } from '../files/files.ts'
import type { HeldBytes } from '../io/byte-budget.ts'
import type { ResponsesItem } from '../kinds/responses.ts'
import { listedIds } from './item-ids.ts'
import type { ResponseServices } from './response-services.ts'
import type { ChainLink } from './stored-responses.ts'

/**
 * The items that precede the input of a request, the ids by which references name them, and the session of their conversation for
 * routing.
 */
export type Earlier = { items: ResponsesItem[]; ids: string[]; session: string }

/** Limits of the conversation that a request continues, together with its own input. */
const limits = { responses: 1_000, items: 100_000, bytes: 32 * 1024 * 1024 }

/** Responses that may be continued. */
const finished: ReadonlySet<string> = new Set(['completed', 'incomplete'])
const maxIdCharacters = 100

/** The bytes and values that a request may still continue and refer to: with its own text, at most those of one conversation. */
export class ContextBudget {
  readonly #held: HeldBytes
  readonly #own: Buffer
  #readBytes = 0
  #meter: JsonMeter | null = null
  #param = 'input'

  /** `held`: the memory of the request; `own`: its text, which is accounted for. */
  constructor(held: HeldBytes, own: Buffer) {
    this.#held = held
    this.#own = own
  }

  /**
   * Acquires the memory of items that `param` names before they are read. The result counts them as they are. Throws 400 if the
   * conversation is too long.
   */
  take(param: string, bytes: number, isComplete = true): JsonMeter {
    this.#param = param
    this.#readBytes += bytes
    if (!isComplete || this.#readBytes + this.#own.length > limits.bytes)
      throw tooLong(param, `${limits.responses} responses and ${limits.bytes / 1024 / 1024} MiB at most`)
    this.#held.grow(bytes)
    return this.meterOf(param)
  }

  /** Counts items as they are read: with the request they must be valid as one text, and take its memory. */
  meterOf(param: string): JsonMeter {
    this.#param = param
    this.#meter ??= new JsonMeter(this.#own, this.#held, cause =>
      tooLong(this.#param, '100,000 strings, objects and lists, 400,000 values and 50,000 fields at most', cause),
    )
    return this.#meter
  }
}

/**
 * Reads the items of a response and of those that it continues, oldest first, within `budget`. Throws 400
 * `previous_response_not_found` if one is gone, 400 if it cannot be continued or is too long.
 */
export async function readChain(
  services: ResponseServices,
  id: string,
  owner: FileOwner,
  budget: ContextBudget,
): Promise<Earlier> {
  const { storedResponses } = services
  const links = isId(id) ? await storedResponses.readChain(id, owner, limits.responses) : []
  const [newest] = links
  if (!newest) throw notFound(`Previous response with id '${id.slice(0, maxIdCharacters)}' not found.`)
  assertContinuable(newest)
  const missing = links.at(-1)!.previousId
  if (missing !== null && links.length < limits.responses)
    throw notFound(`Previous response with id '${missing}' not found: it is an earlier turn of '${id}'.`)
  const bytes = links.reduce((sum, { itemsBytes }) => sum + itemsBytes, 0)
  const meter = budget.take('previous_response_id', bytes, missing === null)
  const responseIds = links.map(link => link.id).reverse()
  const turns = await storedResponses.readItems(responseIds, meter).catch(error => {
    if (!(error instanceof GatewayError && error.code === 'not_found')) throw error
    throw notFound(`Previous response with id '${id}', or an earlier turn of it, was deleted.`)
  })
  const ids = responseIds.flatMap((responseId, index) => listedIds(responseId, turns[index]!))
  return { items: turns.flat() as ResponsesItem[], ids, session: newest.session }
}

/** Reads the items of a conversation, within `budget`. Throws 404 if there is none, 400 if it is too long. */
export async function readConversation(
  services: ResponseServices,
  id: string,
  owner: FileOwner,
  budget: ContextBudget,
): Promise<Earlier> {
  const { conversations } = services
  const conversation = isId(id) ? await conversations.find(id, owner) : null
  if (!conversation) throw conversationNotFound(id)
  const { count, bytes } = await conversations.measure(id)
  const meter = budget.take('conversation', bytes, count <= limits.items)
  const listed = await conversations.readItems(id, meter)
  return { items: listed.map(({ item }) => item as ResponsesItem), ids: listed.map(one => one.id), session: id }
}

/** The 404 of a conversation that the key cannot see. */
export function conversationNotFound(id: string, param = 'conversation'): GatewayError {
  const message = `Conversation with id '${id.slice(0, maxIdCharacters)}' not found.`
  return new GatewayError('not_found', message, { param })
}

function notFound(message: string): GatewayError {
  return new GatewayError('previous_response_not_found', message, { param: 'previous_response_id' })
}

function assertContinuable({ id, status, conversationId }: ChainLink): void {
  const param = 'previous_response_id'
  if (!finished.has(status)) {
    const state = status === 'queued' ? 'has not completed' : `is ${status}`
    const message = `\`${param}\`: response '${id}' ${state}, so it cannot be continued.`
    throw new GatewayError('invalid_request', message, { param })
  }
  if (conversationId === null) return
  const message = `\`${param}\`: response '${id}' belongs to a conversation: send \`conversation: "${conversationId}"\` instead.`
  throw new GatewayError('invalid_request', message, { param })
}

function tooLong(param: string, bounds: string, cause?: unknown): GatewayError {
  const message = `\`${param}\`: the conversation is too long: ${bounds}. Begin another one with a summary. (context_length_exceeded)`
  return new GatewayError('context_length_exceeded', message, { param, cause })
}

/** PostgreSQL takes no text with NUL characters. */
function isId(id: string): boolean {
  return id.length <= maxIdCharacters && !id.includes('\0')
}
