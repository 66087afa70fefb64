import { usdFromNano } from '../base/money.ts'
import { unixSeconds } from '../base/time.ts'
import type { Job } from '../jobs/jobs.ts'
import { type QueuedKind, queuedKinds } from '../kinds/index.ts'
import { pixelsOf, type VideoInput } from '../kinds/video.ts'
import type { Services } from '../services.ts'
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

/** How long an address in an answer works; every answer has fresh ones. */
const addressMs = 24 * 3_600_000

/** A job as its GET returns it (contract §5). `delivery` is where its webhook stands, when the caller knows. */
export async function presentJob(
  services: Services,
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

/** What OpenAI's video object has beside; null for what is not known, or was dropped with the job's input. */
function openAiFields({ input: asked }: Job): Record<string, string | null> {
  const {
    prompt = null,
    seconds,
    resolution = null,
    aspectRatio = null,
  }: Partial<VideoInput> = (asked as Partial<JobInput>).input ?? {}
  const size = pixelsOf(resolution, aspectRatio)
  return { prompt, seconds: seconds === undefined ? null : String(seconds), size, remixed_from_video_id: null }
}

/** The files of a completed job, the main one first; none before that, and once they have expired. */
export function storedResults({ clock }: Services, { result, expiresAt }: Job): Output[] {
  if (!result || (expiresAt && expiresAt.getTime() <= clock.now())) return []
  return (result as unknown as JobResult).outputs
}

type Shown = { type: string; url: string; content_type: string; bytes: number; duration_s: number | null }

async function presentOutputs({ blobs, clock }: Services, { result, expiresAt }: Job): Promise<Shown[]> {
  const nowMs = clock.now()
  const untilMs = Math.min(nowMs + addressMs, expiresAt?.getTime() ?? Number.POSITIVE_INFINITY)
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

function meshOf(outputs: Shown[]): Record<string, unknown> {
  const found = formats.flatMap(format => outputs.filter(({ type }) => type === format).map(({ url }) => [format, url]))
  const textures = outputs.filter(({ type }) => type === 'texture').map(({ url }) => url)
  return { ...Object.fromEntries(found), textures }
}
