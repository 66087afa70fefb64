import type { AlertSettings } from '../../api/dashboard/wire/alerts.ts'
import type { AuditAnswer } from '../../api/dashboard/wire/audit.ts'
import type {
  DeliveriesAnswer,
  DeliveryAnswer,
  DeliverySentAnswer,
  WebhookSecretAnswer,
} from '../../api/dashboard/wire/webhooks.ts'
import type { ErrorBody } from '../../shared/base/errors.ts'
import { dayMs } from '../../shared/base/time.ts'
import { runMaintenance } from '../../workers/maintenance.ts'
import { join, signUp, type Visitor } from '../support/dashboard/dashboard.ts'
import { eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'
import { Receiver, signedBy, status, verified } from '../support/webhooks/receiver.ts'
import { newDelivery } from '../support/webhooks/webhooks.ts'
import { startWorkers } from '../support/workers.ts'

let base: string

const gateway = useGateway(test, { ALLOW_PRIVATE_URLS: 'true' })
use(test, () => startWorkers(gateway.services))
const admin = use(test, () => signUp(gateway))
const member = use(test, () => signUp(gateway))
const stranger = use(test, () => signUp(gateway))
test.before(async () => {
  base = admin.base
  await join(gateway, member.userId, admin.organisationId, 'member')
})

async function refused(visitor: Visitor, path: string, options?: Parameters<Visitor['fetch']>[1]) {
  const response = await visitor.fetch(path, options)
  return { status: response.status, ...((await response.json()) as ErrorBody).error }
}

async function receiverOf(t: { teardown(fn: () => unknown): void }): Promise<Receiver> {
  const receiver = await Receiver.start()
  t.teardown(() => receiver.close())
  return receiver
}

const show = async (id: string, visitor = member.visitor) =>
  (await visitor.json<DeliveryAnswer>(`${base}/webhooks/deliveries/${id}`)).data

const over = (id: string) => eventually(async () => (await show(id)).status !== 'pending', `${id} is over`)

const sendTest = async (url: string) =>
  (await admin.visitor.json<DeliverySentAnswer>(`${base}/webhooks/test`, { body: { url } })).data

test('202 for a test event, which arrives signed; its delivery shows what was posted, but no usable signature', async t => {
  const receiver = await receiverOf(t)
  receiver.always = status(418, {}, 'short and stout')
  const { secret } = await admin.visitor.json<WebhookSecretAnswer>(`${base}/webhooks/secret`)
  const sent = await sendTest(receiver.url)
  t.like(sent, {
    type: 'webhook.test',
    url: receiver.url,
    status: 'pending',
    attempts: 0,
    job_id: null,
    batch_id: null,
  })
  await eventually(async () => (await show(sent.id)).attempts === 1, 'it was tried')
  const got = receiver.last()
  t.deepEqual(verified(got, secret).data, { object: 'webhook.test', organisation_id: admin.organisationId })
  const { log, ...delivery } = await show(sent.id)
  t.like(delivery, { status: 'pending', attempts: 1, delivered_at: null })
  t.truthy(delivery.next_attempt_at)
  t.like(log[0], { number: 1, status: 418, error: null, response: 'short and stout' })
  t.is(log[0]!.request!.body, got.body)
  const headers = log[0]!.request!.headers
  t.like(headers, { 'webhook-id': sent.id, 'webhook-timestamp': got.headers['webhook-timestamp'] })
  const signature = got.headers['webhook-signature']!
  t.is(headers['webhook-signature'], `${signature.slice(0, 9)}…`)
  t.false(JSON.stringify(log).includes(signature.slice(0, 10)))

  receiver.always = status(200)
  const again = await admin.visitor.json<DeliverySentAnswer>(`${base}/webhooks/deliveries/${sent.id}/redeliver`, {
    method: 'POST',
  })
  t.like(again.data, { id: sent.id, status: 'pending' })
  await over(sent.id)
  t.deepEqual(
    (await show(sent.id)).log.map(({ status }) => status),
    [418, 200],
  )
  t.is(receiver.count(sent.id), 2)
})

test('200 with what was posted cut to 16 kB, when the object is large', async t => {
  const receiver = await receiverOf(t)
  const { services } = gateway
  const { id, jobId } = await newDelivery(services, admin.organisationId, receiver.url)
  await services.db.job.update({ where: { id: jobId }, data: { metadata: { note: 'é'.repeat(20_000) } } })
  await services.webhooks.enqueue([id])
  await over(id)
  const { log, job_id } = await show(id)
  t.is(job_id, jobId)
  const { body } = log[0]!.request!
  t.is(Buffer.byteLength(body.replace(/\ufffd$/, 'x')), 16 * 1_024)
  t.true(receiver.last().body.startsWith(body.slice(0, -1)))
})

test('200 with pages of deliveries, newest first, by status, type and part of the URL', async t => {
  const receiver = await receiverOf(t)
  const ids = []
  for (const path of ['/a', '/b', '/c?Tenant=7']) ids.push((await sendTest(receiver.url + path)).id)
  await Promise.all(ids.map(over))
  const { port } = receiver
  const list = (query: string) =>
    member.visitor.json<DeliveriesAnswer>(`${base}/webhooks/deliveries?url=${encodeURIComponent(`:${port}/`)}&${query}`)
  const first = await list('limit=2')
  t.deepEqual(
    first.data.map(({ id }) => id),
    [ids[2], ids[1]],
  )
  t.true(first.has_more)
  const second = await list(`limit=2&after=${first.last_id}`)
  t.deepEqual(
    second.data.map(({ id }) => id),
    [ids[0]],
  )
  t.false(second.has_more)
  t.is((await list('status=delivered&type=webhook.test')).data.length, 3)
  t.is((await list('status=failed')).data.length, 0)
  t.is((await list('type=job.completed')).data.length, 0)
  t.deepEqual(
    (await member.visitor.json<DeliveriesAnswer>(`${base}/webhooks/deliveries?url=tenant%25`)).data,
    [],
    'no pattern',
  )
  const byTenant = await member.visitor.json<DeliveriesAnswer>(`${base}/webhooks/deliveries?url=tenant%3D7`)
  t.deepEqual(
    byTenant.data.map(({ id }) => id),
    [ids[2]],
  )
  t.is((await refused(member.visitor, `${base}/webhooks/deliveries?status=lost`)).param, 'status')
  t.is((await refused(member.visitor, `${base}/webhooks/deliveries?after=evt_none`)).status, 404)
})

test('200 with a new secret, beside which the old one signs; both are noted in the audit log', async t => {
  const receiver = await receiverOf(t)
  const { organisationId, visitor, base } = await signUp(gateway)
  const before = await visitor.json<WebhookSecretAnswer>(`${base}/webhooks/secret`)
  t.regex(before.secret, /^whsec_/)
  t.is(before.previous_valid_until, null)
  const after = await visitor.json<WebhookSecretAnswer>(`${base}/webhooks/secret/rotate`, { method: 'POST' })
  t.not(after.secret, before.secret)
  t.truthy(after.previous_valid_until)
  const { data } = await visitor.json<DeliverySentAnswer>(`${base}/webhooks/test`, { body: { url: receiver.url } })
  const delivery = () => gateway.services.webhooks.show(organisationId, data.id)
  await eventually(async () => (await delivery()).status === 'delivered', 'it arrived')
  t.true(signedBy(receiver.last(), before.secret) && signedBy(receiver.last(), after.secret))
  const [attempt] = (await delivery()).log
  t.regex((attempt!.headers as Record<string, string>)['webhook-signature']!, /^v1,.{6}… v1,.{6}…$/)

  const patch = (body: object) => visitor.json<AlertSettings>(`${base}/alerts`, { method: 'PATCH', body })
  t.deepEqual(await visitor.json<AlertSettings>(`${base}/alerts`), {
    alert_webhook_url: null,
    low_balance_usd: 5,
    email_to: [visitor.email],
  })
  t.like(await patch({ alert_webhook_url: receiver.url }), { alert_webhook_url: receiver.url, low_balance_usd: 5 })
  t.like(await patch({ low_balance_usd: null }), { alert_webhook_url: receiver.url, low_balance_usd: null })
  t.like(await patch({ low_balance_usd: null }), { low_balance_usd: null })
  const audit = await visitor.json<AuditAnswer>(`${base}/audit`)
  t.deepEqual(
    audit.data.slice(0, 3).map(({ action, changes }) => [action, changes]),
    [
      ['alert_settings.changed', { low_balance_usd: [5, null] }],
      ['alert_settings.changed', { alert_webhook_url: [null, receiver.url] }],
      ['webhook_secret.rotated', {}],
    ],
  )
})

test('400 url_not_allowed for addresses that are never asked, naming the field; 400 for other bad fields', async t => {
  const { visitor } = admin
  for (const url of ['ftp://example.com/', 'no address', 'https://user:pass@example.com/'])
    t.like(await refused(visitor, `${base}/webhooks/test`, { body: { url } }), {
      status: 400,
      code: 'url_not_allowed',
      param: 'url',
    })
  const patch = (body: object) => refused(visitor, `${base}/alerts`, { method: 'PATCH', body })
  t.like(await patch({ alert_webhook_url: 'gopher://example.com' }), {
    code: 'url_not_allowed',
    param: 'alert_webhook_url',
  })
  t.like(await patch({ low_balance_usd: -1 }), { status: 400, param: 'low_balance_usd' })
  t.like(await patch({ low_balance: 1 }), { status: 400, param: 'low_balance' })
})

test('404 for non-members and for another organisation’s delivery, 403 for members on what admins do', async t => {
  const { services } = gateway
  const { id } = await newDelivery(services, admin.organisationId, 'http://127.0.0.1:9/never')
  const reads = ['/webhooks/deliveries', `/webhooks/deliveries/${id}`] as const
  const forAdmins = [
    [`/webhooks/deliveries/${id}/redeliver`, { method: 'POST' }],
    ['/webhooks/test', { body: { url: 'http://127.0.0.1:9/never' } }],
    ['/webhooks/secret', {}],
    ['/webhooks/secret/rotate', { method: 'POST' }],
    ['/alerts', {}],
    ['/alerts', { method: 'PATCH', body: { low_balance_usd: 1 } }],
  ] as const
  for (const path of reads) t.is((await refused(stranger.visitor, base + path)).status, 404)
  for (const [path, options] of forAdmins) {
    t.is((await refused(stranger.visitor, base + path, options)).status, 404)
    t.like(await refused(member.visitor, base + path, options), { status: 403, code: 'insufficient_role' })
  }
  t.is((await refused(stranger.visitor, `${stranger.base}/webhooks/deliveries/${id}`)).status, 404)
  const post = { method: 'POST' }
  t.is((await refused(stranger.visitor, `${stranger.base}/webhooks/deliveries/${id}/redeliver`, post)).status, 404)
  t.is((await refused(stranger.visitor, `${stranger.base}/webhooks/deliveries?after=${id}`)).status, 404)
  t.like(await services.webhooks.show(null, id), { attempts: 0, status: 'pending' })
})

test('deleted 30 days after they were over, with their log; the job then says that nothing is known', async t => {
  const { services } = gateway
  const { db, clock } = services
  const { organisationId } = await signUp(gateway)
  const url = 'http://127.0.0.1:9/never'
  const made = await Promise.all([1, 2, 3].map(() => newDelivery(services, organisationId, url)))
  const [old, recent, pending] = made.map(({ id }) => id)
  const set = (id: string, status: 'failed' | 'pending', days: number) =>
    db.webhookDelivery.update({
      where: { id },
      data: { status, nextAttemptAt: new Date(clock.now() - days * dayMs) },
    })
  await Promise.all([set(old!, 'failed', 31), set(recent!, 'failed', 29), set(pending!, 'pending', 31)])
  await db.webhookAttempt.create({ data: { deliveryId: old!, number: 1, at: new Date(), durationMs: 1 } })
  await runMaintenance('expire', null, services)
  const left = await services.webhooks.list(organisationId, { limit: 10 })
  t.deepEqual(left.map(({ id }) => id).sort(), [recent, pending].sort())
  t.is(await db.webhookAttempt.count({ where: { deliveryId: old! } }), 0)
  t.is(await services.webhooks.statusOf({ jobId: made[0]!.jobId }), null)
})
