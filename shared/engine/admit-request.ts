import { monthOf } from '../base/time.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import { authorise, type Policy } from '../keys/policy.ts'
import type { AdmissionGate, Reservation, StalePolicy } from '../wallet/admission.ts'
import type { BillingContext, MaxCost } from '../wallet/reservation.ts'
import type { RunServices } from './base-run.ts'

type PolicyServices = Pick<RunServices, 'policies' | 'clock'>
type AdmissionServices = PolicyServices & { admission: Pick<AdmissionGate, 'admit'> }

/**
 * Runs `decision` under the key's current policy if that policy allows the request, and retries it if the policy
 * changes meanwhile. Throws 401 and 403 for a key that does not allow the request, 503, and what `decision` throws.
 */
export function decideUnderPolicy<T extends object>(
  { policies, clock }: PolicyServices,
  key: ResolvedKey,
  decision: (policy: Policy, generation: string) => T | StalePolicy | Promise<T | StalePolicy>,
): Promise<T> {
  return policies.decide(key, ({ policy, scope, generation }) => {
    authorise(policy, scope, clock.now())
    return decision(policy, generation)
  })
}

/**
 * What is admitted. `startedMs`: when it began, if its row in the request log says so; that decides the month in which it is
 * charged, so that usage, caps and the ledger agree. Absent: now.
 */
type Admissible = { id: string; startedMs?: number }

/**
 * Admits a request under its key's current policy: `choose` returns what the request does and its maximum cost, which
 * is reserved under its id. `billing` may change the limits that the request counts against. Throws what
 * `decideUnderPolicy` and the admission throw: 401, 402, 403, 429, 503.
 */
export function admitRequest<T extends { maxCost: MaxCost }>(
  services: AdmissionServices,
  key: ResolvedKey,
  { id, startedMs }: Admissible,
  choose: (policy: Policy) => T,
  billing: (context: BillingContext) => BillingContext = identity,
): Promise<T & { reservation: Reservation }> {
  return decideUnderPolicy<T & { reservation: Reservation }>(services, key, async (policy, generation) => {
    const chosen = choose(policy)
    const reservation = await services.admission.admit(
      billing(policy),
      generation,
      id,
      chosen.maxCost,
      startedMs === undefined ? '' : monthOf(startedMs),
    )
    return 'stale' in reservation ? reservation : { ...chosen, reservation }
  })
}

function identity(context: BillingContext): BillingContext {
  return context
}
