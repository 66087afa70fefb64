import { newId } from '../base/ids.ts'
import type { Quotas } from '../base/quotas.ts'
import type { Clock } from '../base/time.ts'
import { type Batch, Prisma } from '../generated/prisma/client.ts'
import type { Connection, Database, TransactionStep } from '../io/db.ts'
import { pagesOfIds } from '../io/keyset.ts'
import { Turns } from '../io/turns.ts'
import { tooManyUnfinished } from '../jobs/jobs.ts'
import type { Webhooks } from '../webhooks/webhooks.ts'

export type { Batch }
export type BatchStatus = Batch['status']

export const unfinished = ['validating', 'in_progress', 'finalizing', 'cancelling'] as const satisfies BatchStatus[]
type Terminal = Exclude<BatchStatus, (typeof unfinished)[number]>

/** The fields of a new batch. */
type NewBatch = Pick<
  Batch,
  | 'organisationId'
  | 'keyId'
  | 'requestId'
  | 'environment'
  | 'endpoint'
  | 'routing'
  | 'month'
  | 'capNano'
  | 'webhookUrl'
  | 'outputLifeSeconds'
  | 'deadlineAt'
> & { metadata: object | null; traceparent?: string | null }

type Input = { id: string; storageKey: string; bytes: bigint }

/** Another worker has claimed the batch: all pending work of this owner is void. */
export class Superseded extends Error {
  override name = 'Superseded'
}

type Deps = { db: Database; webhooks: Webhooks; clock: Clock; quotas: Quotas }

/**
 * The rows of batches, and their only writer. A single worker owns a batch: every claim increments its epoch (the fencing
 * token), and each write is conditional on the owner's epoch.
 */
export class Batches {
  readonly #deps: Deps
  readonly #turns = new Turns()

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /**
   * Inserts a batch over the input that `findInput` returns, with what `beside` writes, in one transaction. Throws what those
   * throw, and 429 when the organisation has too many unfinished batches.
   */
  create(
    batch: NewBatch,
    findInput: (tx: Connection) => Promise<Input>,
    beside?: TransactionStep<Batch>,
  ): Promise<Batch> {
    const { metadata, ...fields } = batch
    const { organisationId, environment } = fields
    const lock = `batches ${organisationId} ${environment}`
    const insert = async (tx: Connection) => {
      await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${lock}, 0))`
      const open = await tx.batch.count({ where: { organisationId, environment, status: { in: [...unfinished] } } })
      if (open >= this.#deps.quotas[environment].unfinishedBatches)
        throw tooManyUnfinished(`${open} unfinished batches`)
      const input = await findInput(tx)
      const created = await tx.batch.create({
        data: {
          ...fields,
          id: newId('batch'),
          inputFileId: input.id,
          inputKey: input.storageKey,
          inputBytes: input.bytes,
          createdAt: new Date(this.#deps.clock.now()),
          ...(metadata && { metadata }),
        },
      })
      await beside?.(tx, created)
      return created
    }
    return this.#turns.run(lock, () => this.#deps.db.$transaction(insert))
  }

  /** An organisation's batch; null also for another's. Test keys see test batches, live keys live ones. */
  find(id: string, { organisationId, environment }: Owner): Promise<Batch | null> {
    return this.#deps.db.batch.findFirst({ where: { id, organisationId, environment } })
  }

  /** A page of an organisation's batches by creation time, after the given id. */
  list({ organisationId, environment }: Owner, page: { limit: number; after?: string; order: 'asc' | 'desc' }) {
    const { limit, after, order } = page
    return this.#deps.db.batch.findMany({
      where: { organisationId, environment, ...(after && { id: order === 'desc' ? { lt: after } : { gt: after } }) },
      orderBy: { id: order },
      take: limit,
    })
  }

  read(id: string): Promise<Batch | null> {
    return this.#deps.db.batch.findUnique({ where: { id } })
  }

  /**
   * Claims an unfinished batch, superseding its previous owner; null when it is over. Its `openStarts` excludes the start of
   * this claim; a suspect's start counts from `begin` on. Lines that the previous owner left under way become suspects.
   */
  claim(id: string): Promise<Batch | null> {
    return this.#deps.db.$transaction(async tx => {
      await tx.$executeRaw`SELECT 1 FROM batches WHERE id = ${id} FOR UPDATE`
      const current = await tx.batch.findFirst({ where: { id, status: { in: [...unfinished] } } })
      if (!current) return null
      const { openStarts, startedLine, resumeLine, total } = current
      if (startedLine > 0)
        await tx.$executeRaw`
          INSERT INTO batch_starts (batch_id, line, open_starts)
          SELECT ${id}, line, 1 FROM generate_series(${resumeLine}::int, ${Math.min(startedLine, total)}::int) line
          WHERE NOT EXISTS (SELECT 1 FROM batch_lines l WHERE l.batch_id = ${id} AND l.line = line.line)
          ON CONFLICT DO NOTHING`
      const data = { epoch: { increment: 1 }, openStarts: Math.max(openStarts, 1), startedLine: 0 }
      return { ...(await tx.batch.update({ where: { id }, data })), openStarts }
    })
  }

  /** Counts the start of a suspect's phase before it runs. Throws Superseded. */
  begin({ id, epoch, openStarts }: Owned & Pick<Batch, 'openStarts'>): Promise<void> {
    return this.#write({ id, epoch }, { openStarts: openStarts + 1 })
  }

  /** Starts the finalizing phase, which has its own count, after all lines have run. Throws Superseded. */
  beginFinalizing(batch: Owned): Promise<void> {
    return this.#write(batch, { openStarts: 1, startedLine: 0 })
  }

  /** Sets the count of unfinished starts to `openStarts` when a step ends or its process stops. Throws Superseded. */
  endStep(batch: Owned, openStarts: number): Promise<void> {
    return this.#write(batch, { openStarts })
  }

  async #write({ id, epoch }: Owned, data: Prisma.BatchUpdateManyMutationInput): Promise<void> {
    const { count } = await this.#deps.db.batch.updateMany({ where: { id, epoch }, data })
    if (count === 0) throw new Superseded()
  }

  /** Compare-and-set: changes a batch at one of these statuses; returns its current row, changed or not. Throws Superseded. */
  async change(
    { id, epoch }: Owned,
    from: readonly BatchStatus[],
    data: Prisma.BatchUpdateManyMutationInput,
  ): Promise<Batch> {
    const [batch] = await this.#deps.db.batch.updateManyAndReturn({
      where: { id, epoch, status: { in: [...from] } },
      data,
    })
    const current = batch ?? (await this.read(id))
    if (current?.epoch !== epoch) throw new Superseded()
    return current
  }

  /** The current status of a batch. Throws Superseded. */
  async readStatus({ id, epoch }: Owned): Promise<BatchStatus> {
    const row = await this.#deps.db.batch.findUnique({ where: { id }, select: { status: true, epoch: true } })
    if (row?.epoch !== epoch) throw new Superseded()
    return row.status
  }

  /** Requests cancellation; null when the batch is over. */
  async cancel(id: string): Promise<Batch | null> {
    const cancellingAt = new Date(this.#deps.clock.now())
    const running = ['validating', 'in_progress', 'finalizing'] as const
    const [batch] = await this.#deps.db.batch.updateManyAndReturn({
      where: { id, status: { in: [...running] } },
      data: { status: 'cancelling', cancellingAt },
    })
    if (batch) return batch
    const current = await this.read(id)
    return current?.status === 'cancelling' ? current : null
  }

  /**
   * Ends a batch and inserts its webhook outbox row in one transaction, in which `within` runs as well. Throws Superseded.
   */
  async end(
    { id, epoch }: Owned,
    status: Terminal,
    data: Prisma.BatchUpdateManyMutationInput,
    within: (tx: Connection) => Promise<unknown> = async () => {},
  ): Promise<{ batch: Batch; deliveryIds: string[] }> {
    const nowMs = this.#deps.clock.now()
    return this.#deps.db.$transaction(async tx => {
      const [batch] = await tx.batch.updateManyAndReturn({
        where: { id, epoch, status: { in: [...unfinished] } },
        data: { status, [`${status}At`]: new Date(nowMs), ...data },
      })
      if (!batch) throw new Superseded()
      await within(tx)
      const { organisationId, webhookUrl: url } = batch
      const type = `batch.${status}`
      const deliveryIds = await this.#deps.webhooks.publish(tx, { organisationId, batchId: id, type, url, nowMs })
      return { batch, deliveryIds }
    })
  }

  /** Ids of all batches that are not over, in pages. */
  listUnfinished(): AsyncGenerator<string[]> {
    return pagesOfIds(({ after, take }) =>
      this.#deps.db.batch.findMany({
        where: { status: { in: [...unfinished] }, id: { gt: after } },
        select: { id: true },
        orderBy: { id: 'asc' },
        take,
      }),
    )
  }
}

type Owner = Pick<Batch, 'organisationId' | 'environment'>
export type Owned = Pick<Batch, 'id' | 'epoch'>

/** Batches that ended before a time, except those that a webhook delivery still refers to. */
export function endedBatches(before: Date): Prisma.Sql {
  return Prisma.sql`status IN ('completed', 'failed', 'expired', 'cancelled') AND deadline_at < ${before}
    AND coalesce(completed_at, failed_at, expired_at, cancelled_at) < ${before}
    AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE batch_id = batches.id)`
}
