import { GatewayError } from './errors.ts'
import { Slab } from './slab.ts'

/** A request was aborted because the process is shutting down. Undelivered output is not charged. */
export class ShutdownError extends GatewayError {
  constructor() {
    const message = 'The gateway restarts and could not finish this request. Try again.'
    super('service_unavailable', message, { headers: { 'retry-after': '1' } })
  }
}

/** A session or connection is not opened because the process is shutting down. */
export function drainingError(): GatewayError {
  return new GatewayError('service_unavailable', 'The gateway restarts. Try again.', {
    headers: { 'retry-after': '1' },
  })
}

/**
 * Graceful shutdown. While draining, requests are still served but health checks tell load balancers to route
 * elsewhere. Requests still running at the end of the grace period are aborted, so that clients get an error and not a
 * broken connection.
 */
export class Shutdown {
  #isDraining = false
  #isStopped = false
  readonly #running = new Slab<() => void>()

  get isDraining(): boolean {
    return this.#isDraining
  }

  startDraining(): void {
    this.#isDraining = true
  }

  /** Runs work; `stop` aborts it if the process cannot wait for it. */
  async run<T>(stop: () => void, work: () => Promise<T>): Promise<T> {
    if (this.#isStopped) stop()
    const key = this.#running.add(stop)
    try {
      return await work()
    } finally {
      this.#running.remove(key)
    }
  }

  /** Aborts all running work, and any work that starts later. */
  abortRunning(): void {
    this.#isStopped = true
    for (const stop of this.#running.values()) stop()
  }
}
