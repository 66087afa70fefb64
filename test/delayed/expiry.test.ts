import { hang } from '../emulators/emulator.ts'
import { delayed, path, startDelayedWorld, submitDelayed } from '../support/delayed/jobs.ts'
import { eventually } from '../support/gateway.ts'
import { answerOf, over, rowOf, type Shown, wallet } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { testClock } from '../support/wallet/money.ts'
import { runJobHousekeeping, startWorkers, type Workers } from '../support/workers.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
let workers: Workers | null = null

const clock = use(test, () => testClock('2026-11-10T12:00:00Z'))
const world = use(test, () => startDelayedWorld({}, clock))
test.afterEach.always(async () => {
  await workers?.stop()
  workers = null
  world.upstream.reset()
})

const shown = async (key: string, id: string): Promise<Shown> =>
  answerOf(await world.gateway.fetch(`${path}/${id}`, { key }))

test.serial('expired: a job that no worker runs in its window, refunded', async t => {
  const { gateway } = world
  const account = await gateway.account()
  const [short, long] = [
    await submitDelayed(world, account.live),
    await submitDelayed(world, account.live, delayed('long', {}, '6h')),
  ]
  clock.advance(hourMs - 1)
  await runJobHousekeeping(gateway.services)
  t.is((await shown(account.live, short.id)).status, 'queued')
  clock.advance(2)
  await runJobHousekeeping(gateway.services)
  t.like(await shown(account.live, short.id), { status: 'expired', cost_usd: 0, error: { code: 'upstream_timeout' } })
  t.is((await shown(account.live, long.id)).status, 'queued')
  workers = startWorkers(gateway.services)
  const { cost_usd, status } = await over(gateway, account.live, path, long.id)
  t.is(status, 'completed')
  t.is(world.upstream.requests.length, 1, 'an expired job is never run')
  t.like(await wallet(gateway, account), { balance_usd: 25 - cost_usd, reserved_usd: 0 })
  t.deepEqual(await gateway.settled(), [])
})

test.serial('expired: a job in the middle of its call is cut off, and free', async t => {
  const { gateway, upstream } = world
  const account = await gateway.account()
  upstream.next(hang)
  workers = startWorkers(gateway.services)
  const { id } = await submitDelayed(world, account.live)
  await eventually(() => upstream.requests.length === 1, 'it is asked')
  clock.advance(hourMs + 1)
  await runJobHousekeeping(gateway.services)
  await upstream.requests[0]!.aborted
  t.like(await over(gateway, account.live, path, id), { status: 'expired', cost_usd: 0, result: null })
  t.like(await wallet(gateway, account), { balance_usd: 25, reserved_usd: 0 })
  t.deepEqual(await gateway.settled(), [])
})

test.serial('expired in its worker’s own time: the call ends with the window', async t => {
  const { gateway, upstream } = world
  const account = await gateway.account()
  upstream.next(hang)
  const { id } = await submitDelayed(world, account.live)
  clock.advance(hourMs - 500)
  workers = startWorkers(gateway.services)
  await eventually(() => upstream.requests.length === 1, 'it is asked')
  await upstream.requests[0]!.aborted
  t.like(await over(gateway, account.live, path, id), { status: 'expired', cost_usd: 0 })
  t.deepEqual(await gateway.settled(), [])
})

test.serial('completed: the result is kept for seven days, the job for longer', async t => {
  const { gateway } = world
  const account = await gateway.account()
  workers = startWorkers(gateway.services)
  const { id } = await submitDelayed(world, account.live)
  const done = await over(gateway, account.live, path, id)
  t.is(done.result.object, 'chat.completion')
  const file = (await rowOf(gateway, id)).result as { storageKey: string }
  clock.advance(7 * dayMs + 1)
  t.like(await shown(account.live, id), { status: 'completed', result: null, cost_usd: done.cost_usd })
  await gateway.services.files.expire(clock.now())
  t.is(await gateway.services.blobs.read(file.storageKey), null)
  t.is((await shown(account.live, id)).result, null)
})
