import { z } from 'zod'
import { cancelDelayed } from '../../shared/async/cancel.ts'
import { presentDelayed, presentListed } from '../../shared/async/present.ts'
import { delayedRequest } from '../../shared/async/request.ts'
import { submitDelayed } from '../../shared/async/submit.ts'
import { GatewayError } from '../../shared/base/errors.ts'
import { answerHeaders } from '../../shared/chat/report.ts'
import type { DelayedJob } from '../../shared/jobs/delayed.ts'
import type { Known } from '../../shared/keys/policies.ts'
import type { Services } from '../../shared/services.ts'
import { generationHeaders } from '../answer-headers.ts'
import { page } from '../answers.ts'
import { delayedJob } from '../async-answers.ts'
import { type Context, type Endpoint, endpoint } from '../endpoint.ts'
import { admitFree } from '../middleware/key.ts'
import { pageOf, paging } from './paging.ts'
import { preferHeader, waited, waitOf } from './wait.ts'

const shared = { tag: 'Async jobs', access: { scope: '*' } } as const

const submit = endpoint({
  ...shared,
  method: 'post',
  path: '/v1/jobs',
  operationId: 'createJob',
  summary: 'Create an async job',
  description:
    'Answered within the window, for less than a direct request. What it can cost at most is held, and what it did cost is charged at the end. One that fails, expires or is cancelled costs nothing.',
  body: delayedRequest,
  example: {
    body: { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Summarise the minutes.' }] },
    completion_window: '1h',
    metadata: { department: 'sales' },
  },
  headers: [preferHeader],
  answers: {
    202: { description: 'The job.', schema: delayedJob, headers: [...generationHeaders, 'preference-applied'] },
  },
  errors: [
    'context_length_exceeded',
    'url_not_allowed',
    'unsupported_capability',
    'insufficient_credits',
    'monthly_spend_cap_reached',
    'model_not_allowed',
    'model_not_found',
    'quota_exceeded',
    'no_provider_available',
  ],
  async handle({ services, known, body, requestId, keep, ctx }) {
    const seconds = waitOf(ctx)
    const { job } = await submitDelayed(services, known, body, requestId, async (tx, { job, target, mode, ticket }) => {
      ctx.set(answerHeaders({ id: job.id, target, mode, ticket, attempts: 0, test: job.environment === 'test' }))
      await keep(tx, await presentDelayed(services, job))
    })
    return presentDelayed(services, await over(services, job, seconds, ctx))
  },
})

const list = endpoint({
  ...shared,
  method: 'get',
  path: '/v1/jobs',
  operationId: 'listJobs',
  summary: 'List async jobs',
  description: 'Without their results. Test keys see the jobs of test keys, live keys those of live ones.',
  query: z.strictObject(paging),
  answers: { 200: { description: 'A page of jobs.', schema: page(delayedJob, 'AsyncJobList') } },
  errors: ['not_found'],
  async handle({ services, known, query, ctx }) {
    ctx.set(await admitFree(services, known))
    const present = (rows: DelayedJob[]) => Promise.all(rows.map(job => presentListed(services, job)))
    return pageOf(query, page => services.delayed.list(known.policy, page), present)
  },
})

const read = endpoint({
  ...shared,
  method: 'get',
  path: '/v1/jobs/{id}',
  operationId: 'getJob',
  summary: 'Retrieve an async job',
  headers: [preferHeader],
  answers: {
    200: { description: 'The job as it is now, with its result.', schema: delayedJob, headers: ['preference-applied'] },
  },
  errors: ['not_found'],
  async handle({ services, known, params, ctx }) {
    ctx.set(await admitFree(services, known))
    const seconds = waitOf(ctx)
    const job = await find(services, known, params.id!)
    return presentDelayed(services, await over(services, job, seconds, ctx))
  },
})

const cancel = endpoint({
  ...shared,
  method: 'post',
  path: '/v1/jobs/{id}/cancel',
  operationId: 'cancelJob',
  summary: 'Cancel an async job',
  description: 'Nothing is charged, even while it runs. 409 once the job is over.',
  answers: { 200: { description: 'The cancelled job.', schema: delayedJob } },
  errors: ['not_found', 'not_cancellable'],
  async handle({ services, known, params, ctx }) {
    ctx.set(await admitFree(services, known))
    const { id } = await find(services, known, params.id!)
    return presentDelayed(services, await cancelDelayed(services, id))
  },
})

function over(services: Services, job: DelayedJob, seconds: number, ctx: Context): Promise<DelayedJob> {
  return waited(services, job, seconds, () => services.delayed.read(job.id), ctx)
}

/** A job of the key's organisation. Throws 404. */
async function find({ delayed }: Services, { policy }: Known, id: string): Promise<DelayedJob> {
  const job = await delayed.find(id, policy)
  if (job) return job
  throw new GatewayError('not_found', 'There is no such job.', { param: 'id' })
}

export const jobRoutes: Endpoint[] = [submit, list, read, cancel]
