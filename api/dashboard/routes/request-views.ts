import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { oneLine } from '../../../shared/base/one-line.ts'
import type { Connection } from '../../../shared/io/db.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import type { RequestViews } from '../wire/requests.ts'

/** The views of the request log that members have saved, each for themselves. */

const base = '/dashboard/api/organisations/{organisation}'
const shared = { tag: 'Dashboard', access: { permission: 'use' } } as const
const maxViews = 20
const maxQueryLength = 2_000

const view = z.strictObject({
  name: oneLine(z.string().trim().min(1).max(40)),
  query: z.string().max(maxQueryLength).describe('The query of the address of the list.'),
})

type Owner = { organisationId: string; userId: string }

async function listViews(db: Connection, where: Owner): Promise<RequestViews> {
  const select = { name: true, query: true }
  return { data: await db.requestView.findMany({ where, select, orderBy: [{ createdAt: 'asc' }, { name: 'asc' }] }) }
}

const list = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/request-views`,
  summary: 'List the views of requests that the person has saved',
  answers: { 200: { description: 'The views, in the order in which they were saved.' } },
  handle: ({ services, organisationId, person }) => listViews(services.db, { organisationId, userId: person.id }),
})

const save = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/request-views`,
  summary: 'Save a view of requests, in place of one of the same name',
  body: view,
  answers: { 200: { description: 'The views.' } },
  errors: ['quota_exceeded'],
  handle({ services, organisationId, person, body }): Promise<RequestViews> {
    const owner = { organisationId, userId: person.id }
    return services.db.$transaction(async tx => {
      // Of several at the same time, each counts those before it.
      await tx.$queryRaw`
        SELECT 1 FROM memberships WHERE organisation_id = ${organisationId} AND user_id = ${person.id} FOR UPDATE`
      if ((await tx.requestView.count({ where: { ...owner, name: { not: body.name } } })) >= maxViews)
        throw new GatewayError('quota_exceeded', `At most ${maxViews} views can be saved. Delete one first.`)
      await tx.requestView.upsert({
        where: { organisationId_userId_name: { ...owner, name: body.name } },
        create: { ...owner, ...body, createdAt: new Date(services.clock.now()) },
        update: { query: body.query },
      })
      return listViews(tx, owner)
    })
  },
})

const remove = endpoint({
  ...shared,
  method: 'delete',
  path: `${base}/request-views/{view}`,
  summary: 'Delete a view of requests by its name',
  answers: { 200: { description: 'The views that remain.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, person, params }): Promise<RequestViews> {
    const owner = { organisationId, userId: person.id }
    const { count } = await services.db.requestView.deleteMany({ where: { ...owner, name: params.view! } })
    if (count === 0) throw new GatewayError('not_found', 'No such view.', { param: 'view' })
    return listViews(services.db, owner)
  },
})

export const requestViewRoutes: Endpoint[] = [list, save, remove]
