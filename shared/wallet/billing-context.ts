import type { BillingContext, SharedLimits } from './reservation.ts'

type PolicyPart = Omit<BillingContext, 'spendsMoney' | 'rateKey' | 'shared'> & {
  environment: 'live' | 'test'
  sharedLimits?: Omit<SharedLimits, 'rateKey'> | null
}

const contexts = new WeakMap<PolicyPart, BillingContext>()

/** The part of a policy that the admission uses; cached, so that the same policy yields the same object. */
export function billingContextOf(policy: PolicyPart): BillingContext {
  let context = contexts.get(policy)
  if (!context) {
    context = createContext(policy)
    contexts.set(policy, context)
  }
  return context
}

function createContext(policy: PolicyPart): BillingContext {
  const { hash, version, keyId, organisationId, expiresAtMs, rpmLimit, tpmLimit, capNano, environment } = policy
  const { sharedLimits } = policy
  return {
    hash,
    version,
    keyId,
    rateKey: keyId,
    organisationId,
    shared: sharedLimits ? { rateKey: `test:${organisationId}`, ...sharedLimits } : null,
    expiresAtMs,
    rpmLimit,
    tpmLimit,
    capNano,
    spendsMoney: environment === 'live',
  }
}
