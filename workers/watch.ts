import { setTimeout as sleep } from 'node:timers/promises'
import type { Due } from '../shared/jobs/watch.ts'
import { type Look, lookAt } from '../shared/media/check.ts'
import type { Services } from '../shared/services.ts'

const tickMs = 50
/** Looks one process has under way at a time: each has a connection, and claims wait while there is no room. */
const mostLooks = 500
/** Small enough that fast providers are asked over few connections. */
const mostPerClaim = 100

type Result = { id: string; leasedUntilMs: number; look: Look }

/**
 * Looks at the jobs that wait for their provider, when they are due. Any number of workers share the one list; what a
 * worker had claimed when it died is due again a minute later.
 */
export class WatchLoop {
  readonly #services: Services
  #stopped = false
  #running: Promise<void> | null = null
  readonly #open = new Set<Promise<void>>()
  #results: Result[] = []

  constructor(services: Services) {
    this.#services = services
  }

  start(): void {
    this.#running = this.#loop()
  }

  /** Ends the looks under way and writes what they saw. */
  async stop(): Promise<void> {
    this.#stopped = true
    await this.#running
    await Promise.all(this.#open)
    await this.#write().catch(error => this.#services.log.warn({ err: error }, 'looks are repeated later'))
  }

  async #loop(): Promise<void> {
    while (!this.#stopped) {
      let more = false
      try {
        await this.#write()
        more = await this.#claim()
      } catch (error) {
        this.#services.log.warn({ err: error }, 'the watch is interrupted')
      }
      if (!more) await sleep(tickMs)
    }
  }

  /** Claims what is due and looks at it; true when there may be more, and room for it. */
  async #claim(): Promise<boolean> {
    const { watch, jobs, tasks, clock } = this.#services
    const room = Math.min(mostLooks - this.#open.size, mostPerClaim)
    if (room <= 0) return false
    const { leasedUntilMs, due, lost } = await watch.claim(clock.now(), room)
    if (due.length === 0) return false
    const running = await jobs.running(due.map(({ id }) => id))
    const known = new Set(running.map(({ id }) => id))
    const suspects = new Set(lost.filter(id => known.has(id)))
    // Whoever looked at these died: the step that takes results in looks as well, and counts how often it was begun.
    if (suspects.size > 0) await tasks.add('finish', ...suspects)
    await watch.remove(due.filter(({ id }) => !known.has(id) || suspects.has(id)).map(({ id }) => id))
    for (const job of running) {
      if (suspects.has(job.id)) continue
      const looking = lookAt(this.#services, job)
        .then(look => void this.#results.push({ id: job.id, leasedUntilMs, look }))
        // Its lease runs out, and it is looked at again.
        .catch(error => this.#services.log.error({ err: error, job: job.id }, 'a look failed'))
        .finally(() => this.#open.delete(looking))
      this.#open.add(looking)
    }
    return due.length === mostPerClaim
  }

  /** Writes what the looks since the last tick have seen, in one command and one statement each. */
  async #write(): Promise<void> {
    const { watch, jobs, tasks, clock } = this.#services
    const results = this.#results
    this.#results = []
    if (results.length === 0) return
    const next = new Map<number, Due[]>()
    const progress: { id: string; progress: number }[] = []
    const steps: Record<'start' | 'finish', string[]> = { start: [], finish: [] }
    const left: string[] = []
    for (const { id, leasedUntilMs, look } of results) {
      if (look && 'waitMs' in look) {
        const due = next.get(leasedUntilMs) ?? []
        next.set(leasedUntilMs, due)
        due.push({ id, dueMs: clock.now() + look.waitMs })
        if (look.progress !== null) progress.push({ id, progress: Math.min(Math.floor(look.progress), 99) })
      } else {
        if (look) steps[look.task].push(id)
        left.push(id)
      }
    }
    for (const task of ['start', 'finish'] as const) if (steps[task].length > 0) await tasks.add(task, ...steps[task])
    await watch.remove(left)
    for (const [leasedUntilMs, due] of next) await watch.put(leasedUntilMs, due)
    await jobs.progressed(progress)
  }
}
