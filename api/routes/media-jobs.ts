import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { type CallerTimeouts, readTimeouts, timeoutName } from '../../shared/engine/caller-timeouts.ts'
import { answerHeaders, formatUsd, sentAsRequested } from '../../shared/engine/report.ts'
import { cancelJob } from '../../shared/jobs/cancel.ts'
import { deleteMediaJob } from '../../shared/jobs/delete.ts'
import type { JobServices } from '../../shared/jobs/job-services.ts'
import type { Job } from '../../shared/jobs/jobs.ts'
import { type Output, presentJob, storedResults } from '../../shared/jobs/present.ts'
import { queuedTargets, submitJob } from '../../shared/jobs/submit.ts'
import type { ResolvedKey } from '../../shared/keys/policies.ts'
import { type QueuedKind, queuedKinds } from '../../shared/kinds/index.ts'
import { membersWithoutEffect, type OfOpenRouter } from '../../shared/kinds/media.ts'
import { mergeObjectField, parseFields, uploadUrls } from '../body/form.ts'
import { type Context, type Endpoint, endpoint, type Form, type Validated } from '../endpoint.ts'
import { eraseAnswers } from '../idempotency/stored-answer.ts'
import { page } from '../schemas/core.ts'
import { generationHeaders } from '../schemas/headers.ts'
import { deletedJob, jobAnswer, meshAnswer } from '../schemas/jobs.ts'
import { mediaTexts } from '../schemas/media-texts.ts'
import { admissionErrors } from './model-errors.ts'
import { modelList } from './model-list.ts'
import { paging, readPage } from './paging.ts'
import { timeoutHeader } from './request-headers.ts'
import { rangeHeader, sendStoredFile, storedFileAnswers } from './send-stored-file.ts'
import { parseWait, preferHeader, waitForJob } from './wait.ts'

const submitErrors = [
  'url_not_allowed',
  'unsupported_capability',
  'file_too_large',
  ...admissionErrors,
  'quota_exceeded',
  'no_provider_available',
] as const

/** The routes of one kind of slow work, from its row. */
function kindRoutes(kind: QueuedKind): Endpoint[] {
  const row = queuedKinds[kind]
  const { tag, name, noun } = mediaTexts[kind]
  const answer = kind === 'mesh' ? meshAnswer : jobAnswer
  return [
    createRoute(kind, answer),
    modelList({
      path: row.modelsPath,
      operationId: `list${name}Models`,
      summary: `List ${noun.replace(/^an? | job$/g, '')} models`,
      tag,
      serves: model => model.type === row.type,
      targets: (services, model, environment) => queuedTargets(services, kind, model, environment),
      fields: row.listed,
    }),
    listRoute(kind, answer),
    deleteRoute(kind),
    retrieveRoute(kind, answer),
    cancelRoute(kind, answer),
  ]
}

/** The route that creates a job. */
function createRoute(kind: QueuedKind, answer: z.ZodType): Endpoint {
  const row = queuedKinds[kind]
  const { tag, name, noun, description, example } = mediaTexts[kind]
  return endpoint({
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
    headers: [preferHeader, timeoutHeader],
    answers: {
      202: { description: 'The job.', schema: answer, headers: [...generationHeaders, 'preference-applied'] },
    },
    errors: [...submitErrors, ...(kind === 'face_swap' || kind === 'avatar' ? (['consent_required'] as const) : [])],
    handle: request => createJob(kind, request),
  })
}

/** The route that retrieves a job. */
function retrieveRoute(kind: QueuedKind, answer: z.ZodType): Endpoint {
  const { tag, name, noun } = mediaTexts[kind]
  return endpoint({
    method: 'get',
    path: `${queuedKinds[kind].path}/{id}`,
    operationId: `get${name}`,
    tag,
    summary: `Retrieve ${noun}`,
    access: { scope: '*' },
    free: true,
    headers: [preferHeader],
    answers: { 200: { description: 'The job.', schema: answer, headers: ['preference-applied'] } },
    errors: ['not_found'],
    async handle({ services, apiKey, params, ctx }) {
      const seconds = parseWait(ctx)
      const job = await findMediaJob(services, apiKey, kind, params.id!)
      // The poll interval of OpenAI's SDKs.
      ctx.set('openai-poll-after-ms', String(pollAfterMs))
      return presentJob(services, await waitUntilOver(services, job, seconds, ctx))
    },
  })
}

/** The route that cancels a job. */
function cancelRoute(kind: QueuedKind, answer: z.ZodType): Endpoint {
  const { tag, name, noun } = mediaTexts[kind]
  return endpoint({
    method: 'post',
    path: `${queuedKinds[kind].path}/{id}/cancel`,
    operationId: `cancel${name}`,
    tag,
    summary: `Cancel ${noun}`,
    description: 'Fully refunded if the provider has not started. Returns 409 once the job is over.',
    access: { scope: '*' },
    free: true,
    answers: { 200: { description: 'The cancelled job.', schema: answer } },
    errors: ['not_found', 'not_cancellable'],
    async handle({ services, apiKey, params }) {
      const job = await findMediaJob(services, apiKey, kind, params.id!)
      return presentJob(services, await cancelJob(services, job.id))
    },
  })
}

/** The list route of a kind's jobs. */
function listRoute(kind: QueuedKind, answer: z.ZodType): Endpoint {
  const { path } = queuedKinds[kind]
  const { tag, name, noun } = mediaTexts[kind]
  const names = pluralOf(name)
  return endpoint({
    method: 'get',
    path,
    operationId: `list${names}`,
    tag,
    summary: `List ${pluralOf(noun.replace(/^an? /, ''))}`,
    description: 'Test keys see jobs of test keys, live keys those of live keys.',
    access: { scope: '*' },
    free: true,
    query: z.strictObject(paging),
    answers: { 200: { description: 'A page of jobs.', schema: page(answer, `${name}List`) } },
    errors: ['not_found'],
    async handle({ services, apiKey, query }) {
      const present = (rows: Job[]) => Promise.all(rows.map(job => presentJob(services, job)))
      return readPage(query, asked => services.jobs.list(apiKey.policy, kind, asked), present)
    },
  })
}

/** "Meshes", "videos". */
function pluralOf(name: string): string {
  return /(?:s|sh)$/.test(name) ? `${name}es` : `${name}s`
}

/** The delete route of a job. */
function deleteRoute(kind: QueuedKind): Endpoint {
  const { path } = queuedKinds[kind]
  const { tag, name, noun } = mediaTexts[kind]
  return endpoint({
    method: 'delete',
    path: `${path}/{id}`,
    operationId: `delete${name}`,
    tag,
    summary: `Delete ${noun}`,
    description:
      'Deletes its prompt, metadata and results; its cost remains in the log. Returns 409 while the job is not over: cancel it first.',
    access: { scope: '*' },
    free: true,
    answers: { 200: { description: 'The deletion status.', schema: deletedJob } },
    errors: ['not_found', 'not_deletable'],
    async handle({ services, apiKey, params }) {
      const job = await findMediaJob(services, apiKey, kind, params.id!)
      if (job.stage === 'over') await eraseAnswers(services, job.organisationId, job.id)
      await deleteMediaJob(services, job)
      const { object } = queuedKinds[job.kind as QueuedKind]
      return { id: job.id, object: object.replace(/job$/, 'deleted'), deleted: true }
    },
  })
}

const pollAfterMs = 1_000

/** OpenAI's multipart form of the same request; its file is the first frame. */
const openAiForm: Form = {
  files: [{ name: 'input_reference', required: false, description: 'The first frame of the video.' }],
  names: { start_image_url: 'input_reference' },
  example: {
    model: 'veo-3.1-fast',
    prompt: 'The camera circles the subject',
    seconds: '4',
    input_reference: 'first-frame.png',
  },
  async toBody(fields, uploads, services) {
    const [frame] = await uploadUrls(services, uploads, 'input_reference')
    const values = mergeObjectField(parseFields(fields, { numbers: ['seed'], flags: ['audio'] }), 'input_reference')
    return { ...values, ...(frame && { start_image_url: frame }) }
  },
}

/** Creates a job and responds with it, with the headers of every response that used a model. */
async function createJob(
  kind: QueuedKind,
  { services, apiKey, body, origin, keep, ctx }: Validated<{ model?: string } & OfOpenRouter, unknown>,
): Promise<object> {
  const seconds = parseWait(ctx)
  const timeouts = readTimeouts(ctx.get(timeoutName) || undefined, body, services.config.jobDeadlineMs)
  const given = withTimeout(body, timeouts)
  const { job } = await submitJob(services, apiKey, kind, given, origin, async (tx, { job, reservation, target }) => {
    const { mode } = apiKey.policy
    const test = job.environment === 'test'
    const dropped = membersWithoutEffect(body)
    // A job has no tokens to wait for.
    if (timeouts?.firstTokenMs !== undefined) dropped.push('provider.timeout_ms.first_token')
    ctx.set(
      answerHeaders({ id: job.id, target, mode, reservation, attempts: 0, test }, { ...sentAsRequested, dropped }),
    )
    if (job.costNano !== null) ctx.set('x-gateway-cost-usd', formatUsd(Number(job.costNano)))
    await keep(tx, await presentJob(services, job))
  })
  return presentJob(services, await waitUntilOver(services, job, seconds, ctx))
}

/** A request with the timeout of its header. */
function withTimeout<Body extends OfOpenRouter>(body: Body, timeouts: CallerTimeouts | null): Body {
  const { totalMs } = timeouts ?? {}
  return totalMs === undefined ? body : { ...body, provider: { ...body.provider, timeout_ms: totalMs } }
}

function waitUntilOver(services: JobServices, job: Job, seconds: number, ctx: Context): Promise<Job> {
  return waitForJob(services, job, seconds, () => services.jobs.read(job.id), ctx)
}

/**
 * Finds a job of the organisation. Any route of `job_…` ids finds jobs of all kinds; meshes have their own ids. Throws
 * 404.
 */
async function findMediaJob(services: JobServices, apiKey: ResolvedKey, kind: QueuedKind, id: string): Promise<Job> {
  const job = id.startsWith(`${queuedKinds[kind].idPrefix}_`) ? await services.jobs.find(id, apiKey.policy) : null
  if (job) return job
  throw new GatewayError('not_found', 'No such job.', { param: 'id' })
}

const videoContent = endpoint({
  method: 'get',
  path: '/v1/videos/{id}/content',
  operationId: 'getVideoContent',
  tag: 'Video',
  summary: 'Retrieve video content',
  description: 'Returns the bytes of the job’s `url`, for clients that authenticate with their key.',
  access: { scope: '*' },
  free: true,
  query: z.strictObject({
    variant: z
      .enum(['video', 'thumbnail', 'spritesheet'])
      .default('video')
      .describe('The video; a thumbnail or spritesheet only if the provider returned one.'),
  }),
  headers: [rangeHeader],
  answers: storedFileAnswers,
  errors: ['not_found', 'unsupported_capability'],
  async handle({ services, apiKey, params, query, ctx }) {
    const job = await findMediaJob(services, apiKey, 'video', params.id!)
    const files = storedResults(services, job)
    const file = query.variant === 'video' ? files[0] : files.find(({ role }) => role === query.variant)
    if (!file && files.length > 0) throw noVariantError(query.variant, files)
    if (!file)
      throw new GatewayError('not_found', 'This job has no file: it is not completed, or its results have expired.')
    await sendStoredFile(ctx, services.blobs, {
      key: file.storageKey,
      bytes: file.bytes,
      contentType: file.contentType,
    })
  },
})

function noVariantError(variant: string, files: Output[]): GatewayError {
  const roles = [...new Set(files.map(({ role }) => role))].join(', ')
  return new GatewayError('unsupported_capability', `This job has no ${variant}. Available: ${roles}.`, {
    param: 'variant',
  })
}

export const mediaJobRoutes: Endpoint[] = [
  ...(Object.keys(queuedKinds) as QueuedKind[]).flatMap(kindRoutes),
  videoContent,
]
