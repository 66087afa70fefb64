import { setTimeout as sleep } from 'node:timers/promises'
import type { Queue } from 'bullmq'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Clock } from '../base/time.ts'
import type { DeliveryStatus, WebhookAttempt, WebhookDelivery } from '../generated/prisma/client.ts'
import type { Connection, Database } from '../io/db.ts'

/** A delivery that nobody took up this long after its time has no queue entry: Redis was wiped, or a worker died. */
const overdueMs = 60_000
const mostDue = 5_000
const unclaimedWaitMs = 1_000
const removeTries = 40
const removePauseMs = 50

export type NewDelivery = { organisationId: string; type: string; url: string; nowMs: number } & (
  | { jobId: string }
  | { batchId: string }
)

/** What a claim found: the delivery, ours until the lease ends; or when it is due; or nothing left to do. */
export type Claim =
  | { state: 'claimed'; delivery: Omit<WebhookDelivery, 'nextAttemptAt'> }
  | { state: 'waiting'; delayMs: number }
  | { state: 'over' }

/** One finished attempt, and what becomes of its delivery. */
export type AttemptResult = Omit<WebhookAttempt, 'number'> & { outcome: DeliveryStatus; nextAttemptAt: Date }

type ClaimRow = WebhookDelivery & { claimed: boolean }

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
   * claims are in their order.
   */
  async claim(ids: readonly string[], leaseMs: number): Promise<Claim[]> {
    const nowMs = this.#clock.now()
    const now = new Date(nowMs)
    const until = new Date(nowMs + leaseMs)
    const rows = await this.#db.$queryRaw<ClaimRow[]>`
      WITH free AS (
        SELECT id FROM webhook_deliveries WHERE id = ANY(${ids}) AND status = 'pending' AND next_attempt_at <= ${now}
        ORDER BY id FOR UPDATE SKIP LOCKED),
      claimed AS (UPDATE webhook_deliveries d SET next_attempt_at = ${until} FROM free WHERE d.id = free.id RETURNING d.id)
      SELECT d.id, organisation_id AS "organisationId", job_id AS "jobId", batch_id AS "batchId", type, url, status, attempts,
        next_attempt_at AS "nextAttemptAt", created_at AS "createdAt", delivered_at AS "deliveredAt",
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

  /** Writes finished attempts and what becomes of their deliveries. What was delivered meanwhile stays delivered. */
  async record(results: readonly AttemptResult[]): Promise<void> {
    await this.#db.$executeRaw`
      WITH result AS (SELECT * FROM jsonb_to_recordset(${JSON.stringify(results)}::jsonb) AS r(
        "deliveryId" text, at timestamptz, "durationMs" int, status int, error text, response text,
        outcome delivery_status, "nextAttemptAt" timestamptz)),
      locked AS (
        SELECT d.id FROM webhook_deliveries d JOIN result ON d.id = "deliveryId" ORDER BY d.id FOR UPDATE OF d),
      written AS (
        UPDATE webhook_deliveries d SET attempts = d.attempts + 1,
          status = CASE WHEN outcome = 'delivered' OR d.status = 'pending' THEN outcome ELSE d.status END,
          next_attempt_at = "nextAttemptAt",
          delivered_at = CASE WHEN outcome = 'delivered' THEN at ELSE d.delivered_at END
        FROM locked JOIN result ON locked.id = "deliveryId" WHERE d.id = locked.id
        RETURNING d.id, d.attempts)
      INSERT INTO webhook_attempts (delivery_id, number, at, duration_ms, status, error, response)
      SELECT id, attempts, at, "durationMs", status, error, response FROM written JOIN result ON id = "deliveryId"`
  }

  /** Sends an event again at once, whatever became of it, under the same id. Throws 404. */
  async redeliver(id: string): Promise<WebhookDelivery> {
    const nextAttemptAt = new Date(this.#clock.now())
    const { count } = await this.#db.webhookDelivery.updateMany({
      where: { id },
      data: { status: 'pending', nextAttemptAt, deliveredAt: null },
    })
    if (count === 0) throw noSuchDelivery(id)
    await this.#removeEntry(id)
    await this.enqueue([id])
    return this.show(id)
  }

  /** An entry that waits for a later attempt would keep a new one out, and so would one that its worker is just done with. */
  async #removeEntry(id: string): Promise<void> {
    for (let tries = 1; tries <= removeTries; tries++) {
      await this.#queue.remove(id)
      if (!(await this.#queue.getJob(id))) return
      await sleep(removePauseMs)
    }
  }

  /** An organisation's deliveries, newest first. */
  async list(organisationId: string, options: { status?: DeliveryStatus; limit: number }): Promise<WebhookDelivery[]> {
    const { status, limit } = options
    return this.#db.webhookDelivery.findMany({
      where: { organisationId, ...(status && { status }) },
      orderBy: [{ createdAt: 'desc' }, { id: 'desc' }],
      take: limit,
    })
  }

  /** Where the webhook of a finished job or batch stands: `pending` until the first delivery is written. */
  async statusOf(of: { jobId: string } | { batchId: string }): Promise<DeliveryStatus> {
    const newest = { createdAt: 'desc' } as const
    const row = await this.#db.webhookDelivery.findFirst({
      where: of,
      orderBy: newest,
      select: { status: true },
    })
    return row?.status ?? 'pending'
  }

  /** A delivery with its attempts, oldest first. Throws 404. */
  async show(id: string): Promise<WebhookDelivery & { log: WebhookAttempt[] }> {
    const include = { log: { orderBy: { number: 'asc' } } } as const
    const row = await this.#db.webhookDelivery.findUnique({ where: { id }, include })
    if (!row) throw noSuchDelivery(id)
    return row
  }
}

function noSuchDelivery(id: string): GatewayError {
  return new GatewayError('not_found', `There is no webhook delivery ${id}.`)
}
