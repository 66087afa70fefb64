import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import { paging, readPage } from '../../routes/paging.ts'
import type { OperatorAudit } from '../wire/operator-catalog.ts'
import { filters, presentEvent, whereOf } from './audit.ts'

const listEvents = endpoint({
  method: 'get',
  path: '/dashboard/api/operator/audit',
  tag: 'Dashboard',
  summary: 'List what operators changed',
  access: 'operator',
  query: z.strictObject({ ...paging, ...filters }),
  answers: { 200: { description: 'A page of entries, newest first.' } },
  errors: ['not_found'],
  handle({ services: { db }, query }): Promise<OperatorAudit> {
    const ofOperators = { actorKind: 'operator' } as const
    return readPage(
      query,
      async ({ limit, after, order }) => {
        const last =
          after === undefined ? null : await db.auditEvent.findFirst({ where: { id: after, ...ofOperators } })
        if (after !== undefined && !last) throw new GatewayError('not_found', 'No such audit log entry.')
        const beyond = order === 'desc' ? 'lt' : 'gt'
        return db.auditEvent.findMany({
          where: {
            ...ofOperators,
            AND: whereOf(query),
            ...(last && {
              OR: [
                { createdAt: { [beyond]: last.createdAt } },
                { createdAt: last.createdAt, id: { [beyond]: last.id } },
              ],
            }),
          },
          include: { organisation: { select: { id: true, name: true } } },
          orderBy: [{ createdAt: order }, { id: order }],
          take: limit,
        })
      },
      async rows => rows.map(({ organisation, ...row }) => ({ ...presentEvent(row), organisation })),
    )
  },
})

export const operatorAuditRoutes: Endpoint[] = [listEvents]
