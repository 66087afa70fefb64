import { runDelayed } from '../../../shared/delayed/run.ts'
import { sweepDelayed } from '../../../shared/delayed/sweep.ts'
import { CrashSuspectLimiter } from '../../../shared/queues/crash-suspect-limiter.ts'
import { hang } from '../../emulators/emulator.ts'
import { delayed, gated, path, startDelayedWorld, submitDelayed } from '../../support/delayed/jobs.ts'
import { type Account, eventually } from '../../support/gateway.ts'
import { answerOf, booked, rowOf, wallet } from '../../support/jobs/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'
import { testClock } from '../../support/wallet/money.ts'

let account: Account
const clock = use(test, () => testClock('2026-11-20T12:00:00Z'))
const world = use(test, () => startDelayedWorld({}, clock))
test.beforeEach(async () => {
  account = await world.gateway.account()
})
test.afterEach.always(() => world.upstream.reset())

const never = new AbortController().signal
const submit = async (text: string) => (await submitDelayed(world, account.live, delayed(text))).id as string
const shown = async (id: string) => answerOf(await world.gateway.fetch(`${path}/${id}`, { key: account.live }))

/** Claims so many jobs, as workers do whose processes die before any of them has ended. */
async function die(jobs = 1): Promise<string[]> {
  const { delayedJobs } = world.gateway.services
  const ids: string[] = []
  for (let i = 0; i < jobs; i++) {
    const job = await delayedJobs.claim()
    if (!job || job === 'blocked') break
    if (job.openStarts > 0) await delayedJobs.begin(job)
    ids.push(job.id)
  }
  clock.advance(11_000)
  await sweepDelayed(world.gateway.services)
  return ids
}

/** Runs the job whose turn it is to its end. */
async function runNext(signal = never): Promise<void> {
  const job = await world.gateway.services.delayedJobs.claim()
  if (job && job !== 'blocked') await runDelayed(world.gateway.services, job, signal)
}

test.serial('failed, refunded: a delayed job whose worker died three times', async t => {
  const id = await submit('poison')
  for (let death = 1; death <= 3; death++) {
    t.is((await rowOf(world.gateway, id)).stage, 'waiting')
    t.deepEqual(await die(), [id])
  }
  t.is(await world.gateway.services.delayedJobs.claim(), null)
  t.like(await shown(id), { status: 'failed', error: { code: 'internal_error' }, cost_usd: 0 })
  t.deepEqual(await booked(world.gateway, id), [])
  t.like(await wallet(world.gateway, account), { balance_usd: 25, reserved_usd: 0 })
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial('completed: a job that saw two workers die, and one that was handed back many times', async t => {
  const id = await submit('innocent')
  await die()
  await die()
  world.upstream.next(hang)
  for (let i = 0; i < 4; i++) {
    const stopping = new AbortController()
    const ran = runNext(stopping.signal)
    if (i === 0) await eventually(() => world.upstream.requests.length === 1, 'the provider is asked')
    stopping.abort()
    await ran
    t.like(await rowOf(world.gateway, id), { stage: 'waiting', openStarts: 2 })
  }
  await runNext()
  t.is((await shown(id)).status, 'completed')
})

test.serial(
  'completed, asked for once: a job whose lease has expired while its run in this process is alive',
  async t => {
    const id = await submit('alive')
    const { reply, go } = gated()
    world.upstream.next(reply)
    const ran = runNext()
    await eventually(() => world.upstream.requests.length === 1, 'the provider is asked')
    clock.advance(11_000)
    t.is(await sweepDelayed(world.gateway.services), 0)
    go()
    await ran
    t.is((await shown(id)).status, 'completed')
    t.is((await rowOf(world.gateway, id)).attempts, 1)
    t.is(world.upstream.requests.length, 1)
  },
)

test.serial('completed: the jobs that ran beside a poisonous one, which alone is given up', async t => {
  const poison = await submit('poison')
  const others = await Promise.all(Array.from({ length: 11 }, (_, i) => submit(`innocent ${i}`)))
  t.is((await die(12)).length, 12)
  // As one process runs them: what it runs beside the poisonous one dies with it.
  for (let lives = 1; lives <= 4; lives++) await lifeWith(poison)
  t.like(await shown(poison), { status: 'failed', error: { code: 'internal_error' } })
  for (const id of others) t.is((await shown(id)).status, 'completed', id)
})

/** The life of one worker process: it runs whatever there is to do until it has to run the poisonous job. */
async function lifeWith(poison: string): Promise<void> {
  const { services } = world.gateway
  for (
    let job = await services.delayedJobs.claim();
    job && job !== 'blocked';
    job = await services.delayedJobs.claim()
  ) {
    if (job.id !== poison) {
      await runDelayed(services, job, never)
      continue
    }
    await services.delayedJobs.begin(job)
    clock.advance(11_000)
    await sweepDelayed(services)
    return
  }
}

test('suspects of one death run eight at a time, those of two alone, others at once', async t => {
  const crashSuspects = new CrashSuspectLimiter()
  const running = new Set<string>()
  const ends = new Map<string, () => void>()
  const start = (name: string, openStarts: number) =>
    crashSuspects.run(openStarts, async () => {
      running.add(name)
      await new Promise<void>(end => ends.set(name, end))
      running.delete(name)
    })
  const end = async (...names: string[]) => {
    for (const name of names) ends.get(name)!()
    await new Promise(setImmediate)
  }
  const all = [...'abcdefghij'].map(name => start(name, 1))
  all.push(start('alone', 2), start('fresh', 0), start('k', 1))
  t.deepEqual([...running], [...'abcdefgh', 'fresh'])
  await end('a', 'b', 'c')
  t.deepEqual([...running], [...'defgh', 'fresh', 'i', 'j'])
  await end(...'defghij')
  t.deepEqual([...running], ['fresh', 'alone'])
  await end('alone')
  t.deepEqual([...running], ['fresh', 'k'])
  t.true(crashSuspects.isBusy)
  await end('fresh', 'k')
  await Promise.all(all)
  t.false(crashSuspects.isBusy)
})
