import { newProviderKey, presentProviderKey, providerKeyPatch } from '../../../shared/providers/provider-keys.ts'
import { endpoint } from '../../endpoint.ts'
import type { ProviderKeyAnswer, ProviderKeysAnswer } from '../wire/provider-keys.ts'

const base = '/dashboard/api/organisations/{organisation}/provider-keys'
const forAdmins = { tag: 'Dashboard', access: { permission: 'manage' } } as const
const answers = { 200: { description: 'The key, without its secret.' } }

const listKeys = endpoint({
  ...forAdmins,
  method: 'get',
  path: base,
  summary: 'List own provider keys',
  answers: { 200: { description: 'The keys, and the providers that keys can be stored for.' } },
  async handle({ services, organisationId }): Promise<ProviderKeysAnswer> {
    const rows = await services.providerKeys.list(organisationId)
    return {
      data: rows.map(presentProviderKey),
      providers: services.providerKeys.providers(),
      fee_percent: Number(services.config.ownKeyFeePpm) / 10_000,
    }
  },
})

const addKey = endpoint({
  ...forAdmins,
  method: 'post',
  path: base,
  summary: 'Store an own provider key',
  body: newProviderKey,
  answers: { 201: { description: 'The key, without its secret.' } },
  errors: ['quota_exceeded'],
  async handle({ services, organisationId, body, actor }): Promise<ProviderKeyAnswer> {
    return { data: presentProviderKey(await services.providerKeys.create(organisationId, body, actor)) }
  },
})

const updateKey = endpoint({
  ...forAdmins,
  method: 'patch',
  path: `${base}/{id}`,
  summary: 'Update or replace an own provider key',
  body: providerKeyPatch,
  answers,
  errors: ['not_found'],
  async handle({ services, organisationId, params, body, actor }): Promise<ProviderKeyAnswer> {
    return { data: presentProviderKey(await services.providerKeys.update(organisationId, params.id!, body, actor)) }
  },
})

const testKey = endpoint({
  ...forAdmins,
  method: 'post',
  path: `${base}/{id}/test`,
  summary: 'Test an own provider key',
  answers,
  errors: ['not_found'],
  async handle({ services, organisationId, params }): Promise<ProviderKeyAnswer> {
    return { data: presentProviderKey(await services.providerKeys.test(organisationId, params.id!)) }
  },
})

const deleteKey = endpoint({
  ...forAdmins,
  method: 'delete',
  path: `${base}/{id}`,
  summary: 'Delete an own provider key',
  answers: { 200: { description: 'Jobs that run with it fail.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params, actor }): Promise<{ deleted: true }> {
    await services.providerKeys.delete(organisationId, params.id!, actor)
    return { deleted: true }
  },
})

export const providerKeysRoutes = [listKeys, addKey, updateKey, testKey, deleteKey]
