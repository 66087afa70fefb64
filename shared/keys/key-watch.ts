import { GatewayError } from '../base/errors.ts'
import { Slab } from '../base/slab.ts'
import type { Clock } from '../base/time.ts'
import type { Logger } from '../io/log.ts'
import type { Known, Policies } from './policies.ts'
import { authorise } from './policy.ts'

const lookEveryMs = 2_000

/** Work that goes on after its key was looked at. `ended` aborts with the GatewayError that the key would be refused with now. */
type Watched = { known: Known; ended: AbortController }

/**
 * Ends the streams of keys that were revoked, disabled or rolled: one look at the versions of all of them, by one command, every
 * two seconds while there are any. While Redis or Postgres is away they go on: what they cost is reserved.
 */
export class KeyWatch {
  readonly #policies: Policies
  readonly #clock: Clock
  readonly #log: Logger
  readonly #watched = new Slab<Watched>()
  #timer: NodeJS.Timeout | null = null
  #looking = false

  constructor({ policies, clock, log }: { policies: Policies; clock: Clock; log: Logger }) {
    this.#policies = policies
    this.#clock = clock
    this.#log = log
  }

  /** Runs work under a signal that aborts, with a GatewayError as its reason, once the key may no longer do it. */
  async during<T>(known: Known, work: (ended: AbortSignal) => Promise<T>): Promise<T> {
    // Of its own: what is brought up to date here must not change under the work.
    const watched = { known: { ...known, fresh: '' }, ended: new AbortController() }
    const key = this.#watched.add(watched)
    this.#timer ??= setInterval(() => void this.#look(), lookEveryMs)
    try {
      return await work(watched.ended.signal)
    } finally {
      this.#watched.remove(key)
      if (this.#watched.size === 0) this.close()
    }
  }

  close(): void {
    if (this.#timer) clearInterval(this.#timer)
    this.#timer = null
  }

  async #look(): Promise<void> {
    if (this.#looking) return
    this.#looking = true
    try {
      const byKnown = new Map(this.#watched.values().map(watched => [watched.known, watched]))
      const changed = await this.#policies.unconfirmed([...byKnown.keys()])
      // At a time, so that streams of one key share one look at Postgres.
      await Promise.all(changed.map(known => this.#check(byKnown.get(known)!)))
    } catch (error) {
      this.#log.warn({ err: error }, 'cannot look at the keys of open streams')
    } finally {
      this.#looking = false
    }
  }

  async #check({ known, ended }: Watched): Promise<void> {
    try {
      known.fresh = ''
      authorise((await this.#policies.confirm(known)).policy, known.scope, this.#clock.now())
    } catch (error) {
      if (!(error instanceof GatewayError) || error.status !== 401) throw error
      ended.abort(error)
    }
  }
}
