import type { Spender } from './ticket.ts'

type PolicyPart = Omit<Spender, 'spendsMoney' | 'rateKey'> & { environment: 'live' | 'test' }

const spenders = new WeakMap<PolicyPart, Spender>()

/** The part of a policy that the admission works with; of the same policy the same object. */
export function spenderOf(policy: PolicyPart): Spender {
  let spender = spenders.get(policy)
  if (!spender) {
    spender = partOf(policy)
    spenders.set(policy, spender)
  }
  return spender
}

function partOf(policy: PolicyPart): Spender {
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
