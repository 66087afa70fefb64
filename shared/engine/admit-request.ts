import { monthOf } from '../base/time.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import type { Policy } from '../keys/policy.ts'
import type { AdmissionGate, Reservation } from '../wallet/admission.ts'
import type { BillingContext, MaxCost } from '../wallet/reservation.ts'
import type { RunServices } from './base-run.ts'

type AdmissionServices = Pick<RunServices, 'policies'> & { admission: Pick<AdmissionGate, 'admit'> }

/**
 * What is admitted. `startedMs`: when it began, if its row in the request log says so; that decides the month in which it is
 * charged, so that usage, caps and the ledger agree. Absent: now.
 */
type Admissible = { id: string; startedMs?: number }

/**
 * Admits a request under its key's current policy: `choose` returns what the request does and its maximum cost, which
 * is reserved under its id. `billing` may change the limits that the request counts against. Throws what
 * `Policies.decide` and the admission throw: 401, 402, 403, 429, 503.
 */
export function admitRequest<T extends { maxCost: MaxCost }>(
  { policies, admission }: AdmissionServices,
  key: ResolvedKey,
  { id, startedMs }: Admissible,
  choose: (policy: Policy) => T,
  billing: (context: BillingContext) => BillingContext = context => context,
): Promise<T & { reservation: Reservation }> {
  const month = startedMs === undefined ? '' : monthOf(startedMs)
  return policies.decide<T & { reservation: Reservation }>(key, async (policy, generation) => {
    const chosen = choose(policy)
    const reservation = await admission.admit(billing(policy), generation, id, chosen.maxCost, month)
    return 'stale' in reservation ? reservation : { ...chosen, reservation }
  })
}
