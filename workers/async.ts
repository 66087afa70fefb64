import { setMaxListeners } from 'node:events'
import { runDelayed } from '../shared/async/run.ts'
import { done, later, type Processor } from './run.ts'

/**
 * Runs delayed jobs: each visit the one that must be done first, whichever job's entry in the queue woke it. Once `stopping`
 * is aborted, calls under way still get `graceMs`; then their jobs are handed to another worker.
 */
export function delayedProcessor(stopping: AbortSignal, graceMs = 20_000): Processor {
  const handBack = new AbortController()
  setMaxListeners(0, handBack.signal)
  const stop = () => setTimeout(() => handBack.abort(), graceMs).unref()
  stopping.addEventListener('abort', stop, { once: true })
  return async (_name, _data, services) => {
    const job = await services.delayed.claim()
    if (!job) return done
    const delayMs = await runDelayed(services, job, handBack.signal)
    return delayMs === null ? done : later(delayMs)
  }
}
