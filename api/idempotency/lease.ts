import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../../shared/base/errors.ts'
import type { FileServices } from '../../shared/files/file-services.ts'
import type { IdempotencyKey } from '../../shared/generated/prisma/client.ts'
import type { Connection } from '../../shared/io/db.ts'
import type { Platform } from '../../shared/platform.ts'
import type { UsageEvent } from '../../shared/wallet/usage-event.ts'
import { type AnswerOwner, encodeBody, headOf, retentionMs, type StoredAnswer, storeBody } from './stored-answer.ts'

/** Lease duration: a request not renewed for this long is treated as crashed. By the database's clock. */
const leaseMs = 15_000
const renewEveryMs = 4_000
/**
 * Without a renewal for this long, the process has probably crashed: retries are told to wait until the lease expires.
 */
const overdueMs = 2 * renewEveryMs

/** Limits the stored-response writes that wait for Postgres, across all requests of this process. */
let pendingStores = 0
const maxPendingStores = 200
const maxPendingLength = 256 * 1024
const storeRetryMs = 1_000
const maxStoreTries = 60

type Id = { organisationId: string; key: string }

/**
 * A lease: the right to run the request of an `Idempotency-Key` and to store its response. It is short and renewed
 * while the request runs; a process that lets it expire, because it is frozen or cut off from the database, loses it to
 * the next and stores nothing.
 */
export class Lease {
  readonly #services: FileServices
  readonly #answerOwner: AnswerOwner
  readonly #claim: string
  readonly #renewing: NodeJS.Timeout
  #isRenewing = false
  /** The body stored by `storeInTransaction`. */
  #storedBody: StoredAnswer['body'] | null = null

  constructor(services: FileServices, answerOwner: AnswerOwner, claim: string) {
    this.#services = services
    this.#answerOwner = answerOwner
    this.#claim = claim
    this.#renewing = setInterval(() => void this.#renew(), renewEveryMs)
    this.#renewing.unref()
  }

  /**
   * Stores a response in the transaction that creates its object, so that both are committed or neither. Throws 409 if
   * the lease was lost, which rolls the transaction back.
   */
  async storeInTransaction(tx: Connection, answer: StoredAnswer): Promise<void> {
    const body = new Uint8Array(encodeBody(answer, this.#answerOwner))
    // The object exists: a retry need not wait until this request ends.
    const head = headOf(answer, this.#answerOwner)
    const data = { ...head, body, lockedUntil: null, createdAt: new Date(this.#services.clock.now()) }
    const { count } = await tx.idempotencyKey.updateMany({ where: this.#own, data })
    if (count === 0) throw inProgressError(1)
    this.#storedBody = answer.body
  }

  /** Stores a response with its charge; returns false if the lease was lost. Throws what Postgres throws. */
  async store(answer: StoredAnswer, event: UsageEvent | null): Promise<boolean> {
    if (this.#storedBody !== null && this.#storedBody === answer.body) return true
    const { db, clock } = this.#services
    const stored = await storeBody(this.#services, this.#answerOwner, encodeBody(answer, this.#answerOwner))
    const charged = event && event.cost > 0 ? { event } : {}
    const head = headOf(answer, this.#answerOwner)
    const data = { ...head, ...stored, ...charged, lockedUntil: null, createdAt: new Date(clock.now()) }
    const { count } = await db.idempotencyKey.updateMany({ where: this.#own, data })
    return count > 0
  }

  /**
   * Stores a response once Postgres is back, if that is soon, so that work already charged is not run and charged
   * again. Never throws.
   */
  async retryStore(answer: StoredAnswer, event: UsageEvent | null): Promise<void> {
    if (pendingStores >= maxPendingStores || answer.body.length > maxPendingLength) return
    pendingStores++
    try {
      for (let tries = 0; tries < maxStoreTries; tries++) {
        await sleep(storeRetryMs, undefined, { ref: false })
        const isStored = await this.store(answer, event).catch(() => null)
        if (isStored !== null) return
      }
    } finally {
      pendingStores--
    }
  }

  /** Releases the key for a retry, unless a response is stored. Never throws: the lease expires by itself. */
  async release(): Promise<void> {
    try {
      await this.#services.db.idempotencyKey.deleteMany({ where: { ...this.#own, status: null } })
    } catch (error) {
      this.#services.log.warn({ err: error }, 'an Idempotency-Key stays locked until its lease is over')
    }
  }

  /** Stops the renewal. */
  end(): void {
    clearInterval(this.#renewing)
  }

  get #own() {
    const { organisationId, key } = this.#answerOwner
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
 * Claims an `Idempotency-Key` for one run if it is new, its response is too old, or its holder crashed. Returns the
 * lease, or the row of the holder or of the stored response.
 */
export async function claimKey(
  services: FileServices,
  answerOwner: AnswerOwner,
  bodyHash: string,
): Promise<Lease | IdempotencyKey> {
  const { db, clock } = services
  const { organisationId, key } = answerOwner
  const [nowMs, claim] = [clock.now(), randomUUID()]
  const claimed = await db.$executeRaw`
    INSERT INTO idempotency_keys AS known (organisation_id, key, body_hash, claim, locked_until, created_at)
    VALUES (${organisationId}, ${key}, ${bodyHash}, ${claim},
      clock_timestamp() + ${leaseMs}::float8 * interval '1 millisecond', ${new Date(nowMs)})
    ON CONFLICT (organisation_id, key) DO UPDATE SET
      body_hash = excluded.body_hash, claim = excluded.claim, locked_until = excluded.locked_until,
      created_at = excluded.created_at, status = NULL, headers = NULL, body = NULL, storage_key = NULL, event = NULL,
      object_ids = '{}'
    WHERE known.created_at < ${new Date(nowMs - retentionMs)}
      OR (known.status IS NULL AND known.locked_until < clock_timestamp())`
  if (claimed > 0) return new Lease(services, answerOwner, claim)
  const row = await findKey(services, answerOwner)
  // The holder failed in the meantime.
  if (!row) throw inProgressError(1)
  return row
}

/** The row of an `Idempotency-Key`; null if there is none. */
export function findKey({ db }: Platform, { organisationId, key }: Id): Promise<IdempotencyKey | null> {
  return db.idempotencyKey.findUnique({ where: { organisationId_key: { organisationId, key } } })
}

/**
 * The error for a key whose first request is still running or has crashed; in that case, its lease must expire first.
 */
export async function runningError({ db }: Platform, { organisationId, key }: Id): Promise<GatewayError> {
  const [row] = await db.$queryRaw<{ leftMs: number | null }[]>`
    SELECT (extract(epoch FROM locked_until - clock_timestamp()) * 1000)::float8 AS "leftMs" FROM idempotency_keys
    WHERE organisation_id = ${organisationId} AND key = ${key}`
  const leftMs = row?.leftMs ?? 0
  return inProgressError(leftMs < leaseMs - overdueMs ? Math.max(1, Math.ceil(leftMs / 1_000)) : 1)
}

/** The error for a key in use, with a retry-after. */
export function inProgressError(retryAfterS: number): GatewayError {
  return new GatewayError(
    'idempotency_in_progress',
    'The first request with this Idempotency-Key is still running. Try again shortly.',
    { param: 'Idempotency-Key', headers: { 'retry-after': String(retryAfterS) } },
  )
}
