import { GatewayError } from '../../../shared/base/errors.ts'
import { may } from '../../../shared/base/roles.ts'
import { createPlaygroundSecret } from '../../../shared/keys/playground-secrets.ts'
import { authorise, policyOf } from '../../../shared/keys/policy.ts'
import { assertRateLimit } from '../../auth/limits.ts'
import { endpoint } from '../../endpoint.ts'
import type { PlaygroundSecretAnswer } from '../wire/playground.ts'
import { findKey } from './keys.ts'

/** Far above the needs of one person's pages, which keep a secret for its whole lifetime. */
const perPerson = { windowS: 900, max: 200 }

const createSecret = endpoint({
  method: 'post',
  path: '/dashboard/api/organisations/{organisation}/keys/{key}/playground-secret',
  tag: 'Dashboard',
  summary: 'Create a playground secret for a key, valid for 15 minutes',
  access: { permission: 'use' },
  answers: { 201: { description: 'The secret, which is shown only once.' } },
  errors: ['not_found', 'rate_limit_exceeded'],
  async handle(request): Promise<PlaygroundSecretAnswer> {
    const { services, organisationId, person, role, logFields } = request
    const { redis, clock } = services
    const row = await findKey(request)
    logFields.key = row.id
    const isForAll = row.environment === 'test' || row.createdById === person.id
    if (!isForAll && !may(role, 'manage'))
      throw new GatewayError('insufficient_role', 'Members can use test keys, and the live keys that they created.')
    // A request of a suspended organisation does not get here.
    const organisation = { suspendedAt: null, contentMode: null, contentPercent: null, contentUntil: null, budgets: [] }
    assertActive(() => authorise(policyOf({ ...row, organisation }), null, clock.now()))
    await assertRateLimit(redis, `playground:${person.id}`, perPerson, 'Too many playground secrets were created.')
    const bound = { keyHash: row.hash, organisationId, userId: person.id, role: isForAll ? 'member' : 'admin' } as const
    const { value, expiresAtMs } = await createPlaygroundSecret(services, bound)
    return { secret: value, expires_at: new Date(expiresAtMs).toISOString() }
  },
})

/** Throws 400 instead of the 401 that an API client would get: the person is authenticated. */
function assertActive(check: () => void): void {
  try {
    check()
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    throw new GatewayError('invalid_request', 'This key was revoked or has expired. Choose another key.', {
      param: 'key',
    })
  }
}

export const playgroundRoutes = [createSecret]
