import { endJob, poisonous } from '../media/end.ts'
import type { Services } from '../services.ts'

/** A job that waits longer may have lost its turn in the queue. */
const waitingLongMs = 30_000

/** Has jobs run again whose worker died, and fails those that saw too many die; how many there were. */
export async function sweepDelayed(services: Services): Promise<number> {
  const { delayed, delayedTasks } = services
  const guilty = await delayed.lostForGood()
  for (const id of guilty) await endJob(services, id, poisonous, 'running')
  const lost = await delayed.releaseLost()
  if (lost.length > 0) await delayedTasks.add('again', ...lost)
  return guilty.length + lost.length
}

/** Puts back what the queue may have lost. One turn too many does nothing. */
export async function requeueDelayed({ delayed, delayedTasks, clock }: Services): Promise<void> {
  for await (const ids of delayed.waiting(new Date(clock.now() - waitingLongMs))) await delayedTasks.restore('run', ids)
}
