import { setTimeout as sleep } from 'node:timers/promises'
import type { Due } from '../shared/jobs/watch.ts'
import { type Look, lookAt } from '../shared/media/check.ts'
import type { Services } from '../shared/services.ts'

const tickMs = 50
/** Looks one process has under way at a time: each has a connection, and claims wait while there is no room. */
const maxLooks = 500
/** Small enough that fast providers are asked over few connections. */
const maxPerClaim = 100

/** Leases are renewed so often while looks are under way. */
const renewEveryMs = 5_000
/** After a look that failed for a reason of our own. */
const failedLookWaitMs = 5_000
/** What was claimed and could not be looked at, as PostgreSQL is away, is due again after this. */
const interruptedWaitMs = 1_000

/** A claimed job. Its lease is renewed until what its look saw is written. */
type Held = { id: string; leasedUntilMs: number }
type Result = { held: Held; look: Look }

/**
 * Looks at the jobs that wait for their provider, when they are due. Any number of workers share the one list; what a
 * worker had claimed when it died is due again when its leases end.
 */
export class WatchLoop {
  readonly #services: Services
  #stopped = false
  #running: Promise<void> | null = null
  readonly #open = new Set<Promise<void>>()
  readonly #held = new Set<Held>()
  #results: Result[] = []
  #renewedMs = 0

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
        await this.#renew()
        await this.#write()
        more = await this.#claim()
      } catch (error) {
        this.#services.log.warn({ err: error }, 'the watch is interrupted')
      }
      if (!more) await sleep(tickMs)
    }
  }

  async #renew(): Promise<void> {
    const { watch, clock } = this.#services
    const nowMs = clock.now()
    if (nowMs - this.#renewedMs < renewEveryMs) return
    const leases = Map.groupBy(this.#held, ({ leasedUntilMs }) => leasedUntilMs)
    for (const [leasedUntilMs, held] of leases) {
      const ids = held.map(({ id }) => id)
      const renewedUntilMs = await watch.renew(leasedUntilMs, ids, nowMs)
      for (const it of held) it.leasedUntilMs = renewedUntilMs
    }
    this.#renewedMs = nowMs
  }

  /** Claims what is due and looks at it; true when there may be more, and room for it. */
  async #claim(): Promise<boolean> {
    const { watch, clock } = this.#services
    const room = Math.min(maxLooks - this.#held.size, maxPerClaim)
    if (room <= 0) return false
    const { leasedUntilMs, due, lost } = await watch.claim(clock.now(), room)
    if (due.length === 0) return false
    const ids = due.map(({ id }) => id)
    try {
      await this.#look(ids, leasedUntilMs, lost)
    } catch (error) {
      // Those that may have killed their worker stay leased, to be told from the others by that.
      const innocent = ids.filter(id => !lost.includes(id))
      const dueMs = clock.now() + interruptedWaitMs
      await watch.put(
        leasedUntilMs,
        innocent.map(id => ({ id, dueMs })),
      )
      throw error
    }
    return due.length === maxPerClaim
  }

  /** Looks at claimed jobs; `lost` are those whose last look never ended. */
  async #look(ids: readonly string[], leasedUntilMs: number, lost: readonly string[]): Promise<void> {
    const { watch, jobs, tasks, log } = this.#services
    const running = await jobs.running(ids)
    const known = new Set(running.map(({ id }) => id))
    const suspects = new Set(lost.filter(id => known.has(id)))
    // Whoever looked at these died: the step that takes results in looks as well, and counts how often it was begun.
    if (suspects.size > 0) await tasks.add('finish', ...suspects)
    await watch.remove(ids.filter(id => !known.has(id) || suspects.has(id)))
    for (const job of running) {
      if (suspects.has(job.id)) continue
      const held = { id: job.id, leasedUntilMs }
      this.#held.add(held)
      const looking = lookAt(this.#services, job)
        .catch((error): Look => {
          log.error({ err: error, job: job.id }, 'a look failed')
          return { waitMs: failedLookWaitMs, progress: null }
        })
        .then(look => {
          this.#results.push({ held, look })
          this.#open.delete(looking)
        })
      this.#open.add(looking)
    }
  }

  /** Writes what the looks since the last tick have seen. What cannot be written now is written later: all of it can be repeated. */
  async #write(): Promise<void> {
    const results = this.#results
    if (results.length === 0) return
    this.#results = []
    try {
      await this.#writeAll(results)
    } catch (error) {
      this.#results.push(...results)
      throw error
    }
    for (const { held } of results) this.#held.delete(held)
  }

  /** In one command and one statement for each thing that looks lead to. */
  async #writeAll(results: readonly Result[]): Promise<void> {
    const { watch, jobs, tasks, clock } = this.#services
    const next = new Map<number, Due[]>()
    const progress: { id: string; progress: number }[] = []
    const steps: Record<'start' | 'finish', string[]> = { start: [], finish: [] }
    const left: string[] = []
    for (const { held, look } of results) {
      const { id, leasedUntilMs } = held
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
