import { setTimeout as sleep } from 'node:timers/promises'
import { LogExportDeliveries } from '../shared/log-exports/deliveries.ts'
import type { LogExportServices } from '../shared/log-exports/export-services.ts'

const pollMs = 2_000

/** Delivers exports of logs while the worker runs. */
export class LogExportLoop {
  readonly #services: LogExportServices
  readonly #deliveries: LogExportDeliveries
  readonly #stopping = new AbortController()
  #running: Promise<void> | null = null

  constructor(services: LogExportServices) {
    this.#services = services
    this.#deliveries = new LogExportDeliveries(services)
  }

  start(): void {
    this.#running = this.#loop()
  }

  /** Waits for the batches under way. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
    await this.#deliveries.close()
  }

  async #loop(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      await this.#deliveries
        .claim()
        .catch(error => this.#services.log.warn({ err: error }, 'exports of logs cannot be claimed'))
      await sleep(pollMs, undefined, { signal }).catch(() => {})
    }
  }
}
