import { raiseTopUpAlerts } from '../shared/alerts/auto-top-ups.ts'
import { raiseBalanceAlerts } from '../shared/alerts/balances.ts'
import { raiseCapAlerts } from '../shared/alerts/caps.ts'
import { evaluateRules } from '../shared/alerts/evaluate-rules.ts'
import { handleExcesses, watchReservations } from '../shared/alerts/excesses.ts'
import { disableFailingEndpoints, watchEndpoints } from '../shared/alerts/failing-endpoints.ts'
import { groupIncidents } from '../shared/alerts/incident-groups.ts'
import { watchFailures, watchStores } from '../shared/alerts/incident-watch.ts'
import { requeueDelayed, sweepDelayed } from '../shared/delayed/sweep.ts'
import { requeueJobs, sweepJobs } from '../shared/jobs/sweep.ts'
import { watchLogExports } from '../shared/log-exports/pause.ts'
import type { Services } from '../shared/open-services.ts'
import type { MaintenanceTask } from '../shared/queues/queues.ts'
import { hourlyRules, pruneAll, requestLogRules } from '../shared/retention/rules.ts'
import { reconcile, reconcileHolds, sweepReservations } from '../shared/wallet/reconcile.ts'
import { sumDurations } from '../shared/wallet/sketches.ts'
import { done, type Outcome } from './run-queue.ts'

const tasks: Record<MaintenanceTask, (services: Services) => Promise<void>> = {
  async sweep({ scripts, clock, log }) {
    const released = await sweepReservations(scripts, clock.now())
    if (released > 0) log.warn({ released }, 'reservations released')
  },
  async reconcile({ db, redis, scripts, clock, log }) {
    const figures = await reconcile(db, redis, scripts, clock.now())
    const behind = figures + (await reconcileHolds(db, redis, scripts, clock.now()))
    if (behind > 0) log.warn({ behind }, 'wallets and spends brought up to date')
  },
  async webhooks({ webhooks, clock }) {
    await webhooks.enqueue(await webhooks.listOverdue(clock.now()))
  },
  async alerts(services) {
    await handleExcesses(services)
    await watchReservations(services)
    await raiseCapAlerts(services)
    await raiseBalanceAlerts(services)
    await raiseTopUpAlerts(services)
  },
  rules: evaluateRules,
  async incidents(services) {
    await watchStores(services)
    await groupIncidents(services)
  },
  async failures(services) {
    await watchFailures(services)
    await watchEndpoints(services)
    await watchLogExports(services)
    await groupIncidents(services)
  },
  async endpoints(services) {
    const disabled = await disableFailingEndpoints(services)
    if (disabled > 0) services.log.warn({ disabled }, 'webhook endpoints disabled: their deliveries failed for days')
  },
  durations: sumDurations,
  async jobs(services) {
    const { expired, lost: lostStarts } = await sweepJobs(services)
    const lost = lostStarts + (await sweepDelayed(services))
    if (expired + lost > 0) services.log.warn({ expired, lost }, 'expired or recovered jobs')
  },
  async requeue(services) {
    await requeueJobs(services)
    await requeueDelayed(services)
    for await (const ids of services.batches.listUnfinished()) await services.batchWakes.add(...ids)
  },
  async partitions(services) {
    await pruneAll(services, requestLogRules)
  },
  async expire(services) {
    await pruneAll(services, hourlyRules)
  },
}

/** Runs one maintenance task. Logs and ignores an unknown task, which another version of the service may have queued. */
export async function runMaintenance(name: string, _data: unknown, services: Services): Promise<Outcome> {
  if (Object.hasOwn(tasks, name)) await tasks[name as MaintenanceTask](services)
  else services.log.warn({ task: name }, 'unknown maintenance task')
  return done
}
