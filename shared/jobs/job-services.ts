import type { EngineServices } from '../engine/engine-services.ts'
import type { CrashSuspectLimiter } from '../queues/crash-suspect-limiter.ts'
import type { PollSchedule } from '../queues/poll-schedule.ts'
import type { MediaTask, Tasks } from '../queues/tasks.ts'
import type { WebhookServices } from '../webhooks/webhook-services.ts'
import type { Jobs } from './jobs.ts'

/** What queued media jobs need. */
export type JobServices = EngineServices &
  WebhookServices & {
    jobs: Jobs
    mediaTasks: Tasks<MediaTask>
    pollSchedule: PollSchedule
    crashSuspects: CrashSuspectLimiter
  }
