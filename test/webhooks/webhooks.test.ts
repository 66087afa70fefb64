import { operatorActor } from '../../shared/io/audit.ts'
import { presentJob } from '../../shared/jobs/present.ts'
import { rotateWebhookSecret } from '../../shared/webhooks/secrets.ts'
import type { Outcome } from '../../workers/run-queue.ts'
import { WebhookDeliveries } from '../../workers/webhooks/deliveries.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useStores } from '../support/use.ts'
import { Receiver, signedBy, status, unwrapped, verified } from '../support/webhooks/receiver.ts'
import { newDelivery, newOrganisation, StoppedClock, webhookServices } from '../support/webhooks/webhooks.ts'

const hourMs = 3_600_000
const clock = new StoppedClock()

const stores = useStores(test)
const services = use(test, () => webhookServices(stores, clock))
const deliveries = use(test, () => new WebhookDeliveries(services))

async function world(t: ExecutionContext) {
  const [receiver, organisation] = await Promise.all([Receiver.start(), newOrganisation(services)])
  t.teardown(() => receiver.close())
  const { organisationId } = organisation
  return { receiver, ...organisation, ...(await newDelivery(services, organisationId, receiver.url)) }
}

const row = (id: string) => services.db.webhookDelivery.findUniqueOrThrow({ where: { id } })
const log = async (id: string) => (await services.webhooks.show(null, id)).log

/** Moves the time to the moment the delivery wants to be visited again. */
function wait(t: ExecutionContext, outcome: Outcome): number {
  if (outcome.state !== 'later') throw t.fail(`expected a later visit, got ${outcome.state}`)
  clock.pass(outcome.delayMs)
  return outcome.delayMs
}

test.serial('delivered: 200; both verifiers believe it, and data is the job as GET gives it', async t => {
  const { receiver, secret, id, jobId } = await world(t)
  t.deepEqual(await deliveries.attempt(id), { state: 'done' })
  t.is(receiver.received.length, 1)
  const got = receiver.last()
  t.like(got, { method: 'POST', path: '/hook' })
  t.like(got.headers, { 'webhook-id': id, 'content-type': 'application/json', 'user-agent': 'headgate' })
  t.is(got.headers['webhook-timestamp'], String(Math.floor(clock.now() / 1_000)))
  const job = await services.db.job.findUniqueOrThrow({ where: { id: jobId } })
  const expected = {
    type: 'job.completed',
    timestamp: new Date(clock.now()).toISOString(),
    data: await presentJob(services, job, 'pending'),
  }
  t.deepEqual(verified(got, secret), JSON.parse(JSON.stringify(expected)))
  t.deepEqual(await unwrapped(got, secret), JSON.parse(JSON.stringify(expected)))
  t.throws(() => verified({ ...got, body: got.body.replace('completed', 'failed') }, secret))
  t.throws(() => verified(got, 'whsec_YW5vdGhlciBzZWNyZXQ='))
  t.like(await row(id), { status: 'delivered', attempts: 1, deliveredAt: new Date(clock.now()) })
  const [attempt, ...more] = await log(id)
  t.deepEqual(more, [])
  t.like(attempt, { number: 1, at: new Date(clock.now()), status: 200, error: null, response: null })
  t.true(attempt!.durationMs >= 0 && attempt!.durationMs < 15_000)
  t.deepEqual(await deliveries.attempt(id), { state: 'done' }, 'a second wake-up changes nothing')
  t.is(receiver.received.length, 1)
})

test.serial('delivered with any 2xx', async t => {
  const { receiver, organisationId, id } = await world(t)
  receiver.once(status(299))
  await deliveries.attempt(id)
  const second = await newDelivery(services, organisationId, `${receiver.url}?tenant=a%20b&x=1`)
  receiver.once(status(204))
  await deliveries.attempt(second.id)
  t.deepEqual([(await row(id)).status, (await row(second.id)).status], ['delivered', 'delivered'])
  t.is(receiver.last().path, '/hook?tenant=a%20b&x=1')
})

test.serial('failed after eight attempts on the schedule, all with one id, each signed at its own time', async t => {
  const { receiver, secret, id } = await world(t)
  const createdMs = clock.now()
  receiver.always = status(500, {}, 'no')
  for (const pauseMs of [5_000, 300_000, 1_800_000, 2 * hourMs, 5 * hourMs, 10 * hourMs, 10 * hourMs]) {
    const atMs = clock.now()
    const outcome = await deliveries.attempt(id)
    if (outcome.state !== 'later') return t.fail()
    t.true(outcome.delayMs >= pauseMs * 0.9 && outcome.delayMs <= pauseMs * 1.1, `${outcome.delayMs} for ${pauseMs}`)
    t.like(await row(id), { status: 'pending', nextAttemptAt: new Date(atMs + outcome.delayMs), deliveredAt: null })
    const early = await deliveries.attempt(id)
    t.deepEqual(early, outcome, 'too early a visit is told to come again at the right time')
    clock.pass(outcome.delayMs)
  }
  t.deepEqual(await deliveries.attempt(id), { state: 'done' })
  t.like(await row(id), { status: 'failed', attempts: 8 })
  t.deepEqual(
    (await log(id)).map(({ number, status, response }) => [number, status, response]),
    Array.from({ length: 8 }, (_, i) => [i + 1, 500, 'no']),
  )
  t.is(receiver.count(id), 8)
  t.is(new Set(receiver.received.map(({ headers }) => headers['webhook-timestamp'])).size, 8)
  t.true(receiver.received.every(got => signedBy(got, secret)))
  t.true(receiver.received.every(({ body }) => JSON.parse(body).timestamp === new Date(createdMs).toISOString()))
  t.deepEqual(await deliveries.attempt(id), { state: 'done' })
  t.is(receiver.count(id), 8)
})

test.serial('delivered on a later attempt after a failed one', async t => {
  const { receiver, id } = await world(t)
  receiver.once(status(503))
  wait(t, await deliveries.attempt(id))
  t.deepEqual(await deliveries.attempt(id), { state: 'done' })
  t.like(await row(id), { status: 'delivered', attempts: 2, deliveredAt: new Date(clock.now()) })
  t.deepEqual(
    (await log(id)).map(({ status }) => status),
    [503, 200],
  )
})

test.serial('failed at once after 410', async t => {
  const { receiver, id } = await world(t)
  receiver.always = status(410, {}, 'gone')
  t.deepEqual(await deliveries.attempt(id), { state: 'done' })
  t.like(await row(id), { status: 'failed', attempts: 1 })
  t.is(receiver.received.length, 1)
})

test.serial('pending after 301: redirects are not followed', async t => {
  const { receiver, id } = await world(t)
  const other = await Receiver.start()
  t.teardown(() => other.close())
  for (const code of [301, 302, 307, 308]) {
    receiver.once(status(code, { location: other.url }))
    wait(t, await deliveries.attempt(id))
  }
  t.like(await row(id), { status: 'pending', attempts: 4 })
  t.is(other.received.length, 0)
})

test.serial('pending after 429 for as long as retry-after asks, at most 24 hours', async t => {
  const { receiver, id } = await world(t)
  const delays = []
  for (const asked of ['600', '999999999', '1', new Date(Math.ceil(clock.now() / 1_000) * 1_000).toUTCString()]) {
    receiver.once(status(429, { 'retry-after': asked }))
    delays.push(wait(t, await deliveries.attempt(id)))
  }
  t.deepEqual(delays.slice(0, 2), [600_000, 24 * hourMs])
  t.true(delays[2]! >= 0.9 * 1_800_000 && delays[2]! <= 1.1 * 1_800_000, 'never sooner than the schedule')
  t.true(delays[3]! >= 0.9 * 2 * hourMs && delays[3]! <= 1.1 * 2 * hourMs)
})

test.serial('delivered with two signatures for 24 hours after a rotation, then with the new one alone', async t => {
  const { receiver, organisationId, secret: old, id } = await world(t)
  const { secret } = await rotateWebhookSecret(services, organisationId, operatorActor, clock.now())
  await deliveries.attempt(id)
  t.is(receiver.last().headers['webhook-signature']!.split(' ').length, 2)
  t.true(signedBy(receiver.last(), old) && signedBy(receiver.last(), secret))
  clock.pass(24 * hourMs - 1)
  await deliveries.attempt((await newDelivery(services, organisationId, receiver.url)).id)
  t.true(signedBy(receiver.last(), old))
  clock.pass(2)
  await deliveries.attempt((await newDelivery(services, organisationId, receiver.url)).id)
  t.is(receiver.last().headers['webhook-signature']!.split(' ').length, 1)
  t.true(signedBy(receiver.last(), secret))
  t.false(signedBy(receiver.last(), old))
})

test.serial('delivered for an organisation that never asked for its secret: one is made', async t => {
  const { receiver, organisationId, id } = await world(t)
  await services.db.organisation.update({ where: { id: organisationId }, data: { webhookSecret: null } })
  await deliveries.attempt(id)
  const { webhookSecret } = await services.db.organisation.findUniqueOrThrow({ where: { id: organisationId } })
  t.true(signedBy(receiver.last(), webhookSecret!))
})

test.serial('delivered once, and each to its own, when many are visited in one turn', async t => {
  const { receiver, organisationId, secret, id } = await world(t)
  const other = await newOrganisation(services)
  const mine = [id]
  const theirs = []
  for (let i = 0; i < 20; i++) mine.push((await newDelivery(services, organisationId, receiver.url)).id)
  for (let i = 0; i < 20; i++) theirs.push((await newDelivery(services, other.organisationId, receiver.url)).id)
  const outcomes = await Promise.all([...mine, ...theirs, 'evt_unknown'].map(id => deliveries.attempt(id)))
  t.true(outcomes.every(({ state }) => state === 'done'))
  t.is(receiver.received.length, 41)
  for (const [ids, key] of [
    [mine, secret],
    [theirs, other.secret],
  ] as const) {
    for (const id of ids) {
      t.is(receiver.count(id), 1)
      const got = receiver.received.find(({ headers }) => headers['webhook-id'] === id)!
      t.true(signedBy(got, key))
    }
  }
  t.true(receiver.sockets <= 41)
})
