import type { MediaTask, TaskData } from '../shared/jobs/tasks.ts'
import { cancelJob } from '../shared/media/cancel.ts'
import { finishJob } from '../shared/media/finish.ts'
import { startJob } from '../shared/media/start.ts'
import type { Services } from '../shared/services.ts'
import { done, later, type Outcome } from './run.ts'

const steps: Record<MediaTask, (services: Services, jobId: string) => Promise<number | null>> = {
  start: startJob,
  finish: finishJob,
  cancel: cancelJob,
}

/** Does one step of a media job. The row remembers how far it is; the queue only wakes us. */
export async function media(task: string, data: unknown, services: Services): Promise<Outcome> {
  const { jobId } = data as TaskData
  const delayMs = await steps[task as MediaTask](services, jobId)
  return delayMs === null ? done : later(delayMs)
}
