import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import type { ApiKey } from '../../../shared/generated/prisma/client.ts'
import { keyPatch, newKey } from '../../../shared/keys/key-requests.ts'
import { hasRole } from '../../auth/roles.ts'
import { endpoint, type Validated } from '../../endpoint.ts'
import { presentKeys } from '../../key-answers.ts'
import { keysQuery } from '../../routes/keys.ts'
import { type Page, pageOf } from '../../routes/paging.ts'
import type { DashboardKey, KeyAnswer, KeySecretAnswer, KeysAnswer } from '../wire/keys.ts'

type Request = Pick<Validated<unknown, unknown>, 'services' | 'organisationId' | 'person' | 'role'>

const base = '/dashboard/api/organisations/{organisation}/keys'
const shared = { tag: 'Dashboard', access: { role: 'member' } } as const
const secretOnce = 'The key, and its secret this once.'

/** Keys as a person of their organisation sees them. */
async function present({ services, person, role }: Request, rows: ApiKey[]): Promise<DashboardKey[]> {
  const records = await presentKeys(services, rows)
  const makers = [...new Set(rows.map(({ createdById }) => createdById).filter(id => id !== null))]
  const people = await services.db.user.findMany({ where: { id: { in: makers } }, select: { id: true, name: true } })
  const names = new Map(people.map(({ id, name }) => [id, name]))
  return rows.map((row, i) => ({
    ...records[i]!,
    id: row.id,
    disabled: row.disabled && row.revokedAt === null,
    created_by: names.get(row.createdById ?? '') ?? null,
    mine: row.createdById === person.id,
    may_manage: row.createdById === person.id || hasRole(role, 'admin'),
  }))
}

async function presentOne(request: Request, row: ApiKey): Promise<DashboardKey> {
  const [key] = await present(request, [row])
  return key!
}

/** Throws 404 for a key that is not there, 403 for a colleague's where the person is no admin. */
async function assertMayManage(request: Request & { params: Record<string, string> }): Promise<void> {
  const { services, organisationId, person, role, params } = request
  const { createdById } = await services.keys.get(organisationId, params.hash!)
  if (createdById === person.id || hasRole(role, 'admin')) return
  throw new GatewayError(
    'insufficient_role',
    'Members manage the keys they made. An admin of the organisation can change this one.',
  )
}

const listKeys = endpoint({
  ...shared,
  method: 'get',
  path: base,
  summary: 'The organisation’s standard keys',
  query: keysQuery.extend({ search: z.string().max(200).optional() }),
  answers: { 200: { description: 'A page of keys, newest first.' } },
  errors: ['not_found'],
  handle(request): Promise<KeysAnswer> {
    const { services, organisationId, query } = request
    const { include_revoked: includeRevoked = false, search = '' } = query
    const read = (page: Page) => services.keys.list(organisationId, { ...page, includeRevoked, search: search.trim() })
    return pageOf(
      query,
      read,
      rows => present(request, rows),
      ({ hash }) => hash,
    )
  },
})

const createKey = endpoint({
  ...shared,
  method: 'post',
  path: base,
  summary: 'Create a standard key',
  body: newKey,
  answers: { 201: { description: secretOnce } },
  errors: ['email_not_verified'],
  async handle(request): Promise<KeySecretAnswer> {
    const { services, organisationId, person, actor, body } = request
    if (!person.emailVerified)
      throw new GatewayError('email_not_verified', 'Confirm your email address first: we sent you a link.')
    const { row, secret } = await services.keys.create(organisationId, body, actor)
    // Whoever was removed in that moment must leave no key behind.
    const where = { organisationId_userId: { organisationId, userId: person.id } }
    if (!(await services.db.membership.findUnique({ where }))) {
      await services.keys.revoke(organisationId, row.hash, actor)
      throw new GatewayError('not_found', 'There is no such organisation.')
    }
    return { data: await presentOne(request, row), key: secret }
  },
})

const readKey = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/{hash}`,
  summary: 'Read one key',
  answers: { 200: { description: 'The key.' } },
  async handle(request): Promise<KeyAnswer> {
    const { services, organisationId, params } = request
    return { data: await presentOne(request, await services.keys.get(organisationId, params.hash!)) }
  },
})

const patchKey = endpoint({
  ...shared,
  method: 'patch',
  path: `${base}/{hash}`,
  summary: 'Edit one key',
  body: keyPatch,
  answers: { 200: { description: 'The key as it is now.' } },
  async handle(request): Promise<KeyAnswer> {
    const { services, organisationId, actor, params, body } = request
    await assertMayManage(request)
    return { data: await presentOne(request, await services.keys.patch(organisationId, params.hash!, body, actor)) }
  },
})

const rollKey = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{hash}/roll`,
  summary: 'Replace a key’s secret',
  answers: { 200: { description: secretOnce } },
  async handle(request): Promise<KeySecretAnswer> {
    const { services, organisationId, actor, params } = request
    await assertMayManage(request)
    const { row, secret } = await services.keys.roll(organisationId, params.hash!, actor)
    return { data: await presentOne(request, row), key: secret }
  },
})

const revokeKey = endpoint({
  ...shared,
  method: 'delete',
  path: `${base}/{hash}`,
  summary: 'Revoke one key for good',
  answers: { 200: { description: 'The key, revoked.' } },
  async handle(request): Promise<KeyAnswer> {
    const { services, organisationId, actor, params } = request
    await assertMayManage(request)
    return { data: await presentOne(request, await services.keys.revoke(organisationId, params.hash!, actor)) }
  },
})

export const keysRoutes = [listKeys, createKey, readKey, patchKey, rollKey, revokeKey]
