import type { Config } from '../shared/base/config.ts'
import { systemClock } from '../shared/base/time.ts'
import { startProcess } from '../shared/io/process.ts'
import { onConnectionError, openWorkerRedis } from '../shared/io/redis.ts'
import { startWithRetry } from '../shared/io/retry.ts'
import type { ScrapeServer } from '../shared/metrics/scrape-server.ts'
import { openQueue, queueAddress, scheduleRepeating } from '../shared/queues/queues.ts'
import { backgroundStatementMs, openServices, type Services } from '../shared/services.ts'
import { delayedProcessor } from './async.ts'
import { batchProcessor } from './batches.ts'
import { sendEmails } from './emails.ts'
import { LedgerWorker } from './ledger.ts'
import { runMaintenance } from './maintenance.ts'
import { mediaProcessor } from './media.ts'
import { PollLoop } from './poll-loop.ts'
import { type QueueWork, runQueue } from './run.ts'
import { StoreMetrics } from './store-metrics.ts'
import { WebhookDeliveries } from './webhooks/deliveries.ts'

/** At this share of the grace period, work still under way is taken off the counts of unfinished starts. */
const uncountAtShare = 0.92
const rescheduleMs = 5_000

/** Runs one worker process until its graceful shutdown. */
export async function startWorker(config: Config): Promise<void> {
  await startProcess('worker', config, async (log, end) => {
    const services = await openServices(config, log, systemClock, backgroundStatementMs)
    const blocking = openWorkerRedis(config)
    const waiting = openWorkerRedis(queueAddress(config))
    for (const redis of [blocking, waiting])
      onConnectionError(redis, error => log.warn({ err: error }, 'Redis connection'))
    const { clockSkew } = services
    const scrapes = await openMetrics(services)
    // This month's partitions must exist before the first event is booked.
    if (clockSkew.isBounded) await startWithRetry(() => runMaintenance('partitions', null, services))
    // Registers this process, so that its reservations are swept if it dies.
    const { admission, health, providerPauses, reservationFactors } = services
    const started = [health, providerPauses, reservationFactors].map(service => service.start())
    await Promise.all([startWithRetry(() => admission.start()), ...started])
    const ledger = new LedgerWorker(services, blocking)
    ledger.start()
    const repeating = (['maintenance', 'emails'] as const).map(name => {
      return { name, queue: openQueue(name, waiting, config) }
    })
    const schedule = () => Promise.all(repeating.map(({ name, queue }) => scheduleRepeating(queue, name)))
    if (clockSkew.isBounded) await startWithRetry(schedule)
    const rescheduling = setInterval(() => {
      const failed = (error: unknown) => log.warn({ err: error }, 'cannot schedule the repeating jobs')
      if (waiting.status === 'ready' && clockSkew.isBounded) schedule().catch(failed)
    }, rescheduleMs)
    const deliveries = new WebhookDeliveries(services)
    const stopping = new AbortController()
    const works: QueueWork[] = [
      { queue: 'maintenance', processor: runMaintenance },
      { queue: 'emails', processor: sendEmails },
      { queue: 'media', processor: mediaProcessor() },
      { queue: 'async', processor: delayedProcessor(stopping.signal) },
      { queue: 'batches', processor: batchProcessor(stopping.signal) },
      { queue: 'webhooks', processor: (_name, id) => deliveries.attempt(id as string) },
    ]
    const workers = works.map(work => runQueue(work, services, waiting))
    // A worker whose connection failed to open never takes a job: the process must not report healthy then.
    await startWithRetry(() => Promise.all(workers.map(worker => worker.waitUntilReady())))
    const pollLoop = new PollLoop(services)
    pollLoop.start()
    log.info('working')

    const close = async () => {
      setTimeout(() => process.exit(1), config.shutdown.graceMs).unref()
      setTimeout(() => void services.suspects.uncountStarts(), config.shutdown.graceMs * uncountAtShare).unref()
      clearInterval(rescheduling)
      stopping.abort()
      await Promise.all([ledger.stop(), pollLoop.stop(), ...workers.map(worker => worker.close())])
      await deliveries.close()
      await Promise.all(repeating.map(({ queue }) => queue.close()))
      await services.close()
      for (const redis of [blocking, waiting]) redis.disconnect()
      scrapes?.close()
    }
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void end(close))
  })
}

/** Makes the metrics available, if there are any. */
async function openMetrics(services: Services): Promise<ScrapeServer | null> {
  const { config, metrics } = services
  if (!config.metrics || !metrics) return null
  metrics.addProcessMetrics()
  new StoreMetrics(services)
  const { openScrapeServer } = await import('../shared/metrics/scrape-server.ts')
  return openScrapeServer(config.metrics, () => metrics.render())
}
