import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { madeAtMs } from '../../../shared/base/ids.ts'
import { usdFromNano } from '../../../shared/base/money.ts'
import { dayMs } from '../../../shared/base/time.ts'
import type { Generation, Prisma } from '../../../shared/generated/prisma/client.ts'
import type { Services } from '../../../shared/services.ts'
import type { RoutingRecord } from '../../../shared/wallet/routing-record.ts'
import { endpoint } from '../../endpoint.ts'
import { generationJson } from '../../routes/account.ts'
import { candidateJson } from '../../routes/chat.ts'
import { pageOf, paging } from '../../routes/paging.ts'
import type { RequestCall, RequestDetail, RequestFilters, RequestRow, RequestsPage } from '../wire/requests.ts'
import { within } from './bounded.ts'
import { costParts } from './request-cost.ts'
import { type Keys, keyIdOf, keysOf, workKey } from './work.ts'

const base = '/dashboard/api/organisations/{organisation}'
const shared = { tag: 'Dashboard', access: { role: 'member' } } as const
/** What was asked for in the last days is offered as a filter, and searched where no time is named. */
const usualDays = 30
const mostChoices = 200
/** A search that finds little may pass millions of rows. */
const bound = { ms: 5_000, param: 'from' }

const word = z.string().trim().min(1).max(200).optional()
const filters = z.strictObject({
  limit: paging.limit,
  after: paging.after,
  q: word.describe('The beginning of a request’s, generation’s or provider’s id.'),
  status: word.describe('`ok`, `error`, an HTTP status or an error’s code.'),
  model: word,
  provider: word,
  type: word.describe('"chat", "image", "video" …'),
  environment: z.enum(['live', 'test']).optional(),
  key: word.describe('A key’s id or hash.'),
  from: z.iso.datetime({ offset: true }).optional().describe(`Else ${usualDays} days ago.`),
  to: z.iso.datetime({ offset: true }).optional(),
})
type Filters = z.output<typeof filters>

const listed = {
  ...{
    id: true,
    createdAt: true,
    kind: true,
    environment: true,
    status: true,
    errorCode: true,
    model: true,
    provider: true,
  },
  ...{ keyId: true, streamed: true, attempts: true, promptTokens: true, completionTokens: true, costNano: true },
  ...{ firstByteMs: true, durationMs: true },
} satisfies Prisma.GenerationSelect
type Listed = Pick<Generation, keyof typeof listed>

const list = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/requests`,
  summary: 'Search the request log, the newest first',
  query: filters,
  answers: { 200: { description: 'A page of requests.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, query }): Promise<RequestsPage> {
    const where = await whereOf(services, organisationId, query)
    const page = await pageOf(
      { limit: query.limit, order: 'desc' },
      ({ limit: take }) =>
        within(services.db, bound, tx =>
          tx.generation.findMany({ where, select: listed, orderBy: [{ createdAt: 'desc' }, { id: 'desc' }], take }),
        ),
      async rows => {
        const keys = await keysOf(services, rows)
        return rows.map(row => present(row, keys))
      },
    )
    return { data: page.data, has_more: page.has_more, last_id: page.last_id as string | null }
  },
})

async function whereOf(
  services: Services,
  organisationId: string,
  { q, status, model, provider, type, environment, key, after, ...span }: Filters,
): Promise<Prisma.GenerationWhereInput> {
  const last = after === undefined ? null : await placeOf(services, organisationId, after)
  const { from, to } = spanOf(services, span, q)
  return {
    organisationId,
    // Bounds that tell Postgres which months to look into, and where in their indexes to begin.
    createdAt: { gte: from, lte: last && last.createdAt < to ? last.createdAt : to },
    ...(status !== undefined && statusIs(status)),
    ...(model !== undefined && { model }),
    ...(provider !== undefined && { provider }),
    ...(type !== undefined && { kind: type }),
    ...(environment && { environment }),
    ...(key !== undefined && { keyId: await keyIdOf(services, organisationId, key) }),
    AND: [
      q === undefined
        ? {}
        : { OR: [{ id: { startsWith: q } }, { requestId: { startsWith: q } }, { upstreamId: { startsWith: q } }] },
      last ? { OR: [{ createdAt: { lt: last.createdAt } }, { id: { lt: last.id } }] } : {},
    ],
  }
}

/** The time to search. An id of ours tells the day it was made, which is when its request began. */
function spanOf({ clock }: Services, { from, to }: Pick<Filters, 'from' | 'to'>, q: string | undefined) {
  const madeMs = q === undefined ? null : madeAtMs(q)
  const untilMs = Math.min(to === undefined ? Number.MAX_SAFE_INTEGER : Date.parse(to), clock.now() + dayMs)
  const sinceMs = from === undefined ? (madeMs ?? untilMs - usualDays * dayMs) - dayMs : Date.parse(from)
  if (madeMs === null) return { from: dateOf(sinceMs), to: dateOf(untilMs) }
  return { from: dateOf(Math.max(sinceMs, madeMs - dayMs)), to: dateOf(Math.min(untilMs, madeMs + dayMs)) }
}

/** Postgres knows no year 0, and nothing is older than 1970. */
const dateOf = (ms: number) => new Date(Math.max(ms, 0))

function statusIs(status: string): Prisma.GenerationWhereInput {
  if (status === 'ok') return { status: { lt: 400 } }
  // A client that went away is no failure.
  if (status === 'error') return { status: { gte: 400, not: 499 } }
  return /^\d{3}$/.test(status) ? { status: Number(status) } : { errorCode: status }
}

async function placeOf({ db }: Services, organisationId: string, id: string) {
  const place = await db.generation.findFirst({ where: { id, organisationId }, select: { id: true, createdAt: true } })
  if (place) return place
  throw new GatewayError('not_found', 'There is no request of that id to list after.', { param: 'after' })
}

function present(row: Listed, keys: Keys): RequestRow {
  return {
    id: row.id,
    created_at: row.createdAt.toISOString(),
    type: row.kind,
    environment: row.environment,
    status: row.status,
    error_code: row.errorCode,
    model: row.model,
    provider: row.provider,
    key: workKey(keys, row),
    streamed: row.streamed,
    attempts: row.attempts,
    prompt_tokens: row.promptTokens,
    completion_tokens: row.completionTokens,
    cost_usd: usdFromNano(row.costNano),
    first_byte_ms: row.firstByteMs,
    duration_ms: row.durationMs,
  }
}

const read = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/requests/{id}`,
  summary: 'Read one request, with its routing decision',
  description: 'By the `x-generation-id` of its answer.',
  answers: { 200: { description: 'What the request log has.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params }): Promise<RequestDetail> {
    const { db } = services
    const row = await db.generation.findFirst({ where: { id: params.id!, organisationId } })
    if (!row) throw new GatewayError('not_found', 'There is no such request.', { param: 'id' })
    const record = (row.routing ?? {}) as RoutingRecord
    const { reason, candidates = [], batch: batchId = null } = record
    const job = await db.job.findFirst({ where: { id: row.id, organisationId }, select: { id: true } })
    const { object: _, ...generation } = generationJson(row)
    return {
      ...generation,
      ...present(row, await keysOf(services, [row])),
      calls: callsOf(row, record),
      routing: reason === undefined ? null : { reason, candidates: candidates.map(candidateJson) },
      cost_parts: costParts(services, row, batchId !== null),
      job_id: job?.id ?? null,
      batch_id: batchId,
    }
  },
})

/** The calls to providers as they were noted; a single one is told by the figures of the request. */
function callsOf(row: Generation, { attempts }: RoutingRecord): RequestCall[] {
  if (attempts) return attempts.map(({ durationMs, ...call }) => ({ ...call, duration_ms: durationMs }))
  const { provider, model, attempts: made, status, errorCode, durationMs } = row
  if (provider === null || made === 0) return []
  return [{ provider, model, status: errorCode === null ? status : null, fault: errorCode, duration_ms: durationMs }]
}

const readFilters = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/request-filters`,
  summary: 'What requests can be filtered by: what was used of late',
  answers: { 200: { description: 'The choices.' } },
  async handle({ services, organisationId }): Promise<RequestFilters> {
    const { db, clock, catalog } = services
    const where = { organisationId, day: { gte: new Date(clock.now() - usualDays * dayMs) } }
    const used = async (column: 'model' | 'kind') => {
      const rows = await db.usageDay.groupBy({
        by: [column],
        where,
        _sum: { requests: true },
        orderBy: { _sum: { requests: 'desc' } },
        take: mostChoices,
      })
      return rows.map(row => String(row[column]))
    }
    const [models, types] = await Promise.all([used('model'), used('kind')])
    return { models: models.sort(), providers: [...catalog.providers.keys()].sort(), types: types.sort() }
  },
})

export const requestsRoutes = [list, read, readFilters]
