import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { cancelDelayed } from '../../../shared/delayed/cancel.ts'
import type { Prisma } from '../../../shared/generated/prisma/client.ts'
import { rowsAfter } from '../../../shared/io/keyset.ts'
import { cancelJob } from '../../../shared/jobs/cancel.ts'
import { delayedKind } from '../../../shared/jobs/jobs.ts'
import { queuedKinds } from '../../../shared/kinds/index.ts'
import type { Platform } from '../../../shared/platform.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import { paging, readPage } from '../../routes/paging.ts'
import { jobRowColumns, presentJobDetail, presentJobRow } from '../present/present-job.ts'
import { assertMayCancel, type Viewer } from '../present/work.ts'
import { readBounds, spanFields } from '../queries/span.ts'
import { findKeyId, readWorkKeys } from '../queries/work.ts'
import type { JobDetail, JobsPage } from '../wire/jobs.ts'

const base = '/dashboard/api/organisations/{organisation}/jobs'
const shared = { tag: 'Dashboard', access: { permission: 'use' } } as const
const kinds = [...Object.keys(queuedKinds), delayedKind] as const
const unfinished = ['queued', 'in_progress'] as const
const statuses = [...unfinished, 'completed', 'failed', 'cancelled', 'expired'] as const
/** Lists every kind and stage explicitly, so that Postgres uses the index and skips the many jobs that are over. */
const inFlight = {
  kind: { in: [...kinds] },
  stage: { in: ['waiting', 'starting', 'running'] },
} satisfies Prisma.JobWhereInput

const filters = z.strictObject({
  limit: paging.limit,
  after: paging.after,
  kind: z.enum(kinds).optional(),
  /** `unfinished` = queued or in progress. */
  status: z.enum([...statuses, 'unfinished']).optional(),
  environment: z.enum(['live', 'test']).optional(),
  key: z.string().min(1).max(100).optional().describe('A key’s id or hash.'),
  q: z.string().trim().min(1).max(200).optional().describe('The id of a job, or of the request that created it.'),
  ...spanFields,
  span: spanFields.span.describe('The time up to now. Without it and `from`, jobs of any age.'),
})

const list = endpoint({
  ...shared,
  method: 'get',
  path: base,
  summary: 'List jobs of all kinds, newest first',
  query: filters,
  answers: { 200: { description: 'A page of jobs.' } },
  errors: ['not_found'],
  async handle({ services, query, ...viewer }): Promise<JobsPage> {
    const where = await whereOf(services, viewer.organisationId, query)
    const page = await readPage(
      { limit: query.limit, order: 'desc' },
      ({ limit: take }) =>
        services.db.job.findMany({
          where,
          select: jobRowColumns,
          orderBy: [{ createdAt: 'desc' }, { id: 'desc' }],
          take,
        }),
      async rows => {
        const keys = await readWorkKeys(services, rows)
        return Promise.all(rows.map(row => presentJobRow(services, row, viewer, keys)))
      },
    )
    return { data: page.data, has_more: page.has_more, last_id: page.last_id as string | null }
  },
})

async function whereOf(
  services: Platform,
  organisationId: string,
  { kind, status, environment, key, q, after, ...time }: z.output<typeof filters>,
): Promise<Prisma.JobWhereInput> {
  const isUnfinished = status === 'unfinished' || status === 'queued' || status === 'in_progress'
  const last = after === undefined ? null : await readCursor(services, organisationId, after)
  return {
    organisationId,
    ...(isUnfinished && inFlight),
    ...(status && status !== 'unfinished' && { status }),
    ...(kind && { kind }),
    ...(environment && { environment }),
    ...(key !== undefined && { keyId: await findKeyId(services, organisationId, key) }),
    createdAt: readBounds(time, services.clock.now()),
    AND: [q === undefined ? {} : { OR: [{ id: q }, { requestId: q }] }, last ? rowsAfter(last) : {}],
  }
}

async function readCursor({ db }: Platform, organisationId: string, id: string) {
  const place = await db.job.findFirst({ where: { id, organisationId }, select: { id: true, createdAt: true } })
  if (place) return place
  throw new GatewayError('not_found', 'No such job to list after.', { param: 'after' })
}

const read = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/{id}`,
  summary: 'Retrieve a job',
  answers: { 200: { description: 'The job.' } },
  errors: ['not_found'],
  async handle({ services, params, ...viewer }): Promise<JobDetail> {
    await find(services, viewer, params.id!)
    return presentJobDetail(services, viewer, params.id!)
  },
})

const cancel = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{id}/cancel`,
  summary: 'Cancel a job',
  description: 'Administrators can cancel any job; members, jobs of test keys and of their own keys.',
  answers: { 200: { description: 'The cancelled job.' } },
  errors: ['not_found', 'insufficient_role', 'not_cancellable'],
  async handle({ services, params, ...viewer }): Promise<JobDetail> {
    const job = await find(services, viewer, params.id!)
    await assertMayCancel(services, viewer, job)
    await (job.kind === delayedKind ? cancelDelayed(services, job.id) : cancelJob(services, job.id))
    return presentJobDetail(services, viewer, job.id)
  },
})

/** The organisation's job. Throws 404. */
async function find({ db }: Platform, { organisationId }: Viewer, id: string) {
  const select = { id: true, kind: true, keyId: true, environment: true } as const
  const job = await db.job.findFirst({ where: { id, organisationId }, select })
  if (!job) throw new GatewayError('not_found', 'There is no such job.', { param: 'id' })
  return job
}

export const jobRoutes: Endpoint[] = [list, read, cancel]
