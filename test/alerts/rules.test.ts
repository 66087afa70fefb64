// Alert rules through the dashboard's routes: what raises and resolves them, and where they go.

import type { AlertRuleAnswer, AlertRulesAnswer, ChannelTestAnswer } from '../../api/dashboard/wire/alert-rules.ts'
import type { AlertsAnswer } from '../../api/dashboard/wire/alerts.ts'
import type { AuditAnswer } from '../../api/dashboard/wire/audit.ts'
import type { DeliveryAnswer } from '../../api/dashboard/wire/webhooks.ts'
import type { ErrorBody } from '../../shared/base/errors.ts'
import { newId } from '../../shared/base/ids.ts'
import { dayMs } from '../../shared/base/time.ts'
import { sendEmails } from '../../workers/emails.ts'
import { runMaintenance } from '../../workers/maintenance.ts'
import { WebhookDeliveries } from '../../workers/webhooks/deliveries.ts'
import { join, type SignedUp, signUp } from '../support/dashboard/dashboard.ts'
import { MailServer } from '../support/io/mail-server.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'
import { testClock } from '../support/wallet/money.ts'
import { type Answer, Receiver, status } from '../support/webhooks/receiver.ts'

const minuteMs = 60_000
const clock = testClock('2027-03-10T12:00:00Z')

const mail = use(test, () => MailServer.start())
const receiver = use(test, () => Receiver.start())
const gateway = useGateway(test, () => ({ SMTP_URL: mail.url, ALLOW_PRIVATE_URLS: 'true' }), { clock })
const deliveries = use(test, () => new WebhookDeliveries(gateway.services))
test.beforeEach(() => {
  clock.set('2027-03-10T12:00:00Z')
  mail.received.length = 0
  receiver.received.length = 0
  receiver.always = status(200)
})

const rulesOf = async ({ visitor, base }: SignedUp) =>
  (await visitor.json<AlertRulesAnswer>(`${base}/alerts/rules`)).data

const create = async ({ visitor, base }: SignedUp, body: object) =>
  (await visitor.json<AlertRuleAnswer>(`${base}/alerts/rules`, { body: { name: 'A rule', ...body } })).data

const patch = async ({ visitor, base }: SignedUp, id: string, body: object) =>
  (await visitor.json<AlertRuleAnswer>(`${base}/alerts/rules/${id}`, { method: 'PATCH', body })).data

const history = async ({ visitor, base }: SignedUp) => (await visitor.json<AlertsAnswer>(`${base}/alerts/history`)).data

async function refused({ visitor, base }: SignedUp, path: string, method: string, body?: object) {
  const response = await visitor.fetch(`${base}/alerts/rules${path}`, { method, ...(body && { body }) })
  return { status: response.status, ...((await response.json()) as ErrorBody).error }
}

/** What the worker does every minute. Gives the types of all alerts of the organisation, newest first. */
async function look(owner: SignedUp): Promise<string[]> {
  clock.advance(minuteMs)
  await runMaintenance('rules', null, gateway.services)
  await sendEmails('alerts', null, gateway.services)
  return (await history(owner)).map(({ type }) => type)
}

type Logged = {
  streamed?: boolean
  status?: number
  durationMs?: number
  costNano?: bigint
  keyId?: string
  calls?: number
}

/** Rows of the request log, as the booking of requests writes them. */
async function log({ organisationId }: SignedUp, count: number, logged: Logged = {}) {
  const { db } = gateway.services
  const { status = 200, streamed = false, durationMs = 100, costNano = 0n, keyId = 'key_1' } = logged
  const row = {
    organisationId,
    keyId,
    requestId: 'req_1',
    kind: 'chat',
    environment: 'live' as const,
    model: 'gpt-4o',
    status,
    streamed,
    attempts: 1,
    promptTokens: 1,
    completionTokens: 1,
    cachedTokens: 0,
    reasoningTokens: 0,
    estimated: false,
    costNano,
    durationMs,
    firstByteMs: durationMs,
  }
  const createdAt = new Date(clock.now())
  await db.generation.createMany({
    data: Array.from({ length: count }, () => ({ ...row, id: newId('chatcmpl'), createdAt })),
  })
}

/** Sends what is due to receivers. */
async function deliver({ organisationId }: SignedUp) {
  const rows = await gateway.services.webhooks.list(organisationId, { limit: 100, status: 'pending' })
  for (const { id } of rows.reverse()) await deliveries.attempt(id)
}

const alertMails = () => mail.received.filter(({ subject }) => subject !== 'Confirm your email address')

const posted = () => receiver.received.map(({ body }) => JSON.parse(body))

test.serial('an error rate is raised once, and resolved after two evaluations below; by email and webhook', async t => {
  const owner = await signUp(gateway)
  await owner.visitor.json(`${owner.base}/alerts`, { method: 'PATCH', body: { alert_webhook_url: receiver.url } })
  const channels = { email: 'owners', webhook: true }
  const rule = await create(owner, { kind: 'error_rate', threshold: 20, window: '5m', min_requests: 10, ...channels })
  t.like(rule, { firing: null, value: null, enabled: true, environment: 'live', slack_end: null })
  await log(owner, 9, { status: 500 })
  t.deepEqual(await look(owner), [], 'fewer than ten requests')
  await log(owner, 11)
  t.deepEqual(await look(owner), ['alert.raised'])
  t.deepEqual(await look(owner), ['alert.raised'])
  const [firing] = await rulesOf(owner)
  t.like(firing, { value: 45, firing: { since: '2027-03-10T12:02:00.000Z' } })
  await log(owner, 180)
  t.deepEqual(await look(owner), ['alert.raised'], 'one evaluation below')
  t.deepEqual(await look(owner), ['alert.resolved', 'alert.raised'])
  t.is((await rulesOf(owner))[0]!.firing, null)

  const subjects = alertMails().map(({ subject }) => subject)
  t.deepEqual(subjects, ['“A rule” is firing', '“A rule” is resolved'])
  await deliver(owner)
  const [raised, resolved] = posted()
  t.like(raised, { type: 'alert.raised' })
  t.like(raised.data, {
    object: 'alert.raised',
    subject: null,
    value: 45,
    resolved_at: null,
    since: '2027-03-10T12:02:00.000Z',
    measured_from: '2027-03-10T11:57:00.000Z',
  })
  t.deepEqual(raised.data.rule, { id: rule.id, name: 'A rule', kind: 'error_rate', threshold: 20, window: '5m' })
  t.like(resolved, { type: 'alert.resolved' })
  t.is(resolved.data.resolved_at, '2027-03-10T12:05:00.000Z')
  const [, { path }] = (await history(owner)) as [unknown, { path: string }]
  const link = new URLSearchParams(path.split('?')[1])
  t.like(Object.fromEntries(link), { status: 'error', environment: 'live', to: '2027-03-10T12:02:00.000Z' })
  await log(owner, 200, { status: 429 })
  t.is((await look(owner)).length, 3, 'another episode')
})

test.serial('a rule about the time to first token measures streams alone, and within what was seen', async t => {
  const owner = await signUp(gateway)
  for (const window of ['15m', '24h'])
    for (const kind of ['ttft_p95', 'latency_p95'])
      await create(owner, { kind, name: `${kind} ${window}`, threshold: 1_000, window, min_requests: 10 })
  const values = async () => {
    await look(owner)
    return Object.fromEntries((await rulesOf(owner)).map(({ name, value }) => [name, value]))
  }
  await log(owner, 30, { durationMs: 5_001 })
  t.deepEqual(await values(), {
    'ttft_p95 15m': null,
    'latency_p95 15m': 5_001,
    'ttft_p95 24h': null,
    'latency_p95 24h': 5_001,
  })
  await log(owner, 10, { durationMs: 334, streamed: true })
  t.like(await values(), { 'ttft_p95 15m': 334, 'latency_p95 15m': 5_001, 'ttft_p95 24h': 334 })
  t.deepEqual(await look(owner), ['alert.raised', 'alert.raised'])
})

test.serial('two workers at the same time raise one alert', async t => {
  const owner = await signUp(gateway)
  await create(owner, { kind: 'latency_p95', threshold: 1_000, window: '15m' })
  await create(owner, { kind: 'ttft_p95', threshold: 1_000, window: '1h' })
  await log(owner, 30, { durationMs: 5_000, streamed: true })
  clock.advance(minuteMs)
  const { services } = gateway
  await Promise.all([runMaintenance('rules', null, services), runMaintenance('rules', null, services)])
  t.deepEqual(
    (await history(owner)).map(({ type, has_email }) => [type, has_email]),
    [
      ['alert.raised', false],
      ['alert.raised', false],
    ],
  )
  t.deepEqual(
    (await rulesOf(owner)).map(({ value }) => value),
    [5_000, 5_000],
  )
  t.is(alertMails().length, 0)
})

test.serial('spend of a key since the UTC day began; 24 hours are summed from hours', async t => {
  const owner = await signUp(gateway)
  const { organisationId } = owner
  const [one, other] = [await gateway.key(organisationId, 'live'), await gateway.key(organisationId, 'live')]
  const { db } = gateway.services
  const keys = await db.apiKey.findMany({ where: { organisationId }, orderBy: { createdAt: 'asc' } })
  t.not(one, other)
  await create(owner, { name: 'One key', kind: 'spend', threshold: 2, window: 'day', key: keys[0]!.id })
  await create(owner, { name: 'All keys', kind: 'spend', threshold: 5, window: 'month' })
  await create(owner, { name: 'Errors', kind: 'error_rate', threshold: 50, window: '24h', min_requests: 1 })
  await log(owner, 1, { keyId: keys[1]!.id, costNano: 3_000_000_000n })
  t.deepEqual(await look(owner), [])
  await log(owner, 1, { keyId: keys[0]!.id, costNano: 2_000_000_000n })
  t.deepEqual(await look(owner), ['alert.raised', 'alert.raised'])
  t.deepEqual(
    (await rulesOf(owner)).map(({ name, value, firing }) => [name, value, firing !== null]),
    [
      ['One key', 2, true],
      ['All keys', 5, true],
      ['Errors', 0, false],
    ],
  )
  clock.advance(12 * 60 * minuteMs)
  await look(owner)
  t.deepEqual(
    (await look(owner)).filter(type => type === 'alert.resolved'),
    ['alert.resolved'],
    'a new day',
  )
})

test.serial(
  'an episode ends with its month or day, and spend of the next one has an alert of its own at once',
  async t => {
    const owner = await signUp(gateway)
    clock.set('2027-03-31T23:58:00Z')
    await create(owner, { kind: 'spend', threshold: 5, window: 'month', email: 'owners' })
    await log(owner, 1, { costNano: 6_000_000_000n })
    t.deepEqual(await look(owner), ['alert.raised'])
    clock.set('2027-04-01T00:00:30Z')
    await log(owner, 1, { costNano: 7_000_000_000n })
    const types = await look(owner)
    t.deepEqual(types.toSorted(), ['alert.raised', 'alert.raised', 'alert.resolved'])
    t.like((await rulesOf(owner))[0], { value: 7, firing: { since: new Date(clock.now()).toISOString() } })
    t.true(mail.received.some(({ raw }) => raw.includes('This alert is over: its month has ended.')))
    clock.advance(minuteMs)
    t.is((await look(owner)).length, 3, 'goes on')
  },
)

test.serial('keys that expire and that are not used, one alert for each', async t => {
  const owner = await signUp(gateway)
  const expires_at = new Date(clock.now() + 10 * dayMs).toISOString()
  await gateway.key(owner.organisationId, 'live', { name: 'Soon', expires_at })
  await gateway.key(owner.organisationId, 'live', { name: 'Never' })
  await gateway.services.db.apiKey.updateMany({
    where: { organisationId: owner.organisationId },
    data: { createdAt: new Date(clock.now()) },
  })
  await create(owner, { kind: 'key_expiring', threshold: 7 })
  await create(owner, { kind: 'key_unused', threshold: 9 })
  t.deepEqual(await look(owner), [])
  clock.advance(4 * dayMs)
  t.deepEqual(await look(owner), ['alert.raised'])
  t.deepEqual((await rulesOf(owner))[0]!.firing!.subjects, ['Soon'])
  t.regex((await history(owner))[0]!.path, /^keys\/[0-9a-f]{64}$/)
  clock.advance(5 * dayMs)
  t.is((await look(owner)).length, 3, 'both are unused')
})

test.serial('raised: a rule about an endpoint whose deliveries fail', async t => {
  const owner = await signUp(gateway)
  const { visitor, base } = owner
  const body = { url: receiver.url, events: ['job.*'] }
  const { data: endpoint } = await visitor.json<{ data: { id: string } }>(`${base}/webhooks/endpoints`, { body })
  await create(owner, { kind: 'webhook_failing', threshold: 90, min_requests: 2 })
  receiver.always = status(500)
  for (let i = 0; i < 2; i++)
    await visitor.json(`${base}/webhooks/endpoints/${endpoint.id}/test`, { body: { type: 'job.failed' } })
  t.deepEqual(await look(owner), [], 'not tried yet')
  await deliver(owner)
  t.deepEqual(await look(owner), ['alert.raised'])
  t.is((await history(owner))[0]!.path, `webhooks/endpoints/${endpoint.id}`)
})

test.serial('Slack: the URL is shown nowhere, the message is retried, and failures are shown', async t => {
  const owner = await signUp(gateway)
  const { visitor, base, organisationId } = owner
  const { services } = gateway
  const slack_url = `${receiver.url}/T000/B000/sEcReTpath`
  const rule = await create(owner, {
    name: 'A <b> & rule',
    kind: 'error_rate',
    threshold: 1,
    window: '5m',
    min_requests: 1,
    slack_url,
  })
  t.is(rule.slack_end, 'path')
  await log(owner, 1, { status: 500 })
  await look(owner)
  const unavailable: Answer = status(503, {}, 'no_service')
  receiver.once(unavailable)
  await deliver(owner)
  clock.advance(minuteMs)
  await deliver(owner)
  t.is(receiver.received.length, 2)
  const { path, headers, body } = receiver.last()
  t.is(path, new URL(slack_url).pathname)
  t.is(headers['webhook-signature'], undefined)
  const { text, blocks } = JSON.parse(body)
  t.regex(text, /^“A b &amp; rule” is firing: The error rate over the last 5 minutes is 100%; the threshold is 1%/s)
  t.is(blocks[0].type, 'section')
  t.true(blocks[1].text.text.includes(`/dashboard/${organisationId}/requests?`))
  const [row] = await services.webhooks.list(organisationId, { limit: 1 })
  const shown = await visitor.json<DeliveryAnswer>(`${base}/webhooks/deliveries/${row!.id}`)
  t.is(shown.data.url, 'slack:…path')
  t.deepEqual(
    shown.data.log.map(({ status, response }) => [status, response]),
    [
      [503, 'no_service'],
      [200, null],
    ],
  )
  const everything = JSON.stringify([shown, await rulesOf(owner), await visitor.json(`${base}/audit`)])
  t.false(everything.includes('sEcReT'))

  receiver.always = status(410)
  const { deliveries: tests } = await visitor.json<ChannelTestAnswer>(`${base}/alerts/rules/${rule.id}/test`, {
    body: { channel: 'slack' },
  })
  await deliver(owner)
  t.regex(JSON.parse(receiver.last().body).text, /^Test: /)
  t.is((await rulesOf(owner))[0]!.slack_failure!.id, tests[0]!.id)
})

test.serial('a test of each channel says where it goes, or that it goes nowhere', async t => {
  const owner = await signUp(gateway)
  const { visitor, base, userId } = owner
  const rule = await create(owner, { kind: 'spend', threshold: 1, window: 'day' })
  for (const channel of ['email', 'webhook', 'slack'])
    t.like(await refused(owner, `/${rule.id}/test`, 'POST', { channel }), { status: 400, param: 'channel' })
  await patch(owner, rule.id, { email: 'members', member_ids: [userId], webhook: true })
  t.like(await refused(owner, `/${rule.id}/test`, 'POST', { channel: 'webhook' }), { status: 400, param: 'channel' })
  await visitor.json(`${base}/alerts`, { method: 'PATCH', body: { alert_webhook_url: receiver.url } })
  const send = (channel: string) =>
    visitor.json<ChannelTestAnswer>(`${base}/alerts/rules/${rule.id}/test`, { body: { channel } })
  t.deepEqual((await send('email')).email_to, [visitor.email])
  t.is((await send('webhook')).deliveries[0]!.url, receiver.url)
  await deliver(owner)
  t.like(posted()[0], { type: 'alert.raised', data: { test: true } })
  t.deepEqual(await history(owner), [], 'a test is no alert')
})

test.serial('429 for more than ten tests by email in an hour', async t => {
  const owner = await signUp(gateway)
  const rule = await create(owner, { kind: 'spend', threshold: 1, window: 'day', email: 'owners' })
  const tests = Array.from({ length: 12 }, async () => {
    const path = `${owner.base}/alerts/rules/${rule.id}/test`
    return (await owner.visitor.fetch(path, { body: { channel: 'email' } })).status
  })
  t.deepEqual((await Promise.all(tests)).sort(), [...Array(10).fill(202), 429, 429])
})

test.serial('a rule that is disabled, changed or deleted fires no more, without an event', async t => {
  const owner = await signUp(gateway)
  const rule = await create(owner, { kind: 'error_rate', threshold: 50, window: '1h', min_requests: 1 })
  await log(owner, 1, { status: 500 })
  t.is((await look(owner)).length, 1)
  t.is((await patch(owner, rule.id, { name: 'Renamed' })).firing !== null, true)
  t.is((await patch(owner, rule.id, { enabled: false })).firing, null)
  t.is((await look(owner)).length, 1)
  await patch(owner, rule.id, { enabled: true })
  t.is((await look(owner)).length, 2, 'begins anew')
  t.is((await patch(owner, rule.id, { threshold: 60 })).firing, null)
  await owner.visitor.json(`${owner.base}/alerts/rules/${rule.id}`, { method: 'DELETE' })
  t.is((await look(owner)).length, 2)
  t.deepEqual(await rulesOf(owner), [])
  const { data } = await owner.visitor.json<AuditAnswer>(`${owner.base}/audit`)
  t.deepEqual(
    data.map(({ action }) => action).filter(action => action.startsWith('alert_rule')),
    ['deleted', 'updated', 'updated', 'updated', 'updated', 'created'].map(word => `alert_rule.${word}`),
  )
})

test.serial('members who have left get no email, and do not keep a rule from being changed', async t => {
  const [owner, other] = await Promise.all([signUp(gateway), signUp(gateway)])
  await join(gateway, other.userId, owner.organisationId, 'member')
  const chosen = { email: 'members', member_ids: [other.userId] }
  const rule = await create(owner, { kind: 'error_rate', threshold: 1, window: '5m', min_requests: 1, ...chosen })
  await gateway.services.db.membership.deleteMany({
    where: { organisationId: owner.organisationId, userId: other.userId },
  })
  t.is((await patch(owner, rule.id, { name: 'Renamed' })).name, 'Renamed')
  t.like(await refused(owner, `/${rule.id}`, 'PATCH', chosen), { status: 400, param: 'member_ids' })
  await log(owner, 1, { status: 500 })
  t.deepEqual(await look(owner), ['alert.raised'])
  t.deepEqual(alertMails(), [])
})

async function assertRefused(t: ExecutionContext, owner: SignedUp, body: object, param: string) {
  const right = { name: 'A rule', kind: 'spend', threshold: 1, window: 'day' }
  t.like(await refused(owner, '', 'POST', { ...right, ...body }), { status: 400, param }, JSON.stringify(body))
}

test.serial('400 naming the field; 403 for members, and beyond 50 rules', async t => {
  const owner = await signUp(gateway)
  const stranger = await signUp(gateway)
  await assertRefused(t, owner, { window: '5m' }, 'window')
  await assertRefused(t, owner, { window: null }, 'window')
  await assertRefused(t, owner, { kind: 'key_unused' }, 'window')
  await assertRefused(t, owner, { kind: 'error_rate', window: '5m', threshold: 101 }, 'threshold')
  await assertRefused(t, owner, { threshold: 0 }, 'threshold')
  await assertRefused(t, owner, { kind: 'webhook_failing', window: null, model: 'gpt-4o' }, 'model')
  await assertRefused(t, owner, { key: 'key_of_others' }, 'key')
  await assertRefused(t, owner, { email: 'members', member_ids: [stranger.userId] }, 'member_ids')
  await assertRefused(t, owner, { email: 'members' }, 'member_ids')
  await assertRefused(t, owner, { slack_url: 'ftp://example.com/' }, 'slack_url')
  await assertRefused(t, owner, { colour: 'red' }, 'colour')
  t.like(await refused(owner, '/rule_none', 'PATCH', { name: 'New' }), { status: 404 })
  await join(gateway, stranger.userId, owner.organisationId, 'member')
  const member = { ...owner, visitor: stranger.visitor }
  t.deepEqual(await rulesOf(member), [])
  t.like(await refused(member, '', 'POST', { name: 'A', kind: 'spend', threshold: 1, window: 'day' }), { status: 403 })
  for (let i = 0; i < 50; i++) await create(owner, { kind: 'spend', threshold: 1, window: 'day' })
  const more = await refused(owner, '', 'POST', { name: 'A', kind: 'spend', threshold: 1, window: 'day' })
  t.like(more, { status: 403, code: 'quota_exceeded' })
})
