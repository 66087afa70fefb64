import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { audit, type Changes } from '../../../shared/io/audit.ts'
import { hasSecondFactor } from '../../auth/second-factor-rule.ts'
import { endpoint } from '../../endpoint.ts'
import type { SecurityAnswer } from '../wire/person.ts'

const change = endpoint({
  method: 'patch',
  path: '/dashboard/api/organisations/{organisation}/security',
  tag: 'Dashboard',
  summary: 'Require two-factor sign-in of members, or stop requiring it',
  access: { permission: 'manage' },
  body: z.strictObject({ require_two_factor: z.boolean() }),
  answers: { 200: { description: 'The updated setting.' } },
  async handle({ services: { db }, organisationId, person, actor, body }): Promise<SecurityAnswer> {
    const { require_two_factor: required } = body
    if (required && !(await hasSecondFactor(db, person)))
      throw new GatewayError('two_factor_required', 'Set up two-factor sign-in for your own account first.')
    await db.$transaction(async tx => {
      const { count } = await tx.organisation.updateMany({
        where: { id: organisationId, requireTwoFactor: !required },
        data: { requireTwoFactor: required },
      })
      const changes = { require_two_factor: [!required, required] } satisfies Changes
      if (count === 1) await audit(tx, { organisationId, actor, action: 'organisation.changed', changes })
    })
    return { data: { require_two_factor: required } }
  },
})

export const securityRoutes = [change]
