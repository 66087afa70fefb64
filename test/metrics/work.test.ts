import pg from 'pg'
import { newId } from '../../shared/base/ids.ts'
import { addStoreMetrics } from '../../workers/store-metrics.ts'
import { chatLine, createBatch, ended, jsonLines, uploadInput } from '../support/batches/gateway.ts'
import { chargedNano } from '../support/chat/gateway.ts'
import { delayed, gated, path, startDelayedWorld, submitDelayed } from '../support/delayed/jobs.ts'
import { type Account, eventually, startGateway } from '../support/gateway.ts'
import { mediaBodies } from '../support/jobs/calls.ts'
import { over, submit } from '../support/jobs/gateway.ts'
import { grown, growth, measured, scrape, total } from '../support/metrics/samples.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { Receiver, status } from '../support/webhooks/receiver.ts'
import { startWorkers } from '../support/workers.ts'

const spend = 'headgate_spend_usd_total'
const cost = 'headgate_provider_cost_usd_total'
const coin = { model: 'coin', provider: 'openai' }
let account: Account

const world = use(test, () => startDelayedWorld({ ...measured, ALLOW_PRIVATE_URLS: 'true' }))
use(test, () => startWorkers(world.gateway.services))
test.beforeEach(async () => {
  account = await world.gateway.account()
})
test.afterEach.always(() => world.upstream.reset())

/** Whether the spend equals the ledger, and its margin these parts per million. */
async function spent(by: Awaited<ReturnType<typeof growth>>): Promise<{ nano: number; ratio: number }> {
  const usd = await by(spend, coin)
  return { nano: Math.round(usd * 1e9), ratio: Number((usd / (await by(cost, coin))).toFixed(6)) }
}

test.serial('a delayed job counts with its end, its tokens and its discounted price', async t => {
  const by = await growth(world.gateway)
  const { id } = await submitDelayed(world, account.live)
  await over(world.gateway, account.live, path, id)
  await grown(by, 1, 'headgate_jobs_finished_total', { kind: 'async', status: 'completed' })
  const { nano, ratio } = await spent(by)
  t.is(nano, await chargedNano(world, account))
  // 25 % off, with 5 % margin.
  t.is(ratio, 0.7875)
  t.true((await by('gen_ai_client_inference_usage_output_tokens_total')) > 0)
  t.is(await by('headgate_upstream_attempts_total', { ...coin, outcome: 'ok' }), 1)
})

test.serial('the lines of a batch count once they are charged, at half the price', async t => {
  const by = await growth(world.gateway)
  const door = { url: world.gateway.url, key: account.live }
  const lines = Array.from({ length: 20 }, (_, i) => chatLine(`line-${i}`, 'coin', `Hello ${i}`, { max_tokens: 50 }))
  const { id } = await createBatch(door, await uploadInput(door, jsonLines(lines)), { batch_routing: 'gateway' })
  const batch = await ended(door, id)
  t.is(batch.request_counts.completed, 20)
  const { nano, ratio } = await spent(by)
  t.is(nano, await chargedNano(world, account))
  t.is(ratio, 0.525)
  t.is(await by('headgate_upstream_attempts_total', { ...coin, outcome: 'ok' }), 20)
})

test.serial('a media job counts with its end, a test key’s without money', async t => {
  const by = await growth(world.gateway)
  const { id } = await submit(world.gateway, '/v1/videos', account.test, await mediaBodies['/v1/videos']())
  await over(world.gateway, account.test, '/v1/videos', id)
  await grown(by, 1, 'headgate_jobs_finished_total', { kind: 'video', status: 'completed' })
  t.is(await by(spend), 0)
})

test.serial('attempts to deliver a webhook count by their outcome', async t => {
  const receiver = await Receiver.start()
  t.teardown(() => receiver.close())
  const by = await growth(world.gateway)
  const deliveries = 'headgate_webhook_deliveries_total'
  const webhook = { webhook_url: `${receiver.url}/hook` }
  await submitDelayed(world, account.test, { ...delayed(), ...webhook })
  await grown(by, 1, deliveries, { outcome: 'delivered' })
  receiver.always = status(410)
  await submitDelayed(world, account.test, { ...delayed(), ...webhook })
  await grown(by, 1, deliveries, { outcome: 'failed' })
  receiver.always = status(500)
  await submitDelayed(world, account.test, { ...delayed(), ...webhook })
  await grown(by, 1, deliveries, { outcome: 'retried' })
  t.is(await by(deliveries), 3)
})

test.serial('a worker reports jobs, holds, queues and webhooks of all processes', async t => {
  const answer = gated()
  world.upstream.next(answer.reply)
  const { id } = await submitDelayed(world, account.live)
  const { db } = world.gateway.services
  await eventually(async () => (await db.job.count({ where: { id, stage: 'running' } })) === 1, 'it runs')
  await db.job.update({ where: { id }, data: { createdAt: new Date(Date.now() - 3_600_000) } })
  await db.webhookDelivery.create({
    data: {
      id: newId('evt'),
      organisationId: account.organisationId,
      type: 'job.completed',
      url: 'http://127.0.0.1:9',
      data: {},
      nextAttemptAt: new Date(Date.now() - 600_000),
    },
  })
  addStoreMetrics(world.gateway.services)
  const samples = await scrape(world.gateway)
  const running = { kind: 'async', stage: 'running' }
  t.is(total(samples, 'headgate_jobs', running), 1)
  const age = total(samples, 'headgate_job_age_seconds', running)
  t.true(age >= 3_600 && age < 4_000, `${age} s`)
  t.true(total(samples, 'headgate_held_usd') > 0)
  t.is(total(samples, 'headgate_queue_jobs', { queue: 'async', state: 'active' }), 1)
  t.true(total(samples, 'headgate_webhook_backlog') >= 1)
  t.true(total(samples, 'headgate_webhook_lag_seconds') >= 600)
  t.is(total(samples, 'headgate_refused_events'), 0)
  t.is(total(samples, 'headgate_scrape_errors_total'), 0)
  answer.go()
  await over(world.gateway, account.live, path, id)
})

test.serial('a store that does not answer is missing from the scrape and counts as an error', async t => {
  const { gateway, stores } = world
  const locker = new pg.Client({ connectionString: stores.databaseUrl })
  await locker.connect()
  t.teardown(() => locker.end())
  const other = await startGateway(stores, measured)
  t.teardown(() => other.close())
  addStoreMetrics(other.services)
  await locker.query('BEGIN; LOCK TABLE webhook_deliveries IN ACCESS EXCLUSIVE MODE')
  const samples = await scrape(other)
  await locker.query('ROLLBACK')
  t.true(samples.some(({ name }) => name === 'headgate_unbooked_events'))
  t.false(samples.some(({ name }) => name === 'headgate_jobs'))
  t.is(total(await scrape(other), 'headgate_scrape_errors_total', { store: 'postgres' }), 1)
  t.is(total(await scrape(gateway), 'headgate_scrape_errors_total'), 0)
})
