import cluster, { type Worker } from 'node:cluster'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Metrics } from '../shared/metrics/metrics.ts'
import { combine, type MetricValues } from '../shared/metrics/registry.ts'

/** A process that is blocked for longer is represented by its previous values. */
const answerTimeoutMs = 2_000

type Request = { metrics: 'read' }
type Answer = { metrics: MetricValues[] }

/** Answers the requests of the primary process for the metrics of this one. */
export function answerPrimary(metrics: Metrics): void {
  process.on('message', async (message: Partial<Request>) => {
    if (message.metrics !== 'read') return
    const answer: Answer = { metrics: await metrics.values() }
    if (process.connected) process.send!(answer)
  })
}

/**
 * The metrics of all web processes behind one port, combined. The counts of a process that ended remain, so that no
 * counter of the whole falls.
 */
export class ClusterMetrics {
  readonly #latest = new Map<Worker, readonly MetricValues[]>()
  /** The counts of all processes that ended. */
  #ended: readonly MetricValues[] = []
  /** Called with the answer of a process, or at its end. */
  readonly #waiting = new Map<Worker, () => void>()

  constructor() {
    cluster.on('message', (worker, { metrics }: Partial<Answer>) => {
      if (Array.isArray(metrics)) this.#receive(worker, metrics)
    })
    cluster.on('exit', worker => this.#retire(worker))
  }

  /** All metrics in the text format of Prometheus. */
  async render(): Promise<string> {
    const workers = Object.values(cluster.workers ?? {}).filter(worker => worker !== undefined)
    const timeout = new AbortController()
    const late = sleep(answerTimeoutMs, undefined, timeout).catch(() => {})
    await Promise.race([Promise.all(workers.map(worker => this.#ask(worker))), late])
    timeout.abort()
    this.#waiting.clear()
    return combine([this.#ended, ...this.#latest.values()]).metrics()
  }

  #ask(worker: Worker): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.set(worker, resolve)
    worker.send({ metrics: 'read' } satisfies Request, error => error && resolve())
    return promise
  }

  #receive(worker: Worker, metrics: readonly MetricValues[]): void {
    if (worker.isDead()) return
    this.#latest.set(worker, metrics)
    this.#waiting.get(worker)?.()
  }

  #retire(worker: Worker): void {
    this.#waiting.get(worker)?.()
    const counts = this.#latest.get(worker)?.filter(({ type }) => type !== 'gauge')
    this.#latest.delete(worker)
    if (counts) this.#ended = valuesOf(combine([this.#ended, counts]))
  }
}

/** The values of a combined registry, which holds them itself. */
function valuesOf(registry: ReturnType<typeof combine>): readonly MetricValues[] {
  return registry.getMetricsAsArray() as unknown as MetricValues[]
}
