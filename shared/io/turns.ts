import { storeUnavailable } from './outage.ts'

const maxWaiting = 1_000
const maxWaitMs = 5_000

/**
 * Runs work of the same key one after the other, in order, and that of other keys beside it: for transactions that a lock serialises
 * anyway, each of which would wait for it with a connection that others need. Throws 503 for work whose turn does not come in 5 s.
 */
export class Turns {
  /** Of each key whose work is running, what waits for it. */
  readonly #waiting = new Map<string, (() => void)[]>()

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const waiting = this.#waiting.get(key)
    if (waiting) await turnIn(waiting)
    else this.#waiting.set(key, [])
    try {
      return await work()
    } finally {
      const next = this.#waiting.get(key)!.shift()
      if (next) next()
      else this.#waiting.delete(key)
    }
  }
}

function turnIn(waiting: (() => void)[]): Promise<void> {
  if (waiting.length >= maxWaiting) throw storeUnavailable(new Error('too much waits for the same lock'))
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const timer = setTimeout(() => {
    waiting.splice(waiting.indexOf(begin), 1)
    reject(storeUnavailable(new Error('the lock was not free in time')))
  }, maxWaitMs)
  const begin = () => {
    clearTimeout(timer)
    resolve()
  }
  waiting.push(begin)
  return promise
}
