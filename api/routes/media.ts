import type { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { answerHeaders, decimal } from '../../shared/chat/report.ts'
import type { Job } from '../../shared/jobs/jobs.ts'
import type { Known } from '../../shared/keys/policies.ts'
import { type QueuedKind, queuedKinds } from '../../shared/kinds/index.ts'
import { cancel } from '../../shared/media/cancel.ts'
import { presentJob, storedResult } from '../../shared/media/present.ts'
import { queuedTargets, submitJob } from '../../shared/media/submit.ts'
import type { Services } from '../../shared/services.ts'
import { generationHeaders } from '../answer-headers.ts'
import { type Context, type Endpoint, endpoint, type Form } from '../endpoint.ts'
import { jobAnswer, meshAnswer } from '../media-answers.ts'
import { addressesOf, typed } from '../middleware/form.ts'
import { admitFree } from '../middleware/key.ts'
import { rangeHeader, sendStored, storedAnswers } from '../middleware/stored.ts'
import { modelList } from './model-list.ts'
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

/** `name`: of the thing, in the names of calls; `noun`: in summaries. */
type Texts = { tag: string; name: string; noun: string; description: string; example: object }
const texts: Record<QueuedKind, Texts> = {
  video: {
    tag: 'Video',
    name: 'Video',
    noun: 'a video',
    description:
      'Text to video; from a first frame with `start_image_url`; from references; or a motion copied from `input_video_url`. Charged at creation per second, refunded when it fails.',
    example: { model: 'veo-3.1-fast', prompt: 'A lighthouse at dusk, waves below', seconds: 4 },
  },
  lipsync: {
    tag: 'Lip sync',
    name: 'LipSync',
    noun: 'a lip sync',
    description:
      'A still (`image_url`) or a clip (`video_url`) speaks `audio_url`. Charged at creation by the length of the driving media, which the service measures.',
    example: { video_url: 'https://example.com/speaker.mp4', audio_url: 'https://example.com/greeting.wav' },
  },
  face_swap: {
    tag: 'Face swap',
    name: 'FaceSwap',
    noun: 'a face swap',
    description: 'Puts a face into a video. An amount is held, and settled from the provider’s invoice.',
    example: {
      video_url: 'https://example.com/speaker.mp4',
      face_image_url: 'https://example.com/portrait.png',
      source_face_consent: true,
    },
  },
  avatar: {
    tag: 'Talking avatars',
    name: 'AvatarVideo',
    noun: 'an avatar video',
    description:
      'An avatar of the catalog or your own picture says a script or an audio. An amount is held, and settled by the length of the video.',
    example: {
      image_url: 'https://example.com/portrait.png',
      source_face_consent: true,
      audio_url: 'https://example.com/greeting.wav',
    },
  },
  mesh: {
    tag: '3D',
    name: 'Mesh',
    noun: 'a mesh',
    description: 'From text, an image, or several views. A flat price, charged at creation, refunded when it fails.',
    example: { prompt: 'A wooden chest with iron fittings', pbr: true },
  },
}

/** The routes of one kind of slow work, from its row. */
function routesOf(kind: QueuedKind): Endpoint[] {
  const row = queuedKinds[kind]
  const { tag, name, noun, description, example } = texts[kind]
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
      handle: ({ services, known, body, requestId, ctx }) => submitted(services, known, kind, body, requestId, ctx),
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
    return { ...typed(fields, { numbers: ['seed'], flags: ['audio'] }), ...(frame && { start_image_url: frame }) }
  },
}

/** Avatars' videos have their models beside them, not below. */
function modelsPath(kind: QueuedKind): string {
  return kind === 'avatar' ? '/v1/avatars/models' : `${queuedKinds[kind].path}/models`
}

/** Takes a job on and answers with it, with the headers of every response that used a model. */
export async function submitted(
  services: Services,
  known: Known,
  kind: QueuedKind,
  body: { model?: string },
  requestId: string,
  ctx: Context,
): Promise<object> {
  const seconds = waitOf(ctx)
  const { job, ticket, target } = await submitJob(services, known, kind, body, requestId)
  const { mode } = known.policy
  ctx.set(answerHeaders({ id: job.id, target, mode, ticket, attempts: 0, test: job.environment === 'test' }))
  if (job.costNano !== null) ctx.set('x-gateway-cost-usd', decimal(Number(job.costNano)))
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
  headers: [rangeHeader],
  answers: storedAnswers,
  errors: ['not_found'],
  async handle({ services, known, params, ctx }) {
    ctx.set(await admitFree(services, known))
    const job = await find(services, known, 'video', params.id!)
    const file = storedResult(services, job)
    if (!file)
      throw new GatewayError('not_found', 'This job has no file: it is not completed, or its results have expired.')
    await sendStored(ctx, services.blobs, { key: file.storageKey, bytes: file.bytes, contentType: file.contentType })
  },
})

export const mediaRoutes: Endpoint[] = [...(Object.keys(queuedKinds) as QueuedKind[]).flatMap(routesOf), videoContent]
