import { presentDelayed, presentListed } from '../../../shared/async/present.ts'
import { usdFromNano } from '../../../shared/base/money.ts'
import type { Prisma } from '../../../shared/generated/prisma/client.ts'
import type { StoredFile } from '../../../shared/jobs/files.ts'
import { delayedKind, type Job } from '../../../shared/jobs/jobs.ts'
import { type QueuedKind, queuedKinds } from '../../../shared/kinds/index.ts'
import type { References } from '../../../shared/kinds/media.ts'
import { presentJob } from '../../../shared/media/present.ts'
import type { JobInput } from '../../../shared/media/submit.ts'
import type { Services } from '../../../shared/services.ts'
import type { JobDetail, JobKind, JobOutput, JobReference, JobRow } from '../wire/jobs.ts'
import { addressOf, deliveryOf, forPage, type Keys, keysOf, mayCancel, type Viewer, workKey } from './work.ts'

const mostInputCharacters = 4_000
/** A longer answer of a delayed job is read from its file. */
const mostResultBytes = 256 * 1024

/** What a line of the list needs: neither requests nor results, which may be long. */
export const listed = {
  ...{ id: true, kind: true, status: true, stage: true, progress: true, model: true, provider: true },
  ...{ environment: true, keyId: true, createdAt: true, startedAt: true, completedAt: true },
  ...{ costNano: true, holdNano: true, error: true },
} as const satisfies Prisma.JobSelect
type Listed = Prisma.JobGetPayload<{ select: typeof listed }>

/** A job as a line of the list. */
export function presentRow(job: Listed, viewer: Viewer, keys: Keys): JobRow {
  const isOver = job.stage === 'over'
  return {
    id: job.id,
    kind: job.kind as JobKind,
    status: job.status,
    progress: job.progress,
    model: job.model,
    provider: job.provider,
    environment: job.environment,
    key: workKey(keys, job),
    created_at: job.createdAt.toISOString(),
    started_at: job.startedAt?.toISOString() ?? null,
    completed_at: job.completedAt?.toISOString() ?? null,
    cost_usd: job.costNano === null ? null : usdFromNano(job.costNano),
    held_usd: isOver || job.costNano !== null ? 0 : usdFromNano(job.holdNano),
    error: job.error as JobRow['error'],
    may_cancel: !isOver && mayCancel(viewer, job, keys),
  }
}

/** A job in full. It is the viewer's organisation's, as the caller made sure. */
export async function presentDetail(services: Services, viewer: Viewer, id: string): Promise<JobDetail> {
  const { db } = services
  const job = await db.job.findUniqueOrThrow({ where: { id }, omit: { input: true } })
  const [keys, delivery] = await Promise.all([
    keysOf(services, [job]),
    deliveryOf(services, job.organisationId, { jobId: id }),
  ])
  return {
    ...presentRow(job, viewer, keys),
    request_id: job.requestId,
    attempts: job.attempts,
    deadline_at: job.deadlineAt.toISOString(),
    expires_at: job.expiresAt?.toISOString() ?? null,
    webhook_url: job.webhookUrl,
    delivery,
    ...(await (job.kind === delayedKind ? delayedParts(services, job) : mediaParts(services, job))),
  }
}

type WithoutInput = Omit<Job, 'input'>
type Parts = Pick<JobDetail, 'inputs' | 'references' | 'request' | 'outputs' | 'result_url' | 'object'>

async function mediaParts(services: Services, job: WithoutInput): Promise<Parts> {
  const { input: asked } = await services.db.job.findUniqueOrThrow({ where: { id: job.id }, select: { input: true } })
  // Dropped some time after the end.
  const { input = {}, references = {} } = asked as Partial<JobInput>
  const object = await presentJob(services, { ...job, input: asked })
  const { publicUrl } = services.config
  return {
    inputs: inputsOf(job.kind as QueuedKind, input),
    references: await referencesOf(services, job.organisationId, references),
    request: null,
    outputs: (object.outputs as JobOutput[]).map(file => ({ ...file, url: forPage(publicUrl, file.url) })),
    result_url: null,
    object,
  }
}

/** What was asked for, under the names that the API has for it; what was made of it for a provider is left out. */
function inputsOf(kind: QueuedKind, input: object): { field: string; value: string }[] {
  const { shape } = queuedKinds[kind].request
  return Object.entries(input).flatMap(([name, value]) => {
    const field = name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
    if (value === null || value === undefined || !Object.hasOwn(shape, field)) return []
    const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
    return { field, value: text.length > mostInputCharacters ? `${text.slice(0, mostInputCharacters)}…` : text }
  })
}

async function referencesOf(
  services: Services,
  organisationId: string,
  references: References,
): Promise<JobReference[]> {
  const storageKey = { in: Object.values(references).map(({ storageKey }) => storageKey) }
  const expiresAt = { gt: new Date(services.clock.now()) }
  const where = { id: { in: storageKey.in.map(fileIdOf) }, organisationId, storageKey, expiresAt }
  const kept = await services.db.file.findMany({ where, select: { storageKey: true } })
  const keptKeys = new Set(kept.map(file => file.storageKey))
  return Promise.all(
    Object.entries(references).map(async ([field, { storageKey: key, filename, contentType, bytes, durationS }]) => ({
      field,
      filename,
      content_type: contentType,
      bytes,
      duration_s: durationS,
      url: keptKeys.has(key) ? await addressOf(services, { key, contentType, filename }) : null,
    })),
  )
}

/** Files are found by their ids, which their places in storage end with. */
function fileIdOf(storageKey: string): string {
  return storageKey.slice(storageKey.lastIndexOf('/') + 1).replace(/\.\w+$/, '')
}

async function delayedParts(services: Services, job: WithoutInput): Promise<Parts> {
  const file = job.result as StoredFile | null
  const isKept = file !== null && (job.expiresAt === null || job.expiresAt.getTime() > services.clock.now())
  const isShort = file !== null && file.bytes <= mostResultBytes
  return {
    inputs: [],
    references: [],
    request: await requestOf(services, job.id),
    outputs: [],
    result_url: isKept ? await addressOf(services, { key: file.storageKey, contentType: file.contentType }) : null,
    object: isShort ? await presentDelayed(services, job) : await presentListed(services, job),
  }
}

/** Cut by Postgres: it may be 10 MiB long. */
async function requestOf({ db }: Services, id: string): Promise<string | null> {
  const [row] = await db.$queryRaw<{ text: string | null }[]>`
    SELECT left(input->>'body', ${mostInputCharacters}) AS text FROM jobs WHERE id = ${id}`
  return row?.text ?? null
}
