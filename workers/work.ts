import { HousekeepingWatch } from '../shared/alerts/housekeeping-watch.ts'
import type { Config } from '../shared/base/config.ts'
import { startProcess } from '../shared/io/process.ts'
import { onConnectionError, openWorkerRedis, type Redis } from '../shared/io/redis.ts'
import { startWithRetry } from '../shared/io/retry.ts'
import { startReportingKeys } from '../shared/keys/reported-keys.ts'
import type { ScrapeServer } from '../shared/metrics/scrape-server.ts'
import { openServices } from '../shared/open-services.ts'
import { backgroundStatementMs, type Platform } from '../shared/platform.ts'
import {
  openQueue,
  type QueueName,
  queueAddress,
  queues,
  scheduleRepeating,
  shortenOverlongLocks,
} from '../shared/queues/queues.ts'
import { batchProcessor } from './batches.ts'
import { delayedProcessor } from './delayed.ts'
import { sendEmails } from './emails.ts'
import { LedgerWorker } from './ledger.ts'
import { LogExportLoop } from './log-exports.ts'
import { runMaintenance } from './maintenance.ts'
import { mediaProcessor } from './media.ts'
import { PollLoop } from './poll-loop.ts'
import { type QueueWork, runQueue } from './run-queue.ts'
import { addStoreMetrics } from './store-metrics.ts'
import { topUpBalances } from './top-ups.ts'
import { WebhookDeliveries } from './webhooks/deliveries.ts'

/** At this share of the grace period, work still under way is taken off the counts of unfinished starts. */
const uncountAtShare = 0.92
const rescheduleMs = 5_000

/** Runs one worker process until its graceful shutdown. */
export async function startWorker(config: Config): Promise<void> {
  await startProcess('worker', config, async (log, end) => {
    const services = await openServices(config, log, { statementTimeoutMs: backgroundStatementMs })
    const blocking = openWorkerRedis(config)
    const waiting = openWorkerRedis(queueAddress(config))
    for (const redis of [blocking, waiting])
      onConnectionError(redis, error => log.warn({ err: error }, 'Redis connection'))
    const { clockSkew } = services
    const housekeepingWatch = new HousekeepingWatch(services)
    const scrapes = await openMetrics(services)
    // This month's partitions must exist before the first event is booked.
    if (clockSkew.isBounded) await startWithRetry(() => runMaintenance('partitions', null, services))
    // Registers this process, so that its reservations are swept if it dies.
    const { admission, health, providerPauses, reservationFactors } = services
    const started = [health, providerPauses, reservationFactors].map(service => service.start())
    await Promise.all([startWithRetry(() => admission.start()), ...started])
    startReportingKeys(services, admission.instance)
    const ledger = new LedgerWorker(services, blocking)
    ledger.start()
    const repeating = (['maintenance', 'emails', 'payments'] as const).map(name => {
      return { name, queue: openQueue(name, waiting, config) }
    })
    const schedule = () => Promise.all(repeating.map(({ name, queue }) => scheduleRepeating(queue, name)))
    if (clockSkew.isBounded) await startWithRetry(schedule)
    const rescheduling = setInterval(() => {
      if (waiting.status !== 'ready') return
      const failed = (error: unknown) => log.warn({ err: error }, 'cannot schedule the repeating jobs')
      if (clockSkew.isBounded) schedule().catch(failed)
      shortenLocks(services, waiting).catch(error => log.warn({ err: error }, 'cannot look at the locks of the queues'))
    }, rescheduleMs)
    const deliveries = new WebhookDeliveries(services)
    const stopping = new AbortController()
    const works: QueueWork[] = [
      { queue: 'maintenance', processor: runMaintenance },
      { queue: 'emails', processor: sendEmails },
      { queue: 'payments', processor: topUpBalances },
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
    const logExports = new LogExportLoop(services)
    logExports.start()
    housekeepingWatch.start()
    log.info('working')

    const close = async () => {
      setTimeout(() => process.exit(1), config.shutdown.graceMs).unref()
      setTimeout(() => void services.crashSuspects.uncountStarts(), config.shutdown.graceMs * uncountAtShare).unref()
      clearInterval(rescheduling)
      housekeepingWatch.close()
      stopping.abort()
      await Promise.all([ledger.stop(), pollLoop.stop(), logExports.stop(), ...workers.map(worker => worker.close())])
      await deliveries.close()
      await Promise.all(repeating.map(({ queue }) => queue.close()))
      await services.close()
      for (const redis of [blocking, waiting]) redis.disconnect()
      scrapes?.close()
    }
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void end(close))
  })
}

/** Shortens what locks queues for longer than it may: after a step of Redis' clock, their entries would wait for that. */
async function shortenLocks({ config, log }: Platform, connection: Redis): Promise<void> {
  const names = Object.keys(queues) as QueueName[]
  const counts = await Promise.all(names.map(name => shortenOverlongLocks(connection, name, config)))
  const released = counts.reduce((sum, count) => sum + count, 0)
  if (released > 0)
    log.warn({ released }, 'the clock of Redis was set back: locks of queues that would not end are released')
}

/** Makes the metrics available, if there are any. */
async function openMetrics(services: Platform): Promise<ScrapeServer | null> {
  const { config, metrics } = services
  if (!config.metrics || !metrics) return null
  metrics.addProcessMetrics()
  addStoreMetrics(services)
  const { openScrapeServer } = await import('../shared/metrics/scrape-server.ts')
  return openScrapeServer(config.metrics, () => metrics.render())
}
