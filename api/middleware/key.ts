import { GatewayError } from '../../shared/base/errors.ts'
import { newId } from '../../shared/base/ids.ts'
import { authorise, spenderOf } from '../../shared/chat/run.ts'
import type { Known } from '../../shared/keys/policies.ts'
import type { Scope } from '../../shared/keys/policy.ts'
import { hashSecret, secretKind } from '../../shared/keys/secret.ts'
import type { Services } from '../../shared/services.ts'
import { rateHeaders } from '../../shared/wallet/admission.ts'

/** The secret of an `Authorization: Bearer` header. Throws 401. */
function bearer(authorization: string | undefined): string {
  if (!authorization) throw new GatewayError('missing_api_key', 'Send your API key as `Authorization: Bearer <key>`.')
  const [, secret] = /^Bearer +(\S+) *$/i.exec(authorization) ?? []
  if (!secret) throw new GatewayError('invalid_api_key', 'The Authorization header must be `Bearer <key>`.')
  return secret
}

/** The standard key of a request, allowed to use `scope` (null = any). Throws 401 and 403; a remembered policy never refuses by itself. */
export async function standardKey(
  services: Services,
  authorization: string | undefined,
  scope: Scope | null,
): Promise<Known> {
  const secret = bearer(authorization)
  const kind = secretKind(secret)
  if (kind === 'provisioning')
    throw new GatewayError(
      'wrong_key_type',
      'A provisioning key manages keys and cannot call this route. Use a standard key.',
    )
  if (!kind) throw new GatewayError('invalid_api_key', 'This does not look like an API key of this service.')
  const known = await services.policies.find(hashSecret(secret))
  try {
    authorise(known.policy, scope ?? ([...known.policy.scopes][0]! as Scope), services.clock.now())
    return known
  } catch (error) {
    if (known.fresh !== '') throw error
    const confirmed = await services.policies.confirm(known)
    authorise(confirmed.policy, scope ?? ([...confirmed.policy.scopes][0] as Scope), services.clock.now())
    return confirmed
  }
}

/** The organisation of a provisioning key. Throws 401, 403 for a standard key. */
export async function provisioningKey(services: Services, authorization: string | undefined): Promise<string> {
  const secret = bearer(authorization)
  const kind = secretKind(secret)
  if (kind === 'standard') throw new GatewayError('wrong_key_type', 'This route needs a provisioning key.')
  if (!kind) throw new GatewayError('invalid_api_key', 'This does not look like a provisioning key of this service.')
  return services.keys.provisioningOrganisation(secret)
}

/** Counts a request that costs nothing against the key's limits and confirms its policy. Gives the rate-limit headers. Throws 401, 429, 503. */
export async function admitFree(services: Services, known: Known): Promise<Record<string, string>> {
  const free = { estimatedTokens: 0, fixedNano: 0, picoPerOutputToken: 0, outputTokens: 0, explicit: true }
  let current = known
  for (let round = 0; round < 3; round++) {
    const spender = { ...spenderOf(current.policy), spendsMoney: false }
    const admitted = await services.admission.admit(spender, current.fresh, newId('req'), free)
    if (!('stale' in admitted)) return rateHeaders(admitted.rates)
    current = await services.policies.read(known.policy.hash, admitted.stale)
    authorise(current.policy, [...current.policy.scopes][0] as Scope, services.clock.now())
  }
  throw new GatewayError('service_unavailable', 'This key is changing right now. Try again.', {
    headers: { 'retry-after': '1' },
  })
}
