import { z } from 'zod'

/** The shapes of what the routes of slow media answer. */

/** Where the webhook of a job stands. */
export const jobWebhook = z
  .strictObject({
    url: z.string(),
    status: z
      .enum(['pending', 'delivered', 'failed'])
      .nullable()
      .describe('Null when nothing is known any more: 30 days after the delivery was over.'),
  })
  .meta({ id: 'WebhookState' })

export const avatar = z
  .strictObject({
    id: z.string().describe('What to send as `avatar_id`.'),
    object: z.literal('avatar'),
    name: z.string(),
    type: z.string(),
    gender: z.string().nullable(),
    preview_image_url: z.string().nullable(),
    preview_video_url: z.string().nullable(),
    default_voice_id: z.string().nullable(),
  })
  .meta({ id: 'Avatar' })

export const voice = z
  .strictObject({
    id: z.string().describe('What to send as `voice_id`.'),
    object: z.literal('voice'),
    name: z.string(),
    language: z.string().nullable(),
    gender: z.string().nullable(),
    preview_audio_url: z.string().nullable(),
  })
  .meta({ id: 'Voice' })

/** A page of a provider's catalog. Its tokens lead forward only. */
export const catalogPage = <T extends z.ZodType>(row: T, id: string) =>
  z
    .strictObject({
      object: z.literal('list'),
      data: z.array(row),
      has_more: z.boolean(),
      next_token: z.string().nullable().describe('Send it as `next_token` for the next page; null on the last.'),
    })
    .meta({ id })

export const jobError = z
  .strictObject({ code: z.string(), message: z.string() })
  .meta({ id: 'JobError', description: 'Why a job failed.' })

const seconds = z.int().nullable().describe('Unix seconds.')
const job = {
  id: z.string(),
  polling_url: z.string().describe('Where the job is retrieved.'),
  model: z.string(),
  provider: z.string().nullable(),
  status: z.enum(['queued', 'in_progress', 'completed', 'failed', 'cancelled', 'expired']),
  progress: z.int().min(0).max(100).describe('In percent.'),
  created_at: seconds,
  started_at: seconds,
  completed_at: seconds,
  expires_at: seconds.describe('When the results are deleted; null until there are some.'),
  prompt: z.string().nullable().optional().describe('Of videos; null once it was dropped.'),
  seconds: z.string().nullable().optional().describe('Of videos: the length asked for, as OpenAI writes it.'),
  size: z.string().nullable().optional().describe('Of videos, in pixels; null where it is the model’s own choice.'),
  remixed_from_video_id: z.null().optional(),
  url: z.string().nullable().describe('The finished file; every answer has a fresh address.'),
  outputs: z.array(
    z
      .strictObject({
        type: z.string().describe('What it is: `video`, `glb`, `texture`, …'),
        url: z.string(),
        content_type: z.string(),
        bytes: z.int(),
        duration_s: z.number().nullable(),
      })
      .meta({ id: 'JobOutput' }),
  ),
  cost_usd: z.number().nullable().describe('USD charged, refunds deducted; null while it is not known.'),
  error: jobError.nullable(),
  metadata: z.record(z.string(), z.string()),
  webhook: jobWebhook.nullable(),
}

export const jobAnswer = z
  .strictObject({ ...job, object: z.enum(['video.job', 'lipsync.job', 'face_swap.job', 'avatar_video.job']) })
  .meta({ id: 'MediaJob' })

export const meshAnswer = z
  .strictObject({
    ...job,
    object: z.literal('mesh.job'),
    mesh: z
      .strictObject({
        glb: z.string().optional(),
        fbx: z.string().optional(),
        obj: z.string().optional(),
        mtl: z.string().optional(),
        usdz: z.string().optional(),
        textures: z.array(z.string()),
      })
      .nullable()
      .describe('Once completed, the formats that the model makes.'),
  })
  .meta({ id: 'MeshJob' })

/** What is answered to the deletion of a job. */
export const deletedJob = z
  .strictObject({
    id: z.string(),
    object: z.string().describe('`video.deleted` and the like.'),
    deleted: z.literal(true),
  })
  .meta({ id: 'DeletedMediaJob' })

/** A kind's own list: ids, and what tells its models apart. */
export const modelSlugs = z
  .strictObject({
    object: z.literal('list'),
    data: z.array(z.looseObject({ id: z.string(), object: z.literal('model') })),
  })
  .meta({ id: 'ModelSlugs' })
