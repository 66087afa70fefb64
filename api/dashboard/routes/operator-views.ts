import { auditHourly } from '../../../shared/io/audit.ts'
import type { Endpoint } from '../../endpoint.ts'
import { findOrganisation } from '../../operator/flags.ts'
import { activityRoutes } from './activity.ts'
import { auditRoutes } from './audit.ts'
import { autoTopUpRoutes } from './auto-top-up.ts'
import { billingRoutes } from './billing.ts'
import { keysRoutes } from './keys.ts'
import { requestListRoutes } from './request-list.ts'
import { requestsRoutes } from './requests.ts'
import { usageRoutes } from './usage.ts'
import { usageGroupRoutes } from './usage-groups.ts'

const ofMembers = '/dashboard/api/organisations/{organisation}'
const ofOperators = '/dashboard/api/operator/organisations/{organisation}'

/** What an operator sees of any organisation (docs/decisions/operator-views.md). */
const figures = ['activity', 'usage', 'usage/groups', 'usage/groups.csv', 'usage/groups.jsonl']
const money = [
  'billing/auto-top-up',
  'billing/ledger',
  'billing/ledger.csv',
  'billing/statement.pdf',
  'billing/totals',
  'top-ups',
]
const records = [
  'keys',
  'keys/{key}',
  'audit',
  'audit.csv',
  'audit.jsonl',
  'request-count',
  'request-filters',
  'requests/{id}/neighbours',
]
/** Each person's calls: the organisation's audit log says who looked at them. */
const audited = ['requests', 'requests/{id}']

const routes = [
  ...[activityRoutes, usageRoutes, usageGroupRoutes, billingRoutes, autoTopUpRoutes],
  ...[keysRoutes, auditRoutes, requestListRoutes, requestsRoutes],
].flat()

/** The organisation's own route, for operators. Throws an Error if it has none of this path. */
function forOperators(path: string): Endpoint {
  const route = routes.find(({ method, path: own }) => method === 'get' && own === `${ofMembers}/${path}`)
  if (!route) throw new Error(`no route to view ${path}`)
  return {
    ...route,
    path: `${ofOperators}/${path}`,
    access: 'operator',
    errors: [...new Set([...(route.errors ?? []), 'not_found' as const])],
    async handle(request) {
      const { services, actor, params, logFields } = request
      const { id: organisationId } = await findOrganisation(services, params.organisation!)
      logFields.organisation = organisationId
      if (audited.includes(path)) {
        const entry = { organisationId, actor, action: 'request_log.viewed' }
        await auditHourly(services.db, entry, services.clock.now())
      }
      return route.handle(Object.assign(request, { organisationId, role: null }))
    },
  }
}

export const operatorViewRoutes: Endpoint[] = [...figures, ...money, ...records, ...audited].map(forOperators)
