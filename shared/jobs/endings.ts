import { openSubscriber, type Redis } from '../io/redis.ts'

const channel = 'jobs:over'

/** Tells whoever waits for a job that it is over, on every process. */
export class Endings {
  readonly #redis: Redis
  readonly #waiting = new Map<string, Set<() => void>>()
  #listening: Redis | null = null

  constructor(redis: Redis) {
    this.#redis = redis
  }

  async announce(id: string): Promise<void> {
    await this.#redis.publish(channel, id)
  }

  /**
   * Waits until `isOver` or `withinMs` have passed. `isOver` is asked at the start, when the end is announced, and every
   * two seconds, as an announcement can be lost. `signal` ends the wait early.
   */
  async wait(id: string, withinMs: number, isOver: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(withinMs)])
    this.#listen()
    while (!deadline.aborted) {
      // Listened for before it is asked, so that no end falls between the two.
      const announced = this.#announcement(id, deadline)
      if (await isOver()) return
      await announced
    }
  }

  close(): void {
    this.#listening?.disconnect()
  }

  #listen(): void {
    if (this.#listening) return
    // Waits look for themselves while it is broken.
    this.#listening = openSubscriber(this.#redis, channel, id => {
      for (const wake of this.#waiting.get(id) ?? []) wake()
    })
  }

  #announcement(id: string, deadline: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      const wakers = this.#waiting.get(id) ?? new Set()
      this.#waiting.set(id, wakers)
      const wake = () => {
        clearTimeout(timer)
        deadline.removeEventListener('abort', wake)
        wakers.delete(wake)
        if (wakers.size === 0) this.#waiting.delete(id)
        resolve()
      }
      const timer = setTimeout(wake, lookEveryMs)
      deadline.addEventListener('abort', wake, { once: true })
      wakers.add(wake)
    })
  }
}

const lookEveryMs = 2_000
