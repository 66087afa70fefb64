import { setMaxListeners } from 'node:events'
import { runDelayed } from '../shared/async/run.ts'
import { gate } from '../shared/io/gate.ts'
import type { Services } from '../shared/services.ts'
import { Places } from './places.ts'
import { done, later, type Processor, placesOf } from './run.ts'

/**
 * Runs delayed jobs: each visit the one whose turn it is, whichever job's entry in the queue woke it. Once `stopping`
 * is aborted, calls under way still get `graceMs`; then their jobs are handed to another worker.
 */
export function delayedProcessor(stopping: AbortSignal, graceMs = 20_000): Processor {
  const handBack = new AbortController()
  setMaxListeners(0, handBack.signal)
  const stop = () => setTimeout(() => handBack.abort(), graceMs).unref()
  stopping.addEventListener('abort', stop, { once: true })
  // One claim after the other: each knows the places that those before it took.
  const claiming = gate(1)
  let places: Places | null = null
  const next = async (services: Services, places: Places) => {
    const { full, isTestFull } = places
    const job = await services.delayed.claim({ full, isTestFull, suspects: !services.suspects.isBusy })
    if (!job || job === 'blocked') return job
    return { running: places.run(job, () => runDelayed(services, job, handBack.signal)) }
  }
  return async (_name, _data, services) => {
    places ??= new Places(placesOf('async', services.config))
    const held = places
    const visit = await claiming(() => next(services, held))
    if (!visit) return done
    if (visit === 'blocked') return later(held.pauseMs(services.clock.now()))
    const delayMs = await visit.running
    return delayMs === null ? done : later(delayMs)
  }
}
