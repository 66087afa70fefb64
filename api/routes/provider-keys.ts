import { newProviderKey, presentProviderKey, providerKeyPatch } from '../../shared/providers/provider-keys.ts'
import { endpoint } from '../endpoint.ts'
import { deletedProviderKey, providerKeyAnswer, providerKeyList } from '../schemas/provider-keys.ts'

const base = '/api/v1/provider-keys'
const shared = { tag: 'Provisioning', access: 'provisioning' } as const

const listProviderKeys = endpoint({
  ...shared,
  method: 'get',
  path: base,
  operationId: 'listProviderKeys',
  summary: 'List own provider keys',
  answers: {
    200: {
      description: 'All provider keys of the organisation, oldest first; there are at most 100.',
      schema: providerKeyList,
    },
  },
  async handle({ services, organisationId }) {
    const rows = await services.providerKeys.list(organisationId)
    return { object: 'list', data: rows.map(presentProviderKey) }
  },
})

const createProviderKey = endpoint({
  ...shared,
  method: 'post',
  path: base,
  operationId: 'createProviderKey',
  summary: 'Store an own provider key',
  description:
    'Keys of the organisation use it if their `own_keys` is `own` or `own_then_shared`. The provider is asked whether it accepts the key; one that it refuses is not stored.',
  body: newProviderKey,
  example: { provider: 'magic_hour', name: 'Production', secret: 'mhk_live_0123456789' },
  answers: { 201: { description: 'The key, without its secret.', schema: providerKeyAnswer } },
  errors: ['quota_exceeded'],
  async handle({ services, organisationId, actor, body, keep }) {
    const row = await services.providerKeys.create(organisationId, body, actor, (tx, made) =>
      keep(tx, { data: presentProviderKey(made) }),
    )
    return { data: presentProviderKey(row) }
  },
})

const readProviderKey = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/{id}`,
  operationId: 'getProviderKey',
  summary: 'Retrieve an own provider key',
  answers: { 200: { description: 'The key, without its secret.', schema: providerKeyAnswer } },
  errors: ['not_found'],
  async handle({ services, organisationId, params }) {
    return { data: presentProviderKey(await services.providerKeys.get(organisationId, params.id!)) }
  },
})

const updateProviderKey = endpoint({
  ...shared,
  method: 'patch',
  path: `${base}/{id}`,
  operationId: 'updateProviderKey',
  summary: 'Update an own provider key',
  description:
    'A `secret` replaces the present one with the next request on every process; calls that run end with the one they began with.',
  body: providerKeyPatch,
  example: { enabled: false },
  answers: { 200: { description: 'The updated key.', schema: providerKeyAnswer } },
  errors: ['not_found'],
  async handle({ services, organisationId, params, body, actor }) {
    return { data: presentProviderKey(await services.providerKeys.update(organisationId, params.id!, body, actor)) }
  },
})

const testProviderKey = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{id}/test`,
  operationId: 'testProviderKey',
  summary: 'Test an own provider key',
  description: 'Asks the provider, by a request that costs nothing, whether it accepts the key.',
  answers: { 200: { description: 'The key with what its provider answered.', schema: providerKeyAnswer } },
  errors: ['not_found'],
  async handle({ services, organisationId, params }) {
    return { data: presentProviderKey(await services.providerKeys.test(organisationId, params.id!)) }
  },
})

const deleteProviderKey = endpoint({
  ...shared,
  method: 'delete',
  path: `${base}/{id}`,
  operationId: 'deleteProviderKey',
  summary: 'Delete an own provider key',
  answers: {
    200: { description: 'Requests no longer use it, and jobs that run with it fail.', schema: deletedProviderKey },
  },
  errors: ['not_found'],
  async handle({ services, organisationId, params, actor }) {
    await services.providerKeys.delete(organisationId, params.id!, actor)
    return { data: { id: params.id!, deleted: true } }
  },
})

export const providerKeyRoutes = [
  listProviderKeys,
  createProviderKey,
  readProviderKey,
  updateProviderKey,
  testProviderKey,
  deleteProviderKey,
]
