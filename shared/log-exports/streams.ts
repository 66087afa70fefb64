import { dayMs } from '../base/time.ts'
import type { Contents } from '../content-log/contents.ts'
import { type Environment, Prisma } from '../generated/prisma/client.ts'
import type { Database } from '../io/db.ts'
import type { ContentRow, RequestRow, RowOf, Stream } from './rows.ts'

/**
 * The tables of the streams are read in the order of the transactions that wrote their rows. A transaction may commit after a later
 * one, so only rows of transactions below `pg_snapshot_xmin` are read: every lower one is over, and no row can appear behind them.
 */

/** Whose rows are read. */
export type Scope = { organisationId: string | null; environment: Environment | null }
/** A place between rows: after the row `id` at `position`; without an id after all rows there. */
export type Place = { position: bigint; id: string | null }
/** The window of a replay, its end excluded: its rows are read in the order of their times. */
export type Window = { from: Date; to: Date }
/** A row's place, without the row. */
type Found = { position: bigint; id: string; createdAt: Date }
/** Rows in their order; `next` is the place behind everything that was looked at, and `isEnd` that nothing more can be read now. */
export type Page = { found: Found[]; next: Place; isEnd: boolean }

type Services = { db: Database; contents: Contents }

/** Entries of the index that are looked at per page: rows of other organisations count. */
const maxScanned = 20_000
const contentReaders = 4

const tables = {
  requests: Prisma.raw('generations'),
  audit: Prisma.raw('audit_events'),
  content: Prisma.raw('request_contents'),
}

/** Ids are compared here and in PostgreSQL: alike, whatever the collation of the database. */
const id = Prisma.sql`t.id COLLATE "C"`

/** The lowest transaction that may still write rows. Rows of lower ones are all there. */
export async function readHorizon(db: Database): Promise<bigint> {
  const [row] = await db.$queryRaw<[{ horizon: bigint }]>`
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS horizon`
  return row.horizon
}

/** The next rows after a place that were written below the horizon. */
export async function findWritten(
  db: Database,
  stream: Stream,
  { scope, after, horizon, limit }: { scope: Scope; after: Place; horizon: bigint; limit: number },
): Promise<Page> {
  const table = tables[stream]
  const [bound] = await db.$queryRaw<{ position: bigint }[]>`
    SELECT written_xid AS position FROM ${table} WHERE written_xid > ${after.position} AND written_xid < ${horizon}
    ORDER BY written_xid OFFSET ${maxScanned} LIMIT 1`
  const last = bound?.position ?? horizon - 1n
  const beyond =
    after.id === null
      ? Prisma.sql`written_xid > ${after.position}`
      : Prisma.sql`written_xid >= ${after.position} AND (written_xid, ${id}) > (${after.position}, ${after.id})`
  const found = await db.$queryRaw<Found[]>`
    SELECT written_xid AS position, t.id, t.created_at AS "createdAt" FROM ${table} t
    WHERE ${beyond} AND written_xid <= ${last} AND ${conditionOf(stream, scope)}
    ORDER BY written_xid, ${id} LIMIT ${limit}`
  const isCut = found.length === limit
  const next = isCut ? placeOf(found.at(-1)!) : { position: last > after.position ? last : after.position, id: null }
  return { found, next, isEnd: !isCut && bound === undefined }
}

/**
 * The rows of a batch that was formed before. Some may have been written again since: they come later. A window may have got more:
 * its batch then ends earlier.
 */
export async function findBatch(
  db: Database,
  stream: Stream,
  {
    scope,
    after,
    end,
    window,
    limit,
  }: { scope: Scope; after: Place; end: Place; window: Window | null; limit: number },
): Promise<{ found: Found[]; end: Place }> {
  const page = window
    ? await findInWindow(db, stream, { scope, after, window, limit })
    : await findWritten(db, stream, { scope, after, horizon: end.position + 1n, limit })
  const found = page.found.filter(
    row => row.position < end.position || (row.position === end.position && (end.id === null || row.id <= end.id)),
  )
  const isCut = found.length === limit
  return { found, end: isCut ? placeOf(found.at(-1)!) : end }
}

/** The next rows of a window after a place, whose position is a time in milliseconds. */
export async function findInWindow(
  db: Database,
  stream: Stream,
  { scope, after, window, limit }: { scope: Scope; after: Place; window: Window; limit: number },
): Promise<Page> {
  const [from, to] = [new Date(Math.max(Number(after.position), window.from.getTime())), window.to]
  const beyond = after.id === null ? Prisma.sql`true` : Prisma.sql`(t.created_at, ${id}) > (${from}, ${after.id})`
  const inWindow = Prisma.sql`t.created_at >= ${from} AND t.created_at < ${to} AND ${beyond}`
  const table = tables[stream]
  const select = Prisma.sql`SELECT t.id, t.created_at AS "createdAt" FROM ${table} t`
  const order = Prisma.sql`ORDER BY t.created_at, ${id} LIMIT ${limit}`
  const isByOrganisation = scope.organisationId === null && stream !== 'audit'
  // The indexes by time begin with the organisation.
  const rows = isByOrganisation
    ? await db.$queryRaw<Omit<Found, 'position'>[]>`
        SELECT t.id, t."createdAt" FROM organisations o CROSS JOIN LATERAL (
          ${select} WHERE t.organisation_id = o.id AND ${inWindow} AND ${conditionOf(stream, scope)} ${order}) t
        ORDER BY t."createdAt", ${id} LIMIT ${limit}`
    : await db.$queryRaw<Omit<Found, 'position'>[]>`
        ${select} WHERE ${inWindow} AND ${conditionOf(stream, scope)} ${order}`
  const found = rows.map(row => ({ ...row, position: BigInt(row.createdAt.getTime()) }))
  const isCut = found.length === limit
  return { found, next: isCut ? placeOf(found.at(-1)!) : { position: BigInt(to.getTime()), id: null }, isEnd: !isCut }
}

function placeOf({ position, id }: Found): Place {
  return { position, id }
}

function conditionOf(stream: Stream, { organisationId, environment }: Scope): Prisma.Sql {
  const own = organisationId === null ? Prisma.sql`true` : Prisma.sql`t.organisation_id = ${organisationId}`
  if (environment === null || stream === 'audit') return own
  if (stream === 'requests') return Prisma.sql`${own} AND t.environment = ${environment}::environment`
  return Prisma.sql`${own} AND EXISTS (
    SELECT 1 FROM files f WHERE f.id = t.file_id AND f.environment = ${environment}::environment)`
}

/** Reads whole rows, in the given order; those that are gone are missing. */
export async function readRows<S extends Stream>(
  services: Services,
  stream: S,
  found: readonly Found[],
): Promise<RowOf[S][]> {
  if (found.length === 0) return []
  const readers: { [Name in Stream]: () => Promise<RowOf[Name][]> } = {
    requests: () => readRequests(services.db, found, 0),
    audit: () => services.db.auditEvent.findMany({ where: { id: { in: found.map(({ id }) => id) } } }),
    content: () => readContents(services, found),
  }
  const rows = new Map((await readers[stream]()).map(row => [row.id, row]))
  return found.flatMap(({ id }) => rows.get(id) ?? [])
}

/** `slackMs`: by how much the times may differ from those of the request log, which choose its months. */
async function readRequests(db: Database, found: readonly Found[], slackMs: number): Promise<RequestRow[]> {
  const times = found.map(({ createdAt }) => createdAt.getTime())
  const createdAt = { gte: new Date(Math.min(...times) - slackMs), lte: new Date(Math.max(...times) + slackMs) }
  const rows = await db.generation.findMany({ where: { id: { in: found.map(({ id }) => id) }, createdAt } })
  const keyIds = [...new Set(rows.map(({ keyId }) => keyId))]
  const keys = await db.apiKey.findMany({ where: { id: { in: keyIds } }, select: { id: true, name: true } })
  const names = new Map(keys.map(({ id, name }) => [id, name]))
  return rows.map(row => ({ ...row, keyName: names.get(row.keyId) ?? null }))
}

async function readContents({ db, contents }: Services, found: readonly Found[]): Promise<ContentRow[]> {
  const rows = await db.requestContent.findMany({ where: { id: { in: found.map(({ id }) => id) } } })
  const requests = new Map((await readRequests(db, found, dayMs)).map(row => [row.id, row]))
  const read: ContentRow[] = []
  for (let i = 0; i < rows.length; i += contentReaders) {
    const group = rows.slice(i, i + contentReaders).map(async row => {
      return { ...row, content: await contents.read(row), request: requests.get(row.id) ?? null }
    })
    read.push(...(await Promise.all(group)))
  }
  return read
}
