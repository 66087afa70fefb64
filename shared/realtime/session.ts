import { GatewayError } from '../base/errors.ts'
import { addMs, elapsedMs, type MonotonicMs } from '../base/time.ts'
import { clientClosed } from '../engine/base-run.ts'
import { type FailedAttempt, internalError } from '../engine/failures.ts'
import { answerHeaders, type Report, usageEvent } from '../engine/report.ts'
import type { WebSocket } from '../io/socket.ts'
import { expiryOf } from '../keys/policy.ts'
import type { Platform } from '../platform.ts'
import type { Target } from '../providers/contract.ts'
import type { RealtimeAdapter, RealtimeMeter } from '../providers/realtime-contract.ts'
import { marginAt } from '../routing/pricing.ts'
import type { Reservation } from '../wallet/admission.ts'
import { ClientFrames } from './client-frames.ts'
import { closeCodeOf, connectionLostError, sessionExpiredError, spendLimitError } from './closing.ts'
import {
  type OpenedSession,
  reserveExtension,
  type SessionBegin,
  type SessionInput,
  sessionRoutingRecord,
} from './opening.ts'
import { type SideClosed, SocketRelay } from './relay.ts'
import { type Part, RollingReservation } from './reservation.ts'

/** The state of a session at its start. `opened` is null when no provider accepted it; then `failure` is set. */
export type SessionStart = {
  id: string
  input: SessionInput
  reservation: Reservation
  target: Target
  failedAttempts: readonly FailedAttempt[]
} & ({ opened: OpenedSession; failure: null } | { opened: null; failure: GatewayError })

/** How the session ended, for the log: `finishReason` names the side that closed it. */
type Ending = { atMs: MonotonicMs; status: number; errorCode: string | null; finishReason: string | null }

/** Timeout for the provider's outstanding usage reports after the client disconnected. */
const finalUsageTimeoutMs = 10_000
const upgraded = 101

/** One session from its start to its settlement: the relay between its two sides, its reservation and its limits. */
export class Session {
  readonly id: string
  /** The headers of the upgrade response. */
  readonly headers: Record<string, string>
  /** Resolves once both sides are closed and the session is settled. */
  readonly over: Promise<Report>
  readonly #services: Platform
  readonly #context: SessionStart
  readonly #began: SessionBegin
  /** Number of provider attempts, including the successful one. */
  readonly #attempts: number
  readonly #adapter: RealtimeAdapter
  readonly #meter: RealtimeMeter
  readonly #reservation: RollingReservation
  readonly #clientFrames: ClientFrames
  readonly #resolve: (report: Report) => void
  #relay: SocketRelay | null = null
  #ending: Ending | null = null
  /** The pending close of the provider, sent once it owes no more usage, at the latest at `byMs`. */
  #upstreamClose: { byMs: MonotonicMs; code: number | null; reason: string; isSent: boolean } | null = null
  #chargedNano = 0

  constructor(services: Platform, context: SessionStart, began: SessionBegin) {
    const { id, input, reservation, target, failedAttempts, opened } = context
    const { policy } = input.key
    this.id = id
    this.#services = services
    this.#context = context
    this.#began = began
    this.#adapter = services.upstreams.realtime(target, policy.environment)!
    this.#meter = this.#adapter.meter()
    const { promise, resolve } = Promise.withResolvers<Report>()
    this.over = promise
    this.#resolve = resolve
    this.#attempts = failedAttempts.length + (opened ? 1 : 0)
    const test = policy.environment === 'test'
    this.headers = answerHeaders({ id, target, mode: policy.mode, reservation, attempts: this.#attempts, test })
    this.#reservation = new RollingReservation({
      target,
      catalog: services.catalog,
      marginPpm: marginAt(target, services.config.marginPpm),
      meter: this.#meter,
      reservation,
      nowMs: began.beganMs,
      reserve: async (number, nano) =>
        (await reserveExtension(services, input, `${id}.${number}`, { nano, first: false })).reservation,
      settle: (part, isLast) => this.#settlePart(part, isLast),
      release: reservation => services.admission.release(reservation),
    })
    this.#clientFrames = new ClientFrames({
      adapter: this.#adapter,
      meter: this.#meter,
      target,
      reservation: this.#reservation,
      monotonic: services.monotonic,
      catalog: services.catalog,
      policy: () => input.key.policy,
      isOver: () => this.#ending !== null,
      warn: error => this.warn(error),
      fail: error => (error instanceof GatewayError ? this.stop(error) : this.#fail(error)),
      pause: () => this.#relay?.pause(),
      resume: () => this.#relay?.resume(),
    })
  }

  get input(): SessionInput {
    return this.#context.input
  }

  get target(): Target {
    return this.#context.target
  }

  /** Joins the client to its provider, or sends it the failure. */
  start(client: WebSocket): void {
    const { opened, failure, input } = this.#context
    if (!opened) return void this.#refuse(client, failure)
    this.#reservation.begin(opened.openedMs)
    const { settings } = this.#adapter
    const events = {
      fromClient: (frame: Buffer, pass: (frame: Buffer) => void) => this.#clientFrames.take(frame, pass),
      fromUpstream: (frame: Buffer) => this.#readUpstream(frame),
      closed: (closed: SideClosed) => this.#handleClose(closed),
    }
    this.#relay = new SocketRelay(client, opened.socket, events, this.#services.monotonic)
    if (!settings || !input.settings) return
    const frame = Buffer.from(settings(input.settings))
    this.#clientFrames.take(frame, kept => this.#relay?.send('upstream', kept.toString()))
  }

  /** Abandons a session whose client disconnected before it started. */
  abandon(): void {
    this.#context.opened?.socket.terminate()
    this.#end({ status: 499, errorCode: clientClosed, finishReason: null })
    void this.#finish()
  }

  /** Must be called about every second: enforces limits, renews the reservation. Never rejects. */
  async tick(nowMs: MonotonicMs): Promise<void> {
    try {
      this.#relay?.checkLiveness(nowMs)
      this.#clientFrames.tick()
      this.#meter.expireRequests(nowMs)
      if (this.#upstreamClose && (nowMs >= this.#upstreamClose.byMs || !this.#meter.hasPendingUsage))
        this.#closeUpstream()
      if (this.#ending || !this.#relay) return
      const refusal = this.#expiryError(nowMs) ?? this.#spendLimitError(nowMs) ?? (await this.#reservation.renew(nowMs))
      if (refusal) this.stop(refusal)
    } catch (error) {
      this.#fail(error)
    }
  }

  /** Sends an error to the client without ending the session. */
  warn(error: GatewayError): void {
    this.#relay?.send('client', this.#adapter.errorEvent(error.body.error))
  }

  /** Ends the session with an error event and a close code. */
  stop(error: GatewayError, closeCode = closeCodeOf(error)): void {
    if (this.#ending || !this.#relay) return
    this.#end({ status: error.status, errorCode: error.code, finishReason: 'gateway_closed' })
    this.warn(error)
    this.#relay.close('client', closeCode, error.code)
    this.#closeUpstreamLater(1000, '')
  }

  /** Terminates both sides, then settles. */
  terminate(): void {
    this.#relay?.terminate()
  }

  #refuse(client: WebSocket, failure: GatewayError): void {
    client.on('error', () => {}) // The close event follows.
    client.send(this.#adapter.errorEvent(failure.body.error))
    client.close(1011, failure.code)
    this.#end({ status: failure.status, errorCode: failure.code, finishReason: null })
    client.once('close', () => void this.#finish())
  }

  #readUpstream(frame: Buffer): void {
    try {
      const nowMs = this.#services.monotonic.now()
      const uses = this.#meter.readUsage(frame)
      this.#reservation.add(uses)
      if (this.#upstreamClose) this.#requestFinalUsage()
      if (this.#ending) return
      const refusal = uses.length > 0 ? this.#spendLimitError(nowMs) : null
      if (refusal) this.stop(refusal)
      else if (!this.#reservation.covers(nowMs)) void this.#cover(nowMs)
    } catch (error) {
      this.#fail(error)
    }
  }

  /** Reserves for work in progress, or ends the session. */
  async #cover(nowMs: MonotonicMs): Promise<void> {
    const refusal = await this.#reservation.cover(nowMs)
    if (refusal) this.stop(refusal)
  }

  /** The cost of such a session is unknown: it ends; other sessions of this process continue. */
  #fail(error: unknown): void {
    this.#services.log.error({ err: error, id: this.id }, 'a realtime session failed')
    if (this.#ending) this.terminate()
    else this.stop(internalError(error))
  }

  #handleClose({ side, code, reason, broken }: SideClosed): void {
    if (side === 'client') {
      this.#end({ status: upgraded, errorCode: null, finishReason: 'client_closed' })
      this.#closeUpstreamLater(code, reason)
    } else {
      if (!this.#ending && broken) this.warn(connectionLostError())
      const fault = broken ? { status: 502, errorCode: 'upstream_error' } : { status: upgraded, errorCode: null }
      this.#end({ ...fault, finishReason: 'provider_closed' })
      this.#relay!.close('client', code, reason)
    }
    if (this.#relay!.isClosed) void this.#finish()
  }

  /** Closes the provider's side after its outstanding usage reports. */
  #closeUpstreamLater(code: number | null, reason: string): void {
    if (this.#upstreamClose) return
    this.#relay!.ignoreClient()
    const byMs = addMs(this.#services.monotonic.now(), finalUsageTimeoutMs)
    this.#upstreamClose = { byMs, code, reason, isSent: false }
    this.#requestFinalUsage()
  }

  /** Requests outstanding usage, including that of work started since; closes the provider once it owes none. */
  #requestFinalUsage(): void {
    if (this.#meter.hasPendingUsage) for (const frame of this.#meter.finalFrames()) this.#relay!.send('upstream', frame)
    else this.#closeUpstream()
  }

  #closeUpstream(): void {
    const upstreamClose = this.#upstreamClose!
    if (upstreamClose.isSent) return
    upstreamClose.isSent = true
    this.#relay!.close('upstream', upstreamClose.code, upstreamClose.reason)
  }

  #end(ending: Omit<Ending, 'atMs'>): void {
    this.#ending ??= { atMs: this.#services.monotonic.now(), ...ending }
  }

  async #finish(): Promise<void> {
    const { id, input, target } = this.#context
    const { atMs, status, errorCode } = this.#ending!
    await this.#reservation.close(atMs)
    this.#resolve({
      generationId: id,
      model: target.model.id,
      provider: target.provider.name,
      mode: input.key.policy.mode,
      attempts: this.#attempts,
      status,
      errorCode,
      costNano: this.#chargedNano,
    })
  }

  #expiryError(nowMs: MonotonicMs): GatewayError | null {
    const { clock, config } = this.#services
    const { maxMs } = config.realtime
    if (elapsedMs(this.#began.beganMs, nowMs) >= maxMs) return sessionExpiredError(maxMs)
    return expiryOf(this.input.key.policy, clock.now())
  }

  #spendLimitError(nowMs: MonotonicMs): GatewayError | null {
    const { maxNano } = this.#services.config.realtime
    return this.#reservation.usedNano(nowMs) >= maxNano ? spendLimitError(maxNano) : null
  }

  /** Settles one part of the session; the request log shows the session's figures so far. */
  #settlePart(
    { reservation, costNano, tokens, usage, part, chargedMs, upstreamCostNano }: Part,
    isLast: boolean,
  ): void {
    const { id, input, target, failedAttempts, opened } = this.#context
    const { startedMs, beganMs } = this.#began
    // The cap is that of the reservation, even if the key's cap has changed.
    const policy = { ...input.key.policy, capNano: reservation.billing.capNano }
    const ending = isLast && this.#ending ? this.#ending : { status: upgraded, errorCode: null, finishReason: null }
    const run = {
      id,
      kind: 'realtime',
      requestId: input.requestId,
      stream: true,
      policy,
      mode: policy.mode,
      model: target.model.id,
      provider: target.provider.name,
      attempts: this.#attempts,
      startedMs,
      firstByteMs: opened ? elapsedMs(beganMs, opened.openedMs) : null,
      durationMs: elapsedMs(beganMs, chargedMs),
      marginPpm: this.#services.config.marginPpm,
      routing: sessionRoutingRecord(failedAttempts, opened),
    }
    const outcome = { ...ending, target, usage, costNano, upstreamId: null, upstreamCostNano }
    const event = { ...usageEvent(run, reservation, outcome), part, chargedAt: this.#services.clock.now() }
    this.#chargedNano += costNano
    this.#services.admission.settle(reservation, costNano, tokens, event)
    if (isLast) this.#services.metrics?.recordTokens(event)
  }
}
