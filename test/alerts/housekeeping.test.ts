// Housekeeping that no worker completes: an incident, a metric and a finding of the doctor, also with no worker left.

import { examine } from '../../api/operator/doctor.ts'
import { HousekeepingWatch } from '../../shared/alerts/housekeeping-watch.ts'
import { openWorkerRedis } from '../../shared/io/redis.ts'
import { readRuns, recordRun } from '../../shared/queues/housekeeping.ts'
import { openQueue, type QueueName, type QueueRow, queueAddress, queues } from '../../shared/queues/queues.ts'
import { done, runQueue } from '../../workers/run-queue.ts'
import { eventually } from '../support/gateway.ts'
import { measured } from '../support/metrics/samples.ts'
import { storesEnv } from '../support/operator.ts'
import { test } from '../support/test.ts'
import { useGateway, useStores } from '../support/use.ts'
import { testClock } from '../support/wallet/money.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const clock = testClock('2027-03-10T12:00:00Z')
let watch: HousekeepingWatch

const stores = useStores(test)
const gateway = useGateway(test, measured, { stores, clock })
test.before(() => {
  watch = new HousekeepingWatch(gateway.services)
})
test.beforeEach(async () => {
  clock.advance(24 * hourMs)
  await gateway.services.redis.del('housekeeping')
  await watch.look()
})

/** Every task ran now. */
async function runAll(nowMs = clock.now()): Promise<void> {
  for (const [queue, { repeat = {} }] of Object.entries(queues) as [QueueName, QueueRow][])
    for (const task of Object.keys(repeat)) await recordRun(gateway.services.redis, queue, task, nowMs)
}

const openIncidents = () =>
  gateway.services.db.incident.findMany({
    where: { kind: 'housekeeping', closedAt: null },
    orderBy: { openedAt: 'asc' },
  })

async function gauge(name: string): Promise<Record<string, number>> {
  const samples = (await gateway.services.metrics!.render()).matchAll(/^(\w+)\{task="([^"]+)"\} (\S+)$/gm)
  return Object.fromEntries(
    Array.from(samples).flatMap(([, of, task, value]) => (of === name ? [[task, +value!]] : [])),
  )
}

test.serial(
  'an incident while no worker runs, also after a restart of every process; closed when tasks run again',
  async t => {
    await runAll()
    clock.advance(2 * minuteMs)
    await watch.look()
    t.deepEqual(await openIncidents(), [])
    clock.advance(minuteMs)
    await watch.look()
    const restarted = new HousekeepingWatch({ ...gateway.services, metrics: null })
    await restarted.look()
    const [incident, ...others] = await openIncidents()
    t.is(others.length, 0)
    t.is(incident!.openedAt.getTime(), clock.now() - 3 * minuteMs)
    t.regex(incident!.message!, /^Not completed in time: sweep, reconcile, jobs, requeue, webhooks and \d more\.$/)
    t.like(await gauge('headgate_housekeeping_overdue'), { sweep: 1, 'emails:alerts': 1, expire: 0 })
    await runAll()
    await restarted.look()
    t.deepEqual(await openIncidents(), [])
  },
)

test.serial('an incident where no worker has ever run, or Redis was emptied', async t => {
  clock.advance(2 * minuteMs)
  await watch.look()
  t.deepEqual(await openIncidents(), [])
  clock.advance(1)
  await watch.look()
  t.is((await openIncidents()).length, 1)
})

test.serial(
  'a task that runs seldom is overdue after three of its intervals; a run in the future does not count',
  async t => {
    await runAll()
    clock.advance(3 * hourMs)
    await runAll(clock.now() - minuteMs)
    const { redis } = gateway.services
    await redis.hset('housekeeping', 'expire', clock.now() - 3 * hourMs - 1)
    await watch.look()
    t.is((await openIncidents())[0]!.message, 'Not completed in time: expire.')
    await redis.hset('housekeeping', 'expire', clock.now() + 400 * 24 * hourMs)
    await watch.look()
    t.is((await openIncidents()).length, 1)
    await recordRun(redis, 'maintenance', 'expire', clock.now())
    await watch.look()
    t.deepEqual(await openIncidents(), [])
  },
)

test.serial('a worker records the tasks that it completed, and not those that failed', async t => {
  const { config, redis } = gateway.services
  const connection = openWorkerRedis(queueAddress(config))
  const queue = openQueue('maintenance', connection, config)
  const processor = async (task: string) => {
    if (task === 'expire') throw new Error('the storage is away')
    return done
  }
  const worker = runQueue({ queue: 'maintenance', processor }, gateway.services, connection)
  t.teardown(async () => {
    await worker.close()
    await queue.close()
    connection.disconnect()
  })
  const failed = new Promise(resolve => worker.once('failed', resolve))
  await queue.add('expire', {})
  await failed
  await queue.add('sweep', {})
  await eventually(async () => (await redis.hexists('housekeeping', 'sweep')) === 1, 'the run is recorded')
  const ran = (await readRuns(redis)).filter(({ lastMs }) => lastMs !== null)
  t.deepEqual(ran, [{ task: 'sweep', everyMs: 5_000, lastMs: clock.now(), recordedSinceMs: clock.now() }])
  await watch.look()
  t.deepEqual(await gauge('headgate_housekeeping_last_run_timestamp_seconds'), { sweep: clock.now() / 1_000 })
})

test.serial('operator doctor names tasks that are overdue and tasks that never ran', async t => {
  const { redis } = gateway.services
  const finding = async () => (await examine(storesEnv(stores))).find(({ check }) => check === 'housekeeping')!
  await redis.del('housekeeping')
  t.like(await finding(), { state: 'warning' })
  await runAll(Date.now())
  t.like(await finding(), { state: 'ok' })
  await redis.hset('housekeeping', 'sweep', Date.parse('2026-01-02T03:04:05Z'))
  t.like(await finding(), { state: 'failed', detail: 'overdue: sweep (last ran 2026-01-02T03:04:05Z)' })
})
