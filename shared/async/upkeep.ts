import type { Services } from '../services.ts'

/** A job that waits longer may have lost its turn in the queue. */
const waitingLongMs = 30_000

/** Has jobs run again whose worker died; their number. */
export async function sweepDelayed({ delayed, delayedTasks }: Services): Promise<number> {
  const lost = await delayed.releaseLost()
  if (lost.length > 0) await delayedTasks.add('again', ...lost)
  return lost.length
}

/** Puts back what the queue may have lost. One turn too many does nothing. */
export async function requeueDelayed({ delayed, delayedTasks, clock }: Services): Promise<void> {
  for await (const ids of delayed.waiting(new Date(clock.now() - waitingLongMs))) await delayedTasks.restore('run', ids)
}
