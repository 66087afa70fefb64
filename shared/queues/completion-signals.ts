import { channelName, openSubscriber, type Redis } from '../io/redis.ts'

const channel = 'jobs:over'

/** Notifies the waiters on all processes when a job ends, through Redis pub/sub. */
export class CompletionSignals {
  readonly #redis: Redis
  readonly #waiters = new Map<string, Set<() => void>>()
  #subscriber: Redis | null = null

  constructor(redis: Redis) {
    this.#redis = redis
  }

  /** Publishes the end of a job. Throws what Redis throws. */
  async announce(id: string): Promise<void> {
    await this.#redis.publish(channelName(this.#redis, channel), id)
  }

  /**
   * Waits until `isOver` returns true or `withinMs` have passed. Calls `isOver` at the start, after each notification, and every
   * two seconds, because a notification can be lost. `signal` ends the wait early.
   */
  async wait(id: string, withinMs: number, isOver: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(withinMs)])
    this.#subscribe()
    while (!deadline.aborted) {
      // Subscribes before the check, so that an end between the two is not missed.
      const notified = this.#waitForSignal(id, deadline)
      if (await isOver()) return
      await notified
    }
  }

  close(): void {
    this.#subscriber?.disconnect()
  }

  #subscribe(): void {
    if (this.#subscriber) return
    // While the connection is down, waiters poll.
    this.#subscriber = openSubscriber(this.#redis, channel, id => {
      for (const wake of this.#waiters.get(id) ?? []) wake()
    })
  }

  #waitForSignal(id: string, deadline: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      const waiters = this.#waiters.get(id) ?? new Set()
      this.#waiters.set(id, waiters)
      const wake = () => {
        clearTimeout(timer)
        deadline.removeEventListener('abort', wake)
        waiters.delete(wake)
        if (waiters.size === 0) this.#waiters.delete(id)
        resolve()
      }
      const timer = setTimeout(wake, pollIntervalMs)
      deadline.addEventListener('abort', wake, { once: true })
      waiters.add(wake)
    })
  }
}

const pollIntervalMs = 2_000
