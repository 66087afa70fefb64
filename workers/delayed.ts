import { setMaxListeners } from 'node:events'
import { runDelayed } from '../shared/delayed/run.ts'
import { semaphore } from '../shared/io/semaphore.ts'
import type { Services } from '../shared/open-services.ts'
import { done, type Processor, retryIn, slotsOf } from './run-queue.ts'
import { WorkerSlots } from './worker-slots.ts'

/**
 * Runs delayed jobs: each queue entry runs the next job by fairness, not the job that enqueued it. Once `stopping` is
 * aborted, calls under way have `graceMs` to finish; then their jobs are requeued for another worker.
 */
export function delayedProcessor(stopping: AbortSignal, graceMs = 20_000): Processor {
  const graceOver = new AbortController()
  setMaxListeners(0, graceOver.signal)
  const stop = () => setTimeout(() => graceOver.abort(), graceMs).unref()
  stopping.addEventListener('abort', stop, { once: true })
  // Claims are serialised: each sees the slots taken by the previous ones.
  const claiming = semaphore(1)
  let slots: WorkerSlots | null = null
  const claimAndRun = async (services: Services, slots: WorkerSlots) => {
    const { full, isTestFull } = slots
    const job = await services.delayedJobs.claim({ full, isTestFull, suspects: !services.crashSuspects.isBusy })
    if (!job || job === 'blocked') return job
    return { running: slots.run(job, () => runDelayed(services, job, graceOver.signal)) }
  }
  return async (_name, _data, services) => {
    slots ??= new WorkerSlots(slotsOf('async', services.config))
    const current = slots
    const claim = await claiming(() => claimAndRun(services, current))
    if (!claim) return done
    if (claim === 'blocked') return retryIn(current.pauseMs(services.monotonic.now()))
    const delayMs = await claim.running
    return delayMs === null ? done : retryIn(delayMs)
  }
}
