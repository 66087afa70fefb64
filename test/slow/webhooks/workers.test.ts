import type { Worker } from 'bullmq'
import { openWorkerRedis } from '../../../shared/io/redis.ts'
import type { Services } from '../../../shared/open-services.ts'
import { openQueue } from '../../../shared/queues/queues.ts'
import { runMaintenance } from '../../../workers/maintenance.ts'
import { runQueue } from '../../../workers/run-queue.ts'
import { WebhookDeliveries } from '../../../workers/webhooks/deliveries.ts'
import { eventually, freshStores, type Process, type Stores, startProcess } from '../../support/gateway.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { hang, Receiver, status, verified } from '../../support/webhooks/receiver.ts'
import {
  deliveryEnv,
  newDeliveries,
  newDelivery,
  newOrganisation,
  webhookServices,
} from '../../support/webhooks/webhooks.ts'
import { startWorkers } from '../../support/workers.ts'

let stores: Stores
let services: Services
let receiver: Receiver
let organisationId: string
let secret: string
const processes: Process[] = []

test.beforeEach(async () => {
  stores = await freshStores()
  ;[services, receiver] = await Promise.all([webhookServices(stores), Receiver.start()])
  ;({ organisationId, secret } = await newOrganisation(services))
})
test.afterEach.always(async () => {
  await Promise.all(processes.splice(0).map(({ kill }) => kill()))
  await services?.close()
  await receiver?.close()
  await stores?.drop()
})

async function startWorker(): Promise<Process> {
  const worker = await startProcess('worker', stores, { ...deliveryEnv, LOG_LEVEL: 'info' })
  processes.push(worker)
  return worker
}

/** The same loops in this process, where no worker is to be killed: a process takes as long to start as a test takes. */
function workHere(t: ExecutionContext): void {
  const workers = startWorkers(services)
  t.teardown(() => workers.stop())
}

const row = (id: string) => services.db.webhookDelivery.findUniqueOrThrow({ where: { id } })
const isDelivered = async (id: string) => (await row(id)).status === 'delivered'
const allDelivered = async () =>
  (await services.db.webhookDelivery.count({ where: { status: { not: 'delivered' } } })) === 0
/** Makes a delivery due since long, as after a long outage. */
const overdue = (id: string) =>
  services.db.webhookDelivery.update({ where: { id }, data: { nextAttemptAt: new Date(Date.now() - 61_000) } })

test.serial('delivered once each by two workers, however often they are woken', async t => {
  t.timeout(120_000)
  await Promise.all([startWorker(), startWorker()])
  const ids = await newDeliveries(services, organisationId, receiver.url, 300)
  const queue = openQueue('webhooks', services.redis)
  // Entries of other names for the same deliveries, as if Redis had been restored from an older copy.
  const twice = ids.map(id => ({ name: 'deliver', data: id, opts: { jobId: `again-${id}` } }))
  await Promise.all([services.webhooks.enqueue(ids), queue.addBulk(twice), services.webhooks.enqueue(ids)])
  await eventually(allDelivered, 'all are delivered')
  await eventually(async () => {
    // Those that found a delivery claimed come again when the claim has run out: not to be waited for here.
    await queue.promoteJobs()
    return Object.values(await queue.getJobCounts()).every(count => count === 0)
  }, 'no entry is left')
  await queue.close()
  t.is(receiver.received.length, 300)
  t.deepEqual(
    ids.map(id => receiver.count(id)).filter(count => count !== 1),
    [],
  )
  const attempts = await services.db.webhookAttempt.findMany()
  t.is(attempts.length, 300)
  t.true(attempts.every(({ number, status }) => number === 1 && status === 200))
  t.is(verified(receiver.last(), secret).type, 'job.completed')
})

test.serial('delivered again after a failure by the queue itself, on time', async t => {
  workHere(t)
  const { id } = await newDelivery(services, organisationId, receiver.url)
  receiver.once(status(500))
  await services.webhooks.enqueue([id])
  await eventually(() => isDelivered(id), 'the second attempt is made')
  const [first, second] = (await services.webhooks.show(null, id)).log
  t.deepEqual([first!.status, second!.status], [500, 200])
  t.true(second!.at.getTime() - first!.at.getTime() >= 4_500)
})

test.serial('delivered by another after the worker that had claimed it was killed', async t => {
  t.timeout(120_000)
  const first = await startWorker()
  const { id } = await newDelivery(services, organisationId, receiver.url)
  receiver.once(hang)
  await services.webhooks.enqueue([id])
  await eventually(() => receiver.received.length === 1, 'the first worker has sent it')
  t.true((await row(id)).nextAttemptAt.getTime() > Date.now() + 10_000, 'it is claimed')
  await first.kill()
  await overdue(id)
  await services.redis.flushdb()
  await startWorker()
  await eventually(() => isDelivered(id), 'the second worker has sent it', 60_000)
  t.is(receiver.count(id), 2)
  t.like(await row(id), { attempts: 1 })
})

test.serial('delivered after Redis was wiped: the sweep finds what is overdue, and nothing else', async t => {
  const late = await newDelivery(services, organisationId, receiver.url)
  const soon = await newDelivery(services, organisationId, receiver.url)
  const over = await newDelivery(services, organisationId, receiver.url)
  await services.webhooks.enqueue([late.id, soon.id, over.id])
  await services.redis.flushdb()
  await Promise.all([overdue(late.id), overdue(over.id)])
  await services.db.webhookDelivery.update({ where: { id: over.id }, data: { status: 'failed' } })
  t.deepEqual(await services.webhooks.listOverdue(Date.now()), [late.id])
  await runMaintenance('webhooks', null, services)
  const queue = openQueue('webhooks', services.redis)
  t.deepEqual(
    (await queue.getJobs()).map(({ id }) => id),
    [late.id],
  )
  await queue.close()
  workHere(t)
  await eventually(() => isDelivered(late.id), 'it is delivered')
  t.deepEqual([receiver.count(late.id), receiver.count(soon.id), receiver.count(over.id)], [1, 0, 0])
})

test.serial('claimed by one of many at the same time; free again when the lease has ended', async t => {
  const { id } = await newDelivery(services, organisationId, receiver.url)
  const ids = [id, id, 'evt_none']
  const claims = await Promise.all(Array.from({ length: 10 }, () => services.webhooks.claim(ids, 60_000)))
  const states = claims.flatMap(([first, second]) => [first!.state, second!.state])
  t.is(states.filter(state => state === 'claimed').length, 1)
  t.is(states.filter(state => state === 'waiting').length, 19)
  t.true(claims.every(([, , none]) => none!.state === 'over'))
  const [again] = await services.webhooks.claim([id], 60_000)
  t.true(again!.state === 'waiting' && again!.delayMs > 50_000 && again!.delayMs <= 60_000)
  await overdue(id)
  const [freed] = await services.webhooks.claim([id], 60_000)
  t.is(freed!.state, 'claimed')
})

test.serial('delivered stays delivered when a slower worker fails later; both attempts are in the log', async t => {
  const { id } = await newDelivery(services, organisationId, receiver.url)
  const [slow, quick] = [new WebhookDeliveries(services), new WebhookDeliveries(services)]
  t.teardown(() => Promise.all([slow.close(), quick.close()]))
  let fail = () => {}
  receiver.once(request => {
    fail = () => void request.socket.resetAndDestroy()
  })
  const failing = slow.attempt(id)
  await eventually(() => receiver.received.length === 1, 'the slow worker has sent it')
  await overdue(id)
  t.is((await quick.attempt(id)).state, 'done')
  fail()
  await failing
  t.like(await row(id), { status: 'delivered', attempts: 2 })
  t.deepEqual((await services.webhooks.show(null, id)).log.map(({ number, status }) => [number, status]).sort(), [
    [1, 200],
    [2, null],
  ])
})

test.serial('sent again under the same id: what was delivered, what failed, and what waits for hours', async t => {
  workHere(t)
  const delivered = await newDelivery(services, organisationId, receiver.url)
  await services.webhooks.enqueue([delivered.id])
  await eventually(() => isDelivered(delivered.id), 'it is delivered')
  t.like(await services.webhooks.redeliver(null, delivered.id), { status: 'pending', deliveredAt: null })
  await eventually(() => isDelivered(delivered.id), 'it is delivered again')
  t.is(receiver.count(delivered.id), 2)

  const gone = await newDelivery(services, organisationId, receiver.url)
  receiver.once(status(410))
  await services.webhooks.enqueue([gone.id])
  await eventually(async () => (await row(gone.id)).status === 'failed', 'it failed')
  await services.webhooks.redeliver(null, gone.id)
  await eventually(() => isDelivered(gone.id), 'what failed is delivered')

  const waiting = await newDelivery(services, organisationId, receiver.url)
  receiver.once(status(503, { 'retry-after': '36000' }))
  await services.webhooks.enqueue([waiting.id])
  await eventually(async () => (await row(waiting.id)).attempts === 1, 'it waits for ten hours')
  await services.webhooks.redeliver(null, waiting.id)
  await eventually(() => isDelivered(waiting.id), 'what waits is delivered at once')
  await t.throwsAsync(services.webhooks.redeliver(null, 'evt_none'), { message: /evt_none/ })
})

test.serial('later, retried and forgotten: what the queue makes of a processor', async t => {
  const connection = openWorkerRedis({ redisUrl: stores.redisUrl, redisTlsVerify: true })
  const queue = openQueue('media', services.redis)
  const visits: string[] = []
  let worker: Worker | null = null
  t.teardown(async () => {
    await worker?.close()
    await queue.close()
    connection.disconnect()
  })
  const options = { attempts: 3, backoff: { type: 'fixed', delay: 1 } }
  await queue.add('start', { jobId: 'job_1' }, { ...options, jobId: 'job_1' })
  await queue.add('finish', { jobId: 'job_2' }, { ...options, jobId: 'job_2' })
  worker = runQueue(
    {
      queue: 'media',
      async processor(name) {
        visits.push(name)
        if (name === 'finish') throw new Error('no luck')
        const seen = visits.filter(visit => visit === 'start').length
        return seen < 6 ? { state: 'later', delayMs: 1 } : { state: 'done' }
      },
    },
    services,
    connection,
  )
  const counts = () => queue.getJobCounts('wait', 'active', 'delayed', 'completed', 'failed')
  await eventually(async () => Object.values(await counts()).every(count => count === 0), 'both are over and forgotten')
  t.is(visits.filter(name => name === 'start').length, 6, 'later visits are no attempts')
  t.is(visits.filter(name => name === 'finish').length, 3)
  t.truthy(await queue.add('finish', {}, { jobId: 'job_2' }))
})
