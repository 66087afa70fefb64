import { Readable } from 'node:stream'
import { csvLine } from '../../shared/base/csv.ts'
import type { Database } from '../../shared/io/db.ts'
import { FairSlots } from '../../shared/io/fair-slots.ts'
import type { Context } from '../endpoint.ts'
import { slotOwner } from './queries/run-search.ts'

export type ExportFormat = 'csv' | 'jsonl'
const contentTypes: Record<ExportFormat, string> = { csv: 'text/csv; charset=utf-8', jsonl: 'application/jsonl' }
const rowsPerPage = 1_000

/**
 * Each page of an export may occupy a connection for seconds: API requests must not wait for them, nor must searches. Organisations get
 * their turn: who asks for many files does not keep others from theirs.
 */
const slots = new FairSlots({ slots: 2, testSlots: 2 })

/** Reads a page of the export that a request asked for, once there is a slot; nothing if its client has left meanwhile. */
export type PageReader = <Row>(read: () => Promise<Row[]>) => Promise<Row[]>

export function exportReader({ state: { client, organisationId } }: Context): PageReader {
  // Operators export what belongs to no organisation.
  const owner = slotOwner(organisationId ?? null)
  return read => slots.runInTurn(owner, async () => (client.gone ? [] : read()))
}

/** A column of an export; `text`: its value in CSV, where that is not its value in JSON. */
export type ExportField<Row> = readonly [
  name: string,
  read: (row: Row) => unknown,
  text?: (row: Row) => string | number | null,
]

type Export<Row> = {
  fields: readonly ExportField<Row>[]
  /** Reads at most `limit` rows after a row. */
  read: (after: Row | null, limit: number) => Promise<Row[]>
  format: ExportFormat
  max: number
}

/** The name of an export: "acme-usage-2026-11-01-to-2026-11-30.csv". What no file system takes is left out of the organisation's name. */
export async function exportName(
  { organisation }: Pick<Database, 'organisation'>,
  organisationId: string,
  ...parts: string[]
): Promise<string> {
  const found = await organisation.findUnique({ where: { id: organisationId }, select: { name: true } })
  const letters = (found?.name ?? '').normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase()
  const slug = letters
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 60)
  return [slug || organisationId, ...parts].join('-')
}

/** The UTC days of a time whose end is exclusive, as parts of a file's name. What has no beginning has none. */
export function daysOf({ from, to }: { from?: Date | undefined; to: Date }): string[] {
  const day = (time: Date) => time.toISOString().slice(0, 10)
  const last = day(new Date(to.getTime() - 1))
  return from ? [day(from), 'to', last] : ['to', last]
}

/** Answers with at most `max` rows as a file, which is streamed: one page is in memory at a time. */
export function sendExport<Row>(ctx: Context, name: string, rows: Export<Row>): Promise<void> {
  return sendFile(ctx, `${name}.${rows.format}`, rows.format, exportRows(rows, exportReader(ctx)))
}

/**
 * Answers with a file as it is read. Its first piece, with the first page, is read before: until then a failure, such as a
 * query that takes too long, is an error response. Rejects with it.
 */
export async function sendFile(
  ctx: Context,
  name: string,
  format: ExportFormat,
  pieces: AsyncGenerator<string>,
): Promise<void> {
  const { value: first = '' } = await pieces.next()
  ctx.set({ 'content-type': contentTypes[format], 'content-disposition': `attachment; filename="${name}"` })
  ctx.body = Readable.from(prepended(first, pieces))
}

async function* prepended(first: string, pieces: AsyncGenerator<string>): AsyncGenerator<string> {
  yield first
  yield* pieces
}

async function* exportRows<Row>(
  { fields, read, format, max }: Export<Row>,
  readPage: PageReader,
): AsyncGenerator<string> {
  let head = format === 'csv' ? csvLine(fields.map(([name]) => name)) : ''
  let last: Row | null = null
  for (let count = 0; count < max; count += rowsPerPage) {
    const after: Row | null = last
    const rows: Row[] = await readPage(() => read(after, Math.min(rowsPerPage, max - count)))
    yield head + rows.map(row => lineOf(row, fields, format)).join('')
    head = ''
    if (rows.length < rowsPerPage) return
    last = rows.at(-1)!
  }
}

function lineOf<Row>(row: Row, fields: readonly ExportField<Row>[], format: ExportFormat): string {
  if (format === 'jsonl')
    return `${JSON.stringify(Object.fromEntries(fields.map(([name, read]) => [name, read(row)])))}\n`
  return csvLine(fields.map(([, read, text]) => (text ? text(row) : cellOf(read(row)))))
}

function cellOf(value: unknown): string | number | null {
  if (value === null || typeof value === 'string' || typeof value === 'number') return value
  return JSON.stringify(value)
}
