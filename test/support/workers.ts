import { openWorkerRedis } from '../../shared/io/redis.ts'
import type { Services } from '../../shared/open-services.ts'
import { queueAddress } from '../../shared/queues/queues.ts'
import { batchProcessor } from '../../workers/batches.ts'
import { delayedProcessor } from '../../workers/delayed.ts'
import { runMaintenance } from '../../workers/maintenance.ts'
import { mediaProcessor } from '../../workers/media.ts'
import { PollLoop } from '../../workers/poll-loop.ts'
import { type QueueWork, runQueue } from '../../workers/run-queue.ts'
import { WebhookDeliveries } from '../../workers/webhooks/deliveries.ts'

export type Workers = { stop(): Promise<void> }

/** Calls of delayed jobs under way are cut off so soon after a stop. */
const handBackMs = 300

/** The worker process's loops for slow work in this process: its queues but for the housekeeping, and the watch. */
export function startWorkers(services: Services): Workers {
  const waiting = openWorkerRedis(queueAddress(services.config))
  waiting.on('error', () => {}) // It reconnects automatically.
  const deliveries = new WebhookDeliveries(services)
  const stopping = new AbortController()
  const works: QueueWork[] = [
    { queue: 'media', processor: mediaProcessor() },
    { queue: 'async', processor: delayedProcessor(stopping.signal, handBackMs) },
    { queue: 'batches', processor: batchProcessor(stopping.signal) },
    { queue: 'webhooks', processor: (_name, id) => deliveries.attempt(id as string) },
  ]
  const workers = works.map(work => runQueue(work, services, waiting))
  const watch = new PollLoop(services)
  watch.start()
  return {
    async stop() {
      stopping.abort()
      await Promise.all([watch.stop(), ...workers.map(worker => worker.close())])
      await deliveries.close()
      waiting.disconnect()
    },
  }
}

/** Runs the housekeeping that looks after jobs, once. */
export async function runJobHousekeeping(services: Services): Promise<void> {
  for (const task of ['jobs', 'requeue', 'webhooks', 'reconcile', 'sweep']) await runMaintenance(task, null, services)
}
