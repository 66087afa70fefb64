import { endJob, poisonedEnd } from '../jobs/end.ts'
import { maxWaitingMs } from '../jobs/sweep.ts'
import { settleCancelled } from './cancel.ts'
import type { DelayedServices } from './delayed-services.ts'

/**
 * Requeues jobs whose worker died, fails those whose workers died too often, and settles those that were cancelled
 * during their call; returns their number.
 */
export async function sweepDelayed(services: DelayedServices): Promise<number> {
  const { delayedJobs, delayedTasks } = services
  const poisoned = await delayedJobs.listPoisoned()
  for (const id of poisoned) await endJob(services, id, poisonedEnd, 'running')
  const lost = await delayedJobs.requeueLost()
  if (lost.length > 0) await delayedTasks.add('again', ...lost)
  const unsettled = await delayedJobs.listUnsettled()
  for (const id of unsettled)
    await settleCancelled(services, id).catch(error =>
      services.log.error({ err: error, job: id }, 'settlement of a cancelled job failed; retrying'),
    )
  return poisoned.length + unsettled.length + lost.length
}

/** Requeues runnable jobs, in case Redis lost their entries. A superfluous entry does nothing. */
export async function requeueDelayed({ delayedJobs, delayedTasks, clock }: DelayedServices): Promise<void> {
  for await (const ids of delayedJobs.listRunnable(new Date(clock.now() - maxWaitingMs)))
    await delayedTasks.restore('run', ids)
}
