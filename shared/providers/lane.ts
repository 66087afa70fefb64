import { GatewayError } from '../base/errors.ts'
import type { Clock } from '../base/time.ts'
import { type Answer, type Holder, Share, type Tidings } from './share.ts'
import { FairTurns } from './turns.ts'

/**
 * How a call in a lane ended. `limited`: the provider limits us (429), or says when to come back. `overloaded`: it has too much
 * to do (503, 529). `failed` says nothing about how many calls it takes.
 */
export type Outcome = 'answered' | 'limited' | 'overloaded' | 'failed'

/** A call that a lane let through. `end` frees its place, once. */
export type Slot = { end(outcome: Outcome, retryAfterMs?: number | null): void }

export type Turn = {
  /** Whose work it is: owners take turns. */
  owner: string
  /** Of one owner's work, what must be done first goes first. */
  deadlineMs: number
  /** Gives the place in the queue up. */
  signal: AbortSignal
}

const longestWaitMs = 60_000
const mostWaiting = 10_000
/** When to come again where no pause says when. */
const comeAgainMs = 10_000

/** The calls of one process in the lane of one provider, and those that wait for their turn. */
export class Lane implements Holder {
  readonly #clock: Clock
  readonly #share: Share
  readonly #waiting = new FairTurns<WaitingTurn>()
  #inFlight = 0
  #order = 0
  #isClosed = false

  constructor(clock: Clock, exchange: (tidings: Tidings) => Promise<Answer>) {
    this.#clock = clock
    this.#share = new Share(this, { clock, exchange })
  }

  get inFlight(): number {
    return this.#inFlight
  }

  get demand(): number {
    return this.#inFlight + this.#waiting.size
  }

  /** See `Lanes`. */
  enter({ owner, deadlineMs, signal }: Turn): Promise<Slot> {
    if (signal.aborted) return Promise.reject(signal.reason)
    if (this.#isClosed) return Promise.reject(closed())
    const now = this.#clock.now()
    if (this.#waiting.size === 0 && this.#inFlight < this.#share.room(now)) {
      const place = this.#place(owner)
      this.#share.wanted()
      return Promise.resolve(place)
    }
    const untilMs = now + longestWaitMs
    if (this.#waiting.size >= mostWaiting || this.#share.pausedUntilMs > untilMs) return Promise.reject(this.#busy(now))
    return new Promise((resolve, reject) => {
      this.#waiting.add(
        new WaitingTurn(this, signal, { owner, deadlineMs, order: this.#order++, untilMs, resolve, reject }),
      )
      this.#share.wanted()
      this.#letIn(now)
    })
  }

  /** A call of `epoch` ended, with the provider's wish to be left alone for `askedMs` (0 = without one). */
  ended(owner: string, outcome: Outcome, epoch: number, askedMs: number): void {
    this.#inFlight--
    this.#waiting.ended(owner)
    if (outcome === 'limited') this.#share.limited(epoch, askedMs)
    else if (outcome === 'overloaded') this.#share.overloaded(epoch)
    else if (outcome === 'answered') this.#share.answered(epoch, this.#waiting.size > 0)
    if (this.#waiting.size > 0) this.#letIn(this.#clock.now())
    this.#share.freed()
  }

  /** A turn's caller no longer wants it. */
  leave(turn: WaitingTurn): void {
    this.#waiting.remove(turn)
    this.#share.freed()
  }

  /** Lets in who may go now, and sends away who would wait in vain. */
  changed(): void {
    const now = this.#clock.now()
    const nextMs = Math.max(now, this.#share.pausedUntilMs)
    for (const turn of this.#waiting.takeWhere(({ untilMs }) => untilMs < nextMs)) turn.refuse(this.#busy(now))
    this.#letIn(now)
  }

  /** See `Share`. */
  heard(): void {
    this.#share.heard()
  }

  /** Rejects whoever waits and gives the share back. */
  close(): void {
    this.#isClosed = true
    for (const turn of this.#waiting.takeWhere(() => true)) turn.refuse(closed())
    this.#share.close()
  }

  #letIn(nowMs: number): void {
    const room = this.#share.room(nowMs)
    while (this.#inFlight < room && this.#waiting.size > 0) this.#letNextIn()
  }

  #letNextIn(): void {
    const turn = this.#waiting.next()!
    turn.grant(this.#place(turn.owner))
  }

  #place(owner: string): Place {
    this.#inFlight++
    this.#waiting.began(owner)
    return new Place(this, owner, this.#share.epoch)
  }

  #busy(nowMs: number): GatewayError {
    const pausedMs = this.#share.pausedUntilMs - nowMs
    const seconds = Math.ceil((pausedMs > 0 ? pausedMs : comeAgainMs) / 1_000)
    const message = `The provider has too much delayed work to do. Try again in ${seconds} s.`
    return new GatewayError('no_provider_available', message, { headers: { 'retry-after': String(seconds) } })
  }
}

class Place implements Slot {
  readonly #lane: Lane
  readonly #owner: string
  readonly #epoch: number
  #isOver = false

  constructor(lane: Lane, owner: string, epoch: number) {
    this.#lane = lane
    this.#owner = owner
    this.#epoch = epoch
  }

  end(outcome: Outcome, retryAfterMs: number | null = null): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#lane.ended(this.#owner, outcome, this.#epoch, Math.max(0, retryAfterMs ?? 0))
  }
}

type Wait = {
  owner: string
  deadlineMs: number
  order: number
  untilMs: number
  resolve: (slot: Slot) => void
  reject: (error: unknown) => void
}

/** Listens to its signal itself: thousands wait at a time. */
class WaitingTurn {
  readonly owner: string
  readonly deadlineMs: number
  readonly order: number
  readonly untilMs: number
  index = 0
  readonly #lane: Lane
  readonly #signal: AbortSignal
  readonly #resolve: Wait['resolve']
  readonly #reject: Wait['reject']

  constructor(lane: Lane, signal: AbortSignal, { owner, deadlineMs, order, untilMs, resolve, reject }: Wait) {
    this.owner = owner
    this.deadlineMs = deadlineMs
    this.order = order
    this.untilMs = untilMs
    this.#lane = lane
    this.#signal = signal
    this.#resolve = resolve
    this.#reject = reject
    signal.addEventListener('abort', this)
  }

  grant(slot: Slot): void {
    this.#signal.removeEventListener('abort', this)
    this.#resolve(slot)
  }

  refuse(error: unknown): void {
    this.#signal.removeEventListener('abort', this)
    this.#reject(error)
  }

  handleEvent(): void {
    this.refuse(this.#signal.reason)
    this.#lane.leave(this)
  }
}

function closed(): GatewayError {
  const headers = { 'retry-after': '1' }
  return new GatewayError('service_unavailable', 'The worker is shutting down. Try again in 1 s.', { headers })
}
