import { usdFromNano } from '../../../shared/base/money.ts'
import { hasEnded } from '../../../shared/delayed/delayed-row.ts'
import { presentDelayed, presentListed } from '../../../shared/delayed/present.ts'
import type { StoredFile } from '../../../shared/files/files.ts'
import type { Prisma } from '../../../shared/generated/prisma/client.ts'
import { delayedKind, type Job } from '../../../shared/jobs/jobs.ts'
import { presentJob, storedResults } from '../../../shared/jobs/present.ts'
import type { JobInput } from '../../../shared/jobs/submit.ts'
import { type QueuedKind, queuedKinds } from '../../../shared/kinds/index.ts'
import type { References } from '../../../shared/kinds/media.ts'
import type { Platform } from '../../../shared/platform.ts'
import { readJobAttempts } from '../../../shared/wallet/jobs.ts'
import type { WebhookServices } from '../../../shared/webhooks/webhook-services.ts'
import { type Keys, readDelivery, readWorkKeys } from '../queries/work.ts'
import type { JobDetail, JobKind, JobOutput, JobReference, JobRow } from '../wire/jobs.ts'
import { presentCall } from './present-request.ts'
import { fileUrlForPage, mayCancel, presentWorkKey, rebaseUrl, type Viewer } from './work.ts'

const maxInputCharacters = 4_000
/** Longer results of a delayed job are read from its file. */
const maxResultBytes = 256 * 1024

/** Larger pictures are not loaded by a list. */
const maxThumbnailBytes = 2_000_000

/** The columns of a list row: without requests, which may be long. */
export const jobRowColumns = {
  id: true,
  kind: true,
  status: true,
  stage: true,
  progress: true,
  model: true,
  provider: true,
  environment: true,
  keyId: true,
  createdAt: true,
  startedAt: true,
  completedAt: true,
  cancelRequestedAt: true,
  costNano: true,
  holdNano: true,
  error: true,
  result: true,
  expiresAt: true,
} as const satisfies Prisma.JobSelect
type Listed = Prisma.JobGetPayload<{ select: typeof jobRowColumns }>

/** A job as a row of the list. */
export async function presentJobRow(services: Platform, job: Listed, viewer: Viewer, keys: Keys): Promise<JobRow> {
  const isOver = job.stage === 'over'
  return {
    id: job.id,
    kind: job.kind as JobKind,
    status: job.status,
    progress: job.progress,
    model: job.model,
    provider: job.provider,
    environment: job.environment,
    key: presentWorkKey(keys, job),
    created_at: job.createdAt.toISOString(),
    started_at: job.startedAt?.toISOString() ?? null,
    completed_at: job.completedAt?.toISOString() ?? null,
    cost_usd: job.costNano === null ? null : usdFromNano(job.costNano),
    held_usd: isOver || job.costNano !== null ? 0 : usdFromNano(job.holdNano),
    error: job.error as JobRow['error'],
    may_cancel: !hasEnded(job) && mayCancel(viewer, job, keys),
    thumbnail: await presentThumbnail(services, job),
  }
}

/** What a list shows of the result: a picture of it, or the video itself, of which a page reads the first frame. */
async function presentThumbnail(services: Platform, job: Listed): Promise<JobRow['thumbnail']> {
  if (job.kind === delayedKind) return null
  const outputs = storedResults(services, job)
  const file = outputs.find(({ role }) => role === 'thumbnail') ?? outputs[0]
  const type = (['image', 'video'] as const).find(name => file?.contentType.startsWith(`${name}/`))
  if (!file || !type || (type === 'image' && file.bytes > maxThumbnailBytes)) return null
  return { type, url: await fileUrlForPage(services, { key: file.storageKey, contentType: file.contentType }) }
}

/** A job with all details. The caller must have checked that it belongs to the viewer's organisation. */
export async function presentJobDetail(services: WebhookServices, viewer: Viewer, id: string): Promise<JobDetail> {
  const { db } = services
  const job = await db.job.findUniqueOrThrow({ where: { id }, omit: { input: true } })
  const [keys, delivery, calls] = await Promise.all([
    readWorkKeys(services, [job]),
    readDelivery(services, job.organisationId, { jobId: id }),
    readJobAttempts(db, job),
  ])
  return {
    ...(await presentJobRow(services, job, viewer, keys)),
    request_id: job.requestId,
    attempts: job.attempts,
    calls: calls.map(presentCall),
    next_attempt_at: nextAttemptAt(services, job)?.toISOString() ?? null,
    deadline_at: job.deadlineAt.toISOString(),
    expires_at: job.expiresAt?.toISOString() ?? null,
    webhook_url: job.webhookUrl,
    delivery,
    ...(await (job.kind === delayedKind ? presentDelayedParts(services, job) : presentMediaParts(services, job))),
  }
}

/** When a job is tried again that waits after a failed attempt. */
function nextAttemptAt({ clock }: Platform, { stage, attempts, claimedUntil }: Omit<Job, 'input'>): Date | null {
  const isPausing = stage === 'waiting' && attempts > 0 && claimedUntil !== null
  return isPausing && claimedUntil.getTime() > clock.now() ? claimedUntil : null
}

type WithoutInput = Omit<Job, 'input'>
type Parts = Pick<JobDetail, 'inputs' | 'references' | 'request' | 'outputs' | 'result_url' | 'object'>

async function presentMediaParts(services: WebhookServices, job: WithoutInput): Promise<Parts> {
  const { input: storedInput } = await services.db.job.findUniqueOrThrow({
    where: { id: job.id },
    select: { input: true },
  })
  // Deleted some time after the end.
  const { input = {}, references = {} } = storedInput as Partial<JobInput>
  const object = await presentJob(services, { ...job, input: storedInput })
  const { publicUrl } = services.config
  return {
    inputs: presentInputs(job.kind as QueuedKind, input),
    references: await presentReferences(services, job.organisationId, references),
    request: null,
    outputs: (object.outputs as JobOutput[]).map(file => ({ ...file, url: rebaseUrl(publicUrl, file.url) })),
    result_url: null,
    object,
  }
}

/** The request under the API's field names, without fields derived for a provider. */
function presentInputs(kind: QueuedKind, input: object): { field: string; value: string }[] {
  const { shape } = queuedKinds[kind].request
  return Object.entries(input).flatMap(([name, value]) => {
    const field = name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
    if (value === null || value === undefined || !Object.hasOwn(shape, field)) return []
    const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
    return { field, value: text.length > maxInputCharacters ? `${text.slice(0, maxInputCharacters)}…` : text }
  })
}

async function presentReferences(
  services: Platform,
  organisationId: string,
  references: References,
): Promise<JobReference[]> {
  const storageKey = { in: Object.values(references).map(({ storageKey }) => storageKey) }
  const expiresAt = { gt: new Date(services.clock.now()) }
  const where = { id: { in: storageKey.in.map(fileIdOf) }, organisationId, storageKey, expiresAt }
  const files = await services.db.file.findMany({ where, select: { storageKey: true } })
  const storedKeys = new Set(files.map(file => file.storageKey))
  return Promise.all(
    Object.entries(references).map(async ([field, { storageKey: key, filename, contentType, bytes, durationS }]) => ({
      field,
      filename,
      content_type: contentType,
      bytes,
      duration_s: durationS,
      url: storedKeys.has(key) ? await fileUrlForPage(services, { key, contentType, filename }) : null,
    })),
  )
}

/** Files are matched by id, which is the suffix of their storage keys. */
function fileIdOf(storageKey: string): string {
  return storageKey.slice(storageKey.lastIndexOf('/') + 1).replace(/\.\w+$/, '')
}

async function presentDelayedParts(services: WebhookServices, job: WithoutInput): Promise<Parts> {
  const file = job.result as StoredFile | null
  const isKept = file !== null && (job.expiresAt === null || job.expiresAt.getTime() > services.clock.now())
  const isShort = file !== null && file.bytes <= maxResultBytes
  return {
    inputs: [],
    references: [],
    request: await readRequestText(services, job.id),
    outputs: [],
    result_url: isKept ? await fileUrlForPage(services, { key: file.storageKey, contentType: file.contentType }) : null,
    object: isShort ? await presentDelayed(services, job) : await presentListed(services, job),
  }
}

/** Truncated by Postgres: it may be 10 MiB long. */
async function readRequestText({ db }: Platform, id: string): Promise<string | null> {
  const [row] = await db.$queryRaw<{ text: string | null }[]>`
    SELECT left(input->>'body', ${maxInputCharacters}) AS text FROM jobs WHERE id = ${id}`
  return row?.text ?? null
}
