import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { createdAtMs } from '../../../shared/base/ids.ts'
import { usdFromNano } from '../../../shared/base/money.ts'
import { dayMs } from '../../../shared/base/time.ts'
import type { Feedback, Generation, Prisma } from '../../../shared/generated/prisma/client.ts'
import type { Services } from '../../../shared/services.ts'
import type { RoutedAttempt, RoutingRecord } from '../../../shared/wallet/routing-record.ts'
import { endpoint } from '../../endpoint.ts'
import { presentGeneration } from '../../routes/account.ts'
import { presentCandidate } from '../../routes/chat.ts'
import { paging, readPage } from '../../routes/paging.ts'
import { costParts } from '../present/request-cost.ts'
import { runSearch } from '../present/run-search.ts'
import { findKeyId, type Keys, presentWorkKey, readWorkKeys } from '../present/work.ts'
import type {
  RequestCall,
  RequestDetail,
  RequestFeedback,
  RequestFilters,
  RequestRow,
  RequestsPage,
} from '../wire/requests.ts'

const base = '/dashboard/api/organisations/{organisation}'
const shared = { tag: 'Dashboard', access: { role: 'member' } } as const
/** Default time range: of filter choices, and of searches without a time. */
const usualDays = 30
const maxChoices = 200
const maxIdLength = 200
/** Timeout: a search with few matches may scan millions of rows. */
const bound = { ms: 5_000, param: 'from' }

const word = z.string().trim().min(1).max(200).optional()
const filters = z.strictObject({
  limit: paging.limit,
  after: paging.after,
  q: word.describe('The prefix of a request, generation or provider id.'),
  status: word.describe('`ok`, `error`, an HTTP status or an error code.'),
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
  ...{ firstByteMs: true, durationMs: true, calls: true },
} satisfies Prisma.GenerationSelect
type Listed = Pick<Generation, keyof typeof listed>

const list = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/requests`,
  summary: 'Search the request log, newest first',
  query: filters,
  answers: { 200: { description: 'A page of requests.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, query }): Promise<RequestsPage> {
    const where = await whereOf(services, organisationId, query)
    const page = await readPage(
      { limit: query.limit, order: 'desc' },
      ({ limit: take }) =>
        runSearch(services.db, bound, tx =>
          tx.generation.findMany({ where, select: listed, orderBy: [{ createdAt: 'desc' }, { id: 'desc' }], take }),
        ),
      async rows => {
        const keys = await readWorkKeys(services, rows)
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
  const last = after === undefined ? null : await readCursor(services, organisationId, after)
  const { from, to } = spanOf(services, span, q)
  return {
    organisationId,
    // Time bounds that let Postgres prune partitions and seek in their indexes.
    createdAt: { gte: from, lte: last && last.createdAt < to ? last.createdAt : to },
    ...(status !== undefined && whereStatus(status)),
    ...(model !== undefined && { model }),
    ...(provider !== undefined && { provider }),
    ...(type !== undefined && { kind: type }),
    ...(environment && { environment }),
    ...(key !== undefined && { keyId: await findKeyId(services, organisationId, key) }),
    AND: [
      q === undefined
        ? {}
        : { OR: [{ id: { startsWith: q } }, { requestId: { startsWith: q } }, { upstreamId: { startsWith: q } }] },
      last ? { OR: [{ createdAt: { lt: last.createdAt } }, { id: { lt: last.id } }] } : {},
    ],
  }
}

/** The time range to search. Our ids contain their day of creation, which is when the request began. */
function spanOf({ clock }: Services, { from, to }: Pick<Filters, 'from' | 'to'>, q: string | undefined) {
  const madeMs = q === undefined ? null : createdAtMs(q)
  const untilMs = Math.min(to === undefined ? Number.MAX_SAFE_INTEGER : Date.parse(to), clock.now() + dayMs)
  const sinceMs = from === undefined ? (madeMs ?? untilMs - usualDays * dayMs) - dayMs : Date.parse(from)
  if (madeMs === null) return { from: dateOf(sinceMs), to: dateOf(untilMs) }
  return { from: dateOf(Math.max(sinceMs, madeMs - dayMs)), to: dateOf(Math.min(untilMs, madeMs + dayMs)) }
}

/** Postgres has no year 0, and nothing is older than 1970. */
const dateOf = (ms: number) => new Date(Math.max(ms, 0))

function whereStatus(status: string): Prisma.GenerationWhereInput {
  if (status === 'ok') return { status: { lt: 400 } }
  // A disconnected client is not a failure.
  if (status === 'error') return { status: { gte: 400, not: 499 } }
  return /^\d{3}$/.test(status) ? { status: Number(status) } : { errorCode: status }
}

async function readCursor({ db }: Services, organisationId: string, id: string) {
  const place = await db.generation.findFirst({ where: { id, organisationId }, select: { id: true, createdAt: true } })
  if (place) return place
  throw new GatewayError('not_found', 'No such request to list after.', { param: 'after' })
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
    key: presentWorkKey(keys, row),
    streamed: row.streamed,
    attempts: row.attempts,
    prompt_tokens: row.promptTokens,
    completion_tokens: row.completionTokens,
    cost_usd: usdFromNano(row.costNano),
    first_byte_ms: row.firstByteMs,
    duration_ms: row.durationMs,
    count: row.calls,
  }
}

const read = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/requests/{id}`,
  summary: 'Retrieve a request with its routing decision',
  description: 'By the `x-generation-id` or `x-request-id` of its response, or the id that the provider gave it.',
  answers: { 200: { description: 'The request log’s record.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params }): Promise<RequestDetail> {
    const { db } = services
    const row = await findRequest(services, organisationId, params.id!)
    if (!row) throw new GatewayError('not_found', 'No such request.', { param: 'id' })
    const record = (row.routing ?? {}) as RoutingRecord
    const { reason, candidates = [], batch: batchId = null } = record
    const job = await db.job.findFirst({ where: { id: row.id, organisationId }, select: { id: true } })
    const { object: _, ...generation } = presentGeneration(row)
    const scores = await services.feedback.listOf(organisationId, row.id)
    const keys = await readWorkKeys(services, [row, ...scores])
    return {
      ...generation,
      ...present(row, keys),
      error_message: row.errorMessage,
      error_param: row.errorParam,
      calls: callsOf(row, record),
      routing: reason === undefined ? null : { reason, candidates: candidates.map(presentCandidate) },
      cost_parts: costParts(services, row, batchId !== null),
      job_id: job?.id ?? null,
      batch_id: batchId,
      feedback: scores.map(score => presentScore(score, keys)),
    }
  },
})

/** The latest request with an id: its own, that of the HTTP request, or the provider's. */
async function findRequest(services: Services, organisationId: string, id: string): Promise<Generation | null> {
  const { db } = services
  const own = await db.generation.findFirst({ where: { id, organisationId } })
  if (own || id.length > maxIdLength) return own
  const { from: gte, to: lte } = spanOf(services, {}, id)
  const where = { organisationId, createdAt: { gte, lte }, OR: [{ requestId: id }, { upstreamId: id }] }
  return runSearch(db, { ms: bound.ms, param: 'id' }, tx =>
    tx.generation.findFirst({ where, orderBy: { createdAt: 'desc' } }),
  )
}

function presentScore(score: Feedback, keys: Keys): RequestFeedback {
  return {
    key: presentWorkKey(keys, score),
    score: score.score,
    comment: score.comment,
    updated_at: score.updatedAt.toISOString(),
  }
}

/** The recorded provider calls; a single call is derived from the figures of the request. */
function callsOf(row: Generation, { attempts }: RoutingRecord): RequestCall[] {
  if (attempts) return attempts.map(presentCall)
  const { provider, model, attempts: made, status, errorCode, durationMs } = row
  if (provider === null || made === 0) return []
  const call = { provider, model, status: errorCode === null ? status : null, fault: errorCode, durationMs }
  return [presentCall(call)]
}

function presentCall({ durationMs, startedMs, pause, message, ...call }: RoutedAttempt): RequestCall {
  return {
    ...call,
    duration_ms: durationMs,
    started_ms: startedMs ?? null,
    pause: pause ?? null,
    message: message ?? null,
  }
}

const readFilters = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/request-filters`,
  summary: 'List filter choices: values used recently',
  answers: { 200: { description: 'The choices.' } },
  async handle({ services, organisationId }): Promise<RequestFilters> {
    const { db, clock, catalog } = services
    const where = { organisationId, day: { gte: new Date(clock.now() - usualDays * dayMs) } }
    const listUsed = async (column: 'model' | 'kind') => {
      const rows = await db.usageDay.groupBy({
        by: [column],
        where,
        _sum: { requests: true },
        orderBy: { _sum: { requests: 'desc' } },
        take: maxChoices,
      })
      return rows.map(row => String(row[column]))
    }
    const [models, types] = await Promise.all([listUsed('model'), listUsed('kind')])
    return { models: models.sort(), providers: [...catalog.providers.keys()].sort(), types: types.sort() }
  },
})

export const requestsRoutes = [list, read, readFilters]
