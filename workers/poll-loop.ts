import { setTimeout as sleep } from 'node:timers/promises'
import { elapsedMs, longAgo } from '../shared/base/time.ts'
import type { JobServices } from '../shared/jobs/job-services.ts'
import { type PollResult, pollJob } from '../shared/jobs/poll.ts'
import type { Due } from '../shared/queues/poll-schedule.ts'

const tickMs = 50
/** Concurrent polls of one process: each takes a connection, and claims wait at the limit. */
const maxPolls = 500
/** Small enough that fast providers are polled over few connections. */
const maxPerClaim = 100

/** Renewal interval of leases while polls are under way. */
const renewEveryMs = 5_000
/** Delay after a poll that failed for an internal reason. */
const failedPollWaitMs = 5_000
/** Delay for jobs that were claimed but could not be polled because PostgreSQL is unavailable. */
const interruptedWaitMs = 1_000

/** A claimed job. Its lease is renewed until the result of its poll is written. */
type LeasedJob = { id: string; leasedUntilMs: number }
type Result = { leased: LeasedJob; poll: PollResult }

/**
 * Polls the jobs that wait for their provider, when they are due. Any number of workers share one schedule; jobs claimed by
 * a worker that died are due again when their leases expire.
 */
export class PollLoop {
  readonly #services: JobServices
  #stopped = false
  #running: Promise<void> | null = null
  readonly #open = new Set<Promise<void>>()
  readonly #leased = new Set<LeasedJob>()
  #results: Result[] = []
  #renewedMs = longAgo

  constructor(services: JobServices) {
    this.#services = services
  }

  start(): void {
    this.#running = this.#loop()
  }

  /** Waits for the polls under way and writes their results. */
  async stop(): Promise<void> {
    this.#stopped = true
    await this.#running
    await Promise.all(this.#open)
    await this.#write().catch(error =>
      this.#services.log.warn({ err: error }, 'poll results cannot be written; they are kept and retried'),
    )
  }

  async #loop(): Promise<void> {
    while (!this.#stopped) {
      let more = false
      try {
        await this.#renew()
        await this.#write()
        more = await this.#claim()
      } catch (error) {
        this.#services.log.warn({ err: error }, 'polling is interrupted')
      }
      if (!more) await sleep(tickMs)
    }
  }

  async #renew(): Promise<void> {
    const { pollSchedule, clock, monotonic } = this.#services
    const nowMs = monotonic.now()
    if (elapsedMs(this.#renewedMs, nowMs) < renewEveryMs) return
    const leases = Map.groupBy(this.#leased, ({ leasedUntilMs }) => leasedUntilMs)
    for (const [leasedUntilMs, leased] of leases) {
      const ids = leased.map(({ id }) => id)
      const renewedUntilMs = await pollSchedule.renew(leasedUntilMs, ids, clock.now())
      for (const job of leased) job.leasedUntilMs = renewedUntilMs
    }
    this.#renewedMs = nowMs
  }

  /** Claims due jobs and starts their polls; true when more may be due and there is room for them. */
  async #claim(): Promise<boolean> {
    const { pollSchedule, clock } = this.#services
    const room = Math.min(maxPolls - this.#leased.size, maxPerClaim)
    if (room <= 0) return false
    const { leasedUntilMs, due, lost } = await pollSchedule.claim(clock.now(), room)
    if (due.length === 0) return false
    const ids = due.map(({ id }) => id)
    try {
      await this.#pollAll(ids, leasedUntilMs, lost)
    } catch (error) {
      // Suspects stay leased: an expired lease is what identifies them.
      const innocent = ids.filter(id => !lost.includes(id))
      const dueMs = clock.now() + interruptedWaitMs
      await pollSchedule.put(
        leasedUntilMs,
        innocent.map(id => ({ id, dueMs })),
      )
      throw error
    }
    return due.length === maxPerClaim
  }

  /** Starts the polls of claimed jobs; `lost` are those whose last poll never ended. */
  async #pollAll(ids: readonly string[], leasedUntilMs: number, lost: readonly string[]): Promise<void> {
    const { pollSchedule, jobs, mediaTasks, log } = this.#services
    const running = await jobs.listRunning(ids)
    const runningIds = new Set(running.map(({ id }) => id))
    const suspects = new Set(lost.filter(id => runningIds.has(id)))
    // The workers that polled these died: the finish step polls as well, and counts its starts.
    if (suspects.size > 0) await mediaTasks.add('finish', ...suspects)
    await pollSchedule.remove(ids.filter(id => !runningIds.has(id) || suspects.has(id)))
    for (const job of running) {
      if (suspects.has(job.id)) continue
      const leased = { id: job.id, leasedUntilMs }
      this.#leased.add(leased)
      const polling = pollJob(this.#services, job)
        .catch((error): PollResult => {
          log.error({ err: error, job: job.id }, 'a poll failed')
          return { waitMs: failedPollWaitMs, progress: null }
        })
        .then(poll => {
          this.#results.push({ leased, poll })
          this.#open.delete(polling)
        })
      this.#open.add(polling)
    }
  }

  /** Writes the poll results since the last tick. A failed write is retried later: all writes are idempotent. */
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
    for (const { leased } of results) this.#leased.delete(leased)
  }

  /** Uses one command or statement per kind of result. */
  async #writeAll(results: readonly Result[]): Promise<void> {
    const { pollSchedule, jobs, mediaTasks, clock } = this.#services
    const next = new Map<number, Due[]>()
    const progress: { id: string; progress: number }[] = []
    const steps: Record<'start' | 'finish', string[]> = { start: [], finish: [] }
    const finished: string[] = []
    for (const { leased, poll } of results) {
      const { id, leasedUntilMs } = leased
      if (poll && 'waitMs' in poll) {
        const due = next.get(leasedUntilMs) ?? []
        next.set(leasedUntilMs, due)
        due.push({ id, dueMs: clock.now() + poll.waitMs })
        if (poll.progress !== null) progress.push({ id, progress: Math.min(Math.floor(poll.progress), 99) })
      } else {
        if (poll) steps[poll.task].push(id)
        finished.push(id)
      }
    }
    for (const task of ['start', 'finish'] as const)
      if (steps[task].length > 0) await mediaTasks.add(task, ...steps[task])
    await pollSchedule.remove(finished)
    for (const [leasedUntilMs, due] of next) await pollSchedule.put(leasedUntilMs, due)
    await jobs.recordProgress(progress)
  }
}
