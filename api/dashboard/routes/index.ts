import type { Endpoint } from '../../endpoint.ts'
import { activityRoutes } from './activity.ts'
import { alertRulesRoutes } from './alert-rules.ts'
import { alertsRoutes } from './alerts.ts'
import { attentionRoutes } from './attention.ts'
import { auditRoutes } from './audit.ts'
import { autoTopUpRoutes } from './auto-top-up.ts'
import { batchRoutes } from './batches.ts'
import { billingRoutes } from './billing.ts'
import { budgetRoutes } from './budgets.ts'
import { contentsRoutes } from './contents.ts'
import { firstStepsRoutes } from './first-steps.ts'
import { jobRoutes } from './jobs.ts'
import { keysRoutes } from './keys.ts'
import { logExportRoutes } from './log-exports.ts'
import { memberRoutes } from './members.ts'
import { modelsRoutes } from './models.ts'
import { operatorAdjustmentRoutes } from './operator-adjustments.ts'
import { operatorCatalogRoutes } from './operator-catalog.ts'
import { operatorHomeRoutes } from './operator-home.ts'
import { operatorIncidentRoutes } from './operator-incidents.ts'
import { operatorNotificationRoutes } from './operator-notifications.ts'
import { operatorOrganisationRoutes } from './operator-organisations.ts'
import { operatorPeopleRoutes } from './operator-people.ts'
import { operatorProviderRoutes } from './operator-providers.ts'
import { operatorQueueRoutes } from './operator-queues.ts'
import { operatorServiceRoutes } from './operator-service.ts'
import { operatorSuspensionRoutes } from './operator-suspensions.ts'
import { operatorViewRoutes } from './operator-views.ts'
import { personRoutes } from './person.ts'
import { playgroundRoutes } from './playground.ts'
import { presetsRoutes } from './presets.ts'
import { providerKeysRoutes } from './provider-keys.ts'
import { requestListRoutes } from './request-list.ts'
import { requestViewRoutes } from './request-views.ts'
import { requestsRoutes } from './requests.ts'
import { clearCacheRoute } from './response-cache.ts'
import { responsesRoutes } from './responses.ts'
import { securityRoutes } from './security.ts'
import { usageRoutes } from './usage.ts'
import { usageGroupRoutes } from './usage-groups.ts'
import { webhookEndpointRoutes } from './webhook-endpoints.ts'
import { webhooksRoutes } from './webhooks.ts'

/** The endpoints of the dashboard's pages. They are not part of the public API and may change with any version. */
export const dashboardEndpoints: readonly Endpoint[] = [
  ...personRoutes,
  ...keysRoutes,
  ...providerKeysRoutes,
  ...firstStepsRoutes,
  ...auditRoutes,
  ...memberRoutes,
  ...budgetRoutes,
  ...billingRoutes,
  ...autoTopUpRoutes,
  ...modelsRoutes,
  ...playgroundRoutes,
  ...presetsRoutes,
  ...webhooksRoutes,
  ...webhookEndpointRoutes,
  ...logExportRoutes,
  ...alertsRoutes,
  ...alertRulesRoutes,
  ...securityRoutes,
  ...responsesRoutes,
  clearCacheRoute,
  ...requestListRoutes,
  ...requestsRoutes,
  ...requestViewRoutes,
  ...contentsRoutes,
  ...usageRoutes,
  ...usageGroupRoutes,
  ...activityRoutes,
  ...attentionRoutes,
  ...jobRoutes,
  ...batchRoutes,
  ...operatorOrganisationRoutes,
  ...operatorViewRoutes,
  ...operatorAdjustmentRoutes,
  ...operatorSuspensionRoutes,
  ...operatorCatalogRoutes,
  ...operatorPeopleRoutes,
  ...operatorHomeRoutes,
  ...operatorIncidentRoutes,
  ...operatorNotificationRoutes,
  ...operatorProviderRoutes,
  ...operatorQueueRoutes,
  ...operatorServiceRoutes,
]
