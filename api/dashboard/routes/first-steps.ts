import { GatewayError } from '../../../shared/base/errors.ts'
import { newKey } from '../../../shared/keys/key-requests.ts'
import { firstKeyLimits } from '../../auth/confirm-address.ts'
import { withLock } from '../../auth/limits.ts'
import { endpoint } from '../../endpoint.ts'
import type { FirstRequestAnswer } from '../wire/first-steps.ts'
import type { KeySecretAnswer } from '../wire/keys.ts'
import { createFor } from './keys.ts'

const base = '/dashboard/api/organisations/{organisation}'
const firstKey = newKey.parse({ name: 'First test key', environment: 'test' })

const createFirstKey = endpoint({
  method: 'post',
  path: `${base}/first-key`,
  tag: 'Dashboard',
  summary: 'Create the organisation’s first test key, also before the email address is confirmed',
  access: { permission: 'own' },
  answers: { 201: { description: 'The key with its secret, which is shown only once.' } },
  errors: ['email_not_verified', 'quota_exceeded', 'service_unavailable'],
  handle(request): Promise<KeySecretAnswer> {
    const { services, organisationId, person } = request
    const { db, redis } = services
    return withLock(redis, `first-key:${person.id}`, async () => {
      if (await db.apiKey.findFirst({ where: { organisationId }, select: { id: true } }))
        throw new GatewayError('invalid_request', 'The organisation already has a key. Create another under API keys.')
      // One account has one key until it is confirmed, however many organisations it creates.
      if (
        !person.emailVerified &&
        (await db.apiKey.findFirst({ where: { createdById: person.id }, select: { id: true } }))
      )
        throw new GatewayError('email_not_verified', 'Confirm your email address to create another key.')
      return createFor(request, person.emailVerified ? firstKey : { ...firstKey, ...firstKeyLimits })
    })
  },
})

const readFirstRequest = endpoint({
  method: 'get',
  path: `${base}/first-request`,
  tag: 'Dashboard',
  summary: 'Retrieve the latest request, which the first steps wait for',
  access: { permission: 'use' },
  answers: { 200: { description: 'The request, or null before the first one.' } },
  async handle({ services: { db }, organisationId }): Promise<FirstRequestAnswer> {
    const row = await db.generation.findFirst({
      where: { organisationId },
      orderBy: { createdAt: 'desc' },
      select: { id: true, createdAt: true },
    })
    return { data: row && { id: row.id, created_at: row.createdAt.toISOString() } }
  },
})

export const firstStepsRoutes = [createFirstKey, readFirstRequest]
