import { Superseded } from '../shared/batches/batches.ts'
import { stepBatch } from '../shared/batches/step.ts'
import { runLeased } from '../shared/queues/run-lease.ts'
import { done, type Processor, retryIn, slotsOf } from './run-queue.ts'
import { WorkerSlots } from './worker-slots.ts'

/**
 * Runs one step of a batch; `stopping` interrupts it, so that another worker continues. The queue delivers an entry
 * again when Redis lost its lock, to another worker as well: then the entry waits for the lease of the run that is alive.
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
      const step = () =>
        runLeased(services, { table: 'batches', id: batchId }, () => stepBatch(services, batchId, stopping))
      const delayMs = await slots.run(owner, step)
      return delayMs === null ? done : retryIn(delayMs)
    } catch (error) {
      if (error instanceof Superseded) return done // The new owner continues.
      throw error
    }
  }
}
