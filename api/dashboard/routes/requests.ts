import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { dayMs } from '../../../shared/base/time.ts'
import type { Feedback, Generation, RequestContent } from '../../../shared/generated/prisma/client.ts'
import type { Connection } from '../../../shared/io/db.ts'
import type { Platform } from '../../../shared/platform.ts'
import type { RoutingRecord } from '../../../shared/wallet/routing-record.ts'
import { endpoint } from '../../endpoint.ts'
import { presentGeneration } from '../../routes/account.ts'
import { presentCandidate } from '../../routes/chat.ts'
import { callsOf, costParts, presentRow } from '../present/present-request.ts'
import { presentWorkKey } from '../present/work.ts'
import { countChoices } from '../queries/request-choices.ts'
import { findInHours } from '../queries/request-hours.ts'
import {
  beyond,
  orderBy,
  placeColumns,
  requestFilters,
  searchBound,
  searchSpan,
  usualDays,
  whereId,
  whereOf,
} from '../queries/request-search.ts'
import { runSearch } from '../queries/run-search.ts'
import { spanFields } from '../queries/span.ts'
import { usageFields } from '../queries/usage-filter.ts'
import { type Keys, readDelivery, readWorkKeys } from '../queries/work.ts'
import type { ContentFacts } from '../wire/contents.ts'
import type { RequestDetail, RequestFeedback, RequestFilters, RequestNeighbours } from '../wire/requests.ts'

const base = '/dashboard/api/organisations/{organisation}'
const shared = { tag: 'Dashboard', access: { permission: 'use' } } as const
const maxChoices = 200
const maxIdLength = 200

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
    const key = await db.apiKey.findFirst({ where: { id: row.keyId, organisationId }, select: { id: true } })
    const providerKey = row.providerKeyId === null ? null : await readProviderKey(services, organisationId, row)
    const { object: _, ...generation } = presentGeneration(row)
    const scores = await services.feedback.listOf(organisationId, row.id)
    const keys = await readWorkKeys(services, [row, ...scores])
    return {
      ...generation,
      ...presentRow(row, keys),
      error_message: row.errorMessage,
      error_param: row.errorParam,
      overhead_ms: row.overheadMs,
      parameters: row.parameters as RequestDetail['parameters'],
      metadata: row.metadata as RequestDetail['metadata'],
      calls: callsOf(row, record),
      routing: reason === undefined ? null : { reason, candidates: candidates.map(presentCandidate) },
      guardrails: record.guardrails ?? null,
      cost_parts: costParts(services, row, batchId !== null),
      content: presentContent(await services.contents.find(organisationId, row.id, services.clock.now())),
      response_cache: generation.cached ? 'hit' : (record.cache ?? null),
      provider_key: providerKey,
      key_id: key?.id ?? null,
      delivery: job && (await readDelivery(services, organisationId, { jobId: job.id })),
      job_id: job?.id ?? null,
      batch_id: batchId,
      feedback: scores.map(score => presentScore(score, keys)),
    }
  },
})

/** The own provider key of a request; null once it is deleted. */
function readProviderKey({ db }: Platform, organisationId: string, { providerKeyId }: Generation) {
  return db.providerKey.findFirst({
    where: { id: providerKeyId!, organisationId },
    select: { name: true, last4: true },
  })
}

function presentContent(row: RequestContent | null): ContentFacts | null {
  return (
    row && {
      input_bytes: row.inputBytes,
      output_bytes: row.outputBytes,
      input_truncated: row.inputTruncated,
      output_truncated: row.outputTruncated,
      redactions: row.redactions,
      expires_at: row.expiresAt.toISOString(),
      deleted: row.fileId === null,
    }
  )
}

/** The latest request with an id: its own, that of the HTTP request, or the provider's. */
async function findRequest(services: Platform, organisationId: string, id: string): Promise<Generation | null> {
  const { db } = services
  const own = await db.generation.findFirst({ where: { id, organisationId } })
  if (own || id.length > maxIdLength) return own
  const { from: gte, to: lte } = searchSpan(services, {}, id)
  const where = { organisationId, createdAt: { gte, lte }, ...whereId(id, id) }
  const read = (tx: Connection) => tx.generation.findFirst({ where, orderBy: { createdAt: 'desc' } })
  return runSearch(db, { ...searchBound, param: 'id' }, organisationId, read, { byIndex: true })
}

function presentScore(score: Feedback, keys: Keys): RequestFeedback {
  return {
    key: presentWorkKey(keys, score),
    score: score.score,
    comment: score.comment,
    updated_at: score.updatedAt.toISOString(),
  }
}

const neighbours = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/requests/{id}/neighbours`,
  summary: 'Find the next newer and older request of a search',
  query: requestFilters,
  answers: { 200: { description: 'Their ids.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params, query }): Promise<RequestNeighbours> {
    const { db } = services
    const own = { id: params.id!, organisationId }
    const row = await db.generation.findFirst({ where: own, select: placeColumns })
    if (!row) throw new GatewayError('not_found', 'No such request.', { param: 'id' })
    const where = await whereOf(services, organisationId, query)
    const find = async (order: 'asc' | 'desc') => {
      const ordering = { sort: 'time', order } as const
      const rest = beyond(where, ordering, row)
      const read = (tx: Connection) =>
        findInHours(tx, rest, query, { limit: 1, order }, (narrowed, take) =>
          tx.generation.findMany({ where: narrowed, select: { id: true }, orderBy: orderBy(ordering), take }),
        )
      const [found] = await runSearch(db, searchBound, organisationId, read, { byIndex: true })
      return found
    }
    const [newer, older] = await Promise.all([find('asc'), find('desc')])
    return { newer: newer?.id ?? null, older: older?.id ?? null }
  },
})

const readFilters = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/request-filters`,
  summary: 'List filter choices: values used recently, with the requests of a time that they find',
  query: z.strictObject({
    ...spanFields,
    environment: usageFields.environment,
    ...requestFilters.pick({ key: true, model: true, provider: true, type: true, status: true }).shape,
  }),
  answers: { 200: { description: 'The choices.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, query }): Promise<RequestFilters> {
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
    const counts = await countChoices(services, organisationId, query)
    return { models: models.sort(), providers: [...catalog.providers.keys()].sort(), types: types.sort(), counts }
  },
})

export const requestsRoutes = [read, neighbours, readFilters]
