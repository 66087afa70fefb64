import { visitBatch } from '../shared/batches/visit.ts'
import { Superseded } from '../shared/jobs/batches.ts'
import { Places } from './places.ts'
import { done, later, type Processor, placesOf } from './run.ts'

/** Brings a batch as far as it goes; `stopping` has it hand over to another worker. */
export function batchProcessor(stopping: AbortSignal): Processor {
  let places: Places | null = null
  return async (_name, data, services) => {
    const { batchId } = data as { batchId: string }
    places ??= new Places(placesOf('batches', services.config))
    const owner = await services.batches.read(batchId)
    if (!owner) return done
    if (!places.hasRoom(owner)) {
      services.batchWakes.refused(Date.now())
      return later(places.pauseMs(services.clock.now()))
    }
    try {
      const delayMs = await places.run(owner, () => visitBatch(services, batchId, stopping))
      return delayMs === null ? done : later(delayMs)
    } catch (error) {
      if (error instanceof Superseded) return done // Whoever took it goes on.
      throw error
    }
  }
}
