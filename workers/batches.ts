import { visitBatch } from '../shared/batches/visit.ts'
import { Superseded } from '../shared/jobs/batches.ts'
import { done, later, type Processor } from './run.ts'

/** Brings a batch as far as it goes; `stopping` has it hand over to another worker. */
export function batchProcessor(stopping: AbortSignal): Processor {
  return async (_name, data, services) => {
    const { batchId } = data as { batchId: string }
    try {
      const delayMs = await visitBatch(services, batchId, stopping)
      return delayMs === null ? done : later(delayMs)
    } catch (error) {
      if (error instanceof Superseded) return done // Whoever took it goes on.
      throw error
    }
  }
}
