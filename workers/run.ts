import { Worker } from 'bullmq'
import type { Redis } from '../shared/io/redis.ts'
import { type QueueName, queues } from '../shared/jobs/queues.ts'
import type { Services } from '../shared/services.ts'

/** Does one job's work; `name` tells which task of the queue it is. */
export type Processor = (name: string, data: unknown, services: Services) => Promise<void>

/** After a fault of the connection a worker looks again this soon. */
const retryDelayMs = 1_000

/** The one wrapper of all processors: logging, stalled jobs, failures. Gives the running worker. */
export function runQueue(name: QueueName, processor: Processor, services: Services, connection: Redis): Worker {
  const log = services.log.child({ queue: name })
  const worker = new Worker(name, job => processor(job.name, job.data, services), {
    connection,
    runRetryDelay: retryDelayMs,
    concurrency: Math.min(queues[name].concurrency, services.config.workerConcurrency),
  })
  worker.on('failed', (job, error) =>
    log.error({ err: error, job: job?.name, attempts: job?.attemptsMade }, 'job failed'),
  )
  worker.on('stalled', jobId => log.warn({ jobId }, 'job stalled and is taken up again'))
  worker.on('error', error => log.warn({ err: error }, 'queue connection'))
  return worker
}
