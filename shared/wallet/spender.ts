import type { Spender } from './admission.ts'

/** The part of a policy that the admission works with. */
export function spenderOf(policy: Omit<Spender, 'spendsMoney'> & { environment: 'live' | 'test' }): Spender {
  const { hash, version, keyId, organisationId, expiresAtMs, rpmLimit, tpmLimit, capNano, environment } = policy
  return {
    hash,
    version,
    keyId,
    organisationId,
    expiresAtMs,
    rpmLimit,
    tpmLimit,
    capNano,
    spendsMoney: environment === 'live',
  }
}
