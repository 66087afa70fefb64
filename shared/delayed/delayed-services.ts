import type { JobServices } from '../jobs/job-services.ts'
import type { DelayedTask, Tasks } from '../queues/tasks.ts'
import type { ResponseServices } from '../responses/response-services.ts'
import type { DelayedJobs } from './delayed-jobs.ts'

/** What delayed jobs and background responses need. */
export type DelayedServices = JobServices &
  ResponseServices & {
    delayedJobs: DelayedJobs
    delayedTasks: Tasks<DelayedTask>
  }
