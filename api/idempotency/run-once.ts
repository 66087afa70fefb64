import { hash } from 'node:crypto'
import { GatewayError } from '../../shared/base/errors.ts'
import type { DeferredSettlement } from '../../shared/engine/response-writer.ts'
import type { FileServices } from '../../shared/files/file-services.ts'
import type { IdempotencyKey } from '../../shared/generated/prisma/client.ts'
import type { Platform } from '../../shared/platform.ts'
import type { UsageEvent } from '../../shared/wallet/usage-event.ts'
import { claimKey, findKey, inProgressError, Lease, runningError } from './lease.ts'
import { type AnswerOwner, keyReusedError, readStoredAnswer, type StoredAnswer } from './stored-answer.ts'

/** A request with an idempotency key. */
export type IdempotentRequest = {
  organisationId: string
  /** The client's `Idempotency-Key`. */
  key: string
  /** The environment of the API key: a test key never gets the replay of a live response, nor vice versa. */
  caller: 'live' | 'test' | 'provisioning'
  /** The ids that the path of the request names. */
  pathIds: readonly string[]
  /** Everything that must match for a replay; it is hashed. */
  content: Buffer[]
  /**
   * The caller's own secret if the response contains a secret that must not be readable in the database; otherwise
   * null.
   */
  sealWith: string | null
  /** Accounts for the bytes of a response that is replayed. Throws 429 or 503 if there is no room for them. */
  collect(bytes: number): void
}

/** Reads the `Idempotency-Key` of a request, if any. Throws 400 if it is too long. */
export function idempotencyKeyOf(header: string | string[] | undefined): string | null {
  if (header === undefined) return null
  if (typeof header !== 'string' || header.length < 1 || header.length > 255) {
    throw new GatewayError('invalid_request', 'Idempotency-Key must have 1 to 255 characters.', {
      param: 'Idempotency-Key',
    })
  }
  return header
}

/**
 * Runs a request once per organisation and key: replays the first response if there is one, otherwise runs `work` and
 * stores its response before it is sent and charged. `work` passes its settlement to `defer`. Failed requests store
 * nothing and can be retried; so can those whose `work` returns null. Throws 409 (docs/decisions/idempotency.md).
 */
export async function runOnce(
  services: FileServices,
  request: IdempotentRequest,
  work: (lease: Lease, defer: (settlement: DeferredSettlement) => void) => Promise<StoredAnswer | null>,
): Promise<{ answer: StoredAnswer | null; replayed: boolean }> {
  const answerOwner = answerOwnerOf(request)
  const bodyHash = hash('sha256', Buffer.concat(request.content), 'hex')
  const repeated = { bodyHash, collect: request.collect }
  const claimed = await claimKey(services, answerOwner, bodyHash)
  if (!(claimed instanceof Lease))
    return { answer: await replay(services, claimed, answerOwner, repeated), replayed: true }
  const deferred: DeferredSettlement[] = []
  const resolve = (how: 'settle' | 'release') => {
    for (const settlement of deferred.splice(0)) settlement[how]()
  }
  try {
    const answer = await work(claimed, settlement => deferred.push(settlement))
    if (!answer) await claimed.release()
    else if (!(await storeAnswer(services, claimed, answer, deferred))) {
      // The lease was lost: the response of its new holder counts, and is charged.
      resolve('release')
      const row = await findKey(services, answerOwner)
      if (!row) throw inProgressError(1)
      return { answer: await replay(services, row, answerOwner, repeated), replayed: true }
    }
    return { answer, replayed: false }
  } catch (error) {
    await claimed.release()
    throw error
  } finally {
    claimed.end()
    resolve('settle')
  }
}

function answerOwnerOf({ organisationId, caller, key, pathIds, sealWith }: IdempotentRequest): AnswerOwner {
  const environment = caller === 'test' ? 'test' : 'live'
  return { organisationId, key: `${caller}:${key}`, environment, pathIds, sealWith }
}

/** Stores a response with its cost; returns false if the lease was lost. */
async function storeAnswer(
  services: Platform,
  lease: Lease,
  answer: StoredAnswer,
  deferred: readonly DeferredSettlement[],
): Promise<boolean> {
  const event = deferred.find(({ event }) => event !== null)?.event ?? null
  try {
    return await lease.store(answer, event)
  } catch (error) {
    // The work is done and paid for: its response matters more than the ability to replay it.
    services.log.warn({ err: error }, 'an answer could not be kept for its Idempotency-Key yet')
    void lease.retryStore(answer, event)
    return true
  }
}

/**
 * Replays the stored response of a row, which is charged once. Throws 409 for a different request, and while there is
 * no response.
 */
async function replay(
  services: Platform,
  row: IdempotencyKey,
  answerOwner: AnswerOwner,
  { bodyHash, collect }: Pick<IdempotentRequest, 'collect'> & { bodyHash: string },
): Promise<StoredAnswer> {
  if (row.bodyHash !== bodyHash)
    throw keyReusedError('This Idempotency-Key was used with a different request. Use a new key.')
  if (row.status === null) throw await runningError(services, answerOwner)
  const answer = await readStoredAnswer(services, row, answerOwner, collect)
  await settleIfUnbooked(services, row.event as UsageEvent | null)
  return answer
}

/**
 * Settles the cost of a response unless it is booked: the process that stored the response may have died before its
 * settlement reached Redis. A settlement in transit is still booked only once.
 */
async function settleIfUnbooked({ db, admission }: Platform, event: UsageEvent | null): Promise<void> {
  if (event === null) return
  const causes = [`generation:${event.id}`, `excess:${event.id}`]
  if ((await db.ledgerEntry.count({ where: { cause: { in: causes } } })) === 0) admission.settleLost(event)
}
