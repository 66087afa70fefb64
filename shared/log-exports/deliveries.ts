import { randomUUID } from 'node:crypto'
import { dayMs, elapsedMs } from '../base/time.ts'
import type { LogExport, LogExportCursor } from '../generated/prisma/client.ts'
import { isSuccess } from '../io/http.ts'
import { PinnedPools } from '../io/pinned-pools.ts'
import type { Reply } from '../webhooks/post.ts'
import { retryAfterMs } from '../webhooks/schedule.ts'
import { claimExports, type Lease, releaseExport, renewLease, writeCursor } from './claims.ts'
import type { LogExportServices } from './export-services.ts'
import { noteDeleted, noteGap } from './gaps.ts'
import { maxBatchRows } from './log-exports.ts'
import { pauseExport } from './pause.ts'
import type { RowOf, Stream } from './rows.ts'
import { type Batch, sendBatch } from './send.ts'
import {
  findBatch,
  findInWindow,
  findWritten,
  type Page,
  type Place,
  readHorizon,
  readRows,
  type Scope,
  type Window,
} from './streams.ts'

/** Exports that a worker delivers at a time. */
const maxConcurrent = 8
/** How long a worker stays with one export before others get their turn. */
const turnMs = 15_000
const sendTimeoutMs = 30_000
const connectTimeoutMs = 5_000
const defaultLeaseMs = 90_000
const pausesMs = [5_000, 15_000, 60_000, 5 * 60_000, 10 * 60_000]
const maxRetryAfterMs = 3_600_000
/** An export whose batch has failed for this long is paused; a replay ends. */
const givenUpAfterMs = 5 * dayMs
/** How long content waits for its request to be booked. */
const bookedWithinMs = 5 * 60_000
/** What rows of a batch take as JSON, about; one row is sent whatever its size. */
const maxBatchBytes = 8 * 1024 * 1024
const maxErrorLength = 500
/** Read again where PostgreSQL's count of transactions went back: rows may come twice rather than never. */
const rereadTransactions = 10_000n

type Export = LogExport & { cursors: LogExportCursor[] }
/** What a step of a cursor came to: there may be more at once, nothing now, or its attempt failed. */
type Step = 'more' | 'idle' | 'failed' | 'lost'

/**
 * Delivers exports that are due: per stream batch after batch in order, each until the destination has accepted it. The end of a
 * batch is stored before it is sent and the cursor after it was accepted, so that a crash repeats a batch and loses none.
 */
export class LogExportDeliveries {
  readonly #services: LogExportServices
  readonly #pools: PinnedPools
  readonly #leaseMs: number
  readonly #running = new Set<Promise<void>>()
  #isStopping = false

  constructor(services: LogExportServices, { leaseMs = defaultLeaseMs }: { leaseMs?: number } = {}) {
    this.#services = services
    this.#leaseMs = leaseMs
    this.#pools = new PinnedPools(connectTimeoutMs, services.urlPolicy.proxies)
  }

  /** Claims what is due and for which there is room, and begins to deliver it. Returns how many exports. */
  async claim(): Promise<number> {
    const { db, clock, log } = this.#services
    const room = maxConcurrent - this.#running.size
    if (room <= 0 || this.#isStopping) return 0
    const lease = { run: randomUUID(), leaseMs: this.#leaseMs }
    const ids = await claimExports(db, lease, clock.now(), room)
    for (const id of ids) {
      const turn = this.#deliver(id, lease)
        .catch(error => log.warn({ err: error, export: id }, 'an export of logs was interrupted; it is continued'))
        .finally(() => this.#running.delete(turn))
      this.#running.add(turn)
    }
    return ids.length
  }

  /** Resolves when what was claimed has had its turn. */
  async settle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  /** Waits for the batches under way and closes the connections. */
  async close(): Promise<void> {
    this.#isStopping = true
    await this.settle()
    await this.#pools.close()
  }

  async #deliver(id: string, lease: Lease): Promise<void> {
    const { db, clock, monotonic } = this.#services
    const beganMs = monotonic.now()
    let isFirst = true
    for (;;) {
      const logExport = await renewLease(db, id, lease)
      if (!logExport) break
      if (isFirst)
        for (const cursor of logExport.cursors) await noteDeleted(this.#services, logExport, cursor, lease.run)
      isFirst = false
      const steps = await this.#round(logExport, lease)
      if (steps.includes('lost')) break
      const isOver = this.#isStopping || elapsedMs(beganMs, monotonic.now()) >= turnMs
      if (steps.includes('more') && !isOver) continue
      const idleMs = steps.includes('more') ? 0 : logExport.intervalS * 1_000
      await releaseExport(db, id, lease.run, new Date(clock.now() + idleMs))
      return
    }
    await releaseExport(db, id, lease.run, new Date(clock.now()))
  }

  /** One batch of each cursor; those of the live streams first. A failing cursor does not hold up the others. */
  async #round(logExport: Export, lease: Lease): Promise<Step[]> {
    const { clock } = this.#services
    const steps: Step[] = []
    const cursors = logExport.cursors.toSorted((a, b) => Number(a.replayFrom !== null) - Number(b.replayFrom !== null))
    for (const cursor of cursors) {
      if (cursor.nextAttemptAt.getTime() > clock.now()) continue
      const step = await this.#step(logExport, cursor, lease)
      steps.push(step)
      if (step === 'lost') break
    }
    return steps
  }

  async #step(logExport: Export, cursor: LogExportCursor, lease: Lease): Promise<Step> {
    const { db, clock } = this.#services
    const readAt = new Date(clock.now())
    const formed = await this.#form(logExport, cursor, lease)
    if (formed.state === 'waiting') return 'idle'
    const { rows, end, state } = formed
    if (rows.length === 0 && cursor.endPosition === null) {
      const through = state === 'end' ? readAt : cursor.deliveredThrough
      const ended = state === 'end' && endOf(cursor, readAt)
      const data = { position: end.position, rowId: end.id, deliveredThrough: through, ...ended }
      if (!(await writeCursor(db, cursor, lease.run, data))) return 'lost'
      return state === 'end' ? 'idle' : 'more'
    }
    const batchAt = cursor.batchAt ?? readAt
    const pending = { endPosition: end.position, endRowId: end.id, batchAt }
    if (!(await writeCursor(db, cursor, lease.run, pending))) return 'lost'
    if (!(await renewLease(db, logExport.id, lease))) return 'lost'
    const reply = await sendBatch(this.#services, logExport, batchOf(logExport, cursor, batchAt, rows), {
      pools: this.#pools,
      timeoutMs: sendTimeoutMs,
    })
    return this.#record(logExport, cursor, lease, { reply, readAt, formed })
  }

  /** The rows of the cursor's next batch, or of the one that it has. */
  async #form(logExport: Export, cursor: LogExportCursor, lease: Lease): Promise<Formed> {
    const { db } = this.#services
    const stream = cursor.stream as Stream
    const scope: Scope = { organisationId: logExport.organisationId, environment: logExport.environment }
    const after: Place = { position: cursor.position, id: cursor.rowId }
    const window = windowOf(cursor)
    if (cursor.endPosition !== null) {
      const stored = { position: cursor.endPosition, id: cursor.endRowId }
      const limit = cursor.maxRows * 2 + 1
      const { found, end } = await findBatch(db, stream, { scope, after, end: stored, window, limit })
      return { state: 'more', rows: await readRows(this.#services, stream, found), end }
    }
    const limit = cursor.maxRows
    if (window) return this.#cut(stream, after, await findInWindow(db, stream, { scope, after, window, limit }))
    const horizon = await readHorizon(db)
    if (after.position >= horizon) return this.#restart(logExport, cursor, lease, horizon)
    return this.#cut(stream, after, await findWritten(db, stream, { scope, after, horizon, limit }))
  }

  /** PostgreSQL counts transactions from a lower number: it was restored from a dump, or a standby took over that lacked some. */
  async #restart(logExport: Export, cursor: LogExportCursor, lease: Lease, horizon: bigint): Promise<Formed> {
    const position = horizon > rereadTransactions ? horizon - rereadTransactions : 0n
    await noteGap(this.#services, logExport, cursor, lease.run, { reason: 'transactions_restarted', position })
    return { state: 'more', rows: [], end: { position, id: null } }
  }

  /** Cuts a page before it grows too large, and content before a request that is not booked yet. */
  async #cut(stream: Stream, after: Place, { found, next, isEnd }: Page): Promise<Formed> {
    const read = await readRows(this.#services, stream, found)
    const rows: RowOf[Stream][] = []
    let bytes = 0
    for (const row of read) {
      if (this.#waits(stream, row)) break
      bytes += sizeOf(stream, row)
      if (rows.length > 0 && bytes > maxBatchBytes) break
      rows.push(row)
    }
    if (rows.length === read.length) return { state: isEnd ? 'end' : 'more', rows, end: next }
    if (rows.length === 0) return { state: 'waiting', rows, end: after }
    const { position, id } = found.find(one => one.id === rows.at(-1)!.id)!
    return { state: 'more', rows, end: { position, id } }
  }

  #waits(stream: Stream, row: RowOf[Stream]): boolean {
    if (stream !== 'content' || (row as RowOf['content']).request !== null) return false
    return row.createdAt.getTime() > this.#services.clock.now() - bookedWithinMs
  }

  async #record(
    logExport: Export,
    cursor: LogExportCursor,
    lease: Lease,
    { reply, readAt, formed: { state, rows, end } }: { reply: Reply; readAt: Date; formed: Formed },
  ): Promise<Step> {
    const { db, clock, metrics, log } = this.#services
    const now = new Date(clock.now())
    const { stream, attempts, maxRows } = cursor
    if (reply.status !== null && isSuccess(reply.status)) {
      metrics?.recordExport(stream, 'delivered', rows.length)
      const data = {
        position: end.position,
        rowId: end.id,
        endPosition: null,
        endRowId: null,
        batchAt: null,
        sequence: cursor.sequence + 1,
        rows: cursor.rows + BigInt(rows.length),
        attempts: 0,
        failingSince: null,
        nextAttemptAt: now,
        lastDeliveredAt: now,
        deliveredThrough: state === 'end' ? readAt : later(cursor, rows.at(-1)?.createdAt),
        // After a batch that was too large they grow again, slowly.
        maxRows: Math.min(Math.ceil(maxRows * 1.1), maxBatchRows[stream as Stream]),
        ...(state === 'end' && endOf(cursor, now)),
      }
      if (!(await writeCursor(db, cursor, lease.run, data))) return 'lost'
      return state === 'end' ? 'idle' : 'more'
    }
    metrics?.recordExport(stream, 'failed', 0)
    const error = errorOf(reply)
    log.warn({ export: logExport.id, stream, error }, 'a batch of exported logs was not accepted')
    const failingSince = cursor.failingSince ?? now
    const isSmaller = reply.status === 413 && rows.length > 1
    const pauseMs = isSmaller ? 0 : pauseAfter(attempts, reply, now.getTime())
    const isGivenUp = reply.status === 410 || now.getTime() - failingSince.getTime() >= givenUpAfterMs
    const data = {
      attempts: attempts + 1,
      failingSince,
      lastError: error,
      lastErrorAt: now,
      nextAttemptAt: new Date(now.getTime() + pauseMs),
      // It was not accepted, so it may be formed anew.
      ...(isSmaller && { maxRows: Math.ceil(rows.length / 2), endPosition: null, endRowId: null, batchAt: null }),
      ...(isGivenUp && cursor.replayFrom !== null && { status: 'failed', endedAt: now }),
    }
    if (!(await writeCursor(db, cursor, lease.run, data))) return 'lost'
    if (isGivenUp && cursor.replayFrom === null) await pauseExport(this.#services, logExport, failingSince, error)
    return isSmaller ? 'more' : 'failed'
  }
}

/** The rows of a batch and the place behind them. `end`: there is nothing more to read now; `waiting`: nor can anything be sent. */
type Formed = { state: 'more' | 'end' | 'waiting'; rows: RowOf[Stream][]; end: Place }

/** A replay ends with its window. */
function endOf({ replayFrom }: LogExportCursor, endedAt: Date) {
  return replayFrom !== null && { status: 'completed', endedAt }
}

function windowOf({ replayFrom, replayTo }: LogExportCursor): Window | null {
  return replayFrom && replayTo && { from: replayFrom, to: replayTo }
}

function later({ deliveredThrough }: LogExportCursor, through: Date | undefined): Date {
  return through !== undefined && through > deliveredThrough ? through : deliveredThrough
}

function batchOf(logExport: Export, cursor: LogExportCursor, at: Date, rows: RowOf[Stream][]): Batch {
  const sequence = cursor.sequence + 1
  const number = String(sequence).padStart(9, '0')
  const { id, replayFrom, replayTo } = cursor
  const common = { stream: cursor.stream as Stream, id: `${id}-${number}`, sequence, rows }
  if (!replayFrom) return { ...common, at, replayId: null, objectName: `${id}-${number}` }
  // A replay of the same window overwrites the objects of the one before.
  const name = `replay-${compactTime(replayFrom)}-${compactTime(replayTo!)}-${logExport.id}-${number}`
  return { ...common, at: replayFrom, replayId: id, objectName: name }
}

function compactTime(date: Date): string {
  return date.toISOString().replace(/[-:]|\.000/g, '')
}

function sizeOf(stream: Stream, row: RowOf[Stream]): number {
  if (stream !== 'content') return 2_048
  const { content } = row as RowOf['content']
  return content === null ? 512 : content.input.length + (content.output?.length ?? 0)
}

function pauseAfter(attempts: number, { retryAfter }: Reply, nowMs: number): number {
  const pauseMs = pausesMs[Math.min(attempts, pausesMs.length - 1)]!
  const askedMs = retryAfter === null ? 0 : Math.min(retryAfterMs(retryAfter, nowMs), maxRetryAfterMs)
  return Math.max(Math.round(pauseMs * (0.9 + 0.2 * Math.random())), askedMs)
}

function errorOf({ status, error, response }: Reply): string {
  if (status === null) return (error ?? 'no answer').slice(0, maxErrorLength)
  return `HTTP ${status}${response ? `: ${response}` : ''}`.slice(0, maxErrorLength)
}
