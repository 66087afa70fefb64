import { GatewayError } from '../base/errors.ts'
import { dayMs } from '../base/time.ts'
import type { ResponseStorage } from '../chat/run-input.ts'
import type { FileOwner } from '../files/files.ts'
import type { Connection } from '../io/db.ts'
import type { ResponsesItem } from '../kinds/responses.ts'
import type { ResponsesObject } from '../kinds/responses-answer.ts'
import { dropOnFailure } from './payloads.ts'
import type { ResponseServices } from './response-services.ts'

/** What is stored of one turn. */
export type StoredTurn = {
  owner: FileOwner
  keyId: string
  /** Whether the response is stored; the items of a conversation are in any case. */
  isStored: boolean
  previousId: string | null
  conversationId: string | null
  session: string
  /** The turn's own input. */
  input: readonly ResponsesItem[]
}

type Prepared = { insert(tx: Connection): Promise<void>; drop(): Promise<void> }

/** Stores the response of one turn, and adds its items to its conversation, in one transaction. */
export class TurnStorage implements ResponseStorage {
  readonly fields: Partial<ResponsesObject>
  readonly #services: ResponseServices
  readonly #turn: StoredTurn

  constructor(services: ResponseServices, turn: StoredTurn) {
    this.#services = services
    this.#turn = turn
    const { isStored, previousId, conversationId } = turn
    this.fields = {
      store: isStored,
      previous_response_id: previousId,
      ...(conversationId !== null && { conversation: { id: conversationId } }),
    }
  }

  async store(response: ResponsesObject): Promise<ResponsesObject> {
    const { log } = this.#services
    try {
      if (await this.#save(response)) return response
    } catch (error) {
      // The answer is paid for: it matters more than its storage.
      const level = error instanceof GatewayError ? 'warn' : 'error'
      log[level]({ err: error, response: response.id }, 'a response could not be stored')
    }
    return { ...response, store: false }
  }

  /** Returns false if the organisation no longer stores responses. */
  async #save(response: ResponsesObject): Promise<boolean> {
    const { db, clock, files, conversations, responseSettings } = this.#services
    const { owner, conversationId } = this.#turn
    const { keeps, retentionDays } = await responseSettings.read(owner.organisationId)
    if (!keeps) return false
    const expiresAtMs = clock.now() + retentionDays * dayMs
    const prepared: Prepared[] = []
    const drop = async () => {
      for (const one of prepared) await one.drop()
    }
    await dropOnFailure({ drop }, async () => {
      for await (const one of this.#prepare(response, expiresAtMs)) prepared.push(one)
      await db.$transaction(async tx => {
        if (conversationId !== null && !(await conversations.touch(tx, conversationId, owner, expiresAtMs)))
          throw new GatewayError('not_found', `Conversation '${conversationId}' was deleted during the request.`)
        for (const { insert } of prepared) await insert(tx)
        await files.quota.assertWithin(tx, owner)
      })
    })
    return true
  }

  async *#prepare(response: ResponsesObject, expiresAtMs: number): AsyncGenerator<Prepared> {
    const { storedResponses, conversations } = this.#services
    const { owner, isStored, input, ...links } = this.#turn
    const { output, ...head } = response
    const { id, status } = response
    if (isStored) yield storedResponses.prepare({ ...owner, ...links, id, status, head, input, output, expiresAtMs })
    if (links.conversationId !== null && status !== 'failed')
      yield conversations.prepareItems(links.conversationId, owner, [...input, ...output], { expiresAtMs })
  }
}
