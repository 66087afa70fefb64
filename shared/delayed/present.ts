import { text } from 'node:stream/consumers'
import { usdFromNano } from '../base/money.ts'
import { hourMs, unixSeconds } from '../base/time.ts'
import type { StoredFile } from '../files/files.ts'
import type { Platform } from '../platform.ts'
import type { WebhookServices } from '../webhooks/webhook-services.ts'
import type { DelayedJob } from './delayed-row.ts'

type Delivery = 'pending' | 'delivered' | 'failed'

/** A delayed job as its GET returns it. `delivery` is its webhook's status, if the caller knows it. */
export async function presentDelayed(services: WebhookServices, job: DelayedJob, delivery?: Delivery) {
  return { ...(await presentListed(services, job, delivery)), result: await resultOf(services, job) }
}

/** The same without its result, which may be long. */
export async function presentListed({ webhooks }: WebhookServices, job: DelayedJob, delivery?: Delivery) {
  return {
    id: job.id,
    object: 'job',
    status: job.status,
    completion_window: `${Math.round((job.deadlineAt.getTime() - job.createdAt.getTime()) / hourMs)}h`,
    created_at: unixSeconds(job.createdAt),
    expires_at: unixSeconds(job.expiresAt ?? job.deadlineAt),
    started_at: unixSeconds(job.startedAt),
    completed_at: unixSeconds(job.completedAt),
    result: null,
    error: job.error,
    cost_usd: job.costNano === null ? null : usdFromNano(job.costNano),
    metadata: job.metadata,
    webhook: job.webhookUrl && {
      url: job.webhookUrl,
      status: delivery ?? (job.stage === 'over' ? await webhooks.statusOf({ jobId: job.id }) : 'pending'),
    },
  }
}

/** How long the answer of a job is; 0 without one. */
export function resultBytes({ result }: DelayedJob): number {
  return (result as StoredFile | null)?.bytes ?? 0
}

/** The answer of a completed job; null once it has expired. */
async function resultOf({ blobs, clock }: Platform, { result, expiresAt }: DelayedJob): Promise<object | null> {
  if (!result || (expiresAt && expiresAt.getTime() <= clock.now())) return null
  const blob = await blobs.read((result as StoredFile).storageKey)
  return blob && JSON.parse(await text(blob.stream))
}
