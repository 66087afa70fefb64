import type { Config } from '../shared/base/config.ts'
import { systemClock } from '../shared/base/time.ts'
import { startProcess } from '../shared/io/process.ts'
import { openWaiter } from '../shared/io/redis.ts'
import { startPatiently } from '../shared/io/retry.ts'
import { openQueue, scheduleRepeating } from '../shared/jobs/queues.ts'
import { backgroundStatementMs, openServices } from '../shared/services.ts'
import { delayedProcessor } from './async.ts'
import { batchProcessor } from './batches.ts'
import { emails } from './emails.ts'
import { LedgerWorker } from './ledger.ts'
import { maintenance } from './maintenance.ts'
import { mediaProcessor } from './media.ts'
import { type QueueWork, runQueue } from './run.ts'
import { WatchLoop } from './watch.ts'
import { WebhookDeliveries } from './webhooks.ts'

/** Before the end of the grace period, what goes on until then is taken off the counts of starts that never ended. */
const handBackPart = 0.92
const rescheduleMs = 5_000

/** One worker process, from its configuration to its orderly end. */
export async function work(config: Config): Promise<void> {
  await startProcess('worker', config, async (log, end) => {
    const services = await openServices(config, log, systemClock, backgroundStatementMs)
    const blocking = openWaiter(config)
    const waiting = openWaiter(config)
    for (const redis of [blocking, waiting]) redis.on('error', error => log.warn({ err: error }, 'Redis connection'))
    // The tables of this month must be there before the first event is booked.
    await startPatiently(() => maintenance('partitions', null, services))
    // What this process reserves is given back should it die.
    await Promise.all([startPatiently(() => services.admission.start()), services.health.start()])
    const ledger = new LedgerWorker(services, blocking)
    ledger.start()
    const repeating = (['maintenance', 'emails'] as const).map(name => ({ name, queue: openQueue(name, waiting) }))
    const schedule = () => Promise.all(repeating.map(({ name, queue }) => scheduleRepeating(queue, name)))
    await startPatiently(schedule)
    const rescheduling = setInterval(() => {
      const failed = (error: unknown) => log.warn({ err: error }, 'cannot look after the repeating jobs')
      if (waiting.status === 'ready') schedule().catch(failed)
    }, rescheduleMs)
    const deliveries = new WebhookDeliveries(services)
    const stopping = new AbortController()
    const works: QueueWork[] = [
      { queue: 'maintenance', processor: maintenance },
      { queue: 'emails', processor: emails },
      { queue: 'media', processor: mediaProcessor() },
      { queue: 'async', processor: delayedProcessor(stopping.signal) },
      { queue: 'batches', processor: batchProcessor(stopping.signal) },
      { queue: 'webhooks', processor: (_name, id) => deliveries.attempt(id as string) },
    ]
    const workers = works.map(work => runQueue(work, services, waiting))
    // A worker whose connection failed to open never takes a job: this process must not look healthy then.
    await startPatiently(() => Promise.all(workers.map(worker => worker.waitUntilReady())))
    const watch = new WatchLoop(services)
    watch.start()
    log.info('working')

    const close = async () => {
      setTimeout(() => process.exit(1), config.shutdown.graceMs).unref()
      setTimeout(() => void services.suspects.handBack(), config.shutdown.graceMs * handBackPart).unref()
      clearInterval(rescheduling)
      stopping.abort()
      await Promise.all([ledger.stop(), watch.stop(), ...workers.map(worker => worker.close())])
      await deliveries.close()
      await Promise.all(repeating.map(({ queue }) => queue.close()))
      await services.close()
      for (const redis of [blocking, waiting]) redis.disconnect()
    }
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void end(close))
  })
}
