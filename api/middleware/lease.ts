import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../../shared/base/errors.ts'
import type { IdempotencyKey } from '../../shared/generated/prisma/client.ts'
import type { Connection } from '../../shared/io/db.ts'
import type { Services } from '../../shared/services.ts'
import type { UsageEvent } from '../../shared/wallet/usage-event.ts'
import { bytesToKeep, headOf, type Keeping, type Kept, keepMs, place } from './kept-answer.ts'

/** So long after its last renewal, a request is taken for one whose process died. By the database's clock. */
const leaseMs = 15_000
const renewEveryMs = 4_000
/** Without a renewal for so long the process is probably gone: retries are told to wait for the end of the lease. */
const overdueMs = 2 * renewEveryMs

/** Answers that wait for Postgres, by all requests of this process. */
let waitingAnswers = 0
const maxWaitingAnswers = 200
const maxWaitingLength = 256 * 1024
const keepEveryMs = 1_000
const keepTries = 60

type Id = { organisationId: string; key: string }

/**
 * The right to run the request of an `Idempotency-Key` and to keep its answer. It is short and renewed while the request runs;
 * whoever lets it lapse, frozen or cut off from the database, loses it to the next and keeps nothing.
 */
export class Lease {
  readonly #services: Services
  readonly #keeping: Keeping
  readonly #claim: string
  readonly #renewing: NodeJS.Timeout
  #isRenewing = false
  /** The body kept by `keepBeside`. */
  #keptBody: Kept['body'] | null = null

  constructor(services: Services, keeping: Keeping, claim: string) {
    this.#services = services
    this.#keeping = keeping
    this.#claim = claim
    this.#renewing = setInterval(() => void this.#renew(), renewEveryMs)
    this.#renewing.unref()
  }

  /**
   * Keeps an answer in the transaction of what it tells of, so that both are there or neither. Throws 409 when the lease was
   * lost, for the transaction to be undone.
   */
  async keepBeside(tx: Connection, answer: Kept): Promise<void> {
    const body = new Uint8Array(bytesToKeep(answer, this.#keeping))
    // What was made is there: whoever asks again needs not wait for this request to end.
    const data = { ...headOf(answer), body, lockedUntil: null, createdAt: new Date(this.#services.clock.now()) }
    const { count } = await tx.idempotencyKey.updateMany({ where: this.#own, data })
    if (count === 0) throw inProgress(1)
    this.#keptBody = answer.body
  }

  /** Keeps an answer with what is to be charged for it; false when the lease was lost. Throws what Postgres throws. */
  async keep(answer: Kept, event: UsageEvent | null): Promise<boolean> {
    if (this.#keptBody !== null && this.#keptBody === answer.body) return true
    const { db, clock } = this.#services
    const placed = await place(this.#services, this.#keeping, bytesToKeep(answer, this.#keeping))
    const charged = event && event.cost > 0 ? { event } : {}
    const data = { ...headOf(answer), ...placed, ...charged, lockedUntil: null, createdAt: new Date(clock.now()) }
    const { count } = await db.idempotencyKey.updateMany({ where: this.#own, data })
    return count > 0
  }

  /**
   * Keeps an answer once Postgres is back, if that is soon: what was charged meanwhile is not to be run and charged again. Never
   * throws.
   */
  async keepLater(answer: Kept, event: UsageEvent | null): Promise<void> {
    if (waitingAnswers >= maxWaitingAnswers || answer.body.length > maxWaitingLength) return
    waitingAnswers++
    try {
      for (let tries = 0; tries < keepTries; tries++) {
        await sleep(keepEveryMs, undefined, { ref: false })
        const isKept = await this.keep(answer, event).catch(() => null)
        if (isKept !== null) return
      }
    } finally {
      waitingAnswers--
    }
  }

  /** Gives the key free for another try, unless an answer is kept. Never throws: the lease ends by itself. */
  async forget(): Promise<void> {
    try {
      await this.#services.db.idempotencyKey.deleteMany({ where: { ...this.#own, status: null } })
    } catch (error) {
      this.#services.log.warn({ err: error }, 'an Idempotency-Key stays locked until its lease is over')
    }
  }

  /** Renews it no longer. */
  end(): void {
    clearInterval(this.#renewing)
  }

  get #own() {
    const { organisationId, key } = this.#keeping
    return { organisationId, key, claim: this.#claim }
  }

  async #renew(): Promise<void> {
    if (this.#isRenewing) return
    this.#isRenewing = true
    const { organisationId, key, claim } = this.#own
    try {
      await this.#services.db.$executeRaw`
        UPDATE idempotency_keys SET locked_until = clock_timestamp() + ${leaseMs}::float8 * interval '1 millisecond'
        WHERE organisation_id = ${organisationId} AND key = ${key} AND claim = ${claim} AND status IS NULL`
    } catch (error) {
      this.#services.log.warn({ err: error }, 'the lease of an Idempotency-Key could not be renewed')
    } finally {
      this.#isRenewing = false
    }
  }
}

/**
 * Claims an `Idempotency-Key` for one run: where it is new, its answer is too old, or whoever had it died. Gives the lease, or
 * the row of whoever has it or has answered.
 */
export async function claimKey(
  services: Services,
  keeping: Keeping,
  bodyHash: string,
): Promise<Lease | IdempotencyKey> {
  const { db, clock } = services
  const { organisationId, key } = keeping
  const [nowMs, claim] = [clock.now(), randomUUID()]
  const claimed = await db.$executeRaw`
    INSERT INTO idempotency_keys AS known (organisation_id, key, body_hash, claim, locked_until, created_at)
    VALUES (${organisationId}, ${key}, ${bodyHash}, ${claim},
      clock_timestamp() + ${leaseMs}::float8 * interval '1 millisecond', ${new Date(nowMs)})
    ON CONFLICT (organisation_id, key) DO UPDATE SET
      body_hash = excluded.body_hash, claim = excluded.claim, locked_until = excluded.locked_until,
      created_at = excluded.created_at, status = NULL, headers = NULL, body = NULL, storage_key = NULL, event = NULL
    WHERE known.created_at < ${new Date(nowMs - keepMs)}
      OR (known.status IS NULL AND known.locked_until < clock_timestamp())`
  if (claimed > 0) return new Lease(services, keeping, claim)
  const row = await findKey(services, keeping)
  // Whoever had it failed at this very moment.
  if (!row) throw inProgress(1)
  return row
}

/** The row of an `Idempotency-Key`; null when there is none. */
export function findKey({ db }: Services, { organisationId, key }: Id): Promise<IdempotencyKey | null> {
  return db.idempotencyKey.findUnique({ where: { organisationId_key: { organisationId, key } } })
}

/** The refusal of a key whose first request still runs, or whose process died: then its lease has to end first. */
export async function stillRunning({ db }: Services, { organisationId, key }: Id): Promise<GatewayError> {
  const [row] = await db.$queryRaw<{ leftMs: number | null }[]>`
    SELECT (extract(epoch FROM locked_until - clock_timestamp()) * 1000)::float8 AS "leftMs" FROM idempotency_keys
    WHERE organisation_id = ${organisationId} AND key = ${key}`
  const leftMs = row?.leftMs ?? 0
  return inProgress(leftMs < leaseMs - overdueMs ? Math.max(1, Math.ceil(leftMs / 1_000)) : 1)
}

/** The refusal of a key that is in use, for so long. */
export function inProgress(retryAfterS: number): GatewayError {
  return new GatewayError(
    'idempotency_in_progress',
    'The first request with this Idempotency-Key is still running. Try again shortly.',
    { headers: { 'retry-after': String(retryAfterS) } },
  )
}
