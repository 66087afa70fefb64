import { dayMs } from '../base/time.ts'
import { releaseHolds } from '../wallet/holds.ts'
import type { BatchServices } from './batch-services.ts'
import type { Batch } from './batches.ts'
import type { FinalFiles } from './finalize.ts'
import type { LineFault } from './request.ts'

type Terminal = 'failed' | 'completed' | 'expired' | 'cancelled'

/**
 * Ends a batch: its status, its files and its webhook outbox row in one transaction. Maintenance tasks repeat the steps
 * after it if they are interrupted. Throws Superseded.
 */
export async function endBatch(
  services: BatchServices,
  batch: Batch,
  status: Terminal,
  { faults = null, ...files }: FinalFiles & { faults?: LineFault[] | null },
): Promise<void> {
  const { batches, batchJournal, config, webhooks, files: store, scripts, log } = services
  const parts = await batchJournal.parts(batch)
  const lifeMs = batch.outputLifeSeconds === null ? config.fileRetentionDays * dayMs : batch.outputLifeSeconds * 1_000
  const ids = [files.outputFileId, files.errorFileId].filter(id => id !== null)
  const ended = await batches.end(
    batch,
    status,
    { ...files, holdNano: 0n, ...(faults && { errors: faults }) },
    async tx => {
      await store.publish(tx, ids, 'batch_output', lifeMs)
      await batchJournal.clear(tx, batch.id)
    },
  )
  log.info({ batch: batch.id, status, completed: batch.completed, failed: batch.failed }, 'batch over')
  const steps = [
    () => releaseHolds(scripts, [batch]),
    () => store.remove(parts),
    () => store.releaseInput(batch.inputFileId),
    () => webhooks.enqueue(ended.deliveryIds),
  ]
  for (const step of steps)
    await step().catch(error => log.warn({ err: error, batch: batch.id }, 'after a batch’s end'))
}
