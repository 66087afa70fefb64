import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { containing } from '../../../shared/io/keyset.ts'
import type { Platform } from '../../../shared/platform.ts'
import { setOperator } from '../../auth/operators.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import { paging, readPage } from '../../routes/paging.ts'
import type { OperatorPerson, PeoplePage } from '../wire/operator.ts'
import type { Role } from '../wire/person.ts'
import { presentSuspension } from './operator-organisations.ts'

const base = '/dashboard/api/operator/people'
const shared = { tag: 'Dashboard', access: 'operator' } as const
const maxOrganisations = 20

const listed = {
  id: true,
  name: true,
  email: true,
  emailVerified: true,
  operator: true,
  createdAt: true,
  suspendedAt: true,
  suspensionReason: true,
  memberships: {
    select: { role: true, organisation: { select: { id: true, name: true } } },
    orderBy: { createdAt: 'asc' },
    take: maxOrganisations,
  },
} as const

/** One person, as the list shows them. */
export async function findPerson(services: Platform, id: string): Promise<OperatorPerson> {
  const [row] = await read(services, { id, limit: 1 })
  return present(row!)
}

/** People, newest first: ids are ordered by creation time. */
function read(
  { db }: Platform,
  {
    id,
    search,
    operator,
    after,
    limit,
  }: {
    id?: string
    search?: string | undefined
    operator?: boolean | undefined
    after?: string | undefined
    limit: number
  },
) {
  const contains = search && containing(search.trim())
  return db.user.findMany({
    where: {
      ...(id !== undefined && { id }),
      ...(after !== undefined && { id: { lt: after } }),
      ...(operator !== undefined && { operator }),
      ...(contains && { OR: [{ email: contains }, { name: contains }] }),
    },
    select: listed,
    orderBy: { id: 'desc' },
    take: limit,
  })
}

function present({ memberships, ...user }: Awaited<ReturnType<typeof read>>[number]): OperatorPerson {
  return {
    id: user.id,
    name: user.name,
    email: user.email,
    email_verified: user.emailVerified,
    operator: user.operator,
    created_at: user.createdAt.toISOString(),
    suspension: presentSuspension(user),
    organisations: memberships.map(({ role, organisation }) => ({ ...organisation, role: role as Role })),
  }
}

const list = endpoint({
  ...shared,
  method: 'get',
  path: base,
  summary: 'List people, newest first',
  query: z.strictObject({
    limit: paging.limit,
    after: paging.after,
    search: z.string().max(200).optional(),
    operator: z
      .enum(['true', 'false'])
      .transform(text => text === 'true')
      .optional(),
  }),
  answers: { 200: { description: 'A page of people.' } },
  async handle({ services, query }): Promise<PeoplePage> {
    const { search, operator, after } = query
    const page = await readPage(
      { limit: query.limit, order: 'desc' },
      ({ limit }) => read(services, { search, operator, after, limit }),
      async rows => rows.map(present),
    )
    return { data: page.data, has_more: page.has_more, last_id: page.last_id as string | null }
  },
})

const change = endpoint({
  ...shared,
  method: 'patch',
  path: `${base}/{id}`,
  summary: 'Grant or revoke the operator role',
  body: z.strictObject({ operator: z.boolean() }),
  answers: { 200: { description: 'The person.' } },
  errors: ['not_found', 'email_not_verified'],
  async handle({ services, params, body, person, actor }): Promise<OperatorPerson> {
    if (params.id === person.id)
      throw new GatewayError('invalid_request', 'Operators cannot change their own role. Ask another operator.', {
        param: 'operator',
      })
    const { id } = await setOperator(services, { id: params.id! }, body.operator, actor)
    return findPerson(services, id)
  },
})

export const operatorPeopleRoutes: Endpoint[] = [list, change]
