import { z } from 'zod'

/** Response schemas of media jobs. */

/** The delivery state of a job's webhook. */
export const jobWebhook = z
  .strictObject({
    url: z.string(),
    status: z
      .enum(['pending', 'delivered', 'failed'])
      .nullable()
      .describe('Null if the delivery record was deleted: 30 days after the delivery ended.'),
  })
  .meta({ id: 'WebhookState' })

export const avatar = z
  .strictObject({
    id: z.string().describe('The value to send as `avatar_id`.'),
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
    id: z.string().describe('The value to send as `voice_id`.'),
    object: z.literal('voice'),
    name: z.string(),
    language: z.string().nullable(),
    gender: z.string().nullable(),
    preview_audio_url: z.string().nullable(),
  })
  .meta({ id: 'Voice' })

/** A page of a provider's catalog. Its cursors only move forward. */
export const catalogPage = <T extends z.ZodType>(row: T, id: string) =>
  z
    .strictObject({
      object: z.literal('list'),
      data: z.array(row),
      has_more: z.boolean(),
      next_token: z
        .string()
        .nullable()
        .describe('The cursor of the next page, for `next_token`; null on the last page.'),
    })
    .meta({ id })

export const jobError = z
  .strictObject({ code: z.string(), message: z.string() })
  .meta({ id: 'JobError', description: 'Why the job failed.' })

const seconds = z.int().nullable().describe('Unix seconds.')
const job = {
  id: z.string(),
  polling_url: z.string().describe('The URL to retrieve the job from.'),
  model: z.string(),
  provider: z.string().nullable(),
  status: z.enum(['queued', 'in_progress', 'completed', 'failed', 'cancelled', 'expired']),
  progress: z.int().min(0).max(100).describe('In percent.'),
  created_at: seconds,
  started_at: seconds,
  completed_at: seconds,
  expires_at: seconds.describe('When the results are deleted; null until there are results.'),
  prompt: z.string().nullable().optional().describe('Videos only; null once it was deleted.'),
  seconds: z.string().nullable().optional().describe('Videos only: the requested length, in OpenAI’s format.'),
  size: z.string().nullable().optional().describe('Videos only, in pixels; null if the model chooses.'),
  remixed_from_video_id: z.null().optional(),
  url: z.string().nullable().describe('The URL of the finished file, renewed with every response.'),
  outputs: z.array(
    z
      .strictObject({
        type: z.string().describe('The type of file: `video`, `glb`, `texture`, …'),
        url: z.string(),
        content_type: z.string(),
        bytes: z.int(),
        duration_s: z.number().nullable(),
      })
      .meta({ id: 'JobOutput' }),
  ),
  cost_usd: z.number().nullable().describe('USD charged after refunds; null until it is known.'),
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
      .describe('Once completed: the formats that the model produced.'),
  })
  .meta({ id: 'MeshJob' })

/** The response to the deletion of a job. */
export const deletedJob = z
  .strictObject({
    id: z.string(),
    object: z.string().describe('`video.deleted` or the equivalent of another kind.'),
    deleted: z.literal(true),
  })
  .meta({ id: 'DeletedMediaJob' })

/** A kind's own list: ids, and the fields that distinguish its models. */
export const modelSlugs = z
  .strictObject({
    object: z.literal('list'),
    data: z.array(z.looseObject({ id: z.string(), object: z.literal('model') })),
  })
  .meta({ id: 'ModelSlugs' })
