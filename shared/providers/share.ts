import type { Clock } from '../base/time.ts'

/** Whose share it is: how many of its calls are in flight, and how many want to be. */
export type Holder = {
  readonly inFlight: number
  readonly demand: number
  /** Its room may have changed. */
  changed(): void
}

/** What this process saw since the last exchange. */
type Seen = {
  /** Calls that were answered and refused, of those that began since the limit was cut. */
  answered: number
  refused: number
  /** Answers of this epoch while others waited for the place: the limit is really used. */
  crowded: number
  /** The epoch of a call that was limited; -1 = none was. */
  limitedIn: number
  /** Until when the provider asked to be left alone. */
  askedUntilMs: number
}

/** What one process tells the others, and how things are then; see lanes.lua. */
export type Tidings = Omit<Seen, 'askedUntilMs'> & { wanted: number; keeps: number; epoch: number; askedMs: number }
export type Answer = [
  share: number,
  epoch: number,
  restMs: number,
  isDoubling: 0 | 1,
  isShort: 0 | 1,
  /** The epoch that the last cut of the limit began. */
  cutEpoch: number,
]

type Options = {
  clock: Clock
  /** Gives tidings to the others and takes how things are; rejects while Redis is away. */
  exchange: (tidings: Tidings) => Promise<Answer>
}

/** A process that is not heard of for so long is taken for dead, and what it held is given to others. */
export const leaseMs = 3_000
/** The first pause after a refusal that came without a time; those that follow it are longer. */
export const pauseMs = 1_000
/** No provider's wish to be left alone is honoured for longer. */
export const longestPauseMs = 3_600_000
const exchangeEveryMs = 500
/** When there is something to give back, or more is wanted than the others know. */
const soonMs = 100
/** What a process may have in flight when it has not reached the others for longer than the lease. */
const shareAlone = 2

/**
 * The share that one process has of a lane's limit: exchanged with the other processes twice a second while there is
 * demand, sooner when that helps somebody. Without demand it has no timer and no traffic.
 */
export class Share {
  readonly #holder: Holder
  readonly #options: Options
  #share = 0
  #leaseUntilMs = 0
  #pausedUntilMs = 0
  #epoch = 0
  #cutEpoch = 0
  #seen = nothing()
  /** The highest demand since the last exchange, and what the others know of it. */
  #peak = 0
  #known = 0
  /** What the others leave to this process until they hear from it: what it may finish, or begin. */
  #held = 0
  #isDoubling = false
  #isShort = false
  #isAway = false
  #isClosed = false
  #exchanging = false
  #again = false
  #timer: NodeJS.Timeout | null = null
  #isSoon = false

  constructor(holder: Holder, options: Options) {
    this.#holder = holder
    this.#options = options
  }

  /** How many calls may be in flight. */
  room(nowMs: number): number {
    if (nowMs <= this.#pausedUntilMs) return 0
    if (nowMs < this.#leaseUntilMs) return this.#share
    return this.#isAway ? shareAlone : 0
  }

  get pausedUntilMs(): number {
    return this.#pausedUntilMs
  }

  /** Changes with every cut of the limit and every pause that nobody asked for. */
  get epoch(): number {
    return this.#epoch
  }

  /** The demand rose. */
  wanted(): void {
    const { demand } = this.#holder
    if (demand > this.#peak) this.#peak = demand
    if (this.#known === 0) void this.exchange()
    else if (demand > this.#known) this.#soon()
  }

  /** The demand fell. */
  freed(): void {
    const { inFlight, demand } = this.#holder
    if (demand === 0 || (inFlight >= this.#share && inFlight < this.#held)) this.#soon()
  }

  /** A call of `epoch` was answered; `isCrowded` when others wait for its place. */
  answered(epoch: number, isCrowded: boolean): void {
    if (epoch < this.#cutEpoch) return
    this.#seen.answered++
    if (!isCrowded || epoch !== this.#epoch) return
    this.#seen.crowded++
    if (this.#isDoubling && this.#seen.crowded >= this.#share) void this.exchange()
  }

  /** A call of `epoch` was refused without a pause that the provider asks for: it counts, and delays nobody else. */
  overloaded(epoch: number): void {
    // What calls say that began before the limit was cut was known then.
    if (epoch < this.#cutEpoch) return
    this.#seen.refused++
    // The others may have seen some, too; those together decide.
    this.#soon()
  }

  /** A call of `epoch` was limited, with the wish to be left alone for `askedMs` (0 = without one). */
  limited(epoch: number, askedMs: number): void {
    if (epoch >= this.#cutEpoch) this.#seen.refused++
    // What calls say that began before the last pause was known then.
    if (epoch !== this.#epoch && askedMs === 0) return
    const now = this.#options.clock.now()
    const restMs = Math.min(askedMs, longestPauseMs)
    this.#seen.limitedIn = Math.max(this.#seen.limitedIn, epoch)
    this.#seen.askedUntilMs = Math.max(this.#seen.askedUntilMs, now + restMs)
    // Holds here at once, before Redis knows.
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, now + (restMs || pauseMs))
    void this.exchange()
  }

  /** Others may have changed something that this process should know. */
  heard(): void {
    if (this.#holder.demand > 0 || this.#share > 0) void this.exchange()
  }

  /** Gives everything back. */
  close(): void {
    this.#isClosed = true
    this.#stop()
    if (this.#known > 0) this.#options.exchange(this.#tidings(this.#options.clock.now(), 0)).catch(() => {})
  }

  /** Never rejects. */
  async exchange(): Promise<void> {
    this.#again = this.#exchanging
    if (this.#exchanging || this.#isClosed) return
    this.#exchanging = true
    do {
      this.#again = false
      await this.#exchangeOnce()
    } while (this.#again && !this.#isClosed)
    this.#exchanging = false
    this.#schedule()
  }

  async #exchangeOnce(): Promise<void> {
    const sentMs = this.#options.clock.now()
    const seen = this.#seen
    const wanted = this.#holder.demand === 0 ? 0 : this.#peak
    if (wanted === 0) this.#share = 0
    const tidings = this.#tidings(sentMs, wanted)
    this.#seen = nothing()
    this.#known = wanted
    this.#peak = this.#holder.demand
    try {
      this.#take(await this.#options.exchange(tidings), sentMs, tidings.keeps)
    } catch {
      this.#isAway = true
      this.#isDoubling = false
      this.#seen.refused += seen.refused
      this.#seen.limitedIn = Math.max(this.#seen.limitedIn, seen.limitedIn)
      this.#seen.askedUntilMs = Math.max(this.#seen.askedUntilMs, seen.askedUntilMs)
    }
    if (!this.#isClosed) this.#holder.changed()
  }

  /** `keeps` is what may be in flight until the answer comes: nothing else is given to others meanwhile. */
  #tidings(nowMs: number, wanted: number): Tidings {
    const { askedUntilMs, ...seen } = this.#seen
    const lease = nowMs < this.#leaseUntilMs ? this.#share : 0
    const keeps = Math.max(lease, this.#holder.inFlight)
    return { ...seen, wanted, keeps, epoch: this.#epoch, askedMs: Math.max(0, askedUntilMs - nowMs) }
  }

  #take([share, epoch, restMs, isDoubling, isShort, cutEpoch]: Answer, sentMs: number, keeps: number): void {
    this.#isAway = false
    this.#share = share
    this.#held = Math.max(share, keeps)
    this.#leaseUntilMs = sentMs + leaseMs
    this.#isDoubling = isDoubling === 1
    this.#isShort = isShort === 1
    const untilMs = restMs === 0 ? 0 : this.#options.clock.now() + restMs
    // What this process was asked meanwhile has not reached the others yet.
    this.#pausedUntilMs = this.#seen.limitedIn < 0 ? untilMs : Math.max(this.#pausedUntilMs, untilMs)
    if (cutEpoch !== this.#cutEpoch) this.#seen.answered = this.#seen.refused = 0
    if (epoch !== this.#epoch) this.#seen.crowded = 0
    this.#epoch = epoch
    this.#cutEpoch = cutEpoch
  }

  #schedule(): void {
    const { inFlight, demand } = this.#holder
    if (demand === 0 && this.#share === 0) {
      this.#stop()
      // The next call asks Redis before it takes the share of those who cannot.
      this.#isAway = false
    } else if (
      demand === 0 ||
      this.#isShort ||
      this.#peak > this.#known ||
      Math.max(this.#share, inFlight) < this.#held
    )
      this.#soon()
    else {
      const pausedMs = this.#pausedUntilMs - this.#options.clock.now() + 1
      this.#wake(pausedMs > 0 ? Math.min(pausedMs, exchangeEveryMs) : exchangeEveryMs)
    }
  }

  #soon(): void {
    if (this.#isSoon || this.#exchanging) return
    this.#wake(soonMs)
    this.#isSoon = true
  }

  #wake(delayMs: number): void {
    this.#stop()
    if (this.#isClosed) return
    this.#timer = setTimeout(() => this.#tick(), delayMs).unref()
  }

  #stop(): void {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
    this.#isSoon = false
  }

  #tick(): void {
    this.#stop()
    this.#holder.changed()
    void this.exchange()
  }
}

function nothing(): Seen {
  return { answered: 0, refused: 0, crowded: 0, limitedIn: -1, askedUntilMs: 0 }
}
