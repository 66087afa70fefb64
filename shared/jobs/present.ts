import { usdFromNano } from '../base/money.ts'
import { dayMs, unixSeconds } from '../base/time.ts'
import { type QueuedKind, queuedKinds } from '../kinds/index.ts'
import { pixelsOf, type VideoInput } from '../kinds/video.ts'
import type { Platform } from '../platform.ts'
import type { WebhookServices } from '../webhooks/webhook-services.ts'
import type { Job } from './jobs.ts'
import type { JobInput } from './submit.ts'

/** A finished file of a job. */
export type Output = {
  role: string
  fileId: string
  storageKey: string
  contentType: string
  bytes: number
  durationS: number | null
}
export type JobResult = { outputs: Output[] }

/** Lifetime of the signed URLs in a response; every response has new ones. */
const urlLifetimeMs = dayMs

/** A job as its GET returns it. `delivery` is its webhook's status, if the caller knows it. */
export async function presentJob(
  services: WebhookServices,
  job: Job,
  delivery?: 'pending' | 'delivered' | 'failed',
): Promise<Record<string, unknown>> {
  const row = queuedKinds[job.kind as QueuedKind]
  const outputs = await presentOutputs(services, job)
  return {
    id: job.id,
    object: row.object,
    polling_url: `${services.config.publicUrl}${row.path}/${job.id}`,
    model: job.model,
    provider: job.provider,
    status: job.status,
    progress: job.progress,
    created_at: unixSeconds(job.createdAt),
    started_at: unixSeconds(job.startedAt),
    completed_at: unixSeconds(job.completedAt),
    expires_at: unixSeconds(job.expiresAt),
    ...(job.kind === 'video' && openAiFields(job)),
    url: outputs[0]?.url ?? null,
    outputs,
    ...(job.kind === 'mesh' && { mesh: outputs.length > 0 ? meshOf(outputs) : null }),
    cost_usd: job.costNano === null ? null : usdFromNano(job.costNano),
    error: job.error,
    metadata: job.metadata,
    webhook: job.webhookUrl && {
      url: job.webhookUrl,
      status: delivery ?? (job.stage === 'over' ? await services.webhooks.statusOf({ jobId: job.id }) : 'pending'),
    },
  }
}

/** The additional fields of OpenAI's video object; null for what is unknown or was dropped with the job's input. */
function openAiFields(job: Job): Record<string, string | null> {
  const {
    prompt = null,
    seconds,
    resolution = null,
    aspectRatio = null,
  }: Partial<VideoInput> = (job.input as Partial<JobInput>).input ?? {}
  const size = pixelsOf(resolution, aspectRatio)
  return { prompt, seconds: seconds === undefined ? null : String(seconds), size, remixed_from_video_id: null }
}

/** The files of a completed job, the main one first; empty before completion and after they expired. */
export function storedResults({ clock }: Platform, { result, expiresAt }: Pick<Job, 'result' | 'expiresAt'>): Output[] {
  if (!result || (expiresAt && expiresAt.getTime() <= clock.now())) return []
  return (result as unknown as JobResult).outputs
}

type PublicOutput = { type: string; url: string; content_type: string; bytes: number; duration_s: number | null }

async function presentOutputs({ blobs, clock }: Platform, { result, expiresAt }: Job): Promise<PublicOutput[]> {
  const nowMs = clock.now()
  const untilMs = Math.min(nowMs + urlLifetimeMs, expiresAt?.getTime() ?? Number.POSITIVE_INFINITY)
  if (!result || untilMs <= nowMs) return []
  const { outputs } = result as unknown as JobResult
  return Promise.all(
    outputs.map(async file => ({
      type: file.role,
      url: await blobs.signedUrl({ key: file.storageKey, contentType: file.contentType }, untilMs),
      content_type: file.contentType,
      bytes: file.bytes,
      duration_s: file.durationS,
    })),
  )
}

const formats = ['glb', 'fbx', 'obj', 'mtl', 'usdz'] as const

function meshOf(outputs: PublicOutput[]): Record<string, unknown> {
  const found = formats.flatMap(format => outputs.filter(({ type }) => type === format).map(({ url }) => [format, url]))
  const textures = outputs.filter(({ type }) => type === 'texture').map(({ url }) => url)
  return { ...Object.fromEntries(found), textures }
}
