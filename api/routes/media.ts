import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { answerHeaders, decimal } from '../../shared/chat/report.ts'
import type { Job } from '../../shared/jobs/jobs.ts'
import { listJobs } from '../../shared/jobs/retention.ts'
import type { Known } from '../../shared/keys/policies.ts'
import { type QueuedKind, queuedKinds } from '../../shared/kinds/index.ts'
import { cancel } from '../../shared/media/cancel.ts'
import { deleteMediaJob } from '../../shared/media/delete.ts'
import { type Output, presentJob, storedResults } from '../../shared/media/present.ts'
import { queuedTargets, submitJob } from '../../shared/media/submit.ts'
import type { Services } from '../../shared/services.ts'
import { generationHeaders } from '../answer-headers.ts'
import { page } from '../answers.ts'
import { type Context, type Endpoint, endpoint, type Form, type Validated } from '../endpoint.ts'
import { deletedJob, jobAnswer, meshAnswer } from '../media-answers.ts'
import { mediaTexts } from '../media-texts.ts'
import { addressesOf, typed, withObject } from '../middleware/form.ts'
import { admitFree } from '../middleware/key.ts'
import { rangeHeader, sendStored, storedAnswers } from '../middleware/stored.ts'
import { modelList } from './model-list.ts'
import { pageOf, paging } from './paging.ts'
import { preferHeader, waited, waitOf } from './wait.ts'

const submitErrors = [
  'url_not_allowed',
  'unsupported_capability',
  'file_too_large',
  'insufficient_credits',
  'monthly_spend_cap_reached',
  'model_not_allowed',
  'model_not_found',
  'quota_exceeded',
  'no_provider_available',
] as const

/** The routes of one kind of slow work, from its row. */
function routesOf(kind: QueuedKind): Endpoint[] {
  const row = queuedKinds[kind]
  const { tag, name, noun, description, example } = mediaTexts[kind]
  const answer = kind === 'mesh' ? meshAnswer : jobAnswer
  const errors = [
    ...submitErrors,
    ...(kind === 'face_swap' || kind === 'avatar' ? (['consent_required'] as const) : []),
  ]
  return [
    endpoint({
      method: 'post',
      path: row.path,
      operationId: `create${name}`,
      tag,
      summary: `Create ${noun}`,
      description,
      access: { scope: '*' },
      body: row.request as z.ZodType<{ model?: string }>,
      example,
      ...(kind === 'video' && { form: openAiForm }),
      headers: [preferHeader],
      answers: {
        202: { description: 'The job.', schema: answer, headers: [...generationHeaders, 'preference-applied'] },
      },
      errors,
      handle: request => submitted(kind, request),
    }),
    modelList({
      path: modelsPath(kind),
      operationId: `list${name}Models`,
      summary: `List ${noun.replace(/^an? /, '')} models`,
      tag,
      serves: model => model.type === row.type,
      targets: (services, model, environment) => queuedTargets(services, kind, model, environment),
      fields: row.listed,
    }),
    listOf(kind, answer),
    deletionOf(kind),
    endpoint({
      method: 'get',
      path: `${row.path}/{id}`,
      operationId: `get${name}`,
      tag,
      summary: `Retrieve ${noun}`,
      access: { scope: '*' },
      headers: [preferHeader],
      answers: { 200: { description: 'The job as it is now.', schema: answer, headers: ['preference-applied'] } },
      errors: ['not_found'],
      async handle({ services, known, params, ctx }) {
        ctx.set(await admitFree(services, known))
        const seconds = waitOf(ctx)
        const job = await find(services, known, kind, params.id!)
        // OpenAI's SDKs wait so long between two looks.
        ctx.set('openai-poll-after-ms', String(pollAfterMs))
        return presentJob(services, await over(services, job, seconds, ctx))
      },
    }),
    endpoint({
      method: 'post',
      path: `${row.path}/{id}/cancel`,
      operationId: `cancel${name}`,
      tag,
      summary: `Cancel ${noun}`,
      description: 'Refunded in full before the provider has begun. 409 once the job is over.',
      access: { scope: '*' },
      answers: { 200: { description: 'The cancelled job.', schema: answer } },
      errors: ['not_found', 'not_cancellable'],
      async handle({ services, known, params, ctx }) {
        ctx.set(await admitFree(services, known))
        const job = await find(services, known, kind, params.id!)
        return presentJob(services, await cancel(services, job.id))
      },
    }),
  ]
}

/** The list of a kind's jobs. */
function listOf(kind: QueuedKind, answer: z.ZodType): Endpoint {
  const { path } = queuedKinds[kind]
  const { tag, name, noun } = mediaTexts[kind]
  const names = pluralOf(name)
  return endpoint({
    method: 'get',
    path,
    operationId: `list${names}`,
    tag,
    summary: `List ${pluralOf(noun.replace(/^an? /, ''))}`,
    description: 'Test keys see the jobs of test keys, live keys those of live ones.',
    access: { scope: '*' },
    query: z.strictObject(paging),
    answers: { 200: { description: 'A page of jobs.', schema: page(answer, `${name}List`) } },
    errors: ['not_found'],
    async handle({ services, known, query, ctx }) {
      ctx.set(await admitFree(services, known))
      const present = (rows: Job[]) => Promise.all(rows.map(job => presentJob(services, job)))
      return pageOf(query, asked => listJobs(services.db, known.policy, kind, asked), present)
    },
  })
}

/** "Meshes", "videos". */
function pluralOf(name: string): string {
  return /(?:s|sh)$/.test(name) ? `${name}es` : `${name}s`
}

/** The deletion of a job. */
function deletionOf(kind: QueuedKind): Endpoint {
  const { path } = queuedKinds[kind]
  const { tag, name, noun } = mediaTexts[kind]
  return endpoint({
    method: 'delete',
    path: `${path}/{id}`,
    operationId: `delete${name}`,
    tag,
    summary: `Delete ${noun}`,
    description:
      'Its prompt, metadata and results are gone; what it cost stays. 409 while it is not over: cancel it first.',
    access: { scope: '*' },
    answers: { 200: { description: 'The job is deleted.', schema: deletedJob } },
    errors: ['not_found', 'not_deletable'],
    async handle({ services, known, params, ctx }) {
      ctx.set(await admitFree(services, known))
      const job = await find(services, known, kind, params.id!)
      await deleteMediaJob(services, job)
      const { object } = queuedKinds[job.kind as QueuedKind]
      return { id: job.id, object: object.replace(/job$/, 'deleted'), deleted: true }
    },
  })
}

const pollAfterMs = 1_000

/** OpenAI's multipart form of the same request; its file is the first frame. */
const openAiForm: Form = {
  files: [{ name: 'input_reference', required: false, description: 'The first frame.' }],
  names: { start_image_url: 'input_reference' },
  example: {
    model: 'veo-3.1-fast',
    prompt: 'The camera circles the subject',
    seconds: '4',
    input_reference: 'first-frame.png',
  },
  async toBody(fields, uploads, services) {
    const [frame] = await addressesOf(services, uploads, 'input_reference')
    const values = withObject(typed(fields, { numbers: ['seed'], flags: ['audio'] }), 'input_reference')
    return { ...values, ...(frame && { start_image_url: frame }) }
  },
}

/** Avatars' videos have their models beside them, not below. */
function modelsPath(kind: QueuedKind): string {
  return kind === 'avatar' ? '/v1/avatars/models' : `${queuedKinds[kind].path}/models`
}

/** Takes a job on and answers with it, with the headers of every response that used a model. */
async function submitted(
  kind: QueuedKind,
  { services, known, body, requestId, keep, ctx }: Validated<{ model?: string }, unknown>,
): Promise<object> {
  const seconds = waitOf(ctx)
  const { job } = await submitJob(services, known, kind, body, requestId, async (tx, { job, ticket, target }) => {
    const { mode } = known.policy
    ctx.set(answerHeaders({ id: job.id, target, mode, ticket, attempts: 0, test: job.environment === 'test' }))
    if (job.costNano !== null) ctx.set('x-gateway-cost-usd', decimal(Number(job.costNano)))
    await keep(tx, await presentJob(services, job))
  })
  return presentJob(services, await over(services, job, seconds, ctx))
}

function over(services: Services, job: Job, seconds: number, ctx: Context): Promise<Job> {
  return waited(services, job, seconds, () => services.jobs.read(job.id), ctx)
}

/** An organisation's job. Any route of `job_…` ids finds any of them; meshes are found by their own. Throws 404. */
export async function find(services: Services, known: Known, kind: QueuedKind, id: string): Promise<Job> {
  const job = id.startsWith(`${queuedKinds[kind].idPrefix}_`) ? await services.jobs.find(id, known.policy) : null
  if (job) return job
  throw new GatewayError('not_found', 'There is no such job.', { param: 'id' })
}

const videoContent = endpoint({
  method: 'get',
  path: '/v1/videos/{id}/content',
  operationId: 'getVideoContent',
  tag: 'Video',
  summary: 'Retrieve the content of a video',
  description: 'The bytes of the job’s `url`, for clients that ask for them with their key.',
  access: { scope: '*' },
  query: z.strictObject({
    variant: z
      .enum(['video', 'thumbnail', 'spritesheet'])
      .default('video')
      .describe('The video; a thumbnail or spritesheet only where the provider gave one.'),
  }),
  headers: [rangeHeader],
  answers: storedAnswers,
  errors: ['not_found', 'unsupported_capability'],
  async handle({ services, known, params, query, ctx }) {
    ctx.set(await admitFree(services, known))
    const job = await find(services, known, 'video', params.id!)
    const files = storedResults(services, job)
    const file = query.variant === 'video' ? files[0] : files.find(({ role }) => role === query.variant)
    if (!file && files.length > 0) throw noVariant(query.variant, files)
    if (!file)
      throw new GatewayError('not_found', 'This job has no file: it is not completed, or its results have expired.')
    await sendStored(ctx, services.blobs, { key: file.storageKey, bytes: file.bytes, contentType: file.contentType })
  },
})

function noVariant(variant: string, files: Output[]): GatewayError {
  const there = [...new Set(files.map(({ role }) => role))].join(', ')
  return new GatewayError('unsupported_capability', `This job has no ${variant}. It has: ${there}.`, {
    param: 'variant',
  })
}

export const mediaRoutes: Endpoint[] = [...(Object.keys(queuedKinds) as QueuedKind[]).flatMap(routesOf), videoContent]
