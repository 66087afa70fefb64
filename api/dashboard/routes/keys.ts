import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { may } from '../../../shared/base/roles.ts'
import { monthOf } from '../../../shared/base/time.ts'
import type { ApiKey } from '../../../shared/generated/prisma/client.ts'
import { presentContentSetting } from '../../../shared/keys/content-logging.ts'
import { keyPatch, keyRoll, newKey } from '../../../shared/keys/key-requests.ts'
import { keyStates } from '../../../shared/keys/keys.ts'
import type { Platform } from '../../../shared/platform.ts'
import { endpoint, type Validated } from '../../endpoint.ts'
import { keysQuery } from '../../routes/keys.ts'
import { type Page, readPage } from '../../routes/paging.ts'
import { presentKeys } from '../../routes/present-key.ts'
import { listCapRefusals } from '../queries/cap-refusals.ts'
import type { DashboardKey, KeyAnswer, KeySecretAnswer, KeysAnswer } from '../wire/keys.ts'

type Request = Pick<Validated<unknown, unknown>, 'services' | 'organisationId' | 'person' | 'role'>

const base = '/dashboard/api/organisations/{organisation}/keys'
const shared = { tag: 'Dashboard', access: { permission: 'use' } } as const
const secretOnce = 'The key with its secret, which is shown only once.'

/** Presents keys to a person of their organisation. */
async function present({ services, person, role }: Request, rows: ApiKey[]): Promise<DashboardKey[]> {
  const records = await presentKeys(services, rows)
  const makers = [...new Set(rows.map(({ createdById }) => createdById).filter(id => id !== null))]
  const people = await services.db.user.findMany({ where: { id: { in: makers } }, select: { id: true, name: true } })
  const names = new Map(people.map(({ id, name }) => [id, name]))
  const [shares, capRefusals] = await Promise.all([
    cacheHitShares(services, rows),
    listCapRefusals(
      services,
      rows.map((row, i) => ({ row, record: records[i]! })),
    ),
  ])
  return rows.map((row, i) => ({
    ...records[i]!,
    id: row.id,
    disabled: row.disabled && row.revokedAt === null,
    created_by: names.get(row.createdById ?? '') ?? null,
    mine: row.createdById === person.id,
    content_logging: presentContentSetting(row),
    cap_refused_at: capRefusals.get(row.id)?.toISOString() ?? null,
    cache_hit_share: shares.get(row.id) ?? null,
    may_manage: role !== null && (row.createdById === person.id || may(role, 'manage')),
  }))
}

/** The share of each key's prompt tokens of this month that providers read from their caches. */
async function cacheHitShares({ db, clock }: Platform, rows: ApiKey[]): Promise<Map<string, number>> {
  const organisations = [...new Set(rows.map(({ organisationId }) => organisationId))]
  const sums = await db.usageDay.groupBy({
    by: ['keyId'],
    where: {
      organisationId: { in: organisations },
      day: { gte: new Date(`${monthOf(clock.now())}-01`) },
      keyId: { in: rows.map(({ id }) => id) },
      promptTokens: { gt: 0 },
    },
    _sum: { promptTokens: true, cachedTokens: true },
  })
  return new Map(sums.map(({ keyId, _sum }) => [keyId, Number(_sum.cachedTokens) / Number(_sum.promptTokens)]))
}

/** Presents a key to a person of its organisation. */
export async function presentOne(request: Request, row: ApiKey): Promise<DashboardKey> {
  const [key] = await present(request, [row])
  return key!
}

type KeyRequest = Request & { params: Record<string, string> }

/** The key of the path, by any of its names, so that addresses outlive a roll. Throws 404. */
export function findKey({ services, organisationId, params }: KeyRequest): Promise<ApiKey> {
  return services.keys.find(organisationId, params.key!)
}

/** The hash of the key of the path. Throws 404 for an unknown key, 403 for a colleague's key unless the person is an administrator. */
async function findManageable(request: KeyRequest): Promise<string> {
  const { person, role } = request
  const { hash, createdById } = await findKey(request)
  if (createdById === person.id || may(role, 'manage')) return hash
  throw new GatewayError(
    'insufficient_role',
    'Members manage the keys they created. An administrator of the organisation can change this one.',
  )
}

const listKeys = endpoint({
  ...shared,
  method: 'get',
  path: base,
  summary: 'List the organisation’s keys',
  query: keysQuery.extend({
    search: z.string().max(200).optional(),
    member: z.string().min(1).max(100).optional().describe('The id of a person: only keys that they created.'),
    environment: z.enum(['live', 'test']).optional(),
    state: z.enum(keyStates).optional().describe('`unused`: active ones that were not used for 60 days.'),
  }),
  answers: { 200: { description: 'A page of keys, newest first.' } },
  errors: ['not_found', 'url_not_allowed'],
  handle(request): Promise<KeysAnswer> {
    const { services, organisationId, query } = request
    const { include_revoked: includeRevoked = false, search = '', member: createdById, environment, state } = query
    const filters = { includeRevoked, search: search.trim(), createdById, environment, state }
    const read = (page: Page) => services.keys.list(organisationId, { ...page, ...filters })
    return readPage(
      query,
      read,
      rows => present(request, rows),
      ({ hash }) => hash,
    )
  },
})

/** Creates a key for a person of the organisation. Throws 404 if they were removed in the meantime. */
export async function createFor(
  request: Request & Pick<Validated<unknown, unknown>, 'actor'>,
  policy: z.output<typeof newKey>,
): Promise<KeySecretAnswer> {
  const { services, organisationId, person, actor } = request
  const { row, secret } = await services.keys.create(organisationId, policy, actor)
  // A member who was removed in the meantime must leave no key behind.
  const where = { organisationId_userId: { organisationId, userId: person.id } }
  if (!(await services.db.membership.findUnique({ where }))) {
    await services.keys.revoke(organisationId, row.hash, actor)
    throw new GatewayError('not_found', 'No such organisation.')
  }
  return { data: await presentOne(request, row), key: secret }
}

const createKey = endpoint({
  ...shared,
  method: 'post',
  path: base,
  summary: 'Create a key',
  body: newKey,
  answers: { 201: { description: secretOnce } },
  errors: ['email_not_verified', 'quota_exceeded', 'url_not_allowed'],
  async handle(request): Promise<KeySecretAnswer> {
    const { person, body } = request
    if (!person.emailVerified)
      throw new GatewayError('email_not_verified', 'Confirm your email address first: we sent you a link.')
    return createFor(request, body)
  },
})

const readKey = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/{key}`,
  summary: 'Retrieve a key',
  answers: { 200: { description: 'The key.' } },
  async handle(request): Promise<KeyAnswer> {
    return { data: await presentOne(request, await findKey(request)) }
  },
})

const patchKey = endpoint({
  ...shared,
  method: 'patch',
  path: `${base}/{key}`,
  summary: 'Update a key',
  body: keyPatch,
  answers: { 200: { description: 'The updated key.' } },
  errors: ['email_not_verified', 'quota_exceeded', 'url_not_allowed'],
  async handle(request): Promise<KeyAnswer> {
    const { services, organisationId, person, actor, body } = request
    // The limits of the first test key are what bounds an unconfirmed account.
    if (!person.emailVerified)
      throw new GatewayError('email_not_verified', 'Confirm your email address to change keys: we sent you a link.')
    const hash = await findManageable(request)
    return { data: await presentOne(request, await services.keys.patch(organisationId, hash, body, actor)) }
  },
})

const rollKey = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{key}/roll`,
  summary: 'Roll a key',
  body: keyRoll,
  optionalBody: true,
  answers: { 200: { description: secretOnce } },
  async handle(request): Promise<KeySecretAnswer> {
    const { services, organisationId, actor, body } = request
    const hash = await findManageable(request)
    const options = { overlapHours: body.overlap_hours }
    const { row, secret } = await services.keys.roll(organisationId, hash, actor, options)
    return { data: await presentOne(request, row), key: secret }
  },
})

const revokeKey = endpoint({
  ...shared,
  method: 'delete',
  path: `${base}/{key}`,
  summary: 'Revoke a key',
  answers: { 200: { description: 'The revoked key.' } },
  async handle(request): Promise<KeyAnswer> {
    const { services, organisationId, actor } = request
    const hash = await findManageable(request)
    return { data: await presentOne(request, await services.keys.revoke(organisationId, hash, actor)) }
  },
})

export const keysRoutes = [listKeys, createKey, readKey, patchKey, rollKey, revokeKey]
