import { GatewayError } from '../../../shared/base/errors.ts'
import { createPlaygroundSecret } from '../../../shared/keys/playground-secrets.ts'
import { authorise, policyOf } from '../../../shared/keys/policy.ts'
import { consume } from '../../auth/limits.ts'
import { hasRole } from '../../auth/roles.ts'
import { endpoint } from '../../endpoint.ts'
import type { PlaygroundSecretAnswer } from '../wire/playground.ts'

/** Far more than one person's pages need: they keep a secret for as long as it lives. */
const perPerson = { windowS: 900, most: 200 }

const createSecret = endpoint({
  method: 'post',
  path: '/dashboard/api/organisations/{organisation}/keys/{hash}/playground-secret',
  tag: 'Dashboard',
  summary: 'A secret for the playground that stands for a key for 15 minutes',
  access: { role: 'member' },
  answers: { 201: { description: 'The secret, which appears only here.' } },
  errors: ['not_found', 'rate_limit_exceeded'],
  async handle({ services, organisationId, person, role, params, wide }): Promise<PlaygroundSecretAnswer> {
    const { keys, redis, clock } = services
    const row = await keys.get(organisationId, params.hash!)
    wide.key = row.id
    const needed = row.environment === 'test' || row.createdById === person.id ? 'member' : 'admin'
    if (!hasRole(role, needed))
      throw new GatewayError('insufficient_role', 'Members use test keys, and the live keys that they made themselves.')
    assertActive(() => authorise(policyOf(row), null, clock.now()))
    const { allowed, retryAfterS } = await consume(redis, `playground:${person.id}`, perPerson)
    if (!allowed)
      throw new GatewayError('rate_limit_exceeded', 'Too many secrets for the playground were asked for.', {
        headers: { 'retry-after': String(retryAfterS) },
      })
    const bound = { keyHash: row.hash, organisationId, userId: person.id, role: needed } as const
    const { value, expiresAtMs } = await createPlaygroundSecret(services, bound)
    return { secret: value, expires_at: new Date(expiresAtMs).toISOString() }
  },
})

/** Throws 400 in place of the 401 that a client of the key would get: the person is who they are. */
function assertActive(check: () => void): void {
  try {
    check()
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    throw new GatewayError('invalid_request', 'This key was revoked or has expired. Choose another.', { param: 'hash' })
  }
}

export const playgroundRoutes = [createSecret]
