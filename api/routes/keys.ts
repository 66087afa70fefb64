import { z } from 'zod'
import type { Connection } from '../../shared/io/db.ts'
import { keyPatch, keyRoll, newKey } from '../../shared/keys/key-requests.ts'
import type { CreatedKey } from '../../shared/keys/keys.ts'
import { endpoint } from '../endpoint.ts'
import { key } from '../schemas/account.ts'
import { page } from '../schemas/core.ts'
import { type Page, paging, readPage } from './paging.ts'
import { presentKey, presentKeys, presentNewKey } from './present-key.ts'

const one = z.strictObject({ data: key }).meta({ id: 'ApiKeyResponse' })
const withSecret = z
  .strictObject({ data: key, key: z.string().describe('The secret, which is returned only once.') })
  .meta({ id: 'ApiKeyWithSecret' })
const shared = { tag: 'Provisioning', access: 'provisioning' } as const

const truth = z.enum(['true', 'false']).transform(text => text === 'true')

export const keysQuery = z.strictObject({
  ...paging,
  after: z.string().max(64).optional().describe('A cursor: the `hash` of the last key of the previous page.'),
  include_revoked: truth.optional().meta({ default: 'false', description: 'Whether to include revoked keys.' }),
})

export const listKeys = endpoint({
  ...shared,
  method: 'get',
  path: '/api/v1/keys',
  operationId: 'listKeys',
  summary: 'List keys',
  errors: ['not_found'],
  query: keysQuery,
  answers: { 200: { description: 'A page of keys.', schema: page(key, 'ApiKeyList') } },
  async handle({ services, organisationId, query }) {
    const { include_revoked: includeRevoked = false } = query
    const read = (page: Page) => services.keys.list(organisationId, { ...page, includeRevoked })
    return readPage(
      query,
      read,
      rows => presentKeys(services, rows),
      ({ hash }) => hash,
    )
  },
})

export const createKey = endpoint({
  ...shared,
  method: 'post',
  path: '/api/v1/keys',
  operationId: 'createKey',
  summary: 'Create a key',
  body: newKey,
  example: {
    name: 'Checkout',
    environment: 'live',
    rpm_limit: 600,
    monthly_spend_cap_usd: 50,
    scopes: 'chat,embeddings',
  },
  answers: { 201: { description: 'The key with its secret, which is returned only once.', schema: withSecret } },
  errors: ['quota_exceeded', 'url_not_allowed'],
  async handle({ services, organisationId, actor, body, keep }) {
    // A new key has not spent anything yet.
    const shown = (made: CreatedKey) => presentNewKey(services, made, 0n)
    return shown(await services.keys.create(organisationId, body, actor, (tx, made) => keep(tx, shown(made))))
  },
})

export const readKey = endpoint({
  ...shared,
  method: 'get',
  path: '/api/v1/keys/{hash}',
  operationId: 'getKey',
  summary: 'Retrieve a key',
  answers: { 200: { description: 'The key.', schema: one } },
  errors: ['not_found'],
  async handle({ services, organisationId, params }) {
    return { data: await presentKey(services, await services.keys.get(organisationId, params.hash!)) }
  },
})

export const patchKey = endpoint({
  ...shared,
  method: 'patch',
  path: '/api/v1/keys/{hash}',
  operationId: 'updateKey',
  summary: 'Update a key',
  description: 'Takes effect with the next request on every process.',
  body: keyPatch,
  example: { rpm_limit: 1200, disabled: false },
  answers: { 200: { description: 'The updated key.', schema: one } },
  errors: ['not_found', 'quota_exceeded', 'url_not_allowed'],
  async handle({ services, organisationId, actor, params, body }) {
    return { data: await presentKey(services, await services.keys.patch(organisationId, params.hash!, body, actor)) }
  },
})

export const rollKey = endpoint({
  ...shared,
  method: 'post',
  path: '/api/v1/keys/{hash}/roll',
  operationId: 'rollKey',
  summary: 'Roll a key',
  description:
    'Replaces the secret and keeps the policy. The old secret stops working immediately, or after `overlap_hours`. At most one old secret works beside the current one: a further roll ends it, and so does a revocation.',
  body: keyRoll,
  optionalBody: true,
  example: { overlap_hours: 24 },
  answers: { 200: { description: 'The key with its new secret.', schema: withSecret } },
  errors: ['not_found'],
  async handle({ services, organisationId, actor, params, body, keep }) {
    const key = await services.keys.get(organisationId, params.hash!)
    const spentNano = (await services.wallets.monthSpend([key])).get(key.id) ?? 0n
    const shown = (made: CreatedKey) => presentNewKey(services, made, spentNano)
    const options = {
      overlapHours: body.overlap_hours,
      beside: (tx: Connection, rolled: CreatedKey) => keep(tx, shown(rolled)),
    }
    return shown(await services.keys.roll(organisationId, params.hash!, actor, options))
  },
})

export const deleteKey = endpoint({
  ...shared,
  method: 'delete',
  path: '/api/v1/keys/{hash}',
  operationId: 'deleteKey',
  summary: 'Delete a key',
  answers: {
    200: {
      description: 'Revokes the key. Its usage history is kept.',
      schema: z
        .strictObject({ data: z.strictObject({ hash: z.string(), deleted: z.literal(true) }) })
        .meta({ id: 'DeletedApiKey' }),
    },
  },
  errors: ['not_found'],
  async handle({ services, organisationId, actor, params }) {
    await services.keys.revoke(organisationId, params.hash!, actor)
    return { data: { hash: params.hash!, deleted: true } }
  },
})
