import { delayed, path, startDelayedWorld, submitDelayed } from '../support/delayed/jobs.ts'
import { answerOf } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { testClock } from '../support/wallet/money.ts'

for (const [window, seconds] of [
  ['1h', 120],
  ['6h', 900],
] as const) {
  test(`queued: a discounted ${window} job of a live key is not run before ${seconds} s are over, one of a test key is`, async t => {
    const clock = testClock('2026-11-22T12:00:00Z')
    const env = { JOB_HOLD_BACK_1H_SECONDS: '120', JOB_HOLD_BACK_6H_SECONDS: '900' }
    const world = await startDelayedWorld(env, clock)
    t.teardown(world.close)
    const { delayedJobs: jobs } = world.gateway.services
    const claimed = async () => {
      const job = await jobs.claim()
      return job === 'blocked' ? job : (job?.id ?? null)
    }
    const account = await world.gateway.account()
    const request = delayed('Half the price', {}, window)
    const headers = { prefer: 'wait=1' }
    const live = await answerOf(await world.gateway.fetch(path, { key: account.live, body: request, headers }))
    t.is(live.status, 'queued')
    const free = await submitDelayed(world, account.test, request)
    t.is(await claimed(), free.id)
    await world.gateway.fetch(`${path}/${free.id}/cancel`, { key: account.test, method: 'POST' })
    t.is(await claimed(), null)
    clock.advance(seconds * 1_000 - 1)
    t.is(await claimed(), null)
    clock.advance(1)
    t.is(await claimed(), live.id)
  })
}
