import { tellOfBalances } from '../shared/alerts/balances.ts'
import { tellOfCaps } from '../shared/alerts/caps.ts'
import { blockExceeded } from '../shared/alerts/excesses.ts'
import { requeueDelayed, sweepDelayed } from '../shared/async/upkeep.ts'
import { dayMs } from '../shared/base/time.ts'
import type { Database } from '../shared/io/db.ts'
import type { MaintenanceTask } from '../shared/jobs/queues.ts'
import { forgetJobs } from '../shared/jobs/retention.ts'
import { requeueJobs, sweepJobs } from '../shared/media/upkeep.ts'
import type { Services } from '../shared/services.ts'
import { keepPartitions } from '../shared/wallet/partitions.ts'
import { expireIdempotencyKeys, reconcile, reconcileHolds, sweepReservations } from '../shared/wallet/upkeep.ts'
import { done, type Outcome } from './run.ts'

const tasks: Record<MaintenanceTask, (services: Services) => Promise<void>> = {
  async sweep({ scripts, log }) {
    const released = await sweepReservations(scripts)
    if (released > 0) log.warn({ released }, 'reservations given back')
  },
  async reconcile({ db, redis, scripts, clock, log }) {
    const figures = await reconcile(db, redis, scripts, clock.now())
    const behind = figures + (await reconcileHolds(db, redis, scripts, clock.now()))
    if (behind > 0) log.warn({ behind }, 'wallets and spends brought up to date')
  },
  async webhooks({ webhooks, clock }) {
    await webhooks.enqueue(await webhooks.due(clock.now()))
  },
  async alerts(services) {
    await blockExceeded(services)
    await tellOfCaps(services)
    await tellOfBalances(services)
  },
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
    await keepPartitions(db, clock.now(), config.generationRetentionMonths)
  },
  async expire({ db, files, webhooks, clock, config }) {
    await expireIdempotencyKeys(db, clock.now())
    await files.expire(clock.now())
    await forgetJobs(db, new Date(clock.now() - config.resultRetentionDays * dayMs), clock.now())
    await webhooks.expire(clock.now())
    await expireAccounts(db, clock.now())
  },
}

/** How long it can be looked up who was invited. */
const invitationsKeptMs = 90 * dayMs

/** Deletes sessions and links that nobody can use any more; the accounts' library leaves most of them. */
async function expireAccounts(db: Database, nowMs: number): Promise<void> {
  const ended = { expiresAt: { lt: new Date(nowMs) } }
  await db.session.deleteMany({ where: ended })
  await db.verification.deleteMany({ where: ended })
  await db.invitation.deleteMany({ where: { expiresAt: { lt: new Date(nowMs - invitationsKeptMs) } } })
}

/** Runs one housekeeping task. A task of another version of the service is none of ours. */
export async function maintenance(name: string, _data: unknown, services: Services): Promise<Outcome> {
  if (Object.hasOwn(tasks, name)) await tasks[name as MaintenanceTask](services)
  else services.log.warn({ task: name }, 'unknown maintenance task')
  return done
}
