import { setTimeout as sleep } from 'node:timers/promises'
import type { Queue } from 'bullmq'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { type Clock, dayMs } from '../base/time.ts'
import type { DeliveryStatus, Prisma, WebhookAttempt, WebhookDelivery } from '../generated/prisma/client.ts'
import type { Connection, Database } from '../io/db.ts'

/** A delivery that nobody took up this long after its time has no queue entry: Redis was wiped, or a worker died. */
const overdueMs = 20_000
const mostDue = 5_000
const unclaimedWaitMs = 1_000
const removeTries = 40
const removePauseMs = 50
/** What was sent again and again by hand shows its latest attempts only. */
const mostAttempts = 100
const keptMs = 30 * dayMs
const expiredPerPage = 1_000
const mostExpiredPages = 200

export type NewDelivery = { organisationId: string; type: string; url: string; nowMs: number } & (
  | { jobId: string }
  | { batchId: string }
  | { data: Prisma.InputJsonObject }
)

export type DeliveryFilter = {
  status?: DeliveryStatus | undefined
  type?: string | undefined
  /** A part of the URL. */
  url?: string | undefined
  after?: string | undefined
}

/** What a claim found: the delivery, ours until the lease ends; or when it is due; or nothing left to do. */
export type Claim =
  | { state: 'claimed'; delivery: Omit<WebhookDelivery, 'nextAttemptAt'> }
  | { state: 'waiting'; delayMs: number }
  | { state: 'over' }

/** One finished attempt, and what becomes of its delivery. */
export type AttemptResult = Omit<WebhookAttempt, 'number'> & { outcome: DeliveryStatus; nextAttemptAt: Date }

type ClaimRow = WebhookDelivery & { claimed: boolean }
/** A claimed delivery: how many of its attempts never ended, without the present one. */
type Claimed = Pick<WebhookDelivery, 'id' | 'openStarts'>

/**
 * Deliveries of webhooks and their log. The row is the truth: a pending one is due at `nextAttemptAt`, which a claim
 * moves ahead, so that a worker that dies leaves it due again. The queue only wakes.
 */
export class Webhooks {
  readonly #db: Database
  readonly #queue: Queue
  readonly #clock: Clock

  constructor({ db, queue, clock }: { db: Database; queue: Queue; clock: Clock }) {
    this.#db = db
    this.#queue = queue
    this.#clock = clock
  }

  /** Writes a delivery, due at once, within the caller's transaction. Gives its id; `enqueue` it after the commit. */
  async insert(tx: Connection, { nowMs, ...event }: NewDelivery): Promise<string> {
    const id = newId('evt')
    const now = new Date(nowMs)
    await tx.webhookDelivery.create({ data: { id, ...event, nextAttemptAt: now, createdAt: now } })
    return id
  }

  /** Wakes workers for deliveries. One that is in the queue already is not added again. */
  async enqueue(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return
    await this.#queue.addBulk(ids.map(id => ({ name: 'deliver', data: id, opts: { jobId: id } })))
  }

  /** Pending deliveries whose time has long passed, at most 5,000, the oldest first. */
  async due(nowMs: number): Promise<string[]> {
    const rows = await this.#db.webhookDelivery.findMany({
      where: { status: 'pending', nextAttemptAt: { lt: new Date(nowMs - overdueMs) } },
      orderBy: { nextAttemptAt: 'asc' },
      take: mostDue,
      select: { id: true },
    })
    return rows.map(({ id }) => id)
  }

  /**
   * Takes deliveries that are due, for `leaseMs`; one claim of several at the same time gets each, also within `ids`. The
   * claims are in their order. A claim counts as a start of the attempt, that of a suspect from `begin` on; `record` and
   * `release` end it.
   */
  async claim(ids: readonly string[], leaseMs: number): Promise<Claim[]> {
    const nowMs = this.#clock.now()
    const now = new Date(nowMs)
    const until = new Date(nowMs + leaseMs)
    const rows = await this.#db.$queryRaw<ClaimRow[]>`
      WITH free AS (
        SELECT id FROM webhook_deliveries WHERE id = ANY(${ids}) AND status = 'pending' AND next_attempt_at <= ${now}
        ORDER BY id FOR UPDATE SKIP LOCKED),
      claimed AS (
        UPDATE webhook_deliveries d SET next_attempt_at = ${until}, open_starts = greatest(d.open_starts, 1)
        FROM free WHERE d.id = free.id RETURNING d.id)
      SELECT d.id, organisation_id AS "organisationId", job_id AS "jobId", batch_id AS "batchId", data, type, url, status,
        attempts, next_attempt_at AS "nextAttemptAt", created_at AS "createdAt", delivered_at AS "deliveredAt",
        open_starts AS "openStarts",
        claimed.id IS NOT NULL AS claimed
      FROM webhook_deliveries d LEFT JOIN claimed ON claimed.id = d.id WHERE d.id = ANY(${ids})`
    const found = new Map(rows.map(row => [row.id, row]))
    const given = new Set<string>()
    return ids.map(id => {
      const row = found.get(id)
      if (row?.status !== 'pending') return { state: 'over' }
      const { claimed, nextAttemptAt, ...delivery } = row
      if (claimed && !given.has(id)) {
        given.add(id)
        return { state: 'claimed', delivery }
      }
      return { state: 'waiting', delayMs: Math.max(nextAttemptAt.getTime() - nowMs, unclaimedWaitMs) }
    })
  }

  /** Counts the attempt of a claimed suspect, before it is made. */
  async begin({ id, openStarts }: Claimed): Promise<void> {
    await this.#db.webhookDelivery.updateMany({ where: { id }, data: { openStarts: openStarts + 1 } })
  }

  /** Gives a claim back without an attempt, to be taken again after a while. */
  async release({ id, openStarts }: Claimed, delayMs: number): Promise<void> {
    const nextAttemptAt = new Date(this.#clock.now() + delayMs)
    await this.#db.webhookDelivery.updateMany({ where: { id, status: 'pending' }, data: { openStarts, nextAttemptAt } })
  }

  /** Writes finished attempts and what becomes of their deliveries. What was delivered meanwhile stays delivered. */
  async record(results: readonly AttemptResult[]): Promise<void> {
    await this.#db.$executeRaw`
      WITH result AS (SELECT * FROM jsonb_to_recordset(${JSON.stringify(results)}::jsonb) AS r(
        "deliveryId" text, at timestamptz, "durationMs" int, status int, error text, response text,
        headers jsonb, body text, outcome delivery_status, "nextAttemptAt" timestamptz)),
      locked AS (
        SELECT d.id FROM webhook_deliveries d JOIN result ON d.id = "deliveryId" ORDER BY d.id FOR UPDATE OF d),
      written AS (
        UPDATE webhook_deliveries d SET attempts = d.attempts + 1, open_starts = 0,
          status = CASE WHEN outcome = 'delivered' OR d.status = 'pending' THEN outcome ELSE d.status END,
          next_attempt_at = "nextAttemptAt",
          delivered_at = CASE WHEN outcome = 'delivered' THEN at ELSE d.delivered_at END
        FROM locked JOIN result ON locked.id = "deliveryId" WHERE d.id = locked.id
        RETURNING d.id, d.attempts)
      INSERT INTO webhook_attempts (delivery_id, number, at, duration_ms, status, error, response, headers, body)
      SELECT id, attempts, at, "durationMs", status, error, response, headers, body
      FROM written JOIN result ON id = "deliveryId"`
  }

  /**
   * Sends an event again at once, whatever became of it, under the same id. Throws 404, also for another organisation's.
   * `organisationId` null = any (the operator).
   */
  async redeliver(organisationId: string | null, id: string): Promise<WebhookDelivery> {
    const nextAttemptAt = new Date(this.#clock.now())
    const { count } = await this.#db.webhookDelivery.updateMany({
      where: { id, ...(organisationId && { organisationId }) },
      data: { status: 'pending', nextAttemptAt, deliveredAt: null, openStarts: 0 },
    })
    if (count === 0) throw noSuchDelivery(id)
    await this.#removeEntry(id)
    await this.enqueue([id])
    return this.show(organisationId, id)
  }

  /** An entry that waits for a later attempt would keep a new one out, and so would one that its worker is just done with. */
  async #removeEntry(id: string): Promise<void> {
    for (let tries = 1; tries <= removeTries; tries++) {
      await this.#queue.remove(id)
      if (!(await this.#queue.getJob(id))) return
      await sleep(removePauseMs)
    }
  }

  /** A page of an organisation's deliveries, newest first. `after` is a delivery's id. Throws 404 for an unknown one. */
  async list(organisationId: string, options: DeliveryFilter & { limit: number }): Promise<WebhookDelivery[]> {
    const { status, type, url, after, limit } = options
    const last = after === undefined ? null : await this.#find(organisationId, after)
    return this.#db.webhookDelivery.findMany({
      where: {
        organisationId,
        ...(status && { status }),
        ...(type && { type }),
        ...(url && { url: { contains: url, mode: 'insensitive' } }),
        ...(last && {
          OR: [{ createdAt: { lt: last.createdAt } }, { createdAt: last.createdAt, id: { lt: last.id } }],
        }),
      },
      orderBy: [{ createdAt: 'desc' }, { id: 'desc' }],
      take: limit,
    })
  }

  /** Where the webhook of a finished job or batch stands; null once its log was deleted. */
  async statusOf(of: { jobId: string } | { batchId: string }): Promise<DeliveryStatus | null> {
    const newest = { createdAt: 'desc' } as const
    const row = await this.#db.webhookDelivery.findFirst({
      where: of,
      orderBy: newest,
      select: { status: true },
    })
    return row?.status ?? null
  }

  /**
   * A delivery with its latest attempts, oldest first. Throws 404, also for another organisation's. `organisationId` null =
   * any (the operator).
   */
  async show(organisationId: string | null, id: string): Promise<WebhookDelivery & { log: WebhookAttempt[] }> {
    const delivery = await this.#find(organisationId, id)
    const latest = await this.#db.webhookAttempt.findMany({
      where: { deliveryId: id },
      orderBy: { number: 'desc' },
      take: mostAttempts,
    })
    return { ...delivery, log: latest.reverse() }
  }

  /** Deletes deliveries, with their log, that were over 30 days ago; gives how many. */
  async expire(nowMs: number): Promise<number> {
    // The time of one that is over is when it was over.
    const before = new Date(nowMs - keptMs)
    let deleted = 0
    for (let page = 0; page < mostExpiredPages; page++) {
      const count = await this.#db.$executeRaw`
        DELETE FROM webhook_deliveries WHERE id IN (
          SELECT id FROM webhook_deliveries WHERE status IN ('delivered', 'failed') AND next_attempt_at < ${before}
          LIMIT ${expiredPerPage} FOR UPDATE SKIP LOCKED)`
      deleted += count
      if (count < expiredPerPage) break
    }
    return deleted
  }

  async #find(organisationId: string | null, id: string): Promise<WebhookDelivery> {
    const where = { id, ...(organisationId && { organisationId }) }
    const row = await this.#db.webhookDelivery.findFirst({ where })
    if (!row) throw noSuchDelivery(id)
    return row
  }
}

function noSuchDelivery(id: string): GatewayError {
  return new GatewayError('not_found', `There is no webhook delivery ${id}.`)
}
