import type { Policy } from '../keys/policy.ts'
import type { Spender } from '../wallet/admission.ts'

/** The part of a policy that the admission works with. */
export function spenderOf(policy: Policy): Spender {
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
