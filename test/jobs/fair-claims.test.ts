import { WorkerSlots } from '../../workers/worker-slots.ts'
import { monotonicAt } from '../support/clocks/monotonic.ts'
import { delayed, path, startDelayedWorld, submitDelayed } from '../support/delayed/jobs.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { answerOf } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

const world = use(test, () => startDelayedWorld({ WORKER_CONCURRENCY: '8' }))

const submitted = async (key: string, count: number, text = 'hello', window: '1h' | '6h' = '1h') => {
  const ids: string[] = []
  for (let i = 0; i < count; i++) ids.push((await submitDelayed(world, key, delayed(text, {}, window))).id)
  return ids
}
const stagesOf = async ({ organisationId }: Account) => {
  const rows = await world.gateway.services.db.job.groupBy({ by: ['stage'], where: { organisationId }, _count: true })
  return Object.fromEntries(rows.map(({ stage, _count }) => [stage, _count]))
}
const claimed = async (limits?: { full: string[]; isTestFull: boolean; suspects: boolean }) => {
  const job = await world.gateway.services.delayedJobs.claim(limits)
  return job === null || job === 'blocked' ? job : job.id
}
const clear = () => world.gateway.services.db.job.deleteMany({})

test.serial('claimed in turn: one job of each organisation, each organisation’s by deadline', async t => {
  const [many, few, test] = [
    await world.gateway.account(),
    await world.gateway.account(),
    await world.gateway.account(),
  ]
  const a = await submitted(many.live, 4)
  const late = await submitted(few.live, 1, 'late', '6h')
  const b = await submitted(few.live, 1)
  const c = await submitted(test.test, 1)
  const order = [await claimed(), await claimed(), await claimed()]
  t.deepEqual(order, [a[0]!, b[0]!, c[0]!])
  t.is(await claimed(), a[1]!)
  t.is(await claimed(), late[0]!)
  const limits = { full: [many.organisationId], isTestFull: false, suspects: true }
  t.is(await claimed(limits), 'blocked')
  t.deepEqual([await claimed(), await claimed(), await claimed()], [a[2]!, a[3]!, null])
  await clear()
})

test.serial('completed: a live job beside a hundred test jobs that take their time', async t => {
  t.timeout(60_000)
  const { gateway } = world
  const [attacker, victim] = [await gateway.account(), await gateway.account()]
  await submitted(attacker.test, 100, 'sandbox:timeout')
  const workers = startWorkers(gateway.services)
  try {
    await eventually(async () => (await stagesOf(attacker)).running === 2, 'the test jobs run')
    const [id] = await submitted(victim.live, 1)
    await eventually(async () => {
      const { status } = await answerOf(await gateway.fetch(`${path}/${id}`, { key: victim.live }))
      return status === 'completed'
    }, 'the live job is completed')
    const { waiting, running, over = 0 } = await stagesOf(attacker)
    t.true(running! <= 2)
    t.true(waiting! >= 90, `${waiting} wait, ${over} are over`)
    // A magic word holds no place for long: its job ends with a time-out after seconds.
    await eventually(async () => ((await stagesOf(attacker)).over ?? 0) > 0, 'test jobs end')
    const ended = await gateway.services.db.job.findFirstOrThrow({
      where: { organisationId: attacker.organisationId, stage: 'over' },
    })
    t.like(ended, { status: 'failed', error: { code: 'upstream_timeout' } })
  } finally {
    await workers.stop()
    await clear()
  }
})

test('of the places of a worker test keys have a quarter, an organisation three quarters', async t => {
  const places = new WorkerSlots(8)
  const ends: (() => void)[] = []
  const take = (organisationId: string, environment: 'live' | 'test') => {
    const owner = { organisationId, environment }
    if (!places.hasRoom(owner)) return false
    void places.run(owner, () => new Promise<void>(end => ends.push(end)))
    return true
  }
  t.deepEqual([take('a', 'test'), take('b', 'test'), take('c', 'test')], [true, true, false])
  t.deepEqual(
    Array.from({ length: 7 }, () => take('a', 'live')),
    [true, true, true, true, true, false, false],
  )
  t.deepEqual([places.full, places.isTestFull], [['a'], true])
  t.true(take('c', 'live'))
  for (const end of ends) end()
  await new Promise(setImmediate)
  t.deepEqual([places.full, places.isTestFull], [[], false])
  // However many find no place, they come back at a bounded rate.
  const pauses = Array.from({ length: 1_000 }, () => places.pauseMs(monotonicAt(0)))
  t.deepEqual([pauses[0], pauses[999]], [250, 10_240])
})
