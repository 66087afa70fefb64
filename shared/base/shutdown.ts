import { GatewayError } from './errors.ts'
import { Slab } from './slab.ts'

/** Why a request was ended before its end: the process had to end. Nobody is charged for what was not delivered. */
export class Restarting extends GatewayError {
  constructor() {
    const message = 'The gateway restarts and could not finish this request. Try again.'
    super('service_unavailable', message, { headers: { 'retry-after': '1' } })
  }
}

/**
 * The end of a process. It drains first: requests are still served, but balancers are told to send the next ones elsewhere.
 * What still runs at the end of the grace period is stopped, so that its client gets an error and not a broken connection.
 */
export class Shutdown {
  #isDraining = false
  #isOver = false
  readonly #running = new Slab<() => void>()

  get isDraining(): boolean {
    return this.#isDraining
  }

  startDraining(): void {
    this.#isDraining = true
  }

  /** Runs work that `stop` ends early, if the process cannot wait for it. */
  async during<T>(stop: () => void, work: () => Promise<T>): Promise<T> {
    if (this.#isOver) stop()
    const key = this.#running.add(stop)
    try {
      return await work()
    } finally {
      this.#running.remove(key)
    }
  }

  /** Stops what still runs, and what begins from now on. */
  stopRunning(): void {
    this.#isOver = true
    for (const stop of this.#running.values()) stop()
  }
}
