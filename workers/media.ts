import type { MediaTask, TaskData } from '../shared/jobs/tasks.ts'
import { cancelJob } from '../shared/media/cancel.ts'
import { finishJob } from '../shared/media/finish.ts'
import { startJob } from '../shared/media/start.ts'
import type { Services } from '../shared/services.ts'
import { Places } from './places.ts'
import { done, later, type Processor, placesOf } from './run.ts'

const steps: Record<MediaTask, (services: Services, jobId: string) => Promise<number | null>> = {
  start: startJob,
  finish: finishJob,
  cancel: cancelJob,
}

/** Does steps of media jobs, one per visit. The row remembers how far a job is; the queue only wakes us. */
export function mediaProcessor(): Processor {
  let places: Places | null = null
  return async (task, data, services) => {
    const { jobId } = data as TaskData
    places ??= new Places(placesOf('media', services.config))
    const owner = await services.db.job.findUnique({
      where: { id: jobId },
      select: { organisationId: true, environment: true },
    })
    if (!owner) return done
    if (!places.hasRoom(owner)) return later(places.pauseMs(services.clock.now()))
    const delayMs = await places.run(owner, () => steps[task as MediaTask](services, jobId))
    return delayMs === null ? done : later(delayMs)
  }
}
