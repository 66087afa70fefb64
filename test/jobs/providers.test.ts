import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { openQueue } from '../../shared/queues/queues.ts'
import { type Emulator, json } from '../emulators/emulator.ts'
import { startFal } from '../emulators/fal.ts'
import { startHeygen } from '../emulators/heygen.ts'
import { klingError, startKling } from '../emulators/kling.ts'
import { gated } from '../support/delayed/jobs.ts'
import { eventually } from '../support/gateway.ts'
import { over, rowOf, running, submit } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

let losing = false

const path = '/v1/videos'
const body = { model: 'kling-v3-pro', prompt: 'A lighthouse at dusk', seconds: 5 }
const alone = { ...body, model: 'kling-v3-standard' }

const kling = use(test, () => startKling({ accounts: { access: 'secret' }, losesAnswer: () => losing }))
const fal = use(test, startFal)
const heygen = use(test, () => startHeygen({ losesAnswer: () => losing }))
const gateway = useGateway(test, () => ({
  KLING_API_KEY: 'access:secret',
  KLING_BASE_URL: `${kling.url}/v1`,
  FAL_API_KEY: 'key:secret',
  FAL_BASE_URL: fal.url,
  HEYGEN_API_KEY: 'key',
  HEYGEN_BASE_URL: heygen.url,
  UPSTREAM_CONNECT_TIMEOUT_MS: '1000',
}))
use(test, () => startWorkers(gateway.services))
test.beforeEach(() => {
  kling.emulator.reset()
  fal.emulator.reset()
})

const creates = ({ emulator }: { emulator: Emulator }) =>
  emulator.requests.filter(({ method }) => method === 'POST').length

test.serial('completed at the second provider when the first one has no money left: the price stays', async t => {
  const account = await gateway.account()
  kling.emulator.next(klingError(429, 1102, 'Account balance not enough'))
  const job = await submit(gateway, path, account.live, body)
  await running(gateway, job.id)
  t.deepEqual([creates(kling), creates(fal)], [1, 1])
  fal.finish()
  const done = await over(gateway, account.live, path, job.id)
  t.like(done, { status: 'completed', provider: 'fal', cost_usd: job.cost_usd })
  t.deepEqual(await gateway.settled(), [])
})

test.serial('failed without a fallback when the provider rejects the request', async t => {
  const account = await gateway.account()
  kling.emulator.next(klingError(400, 1301, 'The prompt violates the content policy'))
  const job = await submit(gateway, path, account.live, body)
  const done = await over(gateway, account.live, path, job.id)
  t.like(done, { status: 'failed', cost_usd: 0, error: { code: 'invalid_request' } })
  t.is(creates(fal), 0)
})

test.serial('completed: an operation whose start was not answered is found by the job’s own id', async t => {
  const account = await gateway.account()
  losing = true
  const job = await submit(gateway, path, account.live, alone)
  await eventually(async () => (await rowOf(gateway, job.id)).stage === 'running', 'it is found')
  losing = false
  t.is(creates(kling), 1)
  kling.finish()
  t.like(await over(gateway, account.live, path, job.id), { status: 'completed', cost_usd: job.cost_usd })
  t.deepEqual(await gateway.settled(), [])
})

test.serial('completed: work that the provider never got is started again under the same id', async t => {
  const account = await gateway.account()
  kling.emulator.next(json(500, { code: 5000, message: 'Internal' }))
  const job = await submit(gateway, path, account.live, alone)
  await running(gateway, job.id)
  const ids = kling.emulator.requests.filter(({ method }) => method === 'POST').map(({ body }) => body.external_task_id)
  t.deepEqual(ids, [job.id, job.id])
  kling.finish()
  t.like(await over(gateway, account.live, path, job.id), { status: 'completed' })
  t.deepEqual(await gateway.settled(), [])
})

test.serial('completed: a video whose start was not answered is found by its title', async t => {
  const account = await gateway.account()
  const [talking, avatar] = ['/v1/avatars/videos', { avatar_id: 'look_0', voice_id: 'voice_0', script: 'Good morning' }]
  losing = true
  const job = await submit(gateway, talking, account.live, { model: 'heygen-avatar-iv', ...avatar })
  await eventually(async () => (await rowOf(gateway, job.id)).stage === 'running', 'it is found')
  losing = false
  t.is(creates(heygen), 1)
  heygen.finish()
  t.like(await over(gateway, account.live, talking, job.id), { status: 'completed' })
  t.deepEqual(await gateway.settled(), [])
})

test.serial(
  'queued at the second provider: a worker that stood still does not store what the first one began',
  async t => {
    const account = await gateway.account()
    const late = gated(json(200, { code: 0, data: { task_id: 'late', task_status: 'submitted' } }))
    kling.emulator.next(late.reply)
    const job = await submit(gateway, path, account.live, body)
    await eventually(() => creates(kling) === 1, 'it is being started')
    // As another worker has it that took the lost start over, was refused by the first provider and tries the second.
    const { db } = gateway.services
    await db.job.update({ where: { id: job.id }, data: { provider: 'fal' } })
    late.go()
    const queue = openQueue('media', gateway.services.redis)
    t.teardown(() => queue.close())
    await eventually(async () => !(await queue.getJob(`start-${job.id}`)), 'the first worker is done')
    t.like(await rowOf(gateway, job.id), { stage: 'starting', provider: 'fal', operation: null })
  },
)

test.serial('queued at the second provider: a worker that stood still does not end the job by a refusal', async t => {
  const account = await gateway.account()
  const late = gated(klingError(400, 1301, 'The prompt violates the content policy'))
  kling.emulator.next(late.reply)
  const job = await submit(gateway, path, account.live, body)
  await eventually(() => creates(kling) === 1, 'it is being started')
  // As another worker has it that took the lost start over.
  const { db, clock } = gateway.services
  const claimedUntil = new Date(clock.now() + 3_600_000)
  await db.job.update({ where: { id: job.id }, data: { provider: 'fal', claimedUntil } })
  late.go()
  const queue = openQueue('media', gateway.services.redis)
  t.teardown(() => queue.close())
  await eventually(async () => !(await queue.getJob(`start-${job.id}`)), 'the first worker is done')
  t.like(await rowOf(gateway, job.id), { stage: 'starting', status: 'queued', provider: 'fal', error: null })
})

for (const [what, refusal, end] of [
  ['ends it', klingError(400, 1301, 'The prompt violates the content policy'), { stage: 'over', status: 'failed' }],
  [
    'moves it to another provider',
    klingError(429, 1102, 'Account balance not enough'),
    { stage: 'running', provider: 'fal' },
  ],
] as const)
  test.serial(`${end.stage}: a refusal that ${what} is stored once PostgreSQL takes it`, async t => {
    const account = await gateway.account()
    const late = gated(refusal)
    kling.emulator.next(late.reply)
    const job = await submit(gateway, path, account.live, body)
    await eventually(() => creates(kling) === 1, 'it is being started')
    const { db } = gateway.services
    const run = (sql: string) => db.$executeRawUnsafe(sql)
    // A sequence counts in transactions that are rolled back, too.
    await run('CREATE SEQUENCE refused_writes')
    await run(`CREATE FUNCTION refuse_write() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM nextval('refused_writes'); RAISE EXCEPTION 'no space left on device'; END $$`)
    await run(`CREATE TRIGGER refuse_write BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION refuse_write()`)
    try {
      late.go()
      const refused = () => db.$queryRaw<{ is_called: boolean }[]>`SELECT is_called FROM refused_writes`
      await eventually(async () => (await refused())[0]!.is_called, 'it could not be stored')
    } finally {
      await run('DROP TRIGGER refuse_write ON jobs')
      await run('DROP FUNCTION refuse_write')
      await run('DROP SEQUENCE refused_writes')
    }
    await eventually(async () => (await rowOf(gateway, job.id)).stage === end.stage, 'it is stored')
    const row = await rowOf(gateway, job.id)
    t.like(row, end)
    if (end.stage === 'over') t.like(row.error as object, { code: 'invalid_request' })
    t.is(creates(kling), 1)
    t.deepEqual(await gateway.settled(), [])
  })

test.serial('failed: a result on a private address is never fetched, and the job refunded', async t => {
  const account = await gateway.account()
  let asked = 0
  const inside = http.createServer((_request, response) => {
    asked++
    response.end('a secret of the inner network')
  })
  inside.listen(0, '127.0.0.1')
  await once(inside, 'listening')
  t.teardown(() => inside.close())
  const address = `http://127.0.0.1:${(inside.address() as AddressInfo).port}/video.mp4`
  const job = await submit(gateway, path, account.live, alone)
  await running(gateway, job.id)
  const finished = (at: string) =>
    json(200, {
      code: 0,
      message: 'SUCCEED',
      request_id: 'r',
      data: { task_id: '1', task_status: 'succeed', task_result: { videos: [{ id: 'v', url: at, duration: '5' }] } },
    })
  // The look, and each attempt to take the result in.
  kling.emulator.next(...Array.from({ length: 20 }, () => finished(address)))
  const done = await over(gateway, account.live, path, job.id)
  t.like(done, { status: 'failed', cost_usd: 0, error: { code: 'upstream_invalid_response' } })
  t.false(JSON.stringify(done).includes(new URL(address).port))
  t.is(asked, 0)
  t.deepEqual(await gateway.settled(), [])
})
