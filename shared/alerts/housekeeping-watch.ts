import { definitions } from '../metrics/definitions.ts'
import type { Platform } from '../platform.ts'
import { beginRecord, isOverdue, readRuns, type TaskRun } from '../queues/housekeeping.ts'
import { type Condition, reconcileIncidents } from './incidents.ts'

const lookEveryMs = 15_000
const maxNamed = 5

/**
 * Notices that housekeeping has stopped, which workers run: because there is none, because the clock of the only one is
 * wrong, because a task hangs or fails each time. Every process has a watch, web processes as well, outside the queues.
 */
export class HousekeepingWatch {
  readonly #services: Platform
  #runs: readonly TaskRun[] = []
  /** Whether the last look found something overdue; null = an earlier process may have. */
  #wasOverdue: boolean | null = null
  #timer: NodeJS.Timeout | undefined

  constructor(services: Platform) {
    const { metrics, clock } = services
    this.#services = services
    metrics?.add(definitions.housekeepingLastRun, () =>
      this.#runs.flatMap(({ task, lastMs }) => (lastMs === null ? [] : [{ labels: { task }, value: lastMs / 1_000 }])),
    )
    metrics?.add(definitions.housekeepingOverdue, () =>
      this.#runs.map(run => ({ labels: { task: run.task }, value: isOverdue(run, clock.now()) ? 1 : 0 })),
    )
  }

  /** Looks now and regularly until `close`. */
  start(): void {
    const look = () => {
      this.look().catch(error => this.#services.log.warn({ err: error }, 'cannot tell whether housekeeping runs'))
    }
    look()
    this.#timer = setInterval(look, lookEveryMs).unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /** Opens an incident for tasks that are overdue, and closes it when none is. */
  async look(): Promise<void> {
    const { redis, clock } = this.#services
    await beginRecord(redis, clock.now())
    this.#runs = await readRuns(redis)
    const overdue = this.#runs.filter(run => isOverdue(run, clock.now()))
    const isAnyOverdue = overdue.length > 0
    if (!isAnyOverdue && this.#wasOverdue === false) return
    await reconcileIncidents(this.#services, ['housekeeping'], isAnyOverdue ? [conditionOf(overdue)] : [])
    this.#wasOverdue = isAnyOverdue
  }
}

function conditionOf(overdue: readonly TaskRun[]): Condition {
  const named = overdue.slice(0, maxNamed).map(({ task }) => task)
  const more = overdue.length > maxNamed ? ` and ${overdue.length - maxNamed} more` : ''
  const sinceMs = Math.min(...overdue.map(({ lastMs, recordedSinceMs }) => lastMs ?? recordedSinceMs!))
  return { kind: 'housekeeping', subject: '', message: `Not completed in time: ${named.join(', ')}${more}.`, sinceMs }
}
