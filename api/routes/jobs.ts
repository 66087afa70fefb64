import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { cancelDelayed } from '../../shared/delayed/cancel.ts'
import type { DelayedJob } from '../../shared/delayed/delayed-row.ts'
import type { DelayedServices } from '../../shared/delayed/delayed-services.ts'
import { presentDelayed, presentListed, resultBytes } from '../../shared/delayed/present.ts'
import { delayedKindOf, delayedRequest, submissionOf, submitDelayed } from '../../shared/delayed/submit.ts'
import { answerHeaders } from '../../shared/engine/report.ts'
import type { ResponseWriter } from '../../shared/engine/response-writer.ts'
import type { ResolvedKey } from '../../shared/keys/policies.ts'
import type { WebhookServices } from '../../shared/webhooks/webhook-services.ts'
import { type Context, type Endpoint, endpoint } from '../endpoint.ts'
import { page } from '../schemas/core.ts'
import { delayedJob } from '../schemas/delayed.ts'
import { generationHeaders } from '../schemas/headers.ts'
import { admissionErrors } from './model-errors.ts'
import { paging, readPage } from './paging.ts'
import { parseWait, preferHeader, waitForJob } from './wait.ts'

const shared = { tag: 'Delayed jobs', access: { scope: '*' } } as const

const submit = endpoint({
  ...shared,
  method: 'post',
  path: '/v1/jobs',
  operationId: 'createJob',
  summary: 'Create a delayed job',
  description:
    'Completes within the window at a lower price than a direct request. The maximum cost is held, and the actual cost charged at the end. Jobs that fail or expire are not charged.',
  body: delayedRequest,
  innerPresets: delayedKindOf,
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
    ...admissionErrors,
    'quota_exceeded',
    'no_provider_available',
  ],
  async handle(request) {
    const { services, apiKey, body, origin, keep, ctx, client } = request
    const seconds = parseWait(ctx)
    const { job } = await submitDelayed(
      services,
      apiKey,
      submissionOf(services, body),
      origin,
      async (tx, { job, target, mode, reservation }) => {
        ctx.set(answerHeaders({ id: job.id, target, mode, reservation, attempts: 0, test: job.environment === 'test' }))
        await keep(tx, await presentDelayed(services, job))
      },
    )
    const current = await waitUntilOver(services, job, seconds, ctx)
    // Without room for its result, as it was created: an error would make the client create another one.
    return presentDelayed(services, hasRoomFor(client, current) ? current : job)
  },
})

const list = endpoint({
  ...shared,
  method: 'get',
  path: '/v1/jobs',
  operationId: 'listJobs',
  summary: 'List delayed jobs',
  description: 'Lists jobs without their results. Test keys see jobs of test keys, live keys those of live keys.',
  query: z.strictObject(paging),
  free: true,
  answers: { 200: { description: 'A page of jobs.', schema: page(delayedJob, 'AsyncJobList') } },
  errors: ['not_found'],
  async handle({ services, apiKey, query }) {
    const present = (rows: DelayedJob[]) => Promise.all(rows.map(job => presentListed(services, job)))
    return readPage(query, page => services.delayedJobs.list(apiKey.policy, page), present)
  },
})

const read = endpoint({
  ...shared,
  method: 'get',
  path: '/v1/jobs/{id}',
  operationId: 'getJob',
  summary: 'Retrieve a delayed job',
  headers: [preferHeader],
  free: true,
  answers: {
    200: { description: 'The job, with its result.', schema: delayedJob, headers: ['preference-applied'] },
  },
  errors: ['not_found'],
  async handle(request) {
    const { services, apiKey, params, ctx } = request
    const seconds = parseWait(ctx)
    const job = await find(services, apiKey, params.id!)
    return presentWhole(request, await waitUntilOver(services, job, seconds, ctx))
  },
})

const cancel = endpoint({
  ...shared,
  method: 'post',
  path: '/v1/jobs/{id}/cancel',
  operationId: 'cancelJob',
  summary: 'Cancel a delayed job',
  description:
    'A job that is cancelled during its call is charged what the call has used; any other is not charged. Returns 409 once the job is over.',
  free: true,
  answers: { 200: { description: 'The cancelled job.', schema: delayedJob } },
  errors: ['not_found', 'not_cancellable'],
  async handle({ services, apiKey, params }) {
    const { id } = await find(services, apiKey, params.id!)
    return presentDelayed(services, await cancelDelayed(services, id))
  },
})

/** A job with its result, which counts towards the memory of buffered answers. Throws 429, 503. */
function presentWhole({ services, client }: { services: WebhookServices; client: ResponseWriter }, job: DelayedJob) {
  client.collect(resultBytes(job))
  return presentDelayed(services, job)
}

function hasRoomFor(client: ResponseWriter, job: DelayedJob): boolean {
  try {
    client.collect(resultBytes(job))
    return true
  } catch {
    return false
  }
}

function waitUntilOver(services: DelayedServices, job: DelayedJob, seconds: number, ctx: Context): Promise<DelayedJob> {
  return waitForJob(services, job, seconds, () => services.delayedJobs.read(job.id), ctx)
}

/** Finds a job of the key's organisation. Throws 404. */
async function find({ delayedJobs }: DelayedServices, { policy }: ResolvedKey, id: string): Promise<DelayedJob> {
  const job = await delayedJobs.find(id, policy)
  if (job) return job
  throw new GatewayError('not_found', 'No such job.', { param: 'id' })
}

export const jobRoutes: Endpoint[] = [submit, list, read, cancel]
