import type { Spender } from './admission.ts'

type PolicyPart = Omit<Spender, 'spendsMoney' | 'rateKey'> & { environment: 'live' | 'test' }

/** The part of a policy that the admission works with. */
export function spenderOf(policy: PolicyPart): Spender {
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
