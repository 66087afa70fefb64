import type { ShownUsage } from '../base/usage.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import type { Platform } from '../platform.ts'
import { ProviderError } from '../providers/provider-error.ts'
import type { Route } from '../providers/upstreams.ts'
import type { AdmissionGate, Reservation } from '../wallet/admission.ts'
import type { RunOutcome } from './report.ts'

type ExtendingServices = Pick<Platform, 'policies'> & { admission: Pick<AdmissionGate, 'extend'> }

/**
 * Reserves `nano` in addition to the reservation of a running request of this month, under a separate id. Throws 401,
 * 402, 403, 503.
 */
export function extendReservation(
  services: ExtendingServices,
  key: ResolvedKey,
  id: string,
  nano: number,
  month: string,
): Promise<Reservation> {
  // The policy was read when the request started.
  key.forget()
  return services.policies.decide(key, (policy, readToken) =>
    services.admission.extend(policy, readToken, id, nano, month),
  )
}

/** By how much a timer may be earlier than the clock. */
const maxTimerLeadMs = 2

/** Whether an error of a call is that its caller's own first-token timeout has passed. */
export function isCutByCaller({ route, elapsedMs }: { route: Route; elapsedMs: number }, error: unknown): boolean {
  const { callerWithinMs } = route
  if (callerWithinMs === undefined || !(error instanceof ProviderError)) return false
  return error.reason === 'timeout' && elapsedMs >= callerWithinMs - maxTimerLeadMs
}

/**
 * The calls of one run that its caller's own first-token timeout ended. Their providers bill what they had begun, so each is charged
 * as estimated, besides the call that answers, and is reserved before the next call.
 */
export class CutCalls {
  readonly #services: ExtendingServices
  readonly #key: ResolvedKey
  readonly #own: Reservation
  readonly #reservations: Reservation[] = []
  /** What they cost together, in nano-dollars. */
  costNano = 0
  #last: { error: unknown; outcome: RunOutcome } | null = null

  /** `own`: the reservation of the run. */
  constructor(services: ExtendingServices, key: ResolvedKey, own: Reservation) {
    this.#services = services
    this.#key = key
    this.#own = own
  }

  /** Adds a call that ended with this error, with its estimated outcome. */
  add(error: unknown, outcome: RunOutcome): void {
    this.#last = { error, outcome }
    this.costNano += outcome.costNano
  }

  /** Whether the last of them ended with this error. */
  endedWith(error: unknown): boolean {
    return this.#last?.error === error
  }

  /** Reserved for them in addition to the request's own reservation, in nano-dollars. */
  get reservedNano(): number {
    return this.#reservations.reduce((sum, { reservedNano }) => sum + reservedNano, 0)
  }

  /** Reserves what they cost, for the own reservation is needed for the next call. Throws 401, 402, 403, 503. */
  async reserve(): Promise<void> {
    const missingNano = this.costNano - this.reservedNano
    if (missingNano <= 0) return
    const { id, month } = this.#own
    const extensionId = `${id}.cut${this.#reservations.length}`
    this.#reservations.push(await extendReservation(this.#services, this.#key, extensionId, missingNano, month))
  }

  /** The outcome of the run with what they cost; where no call is charged, with the usage of the last of them. */
  addTo<O extends RunOutcome & { shownUsage?: ShownUsage }>(outcome: O): O {
    const { usage } = outcome.target || !this.#last ? outcome : this.#last.outcome
    const costNano = outcome.costNano + this.costNano
    const waiver = costNano > 0 && outcome.waiver !== 'beyond_reservation' ? undefined : outcome.waiver
    const shown = outcome.shownUsage && { shownUsage: { ...outcome.shownUsage, cost: costNano / 1e9 } }
    return { ...outcome, usage, costNano, waiver, ...shown }
  }

  /** Releases what was reserved for them, after the run was settled. */
  release(release: (reservation: Reservation) => void): void {
    for (const reservation of this.#reservations.splice(0)) release(reservation)
  }
}
