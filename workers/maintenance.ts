import { raiseBalanceAlerts } from '../shared/alerts/balances.ts'
import { raiseCapAlerts } from '../shared/alerts/caps.ts'
import { blockExceededKeys } from '../shared/alerts/excesses.ts'
import { watchFailures, watchStores } from '../shared/alerts/incident-watch.ts'
import { forgetIncidents } from '../shared/alerts/incidents.ts'
import { dayMs } from '../shared/base/time.ts'
import { requeueDelayed, sweepDelayed } from '../shared/delayed/sweep.ts'
import { forgetCounters } from '../shared/feedback/counters.ts'
import { forgetFeedback } from '../shared/feedback/feedback.ts'
import type { Database } from '../shared/io/db.ts'
import { requeueJobs, sweepJobs } from '../shared/jobs/sweep.ts'
import type { MaintenanceTask } from '../shared/queues/queues.ts'
import type { Services } from '../shared/services.ts'
import { forgetJobs } from '../shared/store/retention.ts'
import { maintainPartitions } from '../shared/wallet/partitions.ts'
import { expireIdempotencyKeys, reconcile, reconcileHolds, sweepReservations } from '../shared/wallet/reconcile.ts'
import { done, type Outcome } from './run.ts'

const tasks: Record<MaintenanceTask, (services: Services) => Promise<void>> = {
  async sweep({ scripts, log }) {
    const released = await sweepReservations(scripts)
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
    await blockExceededKeys(services)
    await raiseCapAlerts(services)
    await raiseBalanceAlerts(services)
  },
  incidents: watchStores,
  failures: watchFailures,
  async jobs(services) {
    const { expired, lost: lostStarts } = await sweepJobs(services)
    const lost = lostStarts + (await sweepDelayed(services))
    if (expired + lost > 0) services.log.warn({ expired, lost }, 'neglected jobs taken up')
  },
  async requeue(services) {
    await requeueJobs(services)
    await requeueDelayed(services)
    for await (const ids of services.batches.idsUnfinished()) await services.batchWakes.add(...ids)
  },
  async partitions({ db, clock, config }) {
    await maintainPartitions(db, clock.now(), config.generationRetentionMonths)
  },
  async expire({ db, files, storedResponses, conversations, contents, webhooks, clock, config }) {
    await expireIdempotencyKeys(db, clock.now())
    await storedResponses.expire(clock.now())
    await conversations.expire(clock.now())
    await contents.expire(clock.now())
    await files.expire(clock.now())
    await forgetJobs(db, new Date(clock.now() - config.resultRetentionDays * dayMs), clock.now())
    await webhooks.expire(clock.now())
    const logged = new Date(clock.now() - config.generationRetentionMonths * monthMs)
    await forgetFeedback(db, logged)
    await forgetIncidents({ db }, logged)
    await forgetCounters(db, clock.now())
    await expireAccounts(db, clock.now())
  },
}

const monthMs = 31 * dayMs

/** Retention of expired invitations. */
const invitationRetentionMs = 90 * dayMs

/** Deletes expired sessions and links; the accounts library leaves most of them. */
async function expireAccounts(db: Database, nowMs: number): Promise<void> {
  const ended = { expiresAt: { lt: new Date(nowMs) } }
  await db.session.deleteMany({ where: ended })
  await db.verification.deleteMany({ where: ended })
  await db.invitation.deleteMany({ where: { expiresAt: { lt: new Date(nowMs - invitationRetentionMs) } } })
}

/** Runs one maintenance task. Logs and ignores an unknown task, which another version of the service may have queued. */
export async function runMaintenance(name: string, _data: unknown, services: Services): Promise<Outcome> {
  if (Object.hasOwn(tasks, name)) await tasks[name as MaintenanceTask](services)
  else services.log.warn({ task: name }, 'unknown maintenance task')
  return done
}
