import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { drainingError } from '../base/shutdown.ts'
import { elapsedMs, longAgo } from '../base/time.ts'
import type { EngineServices } from '../engine/engine-services.ts'
import { type FailedAttempt, failureOf } from '../engine/failures.ts'
import type { ClientPresence } from '../engine/response-writer.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import { definitions } from '../metrics/definitions.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { restartError } from './closing.ts'
import { connect, recheck, reserveExtension, type SessionInput } from './opening.ts'
import { Session, type SessionStart } from './session.ts'
import { renewSlotsEveryMs, type SessionSlot, SessionSlots } from './session-slots.ts'

/** Every session ticks once a second, in groups, so that frames never wait for all of them. */
const turns = 10
const turnMs = 100
const checkKeysEveryMs = 2_000
/** Timeout for closing both sides of an ended session before they are terminated. */
const closeTimeoutMs = 5_000

/** The open sessions of this process and their periodic work. */
export class SessionRegistry {
  readonly #services: EngineServices
  readonly #slots: SessionSlots
  readonly #open = new Map<Session, SessionSlot & { turn: number }>()
  readonly #timer: NodeJS.Timeout
  #turn = 0
  #openedCount = 0
  #keysCheckedMs = longAgo
  #slotsRenewedMs = longAgo
  #checking = false
  #draining = false

  constructor(services: EngineServices) {
    const { redis, clock, config } = services
    this.#services = services
    this.#slots = new SessionSlots(redis, clock, 'realtime', config.realtime.maxSessions)
    this.#timer = setInterval(() => this.#tick(), turnMs)
    this.#timer.unref()
    services.metrics?.addGauge(definitions.realtimeSessions, () => this.#open.size)
  }

  /**
   * Opens a session: acquires a slot, reserves, and connects to a provider. Without a provider the session reports the
   * error to its client on start. Throws the GatewayError to answer the upgrade with, or ClientGone, after releasing
   * everything.
   */
  async open(input: SessionInput, client: ClientPresence): Promise<Session> {
    if (this.#draining) throw drainingError()
    const began = { startedMs: this.#services.clock.now(), beganMs: this.#services.monotonic.now() }
    const id = newId('rt')
    const slot = { organisationId: input.key.policy.organisationId, id, turn: this.#openedCount++ % turns }
    if (!(await this.#slots.acquire(slot))) throw tooManySessionsError(this.#slots.max)
    try {
      const session = new Session(this.#services, await this.#start(id, input, client), began)
      this.#open.set(session, slot)
      void session.over.then(() => this.#freeSlot(session))
      return session
    } catch (error) {
      void this.#slots.release(slot)
      throw error
    }
  }

  /** Rejects new sessions, warns the open ones, and ends the remaining ones after `withinMs`. */
  async drain(withinMs: number): Promise<void> {
    this.#draining = true
    const warning = restartError(withinMs)
    for (const session of this.#open.keys()) session.warn(warning)
    const stopTimer = setTimeout(() => {
      for (const session of this.#open.keys()) session.stop(warning)
    }, withinMs)
    const terminateTimer = setTimeout(() => this.close(), withinMs + closeTimeoutMs)
    await Promise.all([...this.#open.keys()].map(session => session.over))
    clearTimeout(stopTimer)
    clearTimeout(terminateTimer)
  }

  /** Terminates and settles the open sessions. */
  close(): void {
    this.#draining = true
    clearInterval(this.#timer)
    for (const session of this.#open.keys()) session.terminate()
  }

  async #start(id: string, input: SessionInput, client: ClientPresence): Promise<SessionStart> {
    const services = this.#services
    const { reservation, targets } = await reserveExtension(services, input, id, { nano: null, first: true })
    const failedAttempts: FailedAttempt[] = []
    try {
      const opened = await connect(services, input, targets, client, failedAttempts)
      if (this.#draining) {
        opened.socket.terminate()
        throw drainingError()
      }
      return { id, input, reservation, target: opened.target, failedAttempts, opened, failure: null }
    } catch (error) {
      if (error instanceof ProviderError) {
        const target = failedAttempts.at(-1)?.target ?? targets[0]!
        return {
          id,
          input,
          reservation,
          target,
          failedAttempts,
          opened: null,
          failure: failureOf(failedAttempts, error),
        }
      }
      services.admission.release(reservation)
      throw error
    }
  }

  #freeSlot(session: Session): void {
    const slot = this.#open.get(session)
    this.#open.delete(session)
    if (slot) void this.#slots.release(slot)
  }

  #tick(): void {
    const nowMs = this.#services.monotonic.now()
    this.#turn = (this.#turn + 1) % turns
    for (const [session, { turn }] of this.#open) if (turn === this.#turn) void session.tick(nowMs)
    if (elapsedMs(this.#slotsRenewedMs, nowMs) >= renewSlotsEveryMs && this.#open.size > 0) {
      this.#slotsRenewedMs = nowMs
      // After an outage of Redis the next round restores the slots.
      this.#slots.renew([...this.#open.values()]).catch(() => {})
    }
    if (this.#checking || elapsedMs(this.#keysCheckedMs, nowMs) < checkKeysEveryMs) return
    this.#keysCheckedMs = nowMs
    this.#checking = true
    void this.#checkKeys().finally(() => {
      this.#checking = false
    })
  }

  /**
   * Ends the sessions of keys that are no longer valid. During an outage of Redis they continue on their reservations.
   */
  async #checkKeys(): Promise<void> {
    const { policies, log } = this.#services
    const sessions = [...this.#open.keys()]
    const sessionsByKey = new Map(sessions.map(session => [session.input.key, session]))
    const changed = await policies.findUnconfirmed([...sessionsByKey.keys()]).catch(error => {
      log.warn({ err: error }, 'cannot check the keys of open sessions')
      return [] as ResolvedKey[]
    })
    // Concurrently, so that sessions of one key share one PostgreSQL query.
    await Promise.all(
      changed.map(async key => {
        const session = sessionsByKey.get(key)!
        const refusal = await recheck(this.#services, session.input, session.target)
        if (refusal) session.stop(refusal)
      }),
    )
  }
}

function tooManySessionsError(max: number): GatewayError {
  return new GatewayError(
    'rate_limit_exceeded',
    `This organisation has ${max} realtime sessions open, as many as it may have at a time. Close one first.`,
    { headers: { 'retry-after': '10' } },
  )
}
