import { newId } from '../../../shared/base/ids.ts'
import { nanoFromUsd } from '../../../shared/base/money.ts'
import { cancelJob } from '../../../shared/jobs/cancel.ts'
import { endJob } from '../../../shared/jobs/end.ts'
import { finishJob } from '../../../shared/jobs/finish.ts'
import type { NewJob } from '../../../shared/jobs/jobs.ts'
import { startJob } from '../../../shared/jobs/start.ts'
import { requeueJobs, sweepJobs } from '../../../shared/jobs/sweep.ts'
import { CrashSuspectLimiter } from '../../../shared/queues/crash-suspect-limiter.ts'
import { PollLoop } from '../../../workers/poll-loop.ts'
import { json, reset } from '../../emulators/emulator.ts'
import { startFal } from '../../emulators/fal.ts'
import { klingError, startKling } from '../../emulators/kling.ts'
import { startMagicHour } from '../../emulators/magic-hour.ts'
import { startRunway } from '../../emulators/runway.ts'
import { type Account, eventually, startGateway } from '../../support/gateway.ts'
import { answerOf, booked, clip, image, rowOf, submit } from '../../support/jobs/gateway.ts'
import { privateRedis } from '../../support/stack.ts'
import { test } from '../../support/test.ts'
import { use, useGateway, useStores } from '../../support/use.ts'

const path = '/v1/videos'
const body = { model: 'runway-gen4.5', prompt: 'A lighthouse at dusk', seconds: 5, aspect_ratio: '16:9' }
const priceUsd = 0.63

// No worker runs: the tests take its steps one by one.
const runway = use(test, startRunway)
const kling = use(test, () => startKling({ accounts: { access: 'secret' } }))
const fal = use(test, startFal)
const magicHour = use(test, startMagicHour)
const stores = useStores(test)
const gateway = useGateway(
  test,
  () => ({
    RUNWAY_API_KEY: 'key_1',
    RUNWAY_BASE_URL: `${runway.url}/v1`,
    KLING_API_KEY: 'access:secret',
    KLING_BASE_URL: `${kling.url}/v1`,
    FAL_API_KEY: 'key:secret',
    FAL_BASE_URL: fal.url,
    MAGIC_HOUR_API_KEY: 'key',
    MAGIC_HOUR_BASE_URL: magicHour.url,
  }),
  { stores },
)
test.beforeEach(() => {
  for (const { emulator } of [runway, kling, fal, magicHour]) emulator.reset()
})

/** A face swap, begun and finished at the provider, whose invoice is what it says now. */
async function swapped(account: Account, credits: number): Promise<string> {
  const swap = { video_url: await clip(10), face_image_url: image, source_face_consent: true }
  const { id } = await submit(gateway, '/v1/face-swap', account.live, swap)
  await startJob(gateway.services, id)
  const [work] = [...magicHour.works.values()].filter(({ body }) => body.name === id)
  const file = { url: `${magicHour.url}/files/${work!.id}/video.mp4` }
  magicHour.finish()
  magicHour.emulator.next(json(200, { status: 'complete', downloads: [file], credits_charged: credits }))
  return id
}

async function begun(account: Account): Promise<string> {
  const { id } = await submit(gateway, path, account.live, body)
  await startJob(gateway.services, id)
  return id
}
const row = (id: string) => rowOf(gateway, id)
const stops = () => runway.emulator.requests.filter(({ method }) => method === 'DELETE').length
const jobOf = ({ organisationId }: Account): NewJob => ({
  id: newId('job'),
  organisationId,
  keyId: 'key_x',
  requestId: 'req_x',
  environment: 'test',
  kind: 'video',
  model: 'runway-gen4.5',
  month: '2026-11',
  capNano: null,
  holdNano: 0n,
  webhookUrl: null,
  input: {},
  metadata: {},
  chargeNano: 0n,
  deadlineAt: new Date(Date.now() + 3_600_000),
})

test.serial('completed: two workers that finish a job at the same time leave its file alone', async t => {
  const account = await gateway.account()
  const id = await begun(account)
  runway.finish()
  await Promise.all([finishJob(gateway.services, id), finishJob(gateway.services, id)])
  const job = await answerOf(await gateway.fetch(`${path}/${id}`, { key: account.live }))
  t.is(job.status, 'completed')
  const file = await fetch(job.url)
  t.is(file.status, 200)
  t.is((await file.arrayBuffer()).byteLength, job.outputs[0].bytes)
  t.is(await gateway.services.db.file.count({ where: { organisationId: account.organisationId } }), 1)
})

test.serial('completed for what was held when the provider’s invoice is no amount', async t => {
  const account = await gateway.account()
  const id = await swapped(account, 1e300)
  t.is(await finishJob(gateway.services, id), null)
  t.like(await row(id), { status: 'completed', costNano: 567_000_000n })
  t.deepEqual(await booked(gateway, id), [-0.567])
  t.deepEqual(await gateway.settled(), [])
})

test.serial('completed for what was held when the catalog has no such price any more', async t => {
  const { services } = gateway
  const id = await swapped(await gateway.account(), 300)
  const model = services.catalog.models.get('magic-hour-face-swap')!
  const [deployment] = model.providers
  const { price } = deployment!
  deployment!.price = { unit: 'second', usd: '1' }
  t.teardown(() => Object.assign(deployment!, { price }))
  t.is(await finishJob(services, id), null)
  t.like(await row(id), { status: 'completed', costNano: 567_000_000n })
})

test.serial('in_progress: a look that fails at the end says nothing of the work', async t => {
  const id = await begun(await gateway.account())
  runway.finish()
  runway.emulator.next(json(503, { error: 'Busy' }))
  await gateway.services.pollSchedule.remove([id])
  t.is(await finishJob(gateway.services, id), null)
  t.is((await row(id)).stage, 'running')
  t.not(await gateway.services.redis.zscore('jobs:watch', id), null, 'it is looked at again')
})

test.serial('in_progress: the answer to a written start is lost, and the work is not stopped', async t => {
  const { services } = gateway
  const { id } = await submit(gateway, path, (await gateway.account()).live, body)
  let lost = 0
  const started: typeof services.jobs.markRunning = async (...of) => {
    const job = await services.jobs.markRunning(...of)
    if (lost++ === 0) throw new Error('the connection broke before the reply')
    return job
  }
  const jobs = Object.assign(Object.create(services.jobs), bound(services.jobs), { markRunning: started })
  await startJob({ ...services, jobs }, id)
  t.is(lost, 2)
  t.is((await row(id)).stage, 'running')
  t.is(stops(), 0)
})

test.serial('202 when the answer to the written row is lost: the job stands and is not denied', async t => {
  const { services } = gateway
  const { create } = services.jobs
  const account = await gateway.account()
  services.jobs.create = async job => {
    await create.call(services.jobs, job)
    throw new Error('the connection broke before the reply')
  }
  t.teardown(() => Object.assign(services.jobs, { create: create.bind(services.jobs) }))
  const { id } = await submit(gateway, path, account.live, body)
  t.deepEqual(await booked(gateway, id), [-priceUsd])
  t.deepEqual(await gateway.settled(), [])
})

test.serial(
  'cancelled while its provider is being asked: charged once that began, and the work is stopped',
  async t => {
    const { services } = gateway
    const { id } = await submit(gateway, path, (await gateway.account()).live, body)
    const answer = Promise.withResolvers<void>()
    runway.emulator.next(async (_request, response) => {
      await answer.promise
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ id: 'work' }))
    })
    const starting = startJob(services, id)
    await eventually(async () => (await row(id)).stage === 'starting', 'the provider is asked')
    t.is((await cancelJob(services, id)).status, 'queued')
    answer.resolve()
    await starting
    t.like(await row(id), { status: 'cancelled', stage: 'over' })
    t.deepEqual(await booked(gateway, id), [-priceUsd], 'the charge stands')
    t.deepEqual(await gateway.settled(), [])
  },
)

test.serial('cancelled while its provider is being asked: refunded when that did not begin', async t => {
  const { services } = gateway
  const { id } = await submit(gateway, path, (await gateway.account()).live, body)
  const claimed = await services.jobs.claimStart(id, 'runway', null)
  t.is((await cancelJob(services, id)).status, 'queued')
  await services.jobs.releaseStart(claimed!)
  t.is(await startJob(services, id), null)
  t.like(await row(id), { status: 'cancelled', costNano: 0n })
  t.deepEqual(await booked(gateway, id), [-priceUsd, priceUsd])
  t.deepEqual(await gateway.settled(), [])
})

test.serial('queued while one provider is busy, though another never takes it', async t => {
  const account = await gateway.account()
  kling.emulator.next(klingError(429, 1303, 'Too many tasks at once'))
  fal.emulator.next(json(401, { detail: 'Invalid API key' }))
  const { id } = await submit(gateway, path, account.live, { ...body, model: 'kling-v3-pro', aspect_ratio: undefined })
  t.true((await startJob(gateway.services, id))! > 0)
  t.is(fal.emulator.requests.length, 1)
  t.is((await row(id)).stage, 'waiting')
})

test.serial('in_progress while its finished file cannot be had; completed when it can', async t => {
  const id = await begun(await gateway.account())
  const output = [`${runway.url}/files/away/video.mp4`]
  const finished = json(200, { id: 'x', status: 'SUCCEEDED', createdAt: '2026-11-20T00:00:00Z', output })
  for (const away of [json(503, {}), json(429, {}), reset]) {
    runway.emulator.next(finished, away)
    t.true((await finishJob(gateway.services, id))! > 0)
    t.is((await row(id)).stage, 'running')
  }
  runway.finish()
  t.is(await finishJob(gateway.services, id), null)
  t.like(await row(id), { status: 'completed' })
  t.deepEqual(await gateway.settled(), [])
})

test.serial('failed at once when the finished file will never be there', async t => {
  const account = await gateway.account()
  const id = await begun(account)
  const output = [`${runway.url}/files/gone/video.mp4`]
  const finished = json(200, { id: 'x', status: 'SUCCEEDED', createdAt: '2026-11-20T00:00:00Z', output })
  runway.emulator.next(finished, json(404, {}))
  t.is(await finishJob(gateway.services, id), null)
  t.like(await row(id), { status: 'failed', costNano: 0n })
  t.deepEqual(await booked(gateway, id), [-priceUsd, priceUsd])
})

test.serial('queued again, all of them, after Redis was wiped', async t => {
  const { services } = gateway
  const account = await gateway.account()
  const ids: string[] = []
  for (let i = 0; i < 520; i++) ids.push((await services.jobs.create(jobOf(account))).id)
  await services.db.job.updateMany({ where: { id: { in: ids } }, data: { createdAt: new Date(Date.now() - 60_000) } })
  await services.mediaTasks.add('start', ids[0]!)
  const queued = () => services.redis.exists(...ids.map(id => `bull:media:start-${id}`))
  t.is(await queued(), 1)
  await requeueJobs(services)
  t.is(await queued(), ids.length)
})

test.serial('expired: a job that cannot be ended does not keep others from it', async t => {
  const { services } = gateway
  const account = await gateway.account()
  const [bad, good] = [await services.jobs.create(jobOf(account)), await services.jobs.create(jobOf(account))]
  // A refund that no balance can hold.
  const poison = { environment: 'live', costNano: 2n ** 63n - 1n, deadlineAt: new Date(0) } as const
  await services.db.job.update({ where: { id: bad.id }, data: poison })
  await services.db.job.update({ where: { id: good.id }, data: { deadlineAt: new Date(1) } })
  await sweepJobs(services)
  t.is((await row(good.id)).status, 'expired')
  t.is((await row(bad.id)).stage, 'waiting')
  await services.db.job.delete({ where: { id: bad.id } })
})

test.serial('failed with Redis away: the end stands in Postgres, and nothing else breaks', async t => {
  const redis = await privateRedis()
  const own = await startGateway({ ...stores, redisUrl: redis.url })
  t.teardown(async () => {
    await redis.restart()
    await own.close()
    await redis.stop()
  })
  const account = await own.account()
  const key = await own.services.db.apiKey.findFirstOrThrow({ where: { organisationId: account.organisationId } })
  const money = { environment: 'live', keyId: key.id, holdNano: nanoFromUsd('1'), chargeNano: null } as const
  const { id } = await own.services.jobs.create({ ...jobOf(account), ...money, webhookUrl: 'https://hook.example/' })
  await redis.kill()
  // Node ends a process for a rejection without a handler, even if one is attached a moment later.
  const unhandled: unknown[] = []
  const take = (reason: unknown) => unhandled.push(reason)
  process.on('unhandledRejection', take)
  t.teardown(() => process.off('unhandledRejection', take))
  const end = { status: 'failed', logStatus: 502, refund: true } as const
  t.is((await endJob(own.services, id, end))?.status, 'failed')
  t.deepEqual(unhandled, [])
})

/** The methods of an object, for another that stands in its place. */
function bound<T extends object>(object: T): Partial<T> {
  const names = Object.getOwnPropertyNames(Object.getPrototypeOf(object)).filter(name => name !== 'constructor')
  return Object.fromEntries(
    names.map(name => [name, (object[name as keyof T] as () => unknown).bind(object)]),
  ) as Partial<T>
}

test.serial('failed, refunded: a job whose worker died three times while it took the results in', async t => {
  const { services } = gateway
  const account = await gateway.account()
  const id = await begun(account)
  runway.finish()
  for (let death = 1; death <= 3; death++) await services.jobs.beginFinish(id)
  t.is(await finishJob(services, id), null)
  t.like(await row(id), { status: 'failed', error: { code: 'internal_error' } })
  t.deepEqual(await booked(gateway, id), [-priceUsd, priceUsd])
  t.deepEqual(await gateway.settled(), [])
})

test.serial(
  'completed: a finish that two workers died of, that failed for a while, that a stopping worker gave back',
  async t => {
    const { services } = gateway
    const id = await begun(await gateway.account())
    for (let death = 1; death <= 2; death++) await services.jobs.beginFinish(id)
    const output = [`${runway.url}/files/away/video.mp4`]
    const finished = json(200, { id: 'x', status: 'SUCCEEDED', createdAt: '2026-11-20T00:00:00Z', output })
    for (let tries = 1; tries <= 2; tries++) {
      runway.emulator.next(finished, json(503, {}))
      t.true((await finishJob(services, id))! > 0)
    }
    // A worker that is stopped in the middle of it says so before it ends.
    const crashSuspects = new CrashSuspectLimiter()
    const stopped = Promise.withResolvers<void>()
    const files: typeof services.files = Object.assign(Object.create(services.files), {
      store: async () => {
        await crashSuspects.uncountStarts()
        stopped.resolve()
        return new Promise(() => {})
      },
    })
    runway.finish()
    void finishJob({ ...services, crashSuspects, files }, id)
    await stopped.promise
    t.is((await row(id)).openStarts, 2)
    t.is(await finishJob(services, id), null)
    t.like(await row(id), { status: 'completed' })
  },
)

test.serial('failed: a job whose start crashes its worker, although its provider can be polled', async t => {
  const { services } = gateway
  const { db, jobs } = services
  const { id } = await submit(gateway, path, (await gateway.account()).test, body)
  const lapse = () => db.job.update({ where: { id }, data: { claimedUntil: new Date(0) } })
  await jobs.claimStart(id, 'runway', null)
  await lapse()
  for (let death = 2; death <= 3; death++) {
    await jobs.claimLostStart(id)
    await lapse()
  }
  await sweepJobs(services)
  t.is(await startJob(services, id), null)
  t.like(await row(id), { status: 'failed', stage: 'over', error: { code: 'internal_error' } })
})

test.serial('looked at on time: a job whose look could not be written, or read, at first', async t => {
  const { services } = gateway
  const { pollSchedule, jobs } = services
  const id = await begun(await gateway.account())
  await services.redis.del('jobs:watch')
  await pollSchedule.add([id], 0)
  const away = { reads: 1, writes: 2 }
  const failing =
    <A extends unknown[], R>(what: keyof typeof away, call: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      if (away[what]-- > 0) throw new Error(`no ${what} now`)
      return call(...args)
    }
  const loop = new PollLoop({
    ...services,
    pollSchedule: {
      claim: pollSchedule.claim.bind(pollSchedule),
      renew: pollSchedule.renew.bind(pollSchedule),
      remove: pollSchedule.remove.bind(pollSchedule),
      put: pollSchedule.put.bind(pollSchedule),
    } as unknown as typeof pollSchedule,
    jobs: {
      listRunning: failing('reads', jobs.listRunning.bind(jobs)),
      recordProgress: failing('writes', jobs.recordProgress.bind(jobs)),
    } as unknown as typeof jobs,
  })
  t.teardown(() => loop.stop())
  loop.start()
  await eventually(() => away.reads < 0 && away.writes < 0, 'both were tried again', 10_000)
  await loop.stop()
  const dueMs = Number(await services.redis.zscore('jobs:watch', id))
  t.true(Number.isInteger(dueMs), 'its next look is set: no lease has to end first')
})

test.serial('looked at again by the counted step: a job whose look never ended', async t => {
  const { services } = gateway
  const { pollSchedule, queues, clock } = services
  const id = await begun(await gateway.account())
  await queues.media.obliterate({ force: true })
  await pollSchedule.wake(id, 0)
  const { due } = await pollSchedule.claim(clock.now(), 100)
  t.true(due.some(job => job.id === id))
  // The worker that claimed it died; later another worker claims what is due.
  const loop = new PollLoop({ ...services, clock: { now: () => clock.now() + 120_000 } })
  t.teardown(() => loop.stop())
  loop.start()
  await eventually(async () => (await queues.media.getJob(`finish-${id}`)) !== undefined, 'the step is queued')
  await loop.stop()
  t.is(await services.redis.zscore('jobs:watch', id), null)
  t.is(await finishJob(services, id), null)
  t.not(await services.redis.zscore('jobs:watch', id), null, 'unfinished work is looked at as usual')
})
