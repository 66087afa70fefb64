import { GatewayError } from '../base/errors.ts'
import { Slab } from '../base/slab.ts'
import type { Clock } from '../base/time.ts'
import type { Logger } from '../io/log.ts'
import { type Policies, ResolvedKey } from './policies.ts'
import { authorise, refusesKey } from './policy.ts'

const pollIntervalMs = 2_000

/** Work that continues after its key was checked. `revocation` aborts with the GatewayError that refuses the key now. */
type WatchedWork = { key: ResolvedKey; revocation: AbortController }

/**
 * Ends the streams of keys that were revoked, disabled or rolled, or whose organisation was suspended: polls the versions of all their policies, with one command every
 * two seconds while there are streams. While Redis or Postgres is unavailable, streams continue: their cost is reserved.
 */
export class KeyWatch {
  readonly #policies: Policies
  readonly #clock: Clock
  readonly #log: Logger
  readonly #works = new Slab<WatchedWork>()
  #timer: NodeJS.Timeout | null = null
  #isPolling = false

  constructor({ policies, clock, log }: { policies: Policies; clock: Clock; log: Logger }) {
    this.#policies = policies
    this.#clock = clock
    this.#log = log
  }

  /** Runs `run` with a signal that aborts, with a GatewayError as its reason, once the key is no longer allowed to continue. */
  async runWatched<T>(key: ResolvedKey, run: (revoked: AbortSignal) => Promise<T>): Promise<T> {
    // A copy, because refreshing the policy here must not change the key that the work uses.
    const work = { key: new ResolvedKey(key.policy, '', key.scope), revocation: new AbortController() }
    const slot = this.#works.add(work)
    this.#timer ??= setInterval(() => void this.#poll(), pollIntervalMs)
    try {
      return await run(work.revocation.signal)
    } finally {
      this.#works.remove(slot)
      if (this.#works.size === 0) this.close()
    }
  }

  close(): void {
    if (this.#timer) clearInterval(this.#timer)
    this.#timer = null
  }

  async #poll(): Promise<void> {
    if (this.#isPolling) return
    this.#isPolling = true
    try {
      const works = new Map(this.#works.values().map(work => [work.key, work]))
      const changed = await this.#policies.findUnconfirmed([...works.keys()])
      // Concurrently, so that streams of one key share one query to Postgres.
      await Promise.all(changed.map(key => this.#check(works.get(key)!)))
    } catch (error) {
      this.#log.warn({ err: error }, 'cannot check the keys of open streams')
    } finally {
      this.#isPolling = false
    }
  }

  async #check({ key, revocation }: WatchedWork): Promise<void> {
    try {
      key.forget()
      authorise((await this.#policies.confirm(key)).policy, key.scope, this.#clock.now())
    } catch (error) {
      if (!(error instanceof GatewayError) || !refusesKey(error)) throw error
      revocation.abort(error)
    }
  }
}
