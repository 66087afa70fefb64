// Endpoints of organisations: what is posted to them, once each, signed with which secrets, and what becomes of those that fail.

import type {
  EndpointAnswer,
  EndpointSecretAnswer,
  EndpointsAnswer,
  ResendAnswer,
  VerifyAnswer,
} from '../../api/dashboard/wire/webhook-endpoints.ts'
import type { DeliveriesAnswer, DeliverySentAnswer } from '../../api/dashboard/wire/webhooks.ts'
import type { ShownEndpoint } from '../../api/routes/present-webhook-endpoint.ts'
import type { ErrorBody } from '../../shared/base/errors.ts'
import { dayMs } from '../../shared/base/time.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { getWebhookSecrets } from '../../shared/webhooks/secrets.ts'
import { sendEmails } from '../../workers/emails.ts'
import { runMaintenance } from '../../workers/maintenance.ts'
import { WebhookDeliveries } from '../../workers/webhooks/deliveries.ts'
import { provisioningKey } from '../support/api/edge.ts'
import { join, signUp } from '../support/dashboard/dashboard.ts'
import { MailServer } from '../support/io/mail-server.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'
import { testClock } from '../support/wallet/money.ts'
import { Receiver, signedBy, status, unwrapped } from '../support/webhooks/receiver.ts'

const clock = testClock(new Date().toISOString())
const hourMs = 3_600_000

const mail = use(test, () => MailServer.start())
const gateway = useGateway(test, () => ({ ALLOW_PRIVATE_URLS: 'true', SMTP_URL: mail.url }), { clock })
const deliveries = use(test, () => new WebhookDeliveries(gateway.services))

/** An organisation with an owner, a key of each sort, and a receiver. */
async function world(t: ExecutionContext) {
  const { visitor, organisationId, base } = await signUp(gateway)
  const [receiver, key, provisioning] = await Promise.all([
    Receiver.start(),
    gateway.key(organisationId, 'test'),
    provisioningKey(gateway, organisationId),
  ])
  t.teardown(() => receiver.close())
  const manage = async <T>(method: string, path = '', body?: unknown) => {
    const response = await gateway.fetch(`/api/v1/webhook-endpoints${path}`, { key: provisioning, method, body })
    return { status: response.status, body: (await response.json()) as T }
  }
  return {
    visitor,
    organisationId,
    base: `${base}/webhooks`,
    receiver,
    key,
    manage,
    create: (body: object) =>
      visitor.json<EndpointSecretAnswer>(`${base}/webhooks/endpoints`, { body: { events: ['*'], ...body } }),
    show: (id: string) => visitor.json<EndpointAnswer>(`${base}/webhooks/endpoints/${id}`),
    patch: (id: string, body: object) =>
      visitor.json<EndpointAnswer>(`${base}/webhooks/endpoints/${id}`, { method: 'PATCH', body }),
    /** The deliveries of the organisation, by job and URL. */
    rows: () =>
      gateway.services.db.webhookDelivery.findMany({
        where: { organisationId },
        orderBy: [{ jobId: 'asc' }, { url: 'asc' }],
      }),
  }
}
type World = Awaited<ReturnType<typeof world>>

/** Makes an event: a job that is submitted and cancelled. */
async function cancelledJob({ key }: World, webhook_url?: string): Promise<string> {
  const body = { prompt: 'A lighthouse', ...(webhook_url && { webhook_url }) }
  const { id } = (await (await gateway.fetch('/v1/videos', { key, body })).json()) as { id: string }
  const response = await gateway.fetch(`/v1/videos/${id}/cancel`, { key, method: 'POST' })
  if (!response.ok) throw new Error(await response.text())
  return id
}

/** Makes the next attempt of every delivery that is due. */
async function deliver({ rows }: World): Promise<void> {
  for (const { id, status, nextAttemptAt } of await rows())
    if (status === 'pending' && nextAttemptAt.getTime() <= clock.now()) await deliveries.attempt(id)
}

test.serial('an event goes to each endpoint with its type, and once to a URL that the job names as well', async t => {
  const w = await world(t)
  const { receiver, organisationId, rows, create } = w
  const both = await create({ url: receiver.url })
  const all = await create({
    url: `${receiver.url}/all`,
    signing_secret: 'organisation',
    events: ['job.*', 'job.failed'],
  })
  await create({ url: `${receiver.url}/batches`, events: ['batch.*', 'job.completed'] })
  await create({ url: `${receiver.url}/off`, enabled: false })
  t.regex(both.secret!, /^whsec_/)
  t.is(all.secret, null)
  const job = await cancelledJob(w, receiver.url)
  const other = await cancelledJob(w, `${receiver.url}/own`)
  await deliver(w)
  t.deepEqual(
    (await rows()).map(({ jobId, url, endpointId, requested, status }) => [jobId, url, endpointId, requested, status]),
    [
      [job, receiver.url, both.data.id, true, 'delivered'],
      [job, `${receiver.url}/all`, all.data.id, false, 'delivered'],
      [other, receiver.url, both.data.id, false, 'delivered'],
      [other, `${receiver.url}/all`, all.data.id, false, 'delivered'],
      [other, `${receiver.url}/own`, null, true, 'delivered'],
    ],
  )
  const { secret } = await getWebhookSecrets(gateway.services, organisationId, clock.now())
  const signatures = receiver.received.map(got => [got.path, signedBy(got, both.secret!), signedBy(got, secret)])
  t.deepEqual(signatures, [
    ['/hook', true, true],
    ['/hook/all', false, true],
    ['/hook', true, false],
    ['/hook/all', false, true],
    ['/hook/own', false, true],
  ])
  t.like(await unwrapped(receiver.received[0]!, both.secret!), { type: 'job.cancelled', data: { id: job } })

  // The status of the job is that of the URL it named.
  const shown = async (id: string) =>
    ((await (await gateway.fetch(`/v1/videos/${id}`, { key: w.key })).json()) as { webhook: unknown }).webhook
  await gateway.services.db.webhookDelivery.updateMany({
    where: { jobId: other, requested: false },
    data: { status: 'failed' },
  })
  t.deepEqual(await shown(other), { url: `${receiver.url}/own`, status: 'delivered' })
  t.is(await shown(await cancelledJob(w)), null)
})

test.serial('provisioning keys manage endpoints; 400, 403 and 404 name what is wrong', async t => {
  const { manage, receiver, organisationId } = await world(t)
  const stranger = await world(t)
  const made = await manage<EndpointSecretAnswer>('POST', '', { url: receiver.url, events: ['job.*', 'job.*'] })
  t.is(made.status, 201)
  t.like(made.body.data, { url: receiver.url, events: ['job.*'], enabled: true, signing_secret: 'own' })
  const { id } = made.body.data
  const refused = async (...ask: Parameters<typeof manage>) => {
    const { status, body } = await manage<ErrorBody>(...ask)
    return [status, body.error.code, body.error.param]
  }
  const again = { url: receiver.url, events: ['*'] }
  t.deepEqual(await refused('POST', '', again), [400, 'invalid_request', 'url'])
  t.deepEqual(await refused('POST', '', { url: 'gopher://x', events: ['*'] }), [400, 'url_not_allowed', 'url'])
  t.deepEqual((await refused('POST', '', { ...again, events: ['job.lost'] }))[2], 'events.0')
  t.is((await manage('PATCH', `/${id}`, { description: 'CI', enabled: false })).status, 200)
  const { body: one } = await manage<{ data: ShownEndpoint }>('GET', `/${id}`)
  t.like(one.data, { description: 'CI', enabled: false, events: ['job.*'] })
  t.false(JSON.stringify(await manage('GET')).includes(made.body.secret!))
  for (const [method, path, body] of [
    ['GET', `/${id}`],
    ['PATCH', `/${id}`, {}],
    ['DELETE', `/${id}`],
    ['POST', `/${id}/roll-secret`],
  ] as const)
    t.is((await stranger.manage(method, path, body)).status, 404, `${method} ${path}`)
  t.deepEqual((await stranger.manage<{ data: unknown[] }>('GET')).body.data, [])
  t.is((await manage('DELETE', `/${id}`)).status, 200)
  t.is((await manage('GET', `/${id}`)).status, 404)
  const answers = await Promise.all(
    Array.from({ length: 22 }, (_, i) => manage('POST', '', { url: `${receiver.url}/${i}`, events: ['*'] })),
  )
  t.is(answers.filter(({ status }) => status === 201).length, 20)
  t.is(answers.filter(({ status }) => status === 403).length, 2)
  const audited = await gateway.services.db.auditEvent.findMany({ where: { organisationId, targetId: id } })
  t.deepEqual(audited.map(({ action, actorKind }) => [action, actorKind]).sort(), [
    ['webhook_endpoint.created', 'provisioning_key'],
    ['webhook_endpoint.deleted', 'provisioning_key'],
    ['webhook_endpoint.updated', 'provisioning_key'],
  ])
  t.false(JSON.stringify(audited).includes('whsec_'))
})

test.serial('after a roll both secrets sign for 24 hours; the signature of a message can be recomputed', async t => {
  const w = await world(t)
  const { visitor, base, receiver, create } = w
  const { data, secret: old } = await create({ url: receiver.url })
  const address = `${base}/endpoints/${data.id}`
  const rolled = await visitor.json<EndpointSecretAnswer>(`${address}/roll-secret`, { method: 'POST' })
  t.not(rolled.secret, old)
  t.is(Date.parse(rolled.data.previous_secret_valid_until!), clock.now() + 24 * hourMs)
  const test_ = (type?: string) =>
    visitor.json<DeliverySentAnswer>(`${address}/test`, { body: { ...(type && { type }) } })
  for (const type of [undefined, 'job.completed', 'batch.failed', 'key.spend_alert']) {
    await test_(type)
    await deliver(w)
    t.is(JSON.parse(receiver.last().body).type, type ?? 'webhook.test')
    t.true(signedBy(receiver.last(), old!) && signedBy(receiver.last(), rolled.secret!))
  }
  const { headers, body } = receiver.last()
  const message = { id: headers['webhook-id'], timestamp: Number(headers['webhook-timestamp']), body }
  const verify = (fields: object) =>
    visitor.json<VerifyAnswer>(`${address}/verify`, { body: { ...message, ...fields } })
  const both = headers['webhook-signature']!
  t.deepEqual(await verify({ signature: both }), { signatures: both.split(' '), match: 'current', is_old: false })
  t.is((await verify({ signature: both.split(' ')[1] })).match, 'previous')
  t.is((await verify({ signature: both, body: `${body} ` })).match, null)
  t.true((await verify({ timestamp: message.timestamp - 400 })).is_old)
  clock.advance(24 * hourMs)
  await test_()
  await deliver(w)
  t.false(signedBy(receiver.last(), old!))
  t.true(signedBy(receiver.last(), rolled.secret!))
  const shared = await create({ url: `${receiver.url}/shared`, signing_secret: 'organisation' })
  const response = await visitor.fetch(`${base}/endpoints/${shared.data.id}/roll-secret`, { method: 'POST' })
  t.is(response.status, 400)
})

test.serial(
  'figures, retries and last failure by URL; what failed is resent, but not to a disabled endpoint',
  async t => {
    const w = await world(t)
    const { visitor, base, receiver, create, show, patch, rows } = w
    const { data } = await create({ url: receiver.url })
    await cancelledJob(w, `${receiver.url}/own`)
    await deliver(w)
    receiver.always = status(410, {}, 'moved out')
    const gone = [await cancelledJob(w), await cancelledJob(w)]
    await deliver(w)
    clock.advance(1_000)
    receiver.always = status(500, {}, 'broken')
    await cancelledJob(w)
    await deliver(w)
    const { figures } = (await show(data.id)).data
    t.like(figures, { delivered: 1, failed: 2, retrying: 1 })
    t.like(figures.last_failure, { status: 500, text: 'broken' })
    t.is(typeof figures.p95_ms, 'number')
    const { data: listed, requested } = await visitor.json<EndpointsAnswer>(`${base}/endpoints`)
    t.deepEqual(
      listed.map(({ id, figures }) => [id, figures.failed]),
      [[data.id, 2]],
    )
    t.deepEqual(
      requested.map(({ url, figures }) => [url, figures.delivered, figures.last_failure]),
      [[`${receiver.url}/own`, 1, null]],
    )
    const list = (query: string) => visitor.json<DeliveriesAnswer>(`${base}/deliveries?${query}`)
    const ofEndpoint = await list(`endpoint=${data.id}&status=pending`)
    t.like(ofEndpoint.data[0], { endpoint_id: data.id, attempts: 1, max_attempts: 8 })
    t.is((await list('endpoint=whe_none')).data.length, 0)

    const resend = (since: number) =>
      visitor.fetch(`${base}/resend`, { body: { url: receiver.url, since: new Date(since).toISOString() } })
    t.deepEqual(await (await resend(clock.now() + 1_000)).json(), { resent: 0, max: 1_000 } satisfies ResendAnswer)
    receiver.always = status(200)
    t.like((await (await resend(clock.now() - hourMs)).json()) as ResendAnswer, { resent: 2 })
    await deliver(w)
    t.deepEqual(
      (await rows()).filter(({ jobId }) => gone.includes(jobId!)).map(({ status }) => status),
      ['delivered', 'delivered'],
    )

    receiver.always = status(500)
    const asked = await cancelledJob(w, receiver.url)
    await cancelledJob(w)
    await deliver(w)
    receiver.always = status(200)
    const before = receiver.received.length
    await patch(data.id, { enabled: false })
    clock.advance(hourMs)
    await cancelledJob(w)
    await deliver(w)
    t.deepEqual(
      receiver.received.slice(before).map(({ body }) => JSON.parse(body).data.id),
      [asked],
      'of what was pending, a disabled endpoint gets what a job has asked for alone',
    )
    t.is((await resend(0)).status, 400)
    await visitor.json(`${base}/endpoints/${data.id}`, { method: 'DELETE' })
    t.true(
      (await rows()).every(({ endpointId }) => endpointId === null),
      'its deliveries stay',
    )
  },
)

test.serial(
  'an endpoint that only failed for five days is disabled and its admins are told, one that is silent is not',
  async t => {
    const w = await world(t)
    const { organisationId, receiver, create, show, patch, visitor } = w
    const { data } = await create({ url: receiver.url, events: ['job.*'] })
    const watching = await create({ url: `${receiver.url}/watch`, events: ['webhook_endpoint.*'] })
    const sweep = () => runMaintenance('endpoints', null, gateway.services)
    const failed = async () => {
      receiver.always = status(500)
      await cancelledJob(w)
      await deliver(w)
      await sweep()
      return (await show(data.id)).data.enabled
    }
    t.true(await failed())
    clock.advance(6 * dayMs)
    await sweep()
    t.true((await show(data.id)).data.enabled, 'it had one event, days ago')
    receiver.always = status(200)
    await cancelledJob(w)
    await deliver(w)
    clock.advance(hourMs)
    t.true(await failed(), 'it took an event in between')
    clock.advance(4 * dayMs)
    t.true(await failed())
    clock.advance(dayMs)
    t.false(await failed())
    t.like((await show(data.id)).data, { enabled: false, disabled_for_failures: true })
    receiver.always = status(200)
    await deliver(w)
    const event = JSON.parse(receiver.last().body)
    t.is(event.type, 'webhook_endpoint.disabled')
    t.like(event.data, { id: data.id, url: receiver.url })
    t.true(signedBy(receiver.last(), watching.secret!))
    await sendEmails('alerts', null, gateway.services)
    const told = mail.received.filter(({ to, subject }) => to.includes(visitor.email) && !/Confirm/.test(subject))
    t.is(told.length, 1)
    t.is((await patch(data.id, { enabled: true })).data.disabled_for_failures, false)
    t.true(await failed(), 'it starts anew')
    const actions = await gateway.services.db.auditEvent.findMany({
      where: { organisationId, action: 'webhook_endpoint.disabled' },
    })
    t.is(actions.length, 1)
  },
)

test.serial(
  'a deletion waits for an event that is being published, and the next event does not see the endpoint',
  async t => {
    const w = await world(t)
    const { organisationId, receiver, create, rows } = w
    const { data } = await create({ url: receiver.url })
    const { db, webhooks, webhookEndpoints } = gateway.services
    const event = { organisationId, type: 'job.completed', url: null, data: {}, nowMs: clock.now() }
    let deletion: Promise<void> | undefined
    await db.$transaction(async tx => {
      await webhooks.publish(tx, event)
      deletion = webhookEndpoints.delete(organisationId, data.id, operatorActor)
    })
    await deletion
    t.deepEqual(
      (await rows()).map(({ status }) => status),
      ['failed'],
    )
    t.deepEqual(await db.$transaction(tx => webhooks.publish(tx, event)), [])
  },
)

test.serial('403 for members on what changes endpoints', async t => {
  const { organisationId, base, receiver, create } = await world(t)
  const { data } = await create({ url: receiver.url })
  const member = await signUp(gateway)
  await join(gateway, member.userId, organisationId, 'member')
  t.is((await member.visitor.fetch(`${base}/endpoints/${data.id}`)).status, 200)
  for (const [path, body] of [
    ['/endpoints', { url: receiver.url, events: ['*'] }],
    [`/endpoints/${data.id}/test`, {}],
    [`/endpoints/${data.id}/verify`, { id: 'x', timestamp: 1, body: '' }],
    ['/resend', { url: receiver.url, since: new Date().toISOString() }],
  ] as const)
    t.is((await member.visitor.fetch(base + path, { body })).status, 403, path)
})

test.serial('a deleted job is gone from the log of attempts, and from what is sent again', async t => {
  const owner = await world(t)
  const { db } = gateway.services
  const id = await cancelledJob(owner, owner.receiver.url)
  const [row] = await owner.rows()
  await deliveries.attempt(row!.id)
  const logged = () => db.webhookAttempt.findMany({ where: { deliveryId: row!.id }, orderBy: { number: 'asc' } })
  t.regex((await logged())[0]!.body!, /A lighthouse/)
  const deleted = await gateway.fetch(`/v1/videos/${id}`, { key: owner.key, method: 'DELETE' })
  t.is(deleted.status, 200)
  await db.webhookDelivery.updateMany({
    where: { id: row!.id },
    data: { status: 'pending', nextAttemptAt: new Date(clock.now()) },
  })
  await deliveries.attempt(row!.id)
  const attempts = await logged()
  t.is(attempts.length, 2)
  t.is(attempts[0]!.body, null)
  t.notRegex(attempts[1]!.body!, /A lighthouse/)
})
