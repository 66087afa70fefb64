import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Waiting } from '../chat/client.ts'
import { failureOf, type Tried } from '../chat/failures.ts'
import type { Known } from '../keys/policies.ts'
import { ProviderError } from '../providers/contract.ts'
import type { Services } from '../services.ts'
import { restarting } from './closing.ts'
import { connect, recheck, reserve, type SessionOrder } from './opening.ts'
import { renewSeatsEveryMs, type Seat, Seats } from './seats.ts'
import { type Beginning, Session } from './session.ts'

/** Every session has its turn once a second, a part of them at a time, so that frames never wait for all of them. */
const turns = 10
const turnMs = 100
const checkKeysEveryMs = 2_000
/** How long a session that was ended may take to close both sides before they are cut. */
const goodbyeMs = 5_000

/** The open sessions of this process, and what has to be done for them every second. */
export class Sessions {
  readonly #services: Services
  readonly #seats: Seats
  readonly #open = new Map<Session, Seat & { turn: number }>()
  readonly #timer: NodeJS.Timeout
  #turn = 0
  #opened = 0
  #keysMs = 0
  #seatsMs = 0
  #checking = false
  #draining = false

  constructor(services: Services) {
    const { redis, clock, config } = services
    this.#services = services
    this.#seats = new Seats(redis, clock, config.realtime.mostSessions)
    this.#timer = setInterval(() => this.#tick(), turnMs)
    this.#timer.unref()
  }

  /**
   * Opens a session: takes a seat, reserves, and finds a provider. A session without one tells its client so when it is
   * started. Throws the GatewayError to answer the upgrade with, or ClientGone; then nothing is left behind.
   */
  async open(order: SessionOrder, client: Waiting): Promise<Session> {
    if (this.#draining) throw drained()
    const startedMs = this.#services.clock.now()
    const id = newId('rt')
    const seat = { organisationId: order.known.policy.organisationId, id, turn: this.#opened++ % turns }
    await this.#seats.take(seat)
    try {
      const session = new Session(this.#services, await this.#begin(id, order, client), startedMs)
      this.#open.set(session, seat)
      void session.over.then(() => this.#left(session))
      return session
    } catch (error) {
      void this.#seats.leave(seat)
      throw error
    }
  }

  /** Takes no more sessions, tells those that are open, and ends whoever is still there after `withinMs`. */
  async drain(withinMs: number): Promise<void> {
    this.#draining = true
    const warning = restarting(withinMs)
    for (const session of this.#open.keys()) session.warn(warning)
    const stop = setTimeout(() => {
      for (const session of this.#open.keys()) session.stop(warning)
    }, withinMs)
    const cut = setTimeout(() => this.close(), withinMs + goodbyeMs)
    await Promise.all([...this.#open.keys()].map(session => session.over))
    clearTimeout(stop)
    clearTimeout(cut)
  }

  /** Cuts what is still open, and settles it. */
  close(): void {
    this.#draining = true
    clearInterval(this.#timer)
    for (const session of this.#open.keys()) session.cut()
  }

  async #begin(id: string, order: SessionOrder, client: Waiting): Promise<Beginning> {
    const services = this.#services
    const { ticket, targets } = await reserve(services, order, id, { nano: null, first: true })
    const tried: Tried[] = []
    try {
      const opened = await connect(services, order, targets, client, tried)
      if (this.#draining) {
        opened.socket.terminate()
        throw drained()
      }
      return { id, order, ticket, target: opened.target, tried, opened, failure: null }
    } catch (error) {
      if (error instanceof ProviderError) {
        const target = tried.at(-1)?.target ?? targets[0]!
        return { id, order, ticket, target, tried, opened: null, failure: failureOf(tried, error) }
      }
      services.admission.release(ticket)
      throw error
    }
  }

  #left(session: Session): void {
    const seat = this.#open.get(session)
    this.#open.delete(session)
    if (seat) void this.#seats.leave(seat)
  }

  #tick(): void {
    const nowMs = this.#services.clock.now()
    this.#turn = (this.#turn + 1) % turns
    for (const [session, { turn }] of this.#open) if (turn === this.#turn) void session.tick(nowMs)
    if (isDue(this.#seatsMs, renewSeatsEveryMs, nowMs) && this.#open.size > 0) {
      this.#seatsMs = nowMs
      // A Redis that is away forgets nothing that the next round does not bring back.
      this.#seats.renew([...this.#open.values()]).catch(() => {})
    }
    if (this.#checking || !isDue(this.#keysMs, checkKeysEveryMs, nowMs)) return
    this.#keysMs = nowMs
    this.#checking = true
    void this.#checkKeys().finally(() => {
      this.#checking = false
    })
  }

  /** Ends the sessions of keys that may no longer hold them. While Redis is away they go on, on what is reserved for them. */
  async #checkKeys(): Promise<void> {
    const { policies, log } = this.#services
    const sessions = [...this.#open.keys()]
    const knowns = new Map(sessions.map(session => [session.order.known, session]))
    const changed = await policies.unconfirmed([...knowns.keys()]).catch(error => {
      log.warn({ err: error }, 'cannot look at the keys of open sessions')
      return [] as Known[]
    })
    // At a time, so that sessions of one key share one look at Postgres.
    await Promise.all(
      changed.map(async known => {
        const session = knowns.get(known)!
        const refusal = await recheck(this.#services, session.order)
        if (refusal) session.stop(refusal)
      }),
    )
  }
}

/** Whether something is to be done again; a clock that was set back holds nothing up. */
function isDue(lastMs: number, everyMs: number, nowMs: number): boolean {
  return Math.abs(nowMs - lastMs) >= everyMs
}

function drained(): GatewayError {
  return new GatewayError('service_unavailable', 'The gateway restarts. Try again.', {
    headers: { 'retry-after': '1' },
  })
}
