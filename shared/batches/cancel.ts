import { GatewayError } from '../base/errors.ts'
import type { BatchServices } from './batch-services.ts'
import type { Batch } from './batches.ts'

/** Cancels a batch; finished lines are kept. Throws a GatewayError 409 `not_cancellable` when it is over. */
export async function cancelBatch({ batches, batchWakes, log }: BatchServices, id: string): Promise<Batch> {
  const batch = await batches.cancel(id)
  if (!batch) throw new GatewayError('not_cancellable', 'This batch is over; it can no longer be cancelled.')
  await batchWakes
    .promote(id)
    .catch(error =>
      log.warn({ err: error, batch: id }, 'cannot wake the worker of a cancelled batch; its next step ends it'),
    )
  return batch
}
