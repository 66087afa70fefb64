import { cancelAtProvider } from '../shared/jobs/cancel.ts'
import { finishJob } from '../shared/jobs/finish.ts'
import type { JobServices } from '../shared/jobs/job-services.ts'
import { startJob } from '../shared/jobs/start.ts'
import type { MediaTask, TaskData } from '../shared/queues/tasks.ts'
import { done, type Processor, retryIn, slotsOf } from './run-queue.ts'
import { WorkerSlots } from './worker-slots.ts'

const steps: Record<MediaTask, (services: JobServices, jobId: string) => Promise<number | null>> = {
  start: startJob,
  finish: finishJob,
  cancel: cancelAtProvider,
}

/** Runs steps of media jobs, one per queue entry. The row holds the job's state; the queue only wakes the worker. */
export function mediaProcessor(): Processor {
  let slots: WorkerSlots | null = null
  return async (task, data, services) => {
    const { jobId } = data as TaskData
    slots ??= new WorkerSlots(slotsOf('media', services.config))
    const owner = await services.db.job.findUnique({
      where: { id: jobId },
      select: { organisationId: true, environment: true },
    })
    if (!owner) return done
    if (!slots.hasRoom(owner)) return retryIn(slots.pauseMs(services.monotonic.now()))
    const delayMs = await slots.run(owner, () => steps[task as MediaTask](services, jobId))
    return delayMs === null ? done : retryIn(delayMs)
  }
}
