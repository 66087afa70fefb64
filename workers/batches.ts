import { randomUUID } from 'node:crypto'
import { stepBatch } from '../shared/batches/step.ts'
import type { Services } from '../shared/services.ts'
import { renewLeaseMs, Superseded } from '../shared/store/batches.ts'
import { done, type Processor, retryIn, slotsOf } from './run.ts'
import { WorkerSlots } from './worker-slots.ts'

/**
 * Runs one step of a batch; `stopping` interrupts it, so that another worker continues. The queue delivers an entry
 * again when Redis lost its lock, also while the first run is alive: then the entry waits for that run's lease.
 */
export function batchProcessor(stopping: AbortSignal): Processor {
  let slots: WorkerSlots | null = null
  return async (_name, data, services) => {
    const { batchId } = data as { batchId: string }
    slots ??= new WorkerSlots(slotsOf('batches', services.config))
    const owner = await services.batches.read(batchId)
    if (!owner) return done
    if (!slots.hasRoom(owner)) {
      services.batchWakes.noteRefusal(services.monotonic.now())
      return retryIn(slots.pauseMs(services.monotonic.now()))
    }
    try {
      const step = () => runLeased(services, batchId, () => stepBatch(services, batchId, stopping))
      const delayMs = await slots.run(owner, step)
      return delayMs === null ? done : retryIn(delayMs)
    } catch (error) {
      if (error instanceof Superseded) return done // The new owner continues.
      throw error
    }
  }
}

/** Runs a step under the batch's lease, renewed until it ends; gives how long to wait if another run holds the batch. */
async function runLeased(
  { batches, log }: Services,
  id: string,
  step: () => Promise<number | null>,
): Promise<number | null> {
  const run = randomUUID()
  const heldMs = await batches.lease(id, run)
  if (heldMs > 0) return heldMs
  const ignore = (error: unknown) => log.warn({ err: error, batch: id }, 'cannot write the lease of a batch')
  const renewing = setInterval(() => void batches.lease(id, run).catch(ignore), renewLeaseMs)
  try {
    return await step()
  } finally {
    clearInterval(renewing)
    await batches.endLease(id, run).catch(ignore)
  }
}
