import { GatewayError } from '../../shared/base/errors.ts'
import { retryDecisionFor } from '../../shared/delayed/retry.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import type { Job } from '../../shared/jobs/jobs.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import type { RoutedAttempt, RoutingRecord } from '../../shared/wallet/routing-record.ts'
import { hang, json } from '../emulators/emulator.ts'
import { rateLimited, serverError } from '../emulators/openai.ts'
import { answersError } from '../support/api/edge.ts'
import { asked, delayed, expectedNano, gated, path, startDelayedWorld, submitDelayed } from '../support/delayed/jobs.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { answerOf, booked, over, rowOf, running, type Shown, wallet } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { runJobHousekeeping, startWorkers, type Workers } from '../support/workers.ts'

/** One job at a time, and a run gives up at once when its provider fails. */
const env = { WORKER_CONCURRENCY: '1', UPSTREAM_MAX_ATTEMPTS: '1', UPSTREAM_READ_ON_MS: '2000' }
let workers: Workers
let account: Account

const world = use(test, () => startDelayedWorld(env))
test.before(() => {
  workers = startWorkers(world.gateway.services)
})
test.beforeEach(async () => {
  account = await world.gateway.account()
})
test.afterEach.always(() => world.upstream.reset())
test.after.always(async () => {
  await workers?.stop()
})

const ended = (id: string, key = account.live) => over(world.gateway, key, path, id)
const cancel = (id: string) => world.gateway.fetch(`${path}/${id}/cancel`, { key: account.live, method: 'POST' })
const row = (id: string) => rowOf(world.gateway, id)

/** The cancelled job once its call is settled. */
async function settledJob(id: string): Promise<Shown> {
  await eventually(async () => (await row(id)).stage === 'over', `${id} is settled`)
  return answerOf(await world.gateway.fetch(`${path}/${id}`, { key: account.live }))
}

/** The job once it is over, without its pauses. */
async function hurried(id: string): Promise<Shown> {
  const { db, delayedTasks } = world.gateway.services
  await eventually(async () => {
    await db.job.updateMany({ where: { id, stage: 'waiting' }, data: { claimedUntil: null } })
    await delayedTasks.add('run', id)
    await delayedTasks.add('again', id)
    return (await row(id)).stage === 'over'
  }, `${id} is over`)
  return ended(id)
}

/** The calls to providers in the request log. */
async function logged(id: string): Promise<RoutedAttempt[]> {
  const { routing } = await world.gateway.services.db.generation.findFirstOrThrow({ where: { id } })
  return [...((routing as RoutingRecord | null)?.attempts ?? [])]
}

/** Whether a job that came to nothing left nothing behind. */
async function isFree(id: string): Promise<boolean> {
  const { reserved_usd } = await wallet(world.gateway, account)
  return reserved_usd === 0 && (await booked(world.gateway, id)).length === 0
}

test.serial('run by deadline: the earliest first, whenever they came', async t => {
  const first = gated()
  world.upstream.next(first.reply)
  const blocker = await submitDelayed(world, account.live, delayed('blocker'))
  await running(world.gateway, blocker.id)
  const ids: string[] = []
  for (const [text, window] of [
    ['a', '6h'],
    ['b', '1h'],
    ['c', '6h'],
    ['d', '1h'],
  ] as const)
    ids.push((await submitDelayed(world, account.live, delayed(text, {}, window))).id)
  first.go()
  for (const id of ids) await ended(id)
  t.deepEqual(asked(world), ['blocker', 'b', 'd', 'a', 'c'])
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial('completed: a provider that has too much to do is asked again, when it says so', async t => {
  world.upstream.next(rateLimited('1'))
  const job = await submitDelayed(world, account.live)
  const done = await ended(job.id)
  t.like(done, { status: 'completed', cost_usd: expectedNano(done.result.usage) / 1e9 })
  t.is(world.upstream.requests.length, 2)
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial(
  'cancelled after one call that exceeds the timeout of its request, at the cost of what was made',
  async t => {
    world.upstream.next(hang)
    const job = await submitDelayed(world, account.live, delayed('slow', { provider: { timeout_ms: 1_500 } }))
    const done = await ended(job.id)
    t.like(done, { status: 'cancelled', error: { code: 'upstream_timeout' } })
    t.true(done.cost_usd > 0)
    t.is(world.upstream.requests.length, 1)
    t.deepEqual(await world.gateway.settled(), [])
  },
)

test.serial('failed after one call whose answer makes no sense: another one would be paid as well', async t => {
  world.upstream.next(json(200, { not: 'an answer' }))
  const job = await submitDelayed(world, account.live)
  t.like(await ended(job.id), { status: 'failed', error: { code: 'upstream_invalid_response' }, cost_usd: 0 })
  t.is(world.upstream.requests.length, 1)
})

test.serial('completed after its provider failed; failed and free when it has failed too often', async t => {
  const { db } = world.gateway.services
  world.upstream.next(serverError)
  const lucky = await submitDelayed(world, account.live)
  t.like(await hurried(lucky.id), { status: 'completed' })
  const [failed, succeeded, ...rest] = await logged(lucky.id)
  t.like(failed, { status: 500, fault: 'server_error' })
  t.like(succeeded, { status: 200, fault: null })
  t.deepEqual(rest, [])
  t.true(failed!.startedMs! < succeeded!.startedMs!, 'both from the creation on')
  world.upstream.next(serverError)
  const unlucky = await submitDelayed(world, account.live)
  const failures = async () => ((await row(unlucky.id)).operation as { failures: number } | null)?.failures
  await eventually(async () => (await failures()) === 1, 'it failed')
  await db.job.update({ where: { id: unlucky.id }, data: { operation: { failures: 4 } } })
  world.upstream.next(serverError)
  t.like(await hurried(unlucky.id), { status: 'failed', error: { code: 'upstream_error' }, cost_usd: 0 })
  t.is(world.upstream.requests.length, 4)
  t.deepEqual(
    (await logged(unlucky.id)).map(({ fault }) => fault),
    ['server_error', 'server_error'],
    'the reason of each run is kept',
  )
  t.true(await isFree(unlucky.id))
  t.deepEqual(await world.gateway.settled(), [])
})

test('tried again: longer and longer while providers fail, without end while there is no room', t => {
  const job = { attempts: 1, environment: 'live', operation: null } as Job
  const again = (error: GatewayError, failures: number, attempts = 1) =>
    retryDecisionFor({ ...job, attempts, operation: { failures } }, error, 0)
  const failed = new GatewayError('upstream_error', '', { metadata: { attempts: [{ reason: 'server_error' }] } })
  t.deepEqual(
    [0, 1, 2, 3].map(failures => again(failed, failures)),
    [5_000, 20_000, 60_000, 300_000].map((pauseMs, i) => ({ pauseMs, failures: i + 1 })),
  )
  t.is(again(failed, 4), null)
  const headers = { 'retry-after': '90' }
  const busy = new GatewayError('upstream_error', '', { metadata: { attempts: [{ reason: 'rate_limited' }] }, headers })
  const none = new GatewayError('no_provider_available', '')
  for (const attempts of [1, 5, 1_000]) {
    t.deepEqual(again(busy, 4, attempts), { pauseMs: 90_000, failures: 4 })
    t.deepEqual(again(none, 4, attempts), { pauseMs: Math.min(2_000 * 2 ** (attempts - 1), 60_000), failures: 4 })
  }
  for (const code of ['invalid_request', 'revoked_api_key', 'model_not_found', 'context_length_exceeded'] as const)
    t.is(again(new GatewayError(code, ''), 0), null)
  t.is(retryDecisionFor({ ...job, environment: 'test' }, failed, 0), null)
})

test.serial(
  'cancelled while queued: never run and free; cancelled while running: cut off, and what was used is charged',
  async t => {
    world.upstream.next(hang)
    const [first, second] = [await submitDelayed(world, account.live), await submitDelayed(world, account.live)]
    await eventually(() => world.upstream.requests.length === 1, 'the first is asked')
    t.is(
      (await answerOf(await world.gateway.fetch(`${path}/${first.id}`, { key: account.live }))).status,
      'in_progress',
    )
    t.like(await answerOf(await cancel(second.id)), {
      id: second.id,
      status: 'cancelled',
      cost_usd: 0,
      started_at: null,
    })
    const cut = await answerOf(await cancel(first.id))
    t.like(cut, { id: first.id, status: 'cancelled', result: null })
    const charged = await settledJob(first.id)
    t.like(charged, { status: 'cancelled', completed_at: cut.completed_at })
    // Its prompt, and what may have been written of the 50 tokens that it was allowed.
    const { db } = world.gateway.services
    const { promptTokens, completionTokens } = await db.generation.findFirstOrThrow({ where: { id: first.id } })
    t.true(promptTokens >= 3 && completionTokens > 0 && completionTokens <= 50)
    const used = expectedNano({ prompt_tokens: promptTokens, completion_tokens: completionTokens })
    t.is(charged.cost_usd, used / 1e9)
    await world.upstream.requests[0]!.aborted
    const again = await cancel(first.id)
    t.is(again.headers.get('x-should-retry'), 'false')
    await answersError(t, again, 'not_cancellable')
    const third = await submitDelayed(world, account.live, delayed('third'))
    const { cost_usd } = await ended(third.id)
    t.is(world.upstream.requests.length, 2)
    t.is((await wallet(world.gateway, account)).balance_usd, (25e9 - used - cost_usd * 1e9) / 1e9)
    await answersError(t, await cancel(third.id), 'not_cancellable')
    t.deepEqual(await world.gateway.settled(), [])
  },
)

test.serial('cancelled while running: read on for, and charged as its provider counts it', async t => {
  const slow = gated()
  world.upstream.next(slow.reply)
  const job = await submitDelayed(world, account.live)
  await eventually(() => world.upstream.requests.length === 1, 'it is asked')
  t.like(await answerOf(await cancel(job.id)), { status: 'cancelled', result: null, cost_usd: null })
  slow.go()
  await answersError(t, await cancel(job.id), 'not_cancellable')
  const done = await settledJob(job.id)
  t.like(done, { status: 'cancelled', result: null })
  const { promptTokens, completionTokens, estimated } = await world.gateway.services.db.generation.findFirstOrThrow({
    where: { id: job.id },
  })
  t.false(estimated)
  const used = expectedNano({ prompt_tokens: promptTokens, completion_tokens: completionTokens })
  t.is(done.cost_usd, used / 1e9)
  t.deepEqual(await booked(world.gateway, job.id), [-done.cost_usd])
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial(
  'failed: a key that was revoked, or may no longer use the model; completed: one that was rolled',
  async t => {
    const { keys } = world.gateway.services
    const blocked = gated()
    world.upstream.next(blocked.reply)
    const owner = await world.gateway.account()
    const blocker = await submitDelayed(world, owner.live, delayed('blocker'))
    await running(world.gateway, blocker.id)
    const secrets = await Promise.all(
      Array.from({ length: 3 }, () => world.gateway.key(account.organisationId, 'live')),
    )
    const ids: string[] = []
    for (const secret of secrets) ids.push((await submitDelayed(world, secret)).id)
    const [revoked, narrowed, rolled] = secrets.map(hashSecret) as [string, string, string]
    await keys.revoke(null, revoked, operatorActor)
    await keys.patch(null, narrowed, { model_allowlist: ['coin-embedding'] }, operatorActor)
    const { secret } = await keys.roll(null, rolled, operatorActor)
    blocked.go()
    t.like(await ended(ids[0]!), { status: 'failed', error: { code: 'revoked_api_key' }, cost_usd: 0 })
    t.like(await ended(ids[1]!), { status: 'failed', error: { code: 'model_not_allowed' }, cost_usd: 0 })
    t.like(await ended(ids[2]!, secret), { status: 'completed' })
    t.is(world.upstream.requests.length, 2)
    t.deepEqual(await world.gateway.settled(), [])
  },
)

test.serial('handed back by a worker that stops in the middle of its call: another one completes it', async t => {
  world.upstream.next(hang)
  const job = await submitDelayed(world, account.live)
  await eventually(() => world.upstream.requests.length === 1, 'it is asked')
  await workers.stop()
  await world.upstream.requests[0]!.aborted
  t.like(await row(job.id), { stage: 'waiting', claimedUntil: null, status: 'in_progress' })
  workers = startWorkers(world.gateway.services)
  const done = await ended(job.id)
  t.is(done.status, 'completed')
  t.deepEqual(await booked(world.gateway, job.id), [-done.cost_usd])
  t.is(world.upstream.requests.length, 2)
})

test.serial('taken up again: a job whose worker died, with one charge; jobs that Redis forgot', async t => {
  await workers.stop()
  const { services } = world.gateway
  const job = await submitDelayed(world, account.live)
  await services.redis.flushdb()
  // As a worker leaves it that dies in the middle of its call.
  const past = new Date(Date.now() - 1)
  const lost = { stage: 'running', status: 'in_progress', claimedUntil: past, attempts: 1 } as const
  await services.db.job.update({ where: { id: job.id }, data: lost })
  workers = startWorkers(services)
  await runJobHousekeeping(services)
  const done = await ended(job.id)
  t.is(done.status, 'completed')
  t.deepEqual(await booked(world.gateway, job.id), [-done.cost_usd])
  const forgotten = await submitDelayed(world, account.live)
  await ended(forgotten.id)
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial('completed once: what a worker answers that had lost its job changes nothing', async t => {
  const { services } = world.gateway
  const slow = gated(
    json(200, { id: 'chatcmpl-late', object: 'chat.completion', created: 1, model: 'upstream-coin', choices: [] }),
  )
  world.upstream.next(slow.reply)
  const job = await submitDelayed(world, account.live)
  await eventually(() => world.upstream.requests.length === 1, 'it is asked')
  await services.db.job.update({ where: { id: job.id }, data: { attempts: { increment: 1 } } })
  // Its worker finds out by itself, and lets go.
  await world.upstream.requests[0]!.aborted
  slow.go()
  await services.db.job.update({ where: { id: job.id }, data: { stage: 'waiting' } })
  const done = await hurried(job.id)
  t.not(done.result.id, 'chatcmpl-late')
  t.deepEqual(await booked(world.gateway, job.id), [-done.cost_usd])
  t.is(await services.db.file.count({ where: { organisationId: account.organisationId, purpose: 'result' } }), 1)
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial('refunded in full: nothing stays of a job that came to nothing', async t => {
  world.upstream.next(serverError, serverError, serverError)
  const job = await submitDelayed(world, account.live)
  await eventually(
    async () => (await row(job.id)).stage === 'waiting' && world.upstream.requests.length > 0,
    'it failed',
  )
  t.is((await cancel(job.id)).status, 200)
  await ended(job.id)
  t.true(await isFree(job.id))
  t.is((await wallet(world.gateway, account)).available_usd, 25)
})

test.serial('direct requests are answered while jobs wait for their provider to have room', async t => {
  world.upstream.next(rateLimited('30'))
  const job = await submitDelayed(world, account.live)
  await eventually(() => world.upstream.requests.length === 1, 'the job was refused')
  const { body } = delayed('Now, please')
  const response = await world.gateway.fetch('/v1/chat/completions', { key: account.live, body })
  t.is(response.status, 200)
  t.not((await row(job.id)).stage, 'over')
  t.is((await cancel(job.id)).status, 200)
  t.deepEqual(await world.gateway.settled(), [])
})
