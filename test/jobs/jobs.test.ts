import { json, reset } from '../emulators/emulator.ts'
import { startRunway } from '../emulators/runway.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { answerOf, booked, image, over, rowOf, running, submit, wallet } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'
import { runJobHousekeeping, startWorkers } from '../support/workers.ts'

const path = '/v1/videos'
// 0.12 USD a second and 5 % margin.
const body = { model: 'runway-gen4.5', prompt: 'A lighthouse at dusk', seconds: 5, aspect_ratio: '16:9' }
const priceUsd = 0.63

const runway = use(test, startRunway)
const gateway = useGateway(test, () => ({ RUNWAY_API_KEY: 'key_1', RUNWAY_BASE_URL: `${runway.url}/v1` }))
use(test, () => startWorkers(gateway.services))
test.beforeEach(() => runway.emulator.reset())

const creates = () => runway.emulator.requests.filter(({ method }) => method === 'POST').length
const accountOf = (options = {}): Promise<Account> => gateway.account(options)

test.serial('completed: charged at creation, nothing more at the end, the file is ours', async t => {
  const account = await accountOf()
  const job = await submit(gateway, path, account.live, { ...body, metadata: { shot: '12' } })
  t.like(job, {
    object: 'video.job',
    status: 'queued',
    model: 'runway-gen4.5',
    cost_usd: priceUsd,
    metadata: { shot: '12' },
  })
  t.deepEqual(await booked(gateway, job.id), [-priceUsd])
  t.like(await wallet(gateway, account), { balance_usd: 25 - priceUsd, available_usd: 25 - priceUsd, reserved_usd: 0 })
  await running(gateway, job.id)
  runway.finish()
  const done = await over(gateway, account.live, path, job.id)
  t.like(done, { status: 'completed', progress: 100, provider: 'runway', cost_usd: priceUsd, error: null })
  t.is(new URL(done.url).origin, gateway.services.config.publicUrl)
  t.is(creates(), 1)
  t.deepEqual(await gateway.settled(), [])
  const generation = await answerOf(await gateway.fetch(`/v1/generation?id=${job.id}`, { key: account.live }))
  t.like(generation, { status: 200, cost_usd: priceUsd, provider: 'runway', type: 'video', attempts: 1 })
})

test.serial(
  'completed: an import whose end PostgreSQL did not take is not counted as one that killed its worker',
  async t => {
    const account = await accountOf()
    const job = await submit(gateway, path, account.live, body)
    await running(gateway, job.id)
    const { db } = gateway.services
    const run = (sql: string) => db.$executeRawUnsafe(sql)
    // A sequence counts in transactions that are rolled back, too.
    await run('CREATE SEQUENCE refused_writes')
    await run(`CREATE FUNCTION refuse_write() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM nextval('refused_writes'); RAISE EXCEPTION 'no space left on device'; END $$`)
    await run(`CREATE TRIGGER refuse_write BEFORE UPDATE ON jobs FOR EACH ROW WHEN (OLD.open_starts > 0)
    EXECUTE FUNCTION refuse_write()`)
    try {
      runway.finish()
      const refused = () => db.$queryRaw<[{ count: bigint }]>`SELECT last_value AS count FROM refused_writes`
      await eventually(async () => (await refused())[0].count >= 3n, 'its end could not be stored')
    } finally {
      await run('DROP TRIGGER refuse_write ON jobs')
      await run('DROP FUNCTION refuse_write')
      await run('DROP SEQUENCE refused_writes')
    }
    await eventually(async () => {
      const { stage, openStarts } = await rowOf(gateway, job.id)
      return stage === 'running' && openStarts === 0
    }, 'the import is not counted')
    t.like(await over(gateway, account.live, path, job.id), { status: 'completed', cost_usd: priceUsd })
    t.deepEqual(await gateway.settled(), [])
  },
)

test.serial('failed: refunded in full, with the provider’s reason', async t => {
  const account = await accountOf()
  const job = await submit(gateway, path, account.live, body)
  await running(gateway, job.id)
  runway.fail()
  const done = await over(gateway, account.live, path, job.id)
  t.like(done, { status: 'failed', url: null, cost_usd: 0, outputs: [] })
  t.is(typeof done.error.message, 'string')
  t.deepEqual(await booked(gateway, job.id), [-priceUsd, priceUsd])
  t.like(await wallet(gateway, account), { balance_usd: 25, available_usd: 25, reserved_usd: 0 })
  t.deepEqual(await gateway.settled(), [])
})

for (const [what, reply] of [
  ['a broken connection', reset],
  ['a fault of the provider', json(500, { error: 'Internal' })],
  ['an answer without a handle', json(200, {})],
] as const) {
  test.serial(`failed: a start answered with ${what} is never repeated, and refunded`, async t => {
    const account = await accountOf()
    runway.emulator.next(reply)
    const job = await submit(gateway, path, account.live, body)
    const done = await over(gateway, account.live, path, job.id)
    t.like(done, { status: 'failed', cost_usd: 0 })
    t.is(creates(), 1)
    t.deepEqual(await gateway.settled(), [])
  })
}

test.serial('failed: what the provider says of the request is passed on', async t => {
  const account = await accountOf()
  runway.emulator.next(json(400, { error: 'promptText is not allowed.' }))
  const job = await submit(gateway, path, account.live, body)
  const done = await over(gateway, account.live, path, job.id)
  t.like(done, { status: 'failed', cost_usd: 0, error: { code: 'invalid_request' } })
  t.regex(done.error.message, /promptText/)
})

test.serial('completed: a provider that has no room is asked again', async t => {
  const account = await accountOf()
  runway.emulator.next(json(429, { error: 'Too many requests' }), json(503, { error: 'Busy' }))
  const job = await submit(gateway, path, account.live, body)
  await running(gateway, job.id)
  t.is(creates(), 3)
  runway.finish()
  t.like(await over(gateway, account.live, path, job.id), { status: 'completed', cost_usd: priceUsd })
  t.deepEqual(await gateway.settled(), [])
})

test.serial('cancelled before the provider began: refunded in full, never started', async t => {
  const account = await accountOf()
  runway.emulator.next(json(429, { error: 'Too many requests' }, { 'retry-after': '60' }))
  // A model of its own, as the provider's pause is for all jobs of one model.
  const resting = { model: 'runway-gen4-turbo', start_image_url: image, seconds: 9 }
  const job = await submit(gateway, path, account.live, resting)
  await eventually(async () => creates() === 1 && (await rowOf(gateway, job.id)).stage === 'waiting', 'it waits')
  const cancelled = await gateway.fetch(`${path}/${job.id}/cancel`, { key: account.live, method: 'POST' })
  t.is(cancelled.status, 200)
  t.like(await cancelled.json(), { status: 'cancelled', cost_usd: 0 })
  t.deepEqual(await booked(gateway, job.id), [-0.4725, 0.4725])
  const again = await gateway.fetch(`${path}/${job.id}/cancel`, { key: account.live, method: 'POST' })
  t.is(again.status, 409)
  t.is((await answerOf(again)).error.code, 'not_cancellable')
  t.is(again.headers.get('x-should-retry'), 'false')
  t.is(creates(), 1)
  t.deepEqual(await gateway.settled(), [])
})

test.serial('cancelled after the provider began: it is told to stop, and the charge stands', async t => {
  const account = await accountOf()
  const job = await submit(gateway, path, account.live, body)
  await running(gateway, job.id)
  const cancelled = await gateway.fetch(`${path}/${job.id}/cancel`, { key: account.live, method: 'POST' })
  t.like(await cancelled.json(), { status: 'cancelled', cost_usd: priceUsd })
  await eventually(() => runway.emulator.requests.some(({ method }) => method === 'DELETE'), 'the provider is told')
  t.deepEqual(await booked(gateway, job.id), [-priceUsd])
  t.deepEqual(await gateway.settled(), [])
})

test.serial('expired: work that takes too long is given up, refunded, and stopped', async t => {
  const account = await accountOf()
  const job = await submit(gateway, path, account.live, body)
  await running(gateway, job.id)
  await gateway.services.db.job.update({ where: { id: job.id }, data: { deadlineAt: new Date(Date.now() - 1) } })
  await runJobHousekeeping(gateway.services)
  const done = await over(gateway, account.live, path, job.id)
  t.like(done, { status: 'expired', cost_usd: 0, error: { code: 'upstream_timeout' } })
  await eventually(() => runway.emulator.requests.some(({ method }) => method === 'DELETE'), 'the provider is told')
  t.deepEqual(await gateway.settled(), [])
})

test.serial(
  'cancelled by its caller’s timeout: at the cost of any cancelled job, free before the provider began',
  async t => {
    const account = await accountOf()
    const provider = { timeout_ms: { total: 3_600_000, first_token: 5 } }
    const response = await gateway.fetch(path, {
      key: account.live,
      body: { ...body, provider },
      headers: { 'x-gateway-timeout-ms': '50' },
    })
    const job = await answerOf(response)
    t.is(response.status, 202)
    t.is(response.headers.get('x-gateway-dropped'), 'provider.timeout_ms.first_token')
    await running(gateway, job.id)
    const { db } = gateway.services
    const late = () => db.job.findFirst({ where: { id: job.id, deadlineAt: { lt: new Date() } } })
    await eventually(async () => (await late()) !== null, 'its time is up')
    await runJobHousekeeping(gateway.services)
    const done = await over(gateway, account.live, path, job.id)
    t.like(done, { status: 'cancelled', cost_usd: priceUsd, error: { code: 'upstream_timeout' } })
    t.regex(done.error.message, /own timeout of 50 ms/)
    await eventually(() => runway.emulator.requests.some(({ method }) => method === 'DELETE'), 'the provider is told')

    runway.emulator.next(json(429, { error: 'Too many requests' }, { 'retry-after': '60' }))
    const resting = {
      model: 'runway-gen4-turbo',
      start_image_url: image,
      seconds: 8,
      provider: { timeout_ms: 3_600_000 },
    }
    const waiting = await submit(gateway, path, account.live, resting)
    await eventually(async () => (await rowOf(gateway, waiting.id)).stage === 'waiting', 'it waits')
    await db.job.update({ where: { id: waiting.id }, data: { deadlineAt: new Date(Date.now() - 1) } })
    await runJobHousekeeping(gateway.services)
    t.like(await over(gateway, account.live, path, waiting.id), { status: 'cancelled', cost_usd: 0 })
    t.deepEqual(await gateway.settled(), [])
    const wrong = await gateway.fetch(path, { key: account.live, body: { ...body, provider: { timeout_ms: 0 } } })
    t.is((await answerOf(wrong)).error.param, 'provider.timeout_ms')
  },
)

test.serial(
  'cancelled by its caller’s timeout while its provider is asked to start: once that has answered, which nothing waits for',
  async t => {
    const account = await accountOf()
    const answered = Promise.withResolvers<void>()
    runway.emulator.next(async (request, response) => {
      await answered.promise
      await json(200, { id: 'begun-late' })(request, response)
    })
    const job = await submit(gateway, path, account.live, { ...body, provider: { timeout_ms: 3_600_000 } })
    await eventually(() => creates() === 1, 'the provider is asked')
    await gateway.services.db.job.update({ where: { id: job.id }, data: { deadlineAt: new Date(Date.now() - 1) } })
    await runJobHousekeeping(gateway.services)
    t.like(await rowOf(gateway, job.id), { stage: 'starting', status: 'queued' })
    answered.resolve()
    const done = await over(gateway, account.live, path, job.id)
    t.like(done, { status: 'cancelled', cost_usd: priceUsd, error: { code: 'upstream_timeout' } })
    await eventually(() => runway.emulator.requests.some(({ method }) => method === 'DELETE'), 'the provider is told')
    t.deepEqual(await gateway.settled(), [])
  },
)

test.serial('402: nothing is written when the money does not suffice', async t => {
  const poor = await accountOf({ usd: '0.5' })
  const refused = await gateway.fetch(path, { key: poor.live, body })
  t.is(refused.status, 402)
  t.is((await answerOf(refused)).error.code, 'insufficient_credits')
  const withImage = { model: 'runway-gen4-turbo', start_image_url: image, seconds: 10 }
  t.is((await gateway.fetch(path, { key: poor.live, body: withImage })).status, 402)
  t.is(await gateway.services.db.file.count({ where: { organisationId: poor.organisationId } }), 0)
  const capped = await accountOf({ monthly_spend_cap_usd: 1 })
  t.is((await gateway.fetch(path, { key: capped.live, body })).status, 202)
  const over = await gateway.fetch(path, { key: capped.live, body })
  t.is(over.status, 402)
  t.is((await answerOf(over)).error.code, 'monthly_spend_cap_reached')
  t.is(await gateway.services.db.job.count({ where: { organisationId: poor.organisationId } }), 0)
  t.is(await gateway.services.db.job.count({ where: { organisationId: capped.organisationId } }), 1)
  t.deepEqual(await gateway.settled(), [])
})

test.serial('202 once: the same Idempotency-Key gives the same job', async t => {
  const account = await accountOf()
  const headers = { 'idempotency-key': 'one-video' }
  const first = await gateway.fetch(path, { key: account.live, body, headers })
  const second = await gateway.fetch(path, { key: account.live, body, headers })
  t.is(second.status, 202)
  t.is(second.headers.get('idempotent-replayed'), 'true')
  t.is((await answerOf(first)).id, (await answerOf(second)).id)
  t.is(await gateway.services.db.job.count({ where: { organisationId: account.organisationId } }), 1)
})

test.serial('404 for another organisation’s job, and for a live job by a test key', async t => {
  const [mine, theirs] = [await accountOf(), await accountOf()]
  const job = await submit(gateway, path, mine.live, body)
  for (const key of [theirs.live, mine.test]) {
    t.is((await gateway.fetch(`${path}/${job.id}`, { key })).status, 404)
    t.is((await gateway.fetch(`${path}/${job.id}/cancel`, { key, method: 'POST' })).status, 404)
  }
  // Any route of job ids finds any of them, the meshes' does not.
  t.is((await gateway.fetch(`/v1/lipsync/${job.id}`, { key: mine.live })).status, 200)
  t.is((await gateway.fetch(`/v1/meshes/${job.id}`, { key: mine.live })).status, 404)
})

test.serial('running jobs and their holds survive a wiped Redis', async t => {
  const account = await accountOf()
  const job = await submit(gateway, path, account.live, body)
  await running(gateway, job.id)
  await gateway.services.redis.flushdb()
  await runJobHousekeeping(gateway.services)
  runway.finish()
  t.like(await over(gateway, account.live, path, job.id), { status: 'completed', cost_usd: priceUsd })
  t.is(creates(), 1)
  t.like(await wallet(gateway, account), { balance_usd: 25 - priceUsd, reserved_usd: 0 })
  t.deepEqual(await gateway.settled(), [])
})

test.serial('failed: a start whose worker died is not repeated', async t => {
  const account = await accountOf()
  const job = await submit(gateway, path, account.live, body)
  await running(gateway, job.id)
  // As a worker leaves it that dies between sending the start and saving its answer.
  const lost = { stage: 'starting', status: 'queued', claimedUntil: new Date(Date.now() - 1) } as const
  await gateway.services.db.job.update({ where: { id: job.id }, data: lost })
  await eventually(async () => {
    // Until the entry of the first start has left its queue, it is not entered again.
    await runJobHousekeeping(gateway.services)
    return (await rowOf(gateway, job.id)).stage === 'over'
  }, 'it is found')
  const done = await over(gateway, account.live, path, job.id)
  t.like(done, { status: 'failed', cost_usd: 0 })
  t.is(creates(), 1)
  t.deepEqual(await gateway.settled(), [])
})

test.serial('200 within the wait: Prefer: wait without a number, in capitals, in quotes and beside others', async t => {
  const account = await accountOf()
  const prefers = { wait: 60, 'respond-async, WAIT = 30': 30, 'wait="20"; x=1': 20, 'return=minimal, wait, x': 60 }
  const job = await submit(gateway, path, account.live, body)
  await running(gateway, job.id)
  const waiting = Object.keys(prefers).map(prefer =>
    gateway.fetch(`${path}/${job.id}`, { key: account.live, headers: { prefer } }),
  )
  runway.finish()
  await over(gateway, account.live, path, job.id)
  for (const [i, seconds] of Object.values(prefers).entries()) {
    const response = await waiting[i]!
    t.is((await answerOf(response)).status, 'completed')
    // Absent where the request came in only after the end.
    t.true([null, `wait=${seconds}`].includes(response.headers.get('preference-applied')))
  }
  const idle = await gateway.fetch(`${path}/${job.id}`, { key: account.live, headers: { prefer: 'await=5, waiting' } })
  t.is(idle.status, 200)
})

test.serial('200 within the wait: Prefer: wait ends with the job', async t => {
  const account = await accountOf()
  const job = await submit(gateway, path, account.live, body)
  await running(gateway, job.id)
  const waiting = gateway.fetch(`${path}/${job.id}`, { key: account.live, headers: { prefer: 'wait=60' } })
  runway.finish()
  await over(gateway, account.live, path, job.id)
  const response = await waiting
  t.is(response.headers.get('preference-applied'), 'wait=60')
  t.is((await answerOf(response)).status, 'completed')
  for (const prefer of ['wait=61', 'wait=soon', 'wait=-1', 'wait=1.5', 'respond-async, Wait="61"']) {
    const refused = await gateway.fetch(`${path}/${job.id}`, { key: account.live, headers: { prefer } })
    t.is(refused.status, 400, prefer)
    t.is((await answerOf(refused)).error.param, 'Prefer')
  }
})
