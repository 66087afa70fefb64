import { hash } from 'node:crypto'
import { GatewayError } from '../../shared/base/errors.ts'
import type { HeldSettlement } from '../../shared/chat/client.ts'
import type { IdempotencyKey } from '../../shared/generated/prisma/client.ts'
import type { Services } from '../../shared/services.ts'
import type { UsageEvent } from '../../shared/wallet/usage-event.ts'
import { type Keeping, type Kept, readKept, reused } from './kept-answer.ts'
import { claimKey, findKey, inProgress, Lease, stillRunning } from './lease.ts'

/** A request as idempotency sees it. */
export type Repeatable = {
  organisationId: string
  /** The client's `Idempotency-Key`. */
  key: string
  /** Which kind of API key sent it: a test key never gets a live answer again, nor the other way round. */
  caller: 'live' | 'test' | 'provisioning'
  /** Everything that must be the same for it to be the same request. */
  content: Buffer[]
  /** The caller's own secret, when the answer holds a secret that must not be readable in the database; else null. */
  sealWith: string | null
}

/** The `Idempotency-Key` of a request, if it sent one. Throws 400 when it is too long. */
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
 * Runs a request once per organisation and key: gives the first answer again when it is there, else runs `work` and keeps
 * what it answers, before anybody sees it and before it is charged. `work` gives what it settles to `hold`. A request that
 * fails keeps nothing, so that it can be tried again; so does one whose `work` gives null. Throws 409 (contract §1).
 */
export async function once(
  services: Services,
  request: Repeatable,
  work: (lease: Lease, hold: (settlement: HeldSettlement) => void) => Promise<Kept | null>,
): Promise<{ answer: Kept | null; replayed: boolean }> {
  const keeping = keepingOf(request)
  const bodyHash = hash('sha256', Buffer.concat(request.content), 'hex')
  const found = await claimKey(services, keeping, bodyHash)
  if (!(found instanceof Lease)) return { answer: await replay(services, found, keeping, bodyHash), replayed: true }
  const held: HeldSettlement[] = []
  const resolve = (how: 'settle' | 'release') => {
    for (const settlement of held.splice(0)) settlement[how]()
  }
  try {
    const answer = await work(found, settlement => held.push(settlement))
    if (!answer) await found.forget()
    else if (!(await kept(services, found, answer, held))) {
      // The lease was lost: whoever took the key over is the one whose answer counts, and is charged.
      resolve('release')
      const row = await findKey(services, keeping)
      if (!row) throw inProgress(1)
      return { answer: await replay(services, row, keeping, bodyHash), replayed: true }
    }
    return { answer, replayed: false }
  } catch (error) {
    await found.forget()
    throw error
  } finally {
    found.end()
    resolve('settle')
  }
}

function keepingOf({ organisationId, caller, key, sealWith }: Repeatable): Keeping {
  const environment = caller === 'test' ? 'test' : 'live'
  return { organisationId, key: `${caller}:${key}`, environment, sealWith }
}

/** Keeps an answer with what it costs; false when the lease was lost. */
async function kept(services: Services, lease: Lease, answer: Kept, held: readonly HeldSettlement[]): Promise<boolean> {
  const event = held.find(({ event }) => event !== null)?.event ?? null
  try {
    return await lease.keep(answer, event)
  } catch (error) {
    // The work is done and paid for: its answer matters more than the chance to give it again.
    services.log.warn({ err: error }, 'an answer could not be kept for its Idempotency-Key yet')
    void lease.keepLater(answer, event)
    return true
  }
}

/** The kept answer of a row, which is charged once. Throws 409 for another request, and while there is no answer. */
async function replay(services: Services, row: IdempotencyKey, keeping: Keeping, bodyHash: string): Promise<Kept> {
  if (row.bodyHash !== bodyHash) throw reused('This Idempotency-Key was used with another request. Use a new key.')
  if (row.status === null) throw await stillRunning(services, keeping)
  const answer = await readKept(services, row, keeping)
  await settleAgain(services, row.event as UsageEvent | null)
  return answer
}

/**
 * Settles what an answer costs unless it is booked: the process that kept the answer may have died before its settlement was
 * in Redis. One that is only on its way is booked once all the same.
 */
async function settleAgain({ db, admission }: Services, event: UsageEvent | null): Promise<void> {
  if (event === null) return
  const causes = [`generation:${event.id}`, `excess:${event.id}`]
  if ((await db.ledgerEntry.count({ where: { cause: { in: causes } } })) === 0) admission.settleLost(event)
}
