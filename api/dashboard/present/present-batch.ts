import { usdFromNano } from '../../../shared/base/money.ts'
import { type Batch, unfinished } from '../../../shared/batches/batches.ts'
import { presentBatch } from '../../../shared/batches/present.ts'
import type { FileServices } from '../../../shared/files/file-services.ts'
import type { WebhookServices } from '../../../shared/webhooks/webhook-services.ts'
import { type Keys, readDelivery, readWorkKeys } from '../queries/work.ts'
import type { BatchDetail, BatchFile, BatchRow } from '../wire/batches.ts'
import { mayCancel, presentWorkKey, type Viewer } from './work.ts'

const iso = (date: Date | null) => date?.toISOString() ?? null

/** A batch as a row of the list. */
export function presentBatchRow(batch: Batch, viewer: Viewer, keys: Keys): BatchRow {
  const { status } = batch
  const isUnfinished = (unfinished as readonly string[]).includes(status)
  return {
    id: batch.id,
    status,
    endpoint: batch.endpoint,
    model: batch.model,
    environment: batch.environment,
    key: presentWorkKey(keys, batch),
    total: batch.total,
    completed: batch.completed,
    failed: batch.failed,
    cost_usd: usdFromNano(batch.costNano),
    created_at: batch.createdAt.toISOString(),
    ended_at: isUnfinished ? null : iso(batch.completedAt ?? batch.failedAt ?? batch.cancelledAt ?? batch.expiredAt),
    may_cancel: isUnfinished && status !== 'cancelling' && mayCancel(viewer, batch, keys),
  }
}

/** A batch with all details. */
export async function presentBatchDetail(
  services: FileServices & WebhookServices,
  viewer: Viewer,
  batch: Batch,
): Promise<BatchDetail> {
  const [keys, delivery, files] = await Promise.all([
    readWorkKeys(services, [batch]),
    readDelivery(services, batch.organisationId, { batchId: batch.id }),
    filesOf(services, batch),
  ])
  return {
    ...presentBatchRow(batch, viewer, keys),
    request_id: batch.requestId,
    provider: batch.provider,
    in_progress_at: iso(batch.inProgressAt),
    finalizing_at: iso(batch.finalizingAt),
    cancelling_at: iso(batch.cancellingAt),
    deadline_at: batch.deadlineAt.toISOString(),
    files,
    faults: (batch.errors ?? []) as BatchDetail['faults'],
    input_tokens: Number(batch.promptTokens),
    output_tokens: Number(batch.completionTokens),
    webhook_url: batch.webhookUrl,
    delivery,
    object: await presentBatch(services, batch, delivery?.status),
  }
}

/** The files of a batch that are not deleted. */
async function filesOf({ files }: FileServices, batch: Batch): Promise<BatchFile[]> {
  const fileIds = [
    ['input', batch.inputFileId],
    ['output', batch.outputFileId],
    ['errors', batch.errorFileId],
  ] as const
  const rows = await Promise.all(
    fileIds.map(async ([file, id]) => {
      const row = id === null ? null : await files.find(id, batch)
      return row ? [{ file, id: row.id, filename: row.filename, bytes: Number(row.bytes) }] : []
    }),
  )
  return rows.flat()
}
