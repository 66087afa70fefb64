import type { Clock } from '../base/time.ts'
import { type Batch, Prisma } from '../generated/prisma/client.ts'
import type { Connection, Database } from '../io/db.ts'
import type { RawPool } from '../io/raw-pool.ts'
import { bookUsageJson } from '../wallet/booking.ts'
import { storableJson } from '../wallet/storable-json.ts'
import type { UsageEvent } from '../wallet/usage-event.ts'
import { type BatchStatus, type Owned, Superseded } from './batches.ts'

/** The result of a line: its text for the output file, or for the error file if it `failed`; and its usage, if it was run. */
export type LineResult = { line: number; failed: boolean; text: string; event: UsageEvent | null }

/**
 * A result as the journal stores it. It is serialised on arrival: serialising hundreds at once would block the event loop,
 * and two strings take less memory than the objects of an event.
 */
export type JournalEntry = {
  line: number
  failed: boolean
  /** Its row and token counts as JSON. */
  row: string
  /** Its usage as JSON; null when it was not run. */
  event: string | null
}

/** The resume point: all lines before this one, which begins at this byte of the input, have a result. */
export type Resume = { line: number; byte: number }

/** A page of the journal that fits into memory: its lines, in order. */
type Page = { line: number; text: string }[]

const noUsage = { cost: 0, promptTokens: 0, cachedTokens: 0, completionTokens: 0, reasoningTokens: 0 }
const pageBytes = 4 * 1024 * 1024
const maxPerPage = 2_000

/** Serialises a result for the journal. */
export function journalEntry({ line, failed, text, event }: LineResult): JournalEntry {
  const { cost, promptTokens, cachedTokens, completionTokens, reasoningTokens } = event ?? noUsage
  const row = { line, failed, text, cost, promptTokens, cachedTokens, completionTokens, reasoningTokens }
  return { line, failed, row: JSON.stringify(row), event: event && storableJson(event) }
}

type Deps = {
  db: Database
  rawPool: RawPool
  clock: Clock
  /** Called with the usage of lines once they are charged. */
  onBooked: ((events: readonly UsageEvent[]) => void) | null
}

/**
 * The results of running batches, until they are finalized into files: one row per line. A line's row, its charge and the
 * batch's counts are written in one transaction, so that every line with a row was charged, and none is charged twice.
 */
export class BatchJournal {
  readonly #deps: Deps

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** Writes results with their charges; existing rows are left unchanged. Returns the batch's status. Throws Superseded. */
  async record(
    { id, epoch, organisationId }: Owned & Pick<Batch, 'organisationId'>,
    entries: readonly JournalEntry[],
    resume: Resume,
  ): Promise<BatchStatus> {
    const { status, events } = await this.#deps.rawPool.transaction(async run => {
      // One JSON parameter: hundreds of separate ones would cost more than the statement itself.
      const [batch] = await run<{ status: BatchStatus; written: number[] }>(Prisma.sql`
        WITH given AS (
          SELECT * FROM json_to_recordset(${jsonArrayOf(entries.map(({ row }) => row))}::json) AS g(line int, failed boolean, text text,
            cost bigint, "promptTokens" bigint, "cachedTokens" bigint, "completionTokens" bigint, "reasoningTokens" bigint)
        ), written AS (
          INSERT INTO batch_lines (batch_id, line, failed, text) SELECT ${id}, line, failed, text FROM given
          ON CONFLICT DO NOTHING RETURNING line
        ), sums AS (
          SELECT count(*) FILTER (WHERE NOT failed) AS completed, count(*) FILTER (WHERE failed) AS failed,
            sum(cost) AS cost, sum("promptTokens") AS prompt, sum("cachedTokens") AS cached,
            sum("completionTokens") AS completion, sum("reasoningTokens") AS reasoning
          FROM given JOIN written USING (line)
        )
        UPDATE batches b SET completed = b.completed + s.completed, failed = b.failed + s.failed,
          cost_nano = b.cost_nano + coalesce(s.cost, 0), prompt_tokens = b.prompt_tokens + coalesce(s.prompt, 0),
          cached_tokens = b.cached_tokens + coalesce(s.cached, 0),
          completion_tokens = b.completion_tokens + coalesce(s.completion, 0),
          reasoning_tokens = b.reasoning_tokens + coalesce(s.reasoning, 0),
          resume_line = ${resume.line}, resume_byte = ${resume.byte}
        FROM sums s WHERE b.id = ${id} AND b.epoch = ${epoch}
        RETURNING b.status, ARRAY(SELECT line FROM written) AS written`)
      // The transaction is rolled back, with the rows inserted above.
      if (!batch) throw new Superseded()
      const written = new Set(batch.written)
      const events = entries.flatMap(({ line, event }) => (event !== null && written.has(line) ? event : []))
      if (events.length > 0) await bookUsageJson(run, [organisationId], jsonArrayOf(events), this.#deps.clock.now())
      return { status: batch.status, events }
    })
    this.#deps.onBooked?.(events.map(event => JSON.parse(event)))
    return status
  }

  /** Recomputes the counts from the results, replacing a provider's own counts. Throws Superseded. */
  async recount({ id, epoch }: Owned): Promise<void> {
    const changed = await this.#deps.db.$executeRaw`
      UPDATE batches SET
        completed = (SELECT count(*) FROM batch_lines WHERE batch_id = ${id} AND NOT batch_lines.failed),
        failed = (SELECT count(*) FROM batch_lines WHERE batch_id = ${id} AND batch_lines.failed)
      WHERE id = ${id} AND epoch = ${epoch}`
    if (changed === 0) throw new Superseded()
  }

  /** The numbers of the lines from `from` on that have a result. */
  async listFinishedLines({ id }: Owned, from: number): Promise<Set<number>> {
    const rows = await this.#deps.db.batchLine.findMany({
      where: { batchId: id, line: { gte: from } },
      select: { line: true },
    })
    return new Set(rows.map(({ line }) => line))
  }

  /** Write-ahead mark: lines up to this one may be under way from now on. Throws Superseded. */
  async startUpTo({ id, epoch }: Owned, line: number): Promise<void> {
    const { count } = await this.#deps.db.batch.updateMany({
      where: { id, epoch },
      // No other phase of the batch is under way while its lines run.
      data: { startedLine: line, openStarts: 0 },
    })
    if (count === 0) throw new Superseded()
  }

  /** Lines that were under way when a worker died, with how many of their starts never ended. */
  async readOpenStarts({ id }: Owned): Promise<Map<number, number>> {
    const rows = await this.#deps.db.batchStart.findMany({ where: { batchId: id } })
    return new Map(rows.map(({ line, openStarts }) => [line, openStarts]))
  }

  /** Counts a start of such a line before it runs (1), or uncounts one that has ended (-1). Throws Superseded. */
  async countStart({ id, epoch }: Owned, line: number, by: 1 | -1): Promise<void> {
    const count = await this.#deps.db.$executeRaw`
      UPDATE batch_starts s SET open_starts = s.open_starts + ${by}
      FROM batches b WHERE s.batch_id = ${id} AND s.line = ${line} AND b.id = s.batch_id AND b.epoch = ${epoch}`
    if (count === 0) throw new Superseded()
  }

  /** The texts of one of the two files that are not in a part yet, in pages of 4 MiB. */
  async *pages({ id }: Owned, failed: boolean): AsyncGenerator<Page> {
    const sizes = await this.#deps.db.$queryRaw<{ line: number; bytes: number }[]>`
      SELECT line, octet_length(text) AS bytes FROM batch_lines
      WHERE batch_id = ${id} AND failed = ${failed} AND text IS NOT NULL ORDER BY line`
    for (let from = 0; from < sizes.length; ) {
      let bytes = 0
      let to = from
      while (to < sizes.length && to - from < maxPerPage && (to === from || bytes + sizes[to]!.bytes <= pageBytes))
        bytes += sizes[to++]!.bytes
      const rows = await this.#deps.db.batchLine.findMany({
        where: { batchId: id, failed, line: { gte: sizes[from]!.line, lte: sizes[to - 1]!.line } },
        select: { line: true, text: true },
        orderBy: { line: 'asc' },
      })
      yield rows.flatMap(({ line, text }) => (text === null ? [] : [{ line, text }]))
      from = to
    }
  }

  /** The length of a batch's output that is in the journal and not yet in a part. */
  async measureOutput({ id }: Owned): Promise<number> {
    const [row] = await this.#deps.db.$queryRaw<{ characters: bigint | null }[]>`
      SELECT sum(length(text)) AS characters FROM batch_lines WHERE batch_id = ${id} AND NOT failed`
    return Number(row?.characters ?? 0)
  }

  /** Records a part of the output, and drops the texts of its lines. Throws Superseded. */
  async recordPart(
    { id, epoch }: Owned,
    lines: readonly number[],
    { fileId, storageKey }: { fileId: string; storageKey: string },
  ): Promise<void> {
    await this.#deps.db.$transaction(async tx => {
      const [batch] = await tx.$queryRaw<Pick<Batch, 'id'>[]>`
        SELECT id FROM batches WHERE id = ${id} AND epoch = ${epoch} FOR UPDATE`
      if (!batch) throw new Superseded()
      const number = await tx.batchPart.count({ where: { batchId: id } })
      await tx.batchPart.create({ data: { batchId: id, number, fileId, storageKey } })
      await tx.$executeRaw`UPDATE batch_lines SET text = NULL WHERE batch_id = ${id} AND line = ANY(${[...lines]}::int[])`
    })
  }

  /** The parts of the output, in order. */
  listParts({ id }: Owned): Promise<{ fileId: string; storageKey: string }[]> {
    return this.#deps.db.batchPart.findMany({
      where: { batchId: id },
      select: { fileId: true, storageKey: true },
      orderBy: { number: 'asc' },
    })
  }

  /** Deletes a batch's results: they are in its files. */
  async clear(tx: Connection, id: string): Promise<void> {
    await tx.batchLine.deleteMany({ where: { batchId: id } })
    await tx.batchStart.deleteMany({ where: { batchId: id } })
    await tx.batchPart.deleteMany({ where: { batchId: id } })
  }
}

/** Joins JSON texts into one JSON array. */
function jsonArrayOf(texts: readonly string[]): string {
  return `[${texts.join(',')}]`
}
