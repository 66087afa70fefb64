import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import type { StoredOverride } from '../../../shared/catalog/catalog-overrides.ts'
import { aliasArms, serverOverride } from '../../../shared/catalog/overrides.ts'
import { type ModelRow, modelRow, providerRow } from '../../../shared/catalog/schema.ts'
import type { Platform } from '../../../shared/platform.ts'
import { listServerModels } from '../../../shared/providers/list-server-models.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import {
  aliasTarget,
  modelId,
  modelPatch,
  newServer,
  patchModel,
  setAlias,
  setServer,
} from '../../operator/catalog-changes.ts'
import type {
  OperatorModel,
  OperatorModels,
  OperatorServer,
  OperatorServers,
  ServerTest,
} from '../wire/operator-catalog.ts'

const base = '/dashboard/api/operator'
const shared = { tag: 'Dashboard', access: 'operator' } as const

const listModels = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/models`,
  summary: 'List the models of the catalog with their changes',
  answers: { 200: { description: 'The models.' } },
  handle: ({ services }): OperatorModels => ({
    data: [...services.catalog.models.values()].map(row => presentModel(services, row)),
    faults: [...services.catalogOverrides.current.faults],
  }),
})

function presentModel({ catalogOverrides, upstreams }: Platform, row: ModelRow): OperatorModel {
  const { overrides } = catalogOverrides.current
  const file = catalogOverrides.base.models.get(row.id)
  const server = overrides.find(one => one.kind === 'server' && row.providers[0]?.provider === one.name)
  const aliases = overrides.flatMap(one =>
    one.kind === 'alias' && 'model' in one.value && one.value.model === row.id ? one.name : [],
  )
  const shared_aliases = overrides.flatMap(one =>
    one.kind === 'alias' && 'arms' in one.value && one.value.arms.some(({ model }) => model === row.id)
      ? { name: one.name, arms: one.value.arms }
      : [],
  )
  return {
    id: row.id,
    name: row.name,
    type: row.type,
    disabled: row.disabled,
    // A change back to what the files say is none.
    state_changed: row.disabled !== (file?.disabled ?? false),
    aliases,
    shared_aliases,
    server: server?.name ?? null,
    offers: row.providers.map(({ provider, upstream_model, price }, index) => {
      const filePrice = file?.providers[index]?.price ?? null
      return {
        provider,
        configured: upstreams.isConfigured(provider, 'live'),
        upstream_model,
        price,
        file_price: isDeepStrictEqual(price, filePrice) ? null : filePrice,
      }
    }),
  }
}

const changeModel = endpoint({
  ...shared,
  method: 'patch',
  path: `${base}/models/{id}`,
  summary: 'Enable, disable or reprice a model',
  body: modelPatch,
  answers: { 200: { description: 'The model.' } },
  errors: ['not_found', 'quota_exceeded'],
  async handle({ services, params, body, actor }): Promise<OperatorModel> {
    const id = modelId(services, params.id!)
    await patchModel(services, id, body, actor)
    return presentModel(services, services.catalog.models.get(id)!)
  },
})

const addAlias = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/aliases`,
  summary: 'Add an alias of a model, or one that several models share',
  body: z.strictObject({
    alias: modelRow.shape.id,
    model: z.string().min(1).max(200).optional().describe('The model that it names.'),
    arms: aliasArms
      .optional()
      .describe('The models that share its requests, and their percentages, instead of `model`.'),
  }),
  answers: { 200: { description: 'The model.' } },
  errors: ['not_found', 'quota_exceeded'],
  async handle({ services, body, actor }): Promise<OperatorModel> {
    const { alias, model, arms } = body
    await setAlias(services, alias, aliasTarget(model, arms), actor)
    const id = modelId(services, model ?? arms![0]!.model)
    return presentModel(services, services.catalog.models.get(id)!)
  },
})

const removeAlias = endpoint({
  ...shared,
  method: 'delete',
  path: `${base}/aliases/{id}`,
  summary: 'Remove an alias that was added',
  answers: { 200: { description: 'The name that is no alias any more.' } },
  errors: ['not_found'],
  async handle({ services, params, actor }): Promise<{ alias: string }> {
    await setAlias(services, params.id!, null, actor)
    return { alias: params.id! }
  },
})

const listServers = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/servers`,
  summary: 'List the servers that were added',
  answers: { 200: { description: 'The servers.' } },
  handle: ({ services }): OperatorServers => ({
    data: services.catalogOverrides.current.overrides.flatMap(one => presentServer(services, one) ?? []),
  }),
})

function presentServer({ catalogOverrides }: Platform, stored: StoredOverride): OperatorServer | null {
  if (stored.kind !== 'server') return null
  const { name, value, last4, updatedBy, updatedAt } = stored
  const fault = catalogOverrides.current.faults.find(one => one.kind === 'server' && one.name === name)
  return {
    ...value,
    name,
    api_key_last4: last4,
    updated_by: updatedBy,
    updated_at: updatedAt.toISOString(),
    fault: fault?.message ?? null,
  }
}

const saveServer = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/servers/{id}`,
  summary: 'Add or replace an OpenAI-compatible server',
  body: newServer,
  answers: { 200: { description: 'The servers.' } },
  errors: ['quota_exceeded'],
  async handle({ services, params, body, actor }): Promise<{ name: string }> {
    await setServer(services, params.id!, body, actor)
    return { name: params.id! }
  },
})

const removeServer = endpoint({
  ...shared,
  method: 'delete',
  path: `${base}/servers/{id}`,
  summary: 'Remove a server that was added',
  answers: { 200: { description: 'The name of the server.' } },
  errors: ['not_found'],
  async handle({ services, params, actor }): Promise<{ name: string }> {
    await setServer(services, params.id!, null, actor)
    return { name: params.id! }
  },
})

const testServer = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/server-tests`,
  summary: 'Ask a server for its models',
  body: z.strictObject({
    base_url: serverOverride.shape.base_url,
    api_key: newServer.shape.api_key,
    name: providerRow.shape.name.optional().describe('A server whose stored API key is used if none is given.'),
  }),
  answers: { 200: { description: 'The models that it lists.' } },
  handle({ services, body }): Promise<ServerTest> {
    const { base_url, api_key, name } = body
    const key =
      api_key === undefined && name !== undefined ? services.catalogOverrides.apiKeyOf(name, base_url) : api_key
    return listServerModels(base_url, key ?? null, services.config)
  },
})

export const operatorCatalogRoutes: Endpoint[] = [
  listModels,
  changeModel,
  addAlias,
  removeAlias,
  listServers,
  saveServer,
  removeServer,
  testServer,
]
