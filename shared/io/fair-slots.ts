import { elapsedMs, type MonotonicMs, preciseMonotonic } from '../base/time.ts'

/** Whose work it is; the work of test keys, which is free, comes after that of live keys. */
export type SlotOwner = Readonly<{ organisationId: string; environment: 'live' | 'test' }>

/** The limits of work that waits until its turn, behind any number. */
const unlimited = { waitMs: Number.POSITIVE_INFINITY, maxWaiting: Number.POSITIVE_INFINITY }

type Waiting = { owner: SlotOwner; start(): void; refuse(): void }

/** After this time half of what an owner used is forgotten. */
const halfLifeMs = 60_000
/** Owners that differ by less are served in the order of arrival. */
const stepMs = 250
const maxOwners = 10_000
/** Counted while work runs, instead of the time that it takes. */
const assumedMs = 1_000

/**
 * Slots for work that takes long. A free slot goes to live keys first, and then to the owner that used the least time
 * lately: who sends little does not wait behind who sends much, however many owners these are. Test keys have `testSlots`
 * at most, so that live work never waits for all slots to end test work.
 */
export class FairSlots {
  readonly #slots: number
  readonly #testSlots: number
  readonly #now: () => MonotonicMs
  readonly #waiting: Record<SlotOwner['environment'], Waiting[]> = { live: [], test: [] }
  #running = 0
  #runningTests = 0
  /** Time used by organisation, as of `atMs`; the latest changed last. */
  readonly #used = new Map<string, { ms: number; atMs: MonotonicMs }>()

  constructor({ slots, testSlots, now }: { slots: number; testSlots: number; now?: () => MonotonicMs }) {
    this.#slots = slots
    this.#testSlots = testSlots
    this.#now = now ?? preciseMonotonic.now
  }

  /**
   * Runs `work` in a slot. Undefined if there is none within `waitMs`, or if `maxWaiting` others with live keys, or with test
   * keys, wait already: then the owner with the most of them gives up one to an owner with fewer.
   */
  async run<T>(
    owner: SlotOwner,
    { waitMs, maxWaiting }: { waitMs: number; maxWaiting: number },
    work: () => Promise<T>,
  ): Promise<{ result: T } | undefined> {
    if (this.#hasSlot(owner)) this.#start(owner)
    else if (!(await this.#wait(owner, waitMs, maxWaiting))) return undefined
    const startMs = this.#now()
    try {
      return { result: await work() }
    } finally {
      this.#charge(owner, elapsedMs(startMs, this.#now()) - assumedMs)
      this.#running--
      if (owner.environment === 'test') this.#runningTests--
      this.#startNext()
    }
  }

  /** Runs `work` in a slot, however long it waits for one. */
  async runInTurn<T>(owner: SlotOwner, work: () => Promise<T>): Promise<T> {
    const run = await this.run(owner, unlimited, work)
    return run!.result
  }

  #hasSlot({ environment }: SlotOwner): boolean {
    return this.#running < this.#slots && (environment !== 'test' || this.#runningTests < this.#testSlots)
  }

  #start(owner: SlotOwner): void {
    this.#running++
    if (owner.environment === 'test') this.#runningTests++
    this.#charge(owner, assumedMs)
  }

  /** Waits for a slot, which is taken then; false if there is none. */
  #wait(owner: SlotOwner, waitMs: number, maxWaiting: number): Promise<boolean> {
    const waiting = this.#laneOf(owner)
    if (waiting.length >= maxWaiting && !this.#makeRoom(waiting, owner)) return Promise.resolve(false)
    return new Promise(resolve => {
      let timer: NodeJS.Timeout | undefined
      const end = (started: boolean) => {
        clearTimeout(timer)
        waiting.splice(waiting.indexOf(entry), 1)
        if (started) this.#start(owner)
        resolve(started)
      }
      const entry: Waiting = { owner, start: () => end(true), refuse: () => end(false) }
      if (Number.isFinite(waitMs)) timer = setTimeout(entry.refuse, waitMs)
      waiting.push(entry)
    })
  }

  /** Refuses the last entry of the owner with the most of them; false if the new entry's owner would have as many. */
  #makeRoom(waiting: readonly Waiting[], { organisationId }: SlotOwner): boolean {
    const counts = new Map<string, number>()
    for (const { owner } of waiting) counts.set(owner.organisationId, (counts.get(owner.organisationId) ?? 0) + 1)
    const most = Math.max(0, ...counts.values())
    if ((counts.get(organisationId) ?? 0) + 1 >= most) return false
    waiting.findLast(({ owner }) => counts.get(owner.organisationId) === most)!.refuse()
    return true
  }

  #startNext(): void {
    for (const lane of [this.#waiting.live, this.#waiting.test]) {
      const [first] = lane
      if (!first || !this.#hasSlot(first.owner)) continue
      const used = new Map(lane.map(entry => [entry, this.#usedSteps(entry.owner)]))
      lane.reduce((best, entry) => (used.get(entry)! < used.get(best)! ? entry : best)).start()
      return
    }
  }

  #laneOf({ environment }: SlotOwner): Waiting[] {
    return this.#waiting[environment === 'test' ? 'test' : 'live']
  }

  /** Time used lately, in steps. */
  #usedSteps({ organisationId }: SlotOwner): number {
    return Math.floor(this.#usedMs(organisationId) / stepMs)
  }

  #usedMs(organisationId: string): number {
    const used = this.#used.get(organisationId)
    return used ? used.ms * 2 ** (-elapsedMs(used.atMs, this.#now()) / halfLifeMs) : 0
  }

  #charge({ organisationId }: SlotOwner, ms: number): void {
    const total = Math.max(0, this.#usedMs(organisationId) + ms)
    this.#used.delete(organisationId)
    if (total > 0) this.#used.set(organisationId, { ms: total, atMs: this.#now() })
    if (this.#used.size > maxOwners) this.#used.delete(this.#used.keys().next().value!)
  }
}
