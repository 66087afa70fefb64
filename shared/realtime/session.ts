import { GatewayError } from '../base/errors.ts'
import { clientClosed } from '../chat/base-run.ts'
import type { Tried } from '../chat/failures.ts'
import { answerHeaders, type Report, usageEvent } from '../chat/report.ts'
import type { WebSocket } from '../io/socket.ts'
import type { Target } from '../providers/contract.ts'
import type { RealtimeAdapter, RealtimeMeter } from '../providers/realtime-contract.ts'
import type { Services } from '../services.ts'
import type { Ticket } from '../wallet/admission.ts'
import { ClientFrames } from './client-frames.ts'
import { brokeOff, closeCodeOf, tooDear, tooLong } from './closing.ts'
import { type Opened, reserve, type SessionOrder, triedOf } from './opening.ts'
import { type Closed, Relay } from './relay.ts'
import { type Part, RollingReservation } from './reservation.ts'

/** What was found when the session was opened. `opened` is null when no provider took it; then `failure` says why. */
export type Beginning = {
  id: string
  order: SessionOrder
  ticket: Ticket
  target: Target
  tried: readonly Tried[]
} & ({ opened: Opened; failure: null } | { opened: null; failure: GatewayError })

/** How it ended, for the log: `finishReason` names the side that closed it. */
type Ending = { atMs: number; status: number; errorCode: string | null; finishReason: string | null }

/** How long a provider may take to report what it owes once its client has left. */
const farewellMs = 10_000
const switched = 101

/** One session from its opening to its settlement: the relay between its two sides, its money and its limits. */
export class Session {
  readonly id: string
  /** The headers of the answer to its upgrade. */
  readonly headers: Record<string, string>
  /** Resolves once both sides are closed and it is settled. */
  readonly over: Promise<Report>
  readonly #services: Services
  readonly #beginning: Beginning
  readonly #startedMs: number
  /** How often providers were asked, until one opened it. */
  readonly #attempts: number
  readonly #adapter: RealtimeAdapter
  readonly #meter: RealtimeMeter
  readonly #reservation: RollingReservation
  readonly #frames: ClientFrames
  readonly #resolve: (report: Report) => void
  #relay: Relay | null = null
  #ending: Ending | null = null
  /** How the provider is closed once it has said what it owes, at the latest at `byMs`. */
  #farewell: { byMs: number; code: number | null; reason: string; said: boolean } | null = null
  #chargedNano = 0

  constructor(services: Services, beginning: Beginning, startedMs: number) {
    const { id, order, ticket, target, tried, opened } = beginning
    const { policy } = order.known
    this.id = id
    this.#services = services
    this.#beginning = beginning
    this.#startedMs = startedMs
    this.#adapter = services.upstreams.realtime(target, policy.environment)!
    this.#meter = this.#adapter.meter()
    const { promise, resolve } = Promise.withResolvers<Report>()
    this.over = promise
    this.#resolve = resolve
    this.#attempts = tried.length + (opened ? 1 : 0)
    this.headers = answerHeaders({
      id,
      target,
      mode: policy.mode,
      ticket,
      attempts: this.#attempts,
      test: policy.environment === 'test',
    })
    this.#reservation = new RollingReservation({
      target,
      catalog: services.catalog,
      marginPpm: services.config.marginPpm,
      meter: this.#meter,
      ticket,
      nowMs: startedMs,
      reserve: async (number, nano) =>
        (await reserve(services, order, `${id}.${number}`, { nano, first: false })).ticket,
      settle: (part, last) => this.#settlePart(part, last),
      release: ticket => services.admission.release(ticket),
    })
    this.#frames = new ClientFrames({
      adapter: this.#adapter,
      meter: this.#meter,
      target,
      reservation: this.#reservation,
      clock: services.clock,
      isOver: () => this.#ending !== null,
      warn: error => this.warn(error),
      fail: error => (error instanceof GatewayError ? this.stop(error) : this.#fail(error)),
      pause: () => this.#relay?.pause(),
      resume: () => this.#relay?.resume(),
    })
  }

  get order(): SessionOrder {
    return this.#beginning.order
  }

  /** Joins its client to its provider, or tells it why there is none. */
  start(client: WebSocket): void {
    const { opened, failure, order } = this.#beginning
    if (!opened) {
      this.#refuse(client, failure)
      return
    }
    this.#reservation.begin(opened.openedMs)
    const { settings } = this.#adapter
    const events = {
      fromClient: (frame: Buffer, pass: (frame: Buffer) => void) => this.#frames.take(frame, pass),
      fromUpstream: (frame: Buffer) => this.#read(frame),
      closed: (closed: Closed) => this.#closed(closed),
    }
    this.#relay = new Relay(client, opened.socket, events, this.#services.clock)
    if (!settings || !order.settings) return
    const frame = settings(order.settings)
    this.#meter.sent(Buffer.from(frame), null, this.#services.clock.now())
    this.#relay.send('upstream', frame)
  }

  /** Gives up a session whose client left before it was there. */
  abandon(): void {
    this.#beginning.opened?.socket.terminate()
    this.#end({ status: 499, errorCode: clientClosed, finishReason: null })
    void this.#finish()
  }

  /** To be called every second or so: ends what is over its limits, renews the reservation. Never rejects. */
  async tick(nowMs: number): Promise<void> {
    try {
      this.#relay?.beat(nowMs)
      this.#frames.tick()
      this.#meter.forget(nowMs)
      if (this.#farewell && (nowMs >= this.#farewell.byMs || !this.#meter.owing)) this.#closeUpstream()
      if (this.#ending || !this.#relay) return
      const refusal = this.#outlived(nowMs) ?? this.#overspent(nowMs) ?? (await this.#reservation.renew(nowMs))
      if (refusal) this.stop(refusal)
    } catch (error) {
      this.#fail(error)
    }
  }

  /** Tells its client of an error without ending the session. */
  warn(error: GatewayError): void {
    this.#relay?.send('client', this.#adapter.errorEvent(error.body.error))
  }

  /** Ends it with an error event and the close code of the error. */
  stop(error: GatewayError): void {
    if (this.#ending || !this.#relay) return
    this.#end({ status: error.status, errorCode: error.code, finishReason: 'gateway_closed' })
    this.warn(error)
    this.#relay.close('client', closeCodeOf(error), error.code)
    this.#dismiss(1000, '')
  }

  /** Cuts both sides, and settles. */
  cut(): void {
    this.#relay?.terminate()
  }

  #refuse(client: WebSocket, failure: GatewayError): void {
    client.on('error', () => {}) // It is closed then.
    client.send(this.#adapter.errorEvent(failure.body.error))
    client.close(1011, failure.code)
    this.#end({ status: failure.status, errorCode: failure.code, finishReason: null })
    client.once('close', () => void this.#finish())
  }

  #read(frame: Buffer): void {
    try {
      const nowMs = this.#services.clock.now()
      const uses = this.#meter.read(frame)
      this.#reservation.add(uses)
      if (this.#farewell) this.#ask()
      if (this.#ending) return
      const refusal = uses.length > 0 ? this.#overspent(nowMs) : null
      if (refusal) this.stop(refusal)
      else if (!this.#reservation.covers(nowMs)) void this.#cover(nowMs)
    } catch (error) {
      this.#fail(error)
    }
  }

  /** Has what is under way reserved for, or ends the session, and it with it. */
  async #cover(nowMs: number): Promise<void> {
    const refusal = await this.#reservation.cover(nowMs)
    if (refusal) this.stop(refusal)
  }

  /** Nobody knows what such a session costs: it ends, and the others of this process go on. */
  #fail(error: unknown): void {
    this.#services.log.error({ err: error, id: this.id }, 'a realtime session failed')
    if (this.#ending) this.cut()
    else this.stop(new GatewayError('internal_error', 'Something went wrong on our side.', { cause: error }))
  }

  #closed({ side, code, reason, broken }: Closed): void {
    if (side === 'client') {
      this.#end({ status: switched, errorCode: null, finishReason: 'client_closed' })
      this.#dismiss(code, reason)
    } else {
      if (!this.#ending && broken) this.warn(brokeOff())
      const fault = broken ? { status: 502, errorCode: 'upstream_error' } : { status: switched, errorCode: null }
      this.#end({ ...fault, finishReason: 'provider_closed' })
      this.#relay!.close('client', code, reason)
    }
    if (this.#relay!.over) void this.#finish()
  }

  /** Takes leave of the provider; first it may say what it owes. */
  #dismiss(code: number | null, reason: string): void {
    if (this.#farewell) return
    this.#relay!.deafen()
    this.#farewell = { byMs: this.#services.clock.now() + farewellMs, code, reason, said: false }
    this.#ask()
  }

  /** Asks the provider for what it owes, also for what it began since; closes it once it owes nothing. */
  #ask(): void {
    if (this.#meter.owing) for (const frame of this.#meter.farewell()) this.#relay!.send('upstream', frame)
    else this.#closeUpstream()
  }

  #closeUpstream(): void {
    const farewell = this.#farewell!
    if (farewell.said) return
    farewell.said = true
    this.#relay!.close('upstream', farewell.code, farewell.reason)
  }

  #end(ending: Omit<Ending, 'atMs'>): void {
    this.#ending ??= { atMs: this.#services.clock.now(), ...ending }
  }

  async #finish(): Promise<void> {
    const { id, order, target } = this.#beginning
    const { atMs, status, errorCode } = this.#ending!
    await this.#reservation.close(atMs)
    this.#resolve({
      generationId: id,
      model: target.model.id,
      provider: target.provider.name,
      mode: order.known.policy.mode,
      attempts: this.#attempts,
      status,
      errorCode,
      costNano: this.#chargedNano,
    })
  }

  #outlived(nowMs: number): GatewayError | null {
    const { mostMs } = this.#services.config.realtime
    const { expiresAtMs } = this.order.known.policy
    if (nowMs - this.#startedMs >= mostMs) return tooLong(mostMs)
    if (expiresAtMs === null || expiresAtMs > nowMs) return null
    return new GatewayError('expired_api_key', 'This API key has expired. Create a new one.')
  }

  #overspent(nowMs: number): GatewayError | null {
    const { mostNano } = this.#services.config.realtime
    return this.#reservation.usedNano(nowMs) >= mostNano ? tooDear(mostNano) : null
  }

  /** What one part of the session comes to; the request log has the session's figures until then. */
  #settlePart({ ticket, costNano, tokens, usage, part, chargedAt }: Part, last: boolean): void {
    const { id, order, target, tried, opened } = this.#beginning
    // The cap is the one that it was reserved under, whatever the key has by now.
    const policy = { ...order.known.policy, capNano: ticket.spender.capNano }
    const ending = last && this.#ending ? this.#ending : { status: switched, errorCode: null, finishReason: null }
    const run = {
      id,
      kind: 'realtime',
      requestId: order.requestId,
      stream: true,
      policy,
      mode: policy.mode,
      model: target.model.id,
      provider: target.provider.name,
      attempts: this.#attempts,
      startedMs: this.#startedMs,
      firstByteMs: opened ? opened.openedMs - this.#startedMs : null,
      durationMs: chargedAt - this.#startedMs,
      routing: triedOf(tried, opened),
    }
    const { status, errorCode, finishReason } = ending
    const ended = { target, usage, costNano, status, errorCode, finishReason, upstreamId: null }
    const event = { ...usageEvent(run, ticket, ended), part, chargedAt }
    this.#chargedNano += costNano
    this.#services.admission.settle(ticket, costNano, tokens, event)
  }
}
