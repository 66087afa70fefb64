import { QueueEvents } from 'bullmq'
import { openWorkerRedis } from '../../shared/io/redis.ts'
import type { Services } from '../../shared/open-services.ts'
import { type MaintenanceTask, queueAddress, queuePrefix, queues } from '../../shared/queues/queues.ts'
import { eventually } from '../support/gateway.ts'

/** Tasks of a longer interval are started by the run itself. */
const maxEveryMs = 15_000
/** A worker measures its clock every ten seconds, and looks after the schedules as often. */
const repairWithinMs = 30_000

/** The housekeeping of the worker, as its queue shows it. */
export class Housekeeping {
  readonly #services: Services
  readonly #events: QueueEvents
  readonly #connection: ReturnType<typeof openWorkerRedis>
  readonly #completed: string[] = []

  private constructor(services: Services) {
    this.#services = services
    const { config } = services
    this.#connection = openWorkerRedis(queueAddress(config))
    this.#events = new QueueEvents('maintenance', {
      connection: this.#connection,
      prefix: queuePrefix('maintenance', config),
      skipVersionCheck: true,
    })
    this.#events.on('completed', ({ jobId }) => this.#completed.push(jobId))
  }

  static async watch(services: Services): Promise<Housekeeping> {
    const housekeeping = new Housekeeping(services)
    await housekeeping.#events.waitUntilReady()
    return housekeeping
  }

  /** Waits until every task of a short interval has run from now on. */
  async everyTask(): Promise<void> {
    const from = this.#completed.length
    const has = (task: string) => this.#completed.slice(from).some(id => id.startsWith(`repeat:${task}:`))
    const late = Object.entries(queues.maintenance.repeat).map(async ([task, { everyMs }]) => {
      if (everyMs > maxEveryMs) return []
      const isDone = await eventually(() => has(task), task, everyMs + repairWithinMs).then(
        () => true,
        () => false,
      )
      return isDone ? [] : [task]
    })
    const missing = (await Promise.all(late)).flat()
    if (missing.length > 0) throw new Error(`not run within its interval and ${repairWithinMs} ms: ${missing}`)
  }

  /** Queues a task as its schedule does; gives a function that waits until a worker has run it. */
  async queue(task: MaintenanceTask): Promise<() => Promise<void>> {
    const { id } = await this.#services.queues.maintenance.add(task, null)
    const isDone = () => this.#completed.includes(id!)
    return () => eventually(isDone, `the task ${task} has succeeded`, repairWithinMs)
  }

  async close(): Promise<void> {
    await this.#events.close()
    this.#connection.disconnect()
  }
}
