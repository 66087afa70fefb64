import type { BillingContext } from './reservation.ts'

type PolicyPart = Omit<BillingContext, 'spendsMoney' | 'rateKey'> & { environment: 'live' | 'test' }

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
  return {
    hash,
    version,
    keyId,
    rateKey: keyId,
    organisationId,
    expiresAtMs,
    rpmLimit,
    tpmLimit,
    capNano,
    spendsMoney: environment === 'live',
  }
}
