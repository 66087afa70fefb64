import { GatewayError } from '../base/errors.ts'
import { type IdPrefix, newId } from '../base/ids.ts'
import { Restarting } from '../base/shutdown.ts'
import { isOutage, unavailable } from '../io/outage.ts'
import type { Mode, Policy } from '../keys/policy.ts'
import { ProviderError, type Target } from '../providers/contract.ts'
import type { Route } from '../providers/upstreams.ts'
import type { Services } from '../services.ts'
import type { Gate, Ticket } from '../wallet/admission.ts'
import type { UsageEvent } from '../wallet/usage-event.ts'
import { ClientGone } from './attempt.ts'
import type { Client, HeldSettlement } from './client.ts'
import { failureOf, internalError, type Tried } from './failures.ts'
import type { Silent } from './keep-alive.ts'
import { answerHeaders, type Ended, type Report, reportOf, usageEvent } from './report.ts'
import { type Explanation, routingRecord } from './routing-record.ts'
import type { Watch } from './watch.ts'

/** What a run works with. */
export type RunServices = Omit<Services, 'admission'> & { admission: Gate }

/** Where a run goes: the targets to try in order, and why, where that is told. */
export type Way = { mode: Mode; targets: readonly Target[] } & Partial<Explanation>

/** What a run is about, for its entry in the usage stream. */
type About = { kind: string; requestId: string; stream: boolean }

/** What every run has in common: who was tried, what the client is told of it, and how its end is settled. */
export abstract class BaseRun<S extends RunServices = RunServices> {
  protected readonly services: S
  protected readonly client: Client
  protected readonly id: string
  protected readonly startedMs: number
  protected readonly tried: Tried[] = []
  protected policy: Policy
  protected firstByteMs: number | null = null
  /** The call under way; between two calls, the last one. */
  protected call: Watch | null = null
  /** The caller's fields that the call under way does without. */
  protected dropped: readonly string[] = []
  /** Ends the run with a GatewayError although its client waits. */
  protected readonly stopping = new AbortController()
  /** What the provider of the call under way calls the model; null until it says so. */
  protected upstreamModel: string | null = null
  #opened = false
  readonly #about: About

  constructor(services: S, client: Client, idPrefix: IdPrefix, policy: Policy, about: About) {
    this.services = services
    this.client = client
    this.id = newId(idPrefix)
    this.startedMs = services.clock.now()
    this.policy = policy
    this.#about = about
  }

  /** Runs work that is stopped where the process must end before it. */
  protected unlessRestarted<T>(work: () => Promise<T>): Promise<T> {
    return this.services.shutdown.during(() => this.stopping.abort(new Restarting()), work)
  }

  /** The headers of an answer; `attempts` counts the one that it is from. */
  protected headers(target: Target, { mode }: Way, ticket: Ticket, attempts: number): Record<string, string> {
    const test = this.policy.environment === 'test'
    const { id, dropped, upstreamModel } = this
    return answerHeaders({ id, target, mode, ticket, attempts, test, dropped, upstreamModel })
  }

  /** An error as the client may know it. `broken`: the route of an answer that broke after it had begun. */
  protected publicFailure(error: unknown, broken?: Route): GatewayError {
    if (error instanceof ProviderError)
      return failureOf(
        broken ? [...this.tried, { target: broken.target, error }] : this.tried,
        error,
        broken !== undefined,
      )
    if (error instanceof GatewayError) return error
    if (isOutage(error)) return unavailable(error)
    this.services.log.error({ err: error }, 'run failed')
    return internalError(error)
  }

  /** Sends the head of a streamed answer, once. `upstreamModel`: what its provider calls the model, if that is known. */
  protected open(target: Target, way: Way, ticket: Ticket, upstreamModel: string | null = null): void {
    if (this.#opened) return
    this.#opened = true
    this.upstreamModel = upstreamModel
    this.client.open(this.headers(target, way, ticket, this.tried.length + 1))
  }

  /** A stream to its client, for signs of life while its provider is silent. */
  protected silent(way: Way, ticket: Ticket): Silent {
    const keepAlive = () => {
      this.open(this.call?.route.target ?? way.targets[0]!, way, ticket)
      this.client.write(': keep-alive\n\n', 'latin1')
    }
    return { ticks: 0, keepAlive }
  }

  /**
   * Settles a run that nobody answered. Throws the error, unless the client is gone or keep-alives have opened the stream:
   * then it goes there as the event that `eventOf` makes of it. `ended`: what was used all the same.
   */
  protected unanswered(
    error: unknown,
    way: Way,
    ticket: Ticket,
    eventOf: (failure: GatewayError, target: Target) => string,
    ended: Ended = { ...nothing, ...left },
  ): Report {
    if (error instanceof ClientGone) return this.settle(ticket, way, ended)
    const failure = this.publicFailure(error)
    const report = this.settle(ticket, way, { ...ended, status: failure.status, errorCode: failure.code })
    const target = this.tried.at(-1)?.target ?? way.targets[0]!
    if (!this.#opened) {
      Object.assign(failure.headers, this.headers(target, way, ticket, this.tried.length))
      throw failure
    }
    this.client.write(eventOf(failure, target), 'utf8')
    this.client.end()
    return report
  }

  /** Resolves the reservation with what the run came to. */
  protected settle(ticket: Ticket, way: Way, ended: Ended): Report {
    const { mode, targets } = way
    const target = ended.target ?? this.tried.at(-1)?.target ?? null
    const { kind, requestId, stream } = this.#about
    const run = {
      id: this.id,
      kind,
      requestId,
      stream,
      policy: this.policy,
      mode,
      model: target?.model.id ?? targets[0]!.model.id,
      provider: target?.provider.name ?? null,
      attempts: this.tried.length + (ended.target ? 1 : 0),
      startedMs: this.startedMs,
      firstByteMs: this.firstByteMs === null ? null : this.firstByteMs - this.startedMs,
      durationMs: this.services.clock.now() - this.startedMs,
      routing: routingRecord(way, this.tried, ended, this.call?.elapsedMs ?? 0),
    }
    const { usage, costNano } = ended
    const tokens = usage.prompt_tokens + usage.completion_tokens
    if (usage.unpriced)
      this.services.log.warn(
        { run: this.id, provider: run.provider, unpriced: usage.unpriced },
        'a provider did work that has no price here',
      )
    const event = usageEvent(run, ticket, ended)
    if (this.client.hold) this.client.hold(this.#held(ticket, costNano, tokens, event))
    else this.services.admission.settle(ticket, costNano, tokens, event)
    return reportOf(run, ended)
  }

  #held(ticket: Ticket, costNano: number, tokens: number, event: UsageEvent): HeldSettlement {
    const { admission } = this.services
    return {
      event,
      settle: () => admission.settle(ticket, costNano, tokens, event),
      release: () => admission.release(ticket),
    }
  }

  /** Gives back what was reserved beside a run, not before the run is settled. */
  protected release(extra: Ticket): void {
    const release = () => this.services.admission.release(extra)
    if (this.client.hold) this.client.hold({ event: null, settle: release, release })
    else release()
  }
}

/** In the log only: nobody is there to read it (contract §2, 499). */
export const clientClosed = 'client_closed_request'

/** The end of a run whose client went away. */
export const left = { status: 499, errorCode: clientClosed } as const

/** The end of a run that came to nothing. */
export const nothing = {
  target: null,
  usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
  costNano: 0,
  upstreamId: null,
  finishReason: null,
} as const
