import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import type { Prisma } from '../../../shared/generated/prisma/client.ts'
import { type Endpoint, endpoint, type Validated } from '../../endpoint.ts'
import { paging, readPage } from '../../routes/paging.ts'
import { maxExported, sendAudit } from '../audit-export.ts'
import { auditFilters, presentEvent, readEvents, whereOf } from '../queries/audit-search.ts'
import { readBounds } from '../queries/span.ts'
import { daysOf, type ExportFormat, exportName } from '../row-export.ts'
import type { AuditAnswer } from '../wire/audit.ts'

/** An audit log: where its routes are, who may read it, and which entries it has. */
type Log = {
  base: string
  access: { permission: 'manage' } | 'operator'
  entries: string
  viewer: 'member' | 'operator'
  scopeOf: (request: Pick<Validated<unknown, unknown>, 'organisationId'>) => Prisma.AuditEventWhereInput
}

const ofOrganisation: Log = {
  base: '/dashboard/api/organisations/{organisation}',
  access: { permission: 'manage' },
  entries: 'what changed in the organisation',
  viewer: 'member',
  scopeOf: ({ organisationId }) => ({ organisationId }),
}
const ofOperators: Log = {
  base: '/dashboard/api/operator',
  access: 'operator',
  entries: 'what operators changed',
  viewer: 'operator',
  scopeOf: () => ({ actorKind: 'operator' }),
}

function listOf({ base, access, entries, viewer, scopeOf }: Log): Endpoint {
  return endpoint({
    method: 'get',
    tag: 'Dashboard',
    access,
    path: `${base}/audit`,
    summary: `List ${entries}`,
    query: z.strictObject({ ...paging, ...auditFilters }),
    answers: { 200: { description: 'A page of entries, newest first.' } },
    errors: ['not_found'],
    handle({ services: { db, clock }, query, ...request }): Promise<AuditAnswer> {
      const scope = scopeOf(request)
      const where = whereOf(scope, query, clock.now())
      return readPage(
        query,
        async ({ limit, after, order }) => {
          const last = after === undefined ? null : await db.auditEvent.findFirst({ where: { ...scope, id: after } })
          if (after !== undefined && !last)
            throw new GatewayError('not_found', 'No such audit log entry.', { param: 'after' })
          return readEvents(db, where, { last, order, limit })
        },
        async rows => rows.map(row => presentEvent(row, viewer)),
      )
    },
  })
}

function exportOf(
  { base, access, entries, viewer, scopeOf }: Log,
  format: ExportFormat,
  contentType: string,
): Endpoint {
  return endpoint({
    method: 'get',
    tag: 'Dashboard',
    access,
    path: `${base}/audit.${format}`,
    summary: `Export ${entries} as ${format === 'csv' ? 'CSV' : 'JSON Lines'}, newest first`,
    query: z.strictObject(auditFilters),
    answers: { 200: { description: `At most ${maxExported} entries.`, contentType } },
    async handle({ services, query, ctx, ...request }) {
      const nowMs = services.clock.now()
      const where = whereOf(scopeOf(request), query, nowMs)
      const { gte, lt } = readBounds(query, nowMs)
      const parts = ['audit-log', ...daysOf({ from: gte, to: lt ?? new Date(nowMs + 1) })]
      const name =
        viewer === 'operator'
          ? ['operator', ...parts].join('-')
          : await exportName(services.db, request.organisationId, ...parts)
      return sendAudit(ctx, services, { name, where, viewer, format })
    },
  })
}

export const auditRoutes: Endpoint[] = [ofOrganisation, ofOperators].flatMap(log => [
  listOf(log),
  exportOf(log, 'csv', 'text/csv'),
  exportOf(log, 'jsonl', 'application/jsonl'),
])
