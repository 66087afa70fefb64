import { WebhookDeliveries } from '../../workers/webhooks/deliveries.ts'
import { operatorJson, runOperator, storesEnv } from '../support/operator.ts'
import { test } from '../support/test.ts'
import { use, useStores } from '../support/use.ts'
import { Receiver, status } from '../support/webhooks/receiver.ts'
import { newDelivery, newOrganisation, webhookServices } from '../support/webhooks/webhooks.ts'

let organisationId: string

const stores = useStores(test)
const services = use(test, () => webhookServices(stores))
const receiver = use(test, () => Receiver.start())
test.before(async () => {
  ;({ organisationId } = await newOrganisation(services))
})

type Shown = {
  data: { id: string; status: string; attempts: number; next_attempt_at: string | null; log: { at: string }[] }
}
const json = <T>(...args: string[]) => operatorJson<T>(stores, ...args)
const plain = (...args: string[]) => runOperator(storesEnv(stores), ...args)
const ids = async (...args: string[]) =>
  (await json<{ data: { id: string }[] }>('webhook', 'list', '--org', organisationId, ...args)).data.map(({ id }) => id)

test.serial('exit 0: webhook list by status and number, newest first; show with every attempt; redeliver', async t => {
  t.is((await plain('webhook', 'list', '--org', organisationId)).stdout, 'No deliveries.\n')
  const deliveries = new WebhookDeliveries(services)
  t.teardown(() => deliveries.close())
  const first = await newDelivery(services, organisationId, receiver.url)
  receiver.once(status(500, {}, 'not today'))
  await deliveries.attempt(first.id)
  const second = await newDelivery(services, organisationId, receiver.url)
  await deliveries.attempt(second.id)
  const third = await newDelivery(services, organisationId, receiver.url)
  receiver.once(status(410))
  await deliveries.attempt(third.id)

  t.deepEqual(await ids(), [third.id, second.id, first.id])
  t.deepEqual(await ids('--limit', '2'), [third.id, second.id])
  t.deepEqual(await ids('--status', 'pending'), [first.id])
  t.deepEqual(await ids('--status', 'delivered'), [second.id])
  t.deepEqual(await ids('--status', 'failed', '--limit', '5'), [third.id])
  t.is((await plain('webhook', 'list', '--org', organisationId)).stdout.trim().split('\n').length, 3)

  const { data } = await json<Shown>('webhook', 'show', '--delivery', first.id)
  t.like(data, {
    id: first.id,
    job: first.jobId,
    type: 'job.completed',
    url: receiver.url,
    status: 'pending',
    attempts: 1,
  })
  t.is(data.log.length, 1)
  t.like(data.log[0], { number: 1, status: 500, error: null, response: 'not today' })
  t.true(data.next_attempt_at! > data.log[0]!.at)
  const shown = (await plain('webhook', 'show', '--delivery', first.id)).stdout
  t.regex(shown, /^evt_\w+ .* pending .*\n {2}1 .* 500\n$/)

  const again = await json<Shown>('webhook', 'redeliver', '--delivery', third.id)
  t.like(again.data, { id: third.id, status: 'pending', attempts: 1 })
  t.deepEqual(await deliveries.attempt(third.id), { state: 'done' })
  t.is(receiver.count(third.id), 2)
  const { data: after } = await json<Shown>('webhook', 'show', '--delivery', third.id)
  t.like(after, { status: 'delivered', attempts: 2, next_attempt_at: null })
  t.is(after.log.length, 2)
})

test.serial('exit 1 with one line for a delivery or an organisation that is not there, and for bad flags', async t => {
  for (const [args, message] of [
    [['webhook', 'show', '--delivery', 'evt_none'], 'There is no webhook delivery evt_none.\n'],
    [['webhook', 'redeliver', '--delivery', 'evt_none'], 'There is no webhook delivery evt_none.\n'],
    [['webhook', 'list', '--org', 'org_none'], 'There is no organisation org_none.\n'],
  ] as const) {
    t.deepEqual(await plain(...args), { exitCode: 1, stdout: '', stderr: message })
  }
  for (const args of [
    ['webhook', 'list', '--org', organisationId, '--status', 'lost'],
    ['webhook', 'list', '--org', organisationId, '--limit', '0'],
    ['webhook', 'list', '--org', organisationId, '--limit', '1.5'],
    ['webhook', 'show', '--delivery', 'job_1'],
    ['webhook', 'redeliver'],
  ]) {
    t.is((await plain(...args)).exitCode, 1, args.join(' '))
  }
})
