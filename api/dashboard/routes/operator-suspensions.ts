import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { setSuspension } from '../../../shared/keys/suspensions.ts'
import { setPersonSuspension } from '../../auth/suspensions.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import { reason } from '../../operator/flags.ts'
import type { OperatorPerson, OrganisationDetail } from '../wire/operator.ts'
import { detailOf } from './operator-organisations.ts'
import { findPerson } from './operator-people.ts'

const ofOrganisation = '/dashboard/api/operator/organisations/{organisation}/suspension'
const ofPerson = '/dashboard/api/operator/people/{id}/suspension'
const shared = { tag: 'Dashboard', access: 'operator', errors: ['not_found'] as ['not_found'] } as const
const body = z.strictObject({ reason: reason.describe('Shown in the audit log.') })

const suspendOrganisation = endpoint({
  ...shared,
  method: 'post',
  path: ofOrganisation,
  summary: 'Suspend an organisation',
  body,
  answers: { 200: { description: 'The organisation.' } },
  async handle({ services, params, body, actor }): Promise<OrganisationDetail> {
    await setSuspension(services, params.organisation!, body.reason, actor)
    return detailOf(services, params.organisation!)
  },
})

const resumeOrganisation = endpoint({
  ...shared,
  method: 'delete',
  path: ofOrganisation,
  summary: 'Resume an organisation',
  answers: { 200: { description: 'The organisation.' } },
  async handle({ services, params, actor }): Promise<OrganisationDetail> {
    await setSuspension(services, params.organisation!, null, actor)
    return detailOf(services, params.organisation!)
  },
})

const suspendPerson = endpoint({
  ...shared,
  method: 'post',
  path: ofPerson,
  summary: 'Suspend a person',
  body,
  answers: { 200: { description: 'The person.' } },
  async handle({ services, params, body, person, actor }): Promise<OperatorPerson> {
    if (params.id === person.id)
      throw new GatewayError('invalid_request', 'Operators cannot suspend themselves. Ask another operator.', {
        param: 'id',
      })
    const { id } = await setPersonSuspension(services, { id: params.id! }, body.reason, actor)
    return findPerson(services, id)
  },
})

const resumePerson = endpoint({
  ...shared,
  method: 'delete',
  path: ofPerson,
  summary: 'Resume a person',
  answers: { 200: { description: 'The person.' } },
  async handle({ services, params, actor }): Promise<OperatorPerson> {
    const { id } = await setPersonSuspension(services, { id: params.id! }, null, actor)
    return findPerson(services, id)
  },
})

export const operatorSuspensionRoutes: Endpoint[] = [
  suspendOrganisation,
  resumeOrganisation,
  suspendPerson,
  resumePerson,
]
