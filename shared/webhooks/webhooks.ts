import { setTimeout as sleep } from 'node:timers/promises'
import type { Queue } from 'bullmq'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Clock } from '../base/time.ts'
import type { DeliveryStatus, Prisma, WebhookAttempt, WebhookDelivery } from '../generated/prisma/client.ts'
import type { Connection, Database } from '../io/db.ts'
import { containing, rowsAfter } from '../io/keyset.ts'
import { patternsOf } from './events.ts'

/** A delivery still unclaimed this long after it was due has no queue entry: Redis was wiped, or a worker died. */
const overdueMs = 20_000
const maxDue = 5_000
const unclaimedWaitMs = 1_000
const removeTries = 40
const removePauseMs = 50
/** The log shows at most the latest attempts: manual redeliveries are unlimited. */
const maxAttempts = 100
/** The largest number of events that one request redelivers. */
export const maxRedelivered = 1_000

type Subject = { jobId: string } | { batchId: string } | { data: Prisma.InputJsonObject }
type Occurrence = { organisationId: string; type: string; nowMs: number } & Subject
/** `alertRuleId`: the rule whose Slack webhook it goes to; `url` then only shows which. */
type NewDelivery = Occurrence & { url: string; endpointId?: string; alertRuleId?: string }

/** An event: its URL if a job, a batch or the alert settings named one, besides the endpoints. */
type NewEvent = Occurrence & { url: string | null }

type DeliveryFilter = {
  status?: DeliveryStatus | undefined
  type?: string | undefined
  /** A part of the URL. */
  url?: string | undefined
  endpointId?: string | undefined
  after?: string | undefined
}

/** The outcome of a claim: the delivery, leased; or the time until it is due; or nothing left to do. */
export type Claim =
  | { state: 'claimed'; delivery: Omit<WebhookDelivery, 'nextAttemptAt'> }
  | { state: 'waiting'; delayMs: number }
  | { state: 'over' }

/** One finished attempt, and the resulting state of its delivery. */
export type AttemptResult = Omit<WebhookAttempt, 'number'> & { outcome: DeliveryStatus; nextAttemptAt: Date }

type ClaimRow = WebhookDelivery & { claimed: boolean }
/** A claimed delivery; `openStarts` counts its attempts that never ended, excluding the current one. */
type Claimed = Pick<WebhookDelivery, 'id' | 'openStarts'>

type Deps = { db: Database; queue: Queue; clock: Clock }

/**
 * The outbox of webhooks and its log. The row is authoritative: a pending delivery is due at `nextAttemptAt`, which a claim
 * moves ahead as a lease, so that it becomes due again if the worker dies. The queue only wakes workers.
 */
export class Webhooks {
  readonly #deps: Deps

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** Inserts a delivery to one URL, due at once, in the caller's transaction. Returns its id; `enqueue` it after the commit. */
  async insert(tx: Connection, { nowMs, ...event }: NewDelivery): Promise<string> {
    const id = newId('evt')
    const now = new Date(nowMs)
    const requested = event.endpointId === undefined
    await tx.webhookDelivery.create({ data: { id, ...event, requested, nextAttemptAt: now, createdAt: now } })
    return id
  }

  /**
   * Inserts the deliveries of an event in the caller's transaction: one to each enabled endpoint with its type, and one to its
   * own URL unless that is an endpoint's. Returns their ids; `enqueue` them after the commit.
   */
  async publish(tx: Connection, { nowMs, url, ...event }: NewEvent): Promise<string[]> {
    // Shared locks: an endpoint that is being disabled or deleted gets no event afterwards.
    const endpoints = await tx.$queryRaw<{ id: string; url: string }[]>`
      SELECT id, url FROM webhook_endpoints
      WHERE organisation_id = ${event.organisationId} AND enabled AND events && ${patternsOf(event.type)}
      ORDER BY id FOR SHARE`
    const own = url === null ? null : new URL(url).href
    const targets = endpoints.map(endpoint => ({
      endpointId: endpoint.id as string | null,
      url: endpoint.url,
      requested: endpoint.url === own,
    }))
    if (url !== null && !targets.some(({ requested }) => requested))
      targets.push({ endpointId: null, url, requested: true })
    if (targets.length === 0) return []
    const now = new Date(nowMs)
    const rows = targets.map(target => ({ id: newId('evt'), ...event, ...target, nextAttemptAt: now, createdAt: now }))
    await tx.webhookDelivery.createMany({ data: rows })
    return rows.map(({ id }) => id)
  }

  /** Wakes workers for deliveries. A delivery that is already queued is not added twice. */
  async enqueue(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return
    await this.#deps.queue.addBulk(ids.map(id => ({ name: 'deliver', data: id, opts: { jobId: id } })))
  }

  /** Pending deliveries that are overdue by 20 s, at most 5,000, oldest first. */
  async listOverdue(nowMs: number): Promise<string[]> {
    const rows = await this.#deps.db.webhookDelivery.findMany({
      where: { status: 'pending', nextAttemptAt: { lt: new Date(nowMs - overdueMs) } },
      orderBy: { nextAttemptAt: 'asc' },
      take: maxDue,
      select: { id: true },
    })
    return rows.map(({ id }) => id)
  }

  /**
   * Claims due deliveries for `leaseMs`; only one of several concurrent claims gets each, also within `ids`. The claims are in
   * the order of `ids`. A claim counts as a start of the attempt, for a suspect only from `begin` on; `record` and `release`
   * end it.
   */
  async claim(ids: readonly string[], leaseMs: number): Promise<Claim[]> {
    const nowMs = this.#deps.clock.now()
    const now = new Date(nowMs)
    const until = new Date(nowMs + leaseMs)
    const rows = await this.#deps.db.$queryRaw<ClaimRow[]>`
      WITH free AS (
        SELECT id FROM webhook_deliveries WHERE id = ANY(${ids}) AND status = 'pending' AND next_attempt_at <= ${now}
        ORDER BY id FOR UPDATE SKIP LOCKED),
      claimed AS (
        UPDATE webhook_deliveries d SET next_attempt_at = ${until}, open_starts = greatest(d.open_starts, 1)
        FROM free WHERE d.id = free.id RETURNING d.id)
      SELECT d.id, organisation_id AS "organisationId", endpoint_id AS "endpointId", requested, alert_rule_id AS "alertRuleId", job_id AS "jobId", batch_id AS "batchId", data, type, url, status,
        attempts, next_attempt_at AS "nextAttemptAt", created_at AS "createdAt", delivered_at AS "deliveredAt",
        open_starts AS "openStarts",
        claimed.id IS NOT NULL AS claimed
      FROM webhook_deliveries d LEFT JOIN claimed ON claimed.id = d.id WHERE d.id = ANY(${ids})`
    const found = new Map(rows.map(row => [row.id, row]))
    const returned = new Set<string>()
    return ids.map(id => {
      const row = found.get(id)
      if (row?.status !== 'pending') return { state: 'over' }
      const { claimed, nextAttemptAt, ...delivery } = row
      if (claimed && !returned.has(id)) {
        returned.add(id)
        return { state: 'claimed', delivery }
      }
      return { state: 'waiting', delayMs: Math.max(nextAttemptAt.getTime() - nowMs, unclaimedWaitMs) }
    })
  }

  /** Counts the attempt of a claimed suspect before it is made. */
  async begin({ id, openStarts }: Claimed): Promise<void> {
    await this.#deps.db.webhookDelivery.updateMany({ where: { id }, data: { openStarts: openStarts + 1 } })
  }

  /** Releases a claim without an attempt; the delivery is due again after `delayMs`. */
  async release({ id, openStarts }: Claimed, delayMs: number): Promise<void> {
    const nextAttemptAt = new Date(this.#deps.clock.now() + delayMs)
    await this.#deps.db.webhookDelivery.updateMany({
      where: { id, status: 'pending' },
      data: { openStarts, nextAttemptAt },
    })
  }

  /** Deletes from the log of attempts what was sent about a job. */
  async forgetBodies(jobId: string): Promise<void> {
    const where = { delivery: { jobId }, body: { not: null } }
    await this.#deps.db.webhookAttempt.updateMany({ where, data: { body: null } })
  }

  /** Records finished attempts and updates their deliveries. A delivery delivered in the meantime stays delivered. */
  async record(results: readonly AttemptResult[]): Promise<void> {
    await this.#deps.db.$executeRaw`
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
   * Redelivers an event at once, in any state, under the same id. Throws 404, also for another organisation's.
   * `organisationId` null = any (the operator).
   */
  async redeliver(organisationId: string | null, id: string): Promise<WebhookDelivery> {
    const nextAttemptAt = new Date(this.#deps.clock.now())
    const { count } = await this.#deps.db.webhookDelivery.updateMany({
      where: { id, ...(organisationId && { organisationId }) },
      data: { status: 'pending', nextAttemptAt, deliveredAt: null, openStarts: 0 },
    })
    if (count === 0) throw noSuchDelivery(id)
    await this.#removeEntry(id)
    await this.enqueue([id])
    return this.show(organisationId, id)
  }

  /** Redelivers the failed events to a URL since a time, oldest first, at most 1,000. Returns how many. */
  async redeliverFailed(organisationId: string, url: string, since: Date): Promise<number> {
    const rows = await this.#deps.db.$queryRaw<{ id: string }[]>`
      UPDATE webhook_deliveries SET status = 'pending', next_attempt_at = ${new Date(this.#deps.clock.now())}, open_starts = 0
      WHERE id IN (
        SELECT id FROM webhook_deliveries
        WHERE organisation_id = ${organisationId} AND created_at >= ${since} AND url = ${url} AND status = 'failed'
        ORDER BY created_at LIMIT ${maxRedelivered} FOR UPDATE SKIP LOCKED)
      RETURNING id`
    await this.enqueue(rows.map(({ id }) => id))
    return rows.length
  }

  /** Removes the queue entry: a delayed one would block a new one by its id, as would one that is just completing. */
  async #removeEntry(id: string): Promise<void> {
    for (let tries = 1; tries <= removeTries; tries++) {
      await this.#deps.queue.remove(id)
      if (!(await this.#deps.queue.getJob(id))) return
      await sleep(removePauseMs)
    }
  }

  /** A page of an organisation's deliveries, newest first. `after` is a delivery's id. Throws 404 for an unknown one. */
  async list(organisationId: string, options: DeliveryFilter & { limit: number }): Promise<WebhookDelivery[]> {
    const { status, type, url, endpointId, after, limit } = options
    const last = after === undefined ? null : await this.#find(organisationId, after)
    return this.#deps.db.webhookDelivery.findMany({
      where: {
        organisationId,
        ...(status && { status }),
        ...(type && { type }),
        ...(endpointId && { endpointId }),
        ...(url && { url: containing(url) }),
        ...(last && rowsAfter(last)),
      },
      orderBy: [{ createdAt: 'desc' }, { id: 'desc' }],
      take: limit,
    })
  }

  /** The delivery status of a finished job's or batch's webhook; null once its log was deleted. */
  async statusOf(of: { jobId: string } | { batchId: string }): Promise<DeliveryStatus | null> {
    const newest = { createdAt: 'desc' } as const
    const row = await this.#deps.db.webhookDelivery.findFirst({
      where: { ...of, requested: true },
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
    const latest = await this.#deps.db.webhookAttempt.findMany({
      where: { deliveryId: id },
      orderBy: { number: 'desc' },
      take: maxAttempts,
    })
    return { ...delivery, log: latest.reverse() }
  }

  async #find(organisationId: string | null, id: string): Promise<WebhookDelivery> {
    const where = { id, ...(organisationId && { organisationId }) }
    const row = await this.#deps.db.webhookDelivery.findFirst({ where })
    if (!row) throw noSuchDelivery(id)
    return row
  }
}

function noSuchDelivery(id: string): GatewayError {
  return new GatewayError('not_found', `There is no webhook delivery ${id}.`)
}
