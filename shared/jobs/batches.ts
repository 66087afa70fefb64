import { newId } from '../base/ids.ts'
import type { Quotas } from '../base/quotas.ts'
import type { Clock } from '../base/time.ts'
import type { Batch, Prisma } from '../generated/prisma/client.ts'
import type { Beside, Connection, Database } from '../io/db.ts'
import { pagesOfIds } from './id-pages.ts'
import { tooManyUnfinished } from './unfinished.ts'
import type { Webhooks } from './webhooks.ts'

export type { Batch }
export type BatchStatus = Batch['status']

export const unfinished = ['validating', 'in_progress', 'finalizing', 'cancelling'] as const satisfies BatchStatus[]
type Terminal = Exclude<BatchStatus, (typeof unfinished)[number]>

/** What a batch is made of. */
export type NewBatch = Pick<
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
> & { metadata: object | null }

type Input = { id: string; storageKey: string; bytes: bigint }

/** Somebody else took the batch over: whatever this owner still has in hand is void. */
export class Superseded extends Error {
  override name = 'Superseded'
}

/**
 * The rows of batches and the only hand that changes them. One worker at a time owns a batch: every claim raises its epoch,
 * and a change is made under the epoch that its owner claimed, or not at all.
 */
export class Batches {
  readonly #db: Database
  readonly #webhooks: Webhooks
  readonly #clock: Clock
  readonly #quotas: Quotas

  constructor({
    db,
    webhooks,
    clock,
    quotas,
  }: {
    db: Database
    webhooks: Webhooks
    clock: Clock
    quotas: Quotas
  }) {
    this.#quotas = quotas
    this.#db = db
    this.#webhooks = webhooks
    this.#clock = clock
  }

  /**
   * Writes a batch over an input that `inputOf` finds, and whatever `beside` writes, in one transaction. Throws what those
   * throw, and 429 when the organisation has too many unfinished ones.
   */
  create(batch: NewBatch, inputOf: (tx: Connection) => Promise<Input>, beside?: Beside<Batch>): Promise<Batch> {
    const { metadata, ...fields } = batch
    const { organisationId, environment } = fields
    return this.#db.$transaction(async tx => {
      const name = `batches ${organisationId} ${environment}`
      await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${name}, 0))`
      const open = await tx.batch.count({ where: { organisationId, environment, status: { in: [...unfinished] } } })
      if (open >= this.#quotas[environment].unfinishedBatches) throw tooManyUnfinished(`${open} unfinished batches`)
      const input = await inputOf(tx)
      const created = await tx.batch.create({
        data: {
          ...fields,
          id: newId('batch'),
          inputFileId: input.id,
          inputKey: input.storageKey,
          inputBytes: input.bytes,
          createdAt: new Date(this.#clock.now()),
          ...(metadata && { metadata }),
        },
      })
      await beside?.(tx, created)
      return created
    })
  }

  /** An organisation's batch; null also for another's. Test keys see test batches, live keys live ones. */
  find(id: string, { organisationId, environment }: Owner): Promise<Batch | null> {
    return this.#db.batch.findFirst({ where: { id, organisationId, environment } })
  }

  /** An organisation's batches by age, after the one named. */
  list({ organisationId, environment }: Owner, page: { limit: number; after?: string; order: 'asc' | 'desc' }) {
    const { limit, after, order } = page
    return this.#db.batch.findMany({
      where: { organisationId, environment, ...(after && { id: order === 'desc' ? { lt: after } : { gt: after } }) },
      orderBy: { id: order },
      take: limit,
    })
  }

  read(id: string): Promise<Batch | null> {
    return this.#db.batch.findUnique({ where: { id } })
  }

  /**
   * Takes a batch that is not over, from whoever had it; null when it is over. Its `openStarts` does not count the start that
   * the claim is; that of a suspect counts from `begin` on. Lines that its last owner left under way become suspects.
   */
  claim(id: string): Promise<Batch | null> {
    return this.#db.$transaction(async tx => {
      await tx.$executeRaw`SELECT 1 FROM batches WHERE id = ${id} FOR UPDATE`
      const known = await tx.batch.findFirst({ where: { id, status: { in: [...unfinished] } } })
      if (!known) return null
      const { openStarts, startedLine, resumeLine, total } = known
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

  /** Counts the start of a suspect's phase, before it is run. Throws Superseded. */
  begin({ id, epoch, openStarts }: Owned & Pick<Batch, 'openStarts'>): Promise<void> {
    return this.#write({ id, epoch }, { openStarts: openStarts + 1 })
  }

  /** Lines have run: sealing is a phase of its own, and begins now. Throws Superseded. */
  beginSealing(batch: Owned): Promise<void> {
    return this.#write(batch, { openStarts: 1, startedLine: 0 })
  }

  /** A visit has ended, or its process is about to be stopped: of its start, `openStarts` are left. Throws Superseded. */
  endVisit(batch: Owned, openStarts: number): Promise<void> {
    return this.#write(batch, { openStarts })
  }

  async #write({ id, epoch }: Owned, data: Prisma.BatchUpdateManyMutationInput): Promise<void> {
    const { count } = await this.#db.batch.updateMany({ where: { id, epoch }, data })
    if (count === 0) throw new Superseded()
  }

  /** Changes a batch that its owner knows at one of these statuses; gives it as it is then, changed or not. Throws Superseded. */
  async change(
    { id, epoch }: Owned,
    from: readonly BatchStatus[],
    data: Prisma.BatchUpdateManyMutationInput,
  ): Promise<Batch> {
    const [batch] = await this.#db.batch.updateManyAndReturn({ where: { id, epoch, status: { in: [...from] } }, data })
    const current = batch ?? (await this.read(id))
    if (current?.epoch !== epoch) throw new Superseded()
    return current
  }

  /** The status of a batch as it is now. Throws Superseded. */
  async look({ id, epoch }: Owned): Promise<BatchStatus> {
    const row = await this.#db.batch.findUnique({ where: { id }, select: { status: true, epoch: true } })
    if (row?.epoch !== epoch) throw new Superseded()
    return row.status
  }

  /** Asks for an end before all lines were run; null when the batch is over. */
  async cancel(id: string): Promise<Batch | null> {
    const cancellingAt = new Date(this.#clock.now())
    const running = ['validating', 'in_progress', 'finalizing'] as const
    const [batch] = await this.#db.batch.updateManyAndReturn({
      where: { id, status: { in: [...running] } },
      data: { status: 'cancelling', cancellingAt },
    })
    if (batch) return batch
    const current = await this.read(id)
    return current?.status === 'cancelling' ? current : null
  }

  /**
   * Ends a batch with its webhook: all or nothing. `within` does what belongs to the same transaction. Throws Superseded.
   */
  async end(
    { id, epoch }: Owned,
    status: Terminal,
    data: Prisma.BatchUpdateManyMutationInput,
    within: (tx: Connection) => Promise<unknown> = async () => {},
  ): Promise<{ batch: Batch; deliveryId: string | null }> {
    const nowMs = this.#clock.now()
    return this.#db.$transaction(async tx => {
      const [batch] = await tx.batch.updateManyAndReturn({
        where: { id, epoch, status: { in: [...unfinished] } },
        data: { status, [`${status}At`]: new Date(nowMs), ...data },
      })
      if (!batch) throw new Superseded()
      await within(tx)
      const { organisationId, webhookUrl: url } = batch
      const type = `batch.${status}`
      const deliveryId = url && (await this.#webhooks.insert(tx, { organisationId, batchId: id, type, url, nowMs }))
      return { batch, deliveryId }
    })
  }

  /** Ids of all batches that are not over, in pages. */
  idsUnfinished(): AsyncGenerator<string[]> {
    return pagesOfIds(({ after, take }) =>
      this.#db.batch.findMany({
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
