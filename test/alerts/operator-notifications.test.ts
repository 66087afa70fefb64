import type {
  IncidentDetail,
  IncidentMessage,
  IncidentsPage,
  NotificationsAnswer,
  NotificationsSecret,
} from '../../api/dashboard/wire/operator-home.ts'
import { groupIncidents } from '../../shared/alerts/incident-groups.ts'
import { type Condition, reconcileIncidents } from '../../shared/alerts/incidents.ts'
import { sendEmails } from '../../workers/emails.ts'
import { signUp } from '../support/dashboard/dashboard.ts'
import { startGateway } from '../support/gateway.ts'
import { MailServer } from '../support/io/mail-server.ts'
import { test } from '../support/test.ts'
import { use, useGateway, useStores } from '../support/use.ts'
import { testClock } from '../support/wallet/money.ts'
import { Receiver, signedBy, status } from '../support/webhooks/receiver.ts'

/** Operators are told of incidents by email, webhook and Slack. */

const noon = '2027-03-10T12:00:00Z'
const secondMs = 1_000
const minuteMs = 60_000
const clock = testClock(noon)
const path = '/dashboard/api/operator/notifications'

const stores = useStores(test)
const mail = use(test, () => MailServer.start())
const receiver = use(test, () => Receiver.start())
const slack = use(test, () => Receiver.start())
const env = () => ({ SMTP_URL: mail.url, ALLOW_PRIVATE_URLS: 'true', ENCRYPTION_KEY: 'k'.repeat(40) })
const gateway = useGateway(test, async () => env(), { stores, clock })
/** Another worker process. */
const other = use(test, () => startGateway({ ...stores, drop: async () => {} }, env(), clock))
const operator = use(test, () => signUp(gateway, { name: 'Op' }))

test.before(async () => {
  await gateway.services.db.user.update({ where: { id: operator.userId }, data: { operator: true } })
  await signUp(gateway, { name: 'Nobody special' })
})
test.beforeEach(async () => {
  const { db } = gateway.services
  await db.incidentMessage.deleteMany()
  await db.incident.deleteMany()
  await db.incidentGroup.deleteMany()
  await db.operatorNotifications.deleteMany()
  clock.set(noon)
  for (const { received } of [receiver, slack]) received.length = 0
  mail.received.length = 0
  mail.refusing = false
})

/** The emails without those of sign-ups, which arrive when they do. */
const mails = () => mail.received.filter(({ subject }) => subject !== 'Confirm your email address')
const get = <T>(address: string) => operator.visitor.json<T>(address)
const change = (body: object) => operator.visitor.json<NotificationsAnswer>(path, { method: 'PATCH', body })
const work = (services = gateway.services) => sendEmails('incidents', null, services)
const messages = async () => (await get<NotificationsAnswer>(path)).messages
const states = async () =>
  (await messages()).map(({ event, channel, status }) => `${event} ${channel} ${status}`).sort()

/** What the workers' look finds wrong now. */
async function wrong(...conditions: Condition[]): Promise<void> {
  await reconcileIncidents(gateway.services, ['circuit', 'key', 'paused', 'instance', 'webhook'], conditions)
  await groupIncidents(gateway.services)
}
const failing = (model: string, provider = 'openai'): Condition => ({
  kind: 'circuit',
  subject: `${provider}|${model}`,
  provider,
  model,
  message: 'HTTP 500: The server had an error',
})

test.serial('an outage of three models is one incident, told once when it opened and once when it is over', async t => {
  await change({ webhook_url: receiver.url, slack_url: slack.url })
  const { secret } = await get<{ secret: string }>(`${path}/secret`)
  await wrong(failing('gpt-5'))
  await work()
  t.deepEqual(await messages(), [], 'what fails together is awaited')
  clock.advance(10 * secondMs)
  await wrong(failing('gpt-5'), failing('gpt-5-mini'), failing('gpt-4o'))
  clock.advance(15 * secondMs)
  await Promise.all([work(), work(other.services), work()])
  t.deepEqual(
    mails().map(({ to, subject }) => [to, subject]),
    [[[operator.visitor.email], 'Incident: 3 models fail at openai']],
  )
  t.regex(mails()[0]!.raw, /operator\/incidents\/inc_/)
  t.is(slack.received.length, 1)
  t.regex(slack.received[0]!.body, /3 models fail at openai/)
  t.is(receiver.received.length, 1)
  t.true(signedBy(receiver.received[0]!, secret))
  t.like(JSON.parse(receiver.received[0]!.body), {
    type: 'incident.opened',
    data: { object: 'incident', provider: 'openai', closed_at: null },
  })
  // It comes and goes: the same incident.
  await wrong()
  clock.advance(minuteMs)
  await wrong(failing('gpt-5'))
  await work()
  clock.advance(10 * minuteMs)
  await wrong()
  await work()
  t.is(receiver.received.length, 1)
  clock.advance(2 * minuteMs)
  await Promise.all([work(), work(other.services)])
  await work()
  t.deepEqual(
    mails().map(({ subject }) => subject),
    ['Incident: 3 models fail at openai', 'Resolved: 3 models failed at openai'],
  )
  t.deepEqual(
    receiver.received.map(({ body }) => JSON.parse(body).type),
    ['incident.opened', 'incident.resolved'],
  )
  t.is(slack.received.length, 2)
  const { data } = await get<IncidentsPage>('/dashboard/api/operator/incidents')
  t.is(data.length, 1)
  t.like(data[0], { title: '3 models failed at openai', provider: 'openai' })
  const shown = await get<IncidentDetail>(`/dashboard/api/operator/incidents/${data[0]!.id}`)
  t.is(shown.records.length, 4)
  t.deepEqual(shown.messages.map(({ event, channel, status }) => `${event} ${channel} ${status}`).sort(), [
    ...['opened email delivered', 'opened slack delivered', 'opened webhook delivered'],
    ...['resolved email delivered', 'resolved slack delivered', 'resolved webhook delivered'],
  ])
})

test.serial('an incident that is over before it is told is one message', async t => {
  await wrong(failing('gpt-5'))
  clock.advance(5 * secondMs)
  await wrong()
  clock.advance(minuteMs)
  await work()
  t.deepEqual(await messages(), [])
  clock.advance(2 * minuteMs)
  await work()
  t.deepEqual(
    mails().map(({ subject }) => subject),
    ['Resolved: gpt-5 failed at openai'],
  )
})

test.serial('a receiver that fails gets the same message again; a worker that died does not lose it', async t => {
  await change({ webhook_url: receiver.url, email_operators: false })
  receiver.once(status(500), status(503))
  await wrong(failing('gpt-5'))
  clock.advance(30 * secondMs)
  await work()
  const [first] = await messages()
  t.like(first, { status: 'pending', attempts: 1, error: 'HTTP 500' })
  await work()
  t.is(receiver.received.length, 1, 'not before its time')
  clock.advance(minuteMs)
  await work()
  // A worker claims it and dies: the lease ends.
  await gateway.services.db.incidentMessage.updateMany({
    data: { attempts: { increment: 1 }, nextAttemptAt: new Date(clock.now() + 3 * minuteMs) },
  })
  await work(other.services)
  t.is(receiver.received.length, 2)
  clock.advance(4 * minuteMs)
  await work(other.services)
  t.like((await messages())[0], { status: 'delivered', error: null })
  t.deepEqual(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])), new Set([first!.id]))
})

test.serial('a message that fails at every attempt ends as failed, with the reason', async t => {
  await change({ webhook_url: receiver.url, email_operators: false })
  receiver.always = status(500)
  t.teardown(() => {
    receiver.always = status(200)
  })
  await wrong(failing('gpt-5'))
  for (let i = 0; i < 12; i++) {
    clock.advance(5 * 60 * minuteMs)
    await work()
  }
  t.like((await messages())[0], { status: 'failed', attempts: 8, error: 'HTTP 500' })
  t.is(receiver.received.length, 8)
})

test.serial('quiet hours: email and Slack wait for their end, a webhook does not', async t => {
  await change({
    webhook_url: receiver.url,
    slack_url: slack.url,
    quiet_from: '22:00',
    quiet_to: '07:00',
    time_zone: 'Europe/Berlin',
  })
  clock.set('2027-03-10T23:30:00Z')
  await wrong(failing('gpt-5'))
  clock.advance(30 * secondMs)
  await work()
  t.deepEqual(await states(), ['opened email pending', 'opened slack pending', 'opened webhook delivered'])
  const waiting = (await messages()).find(({ channel }) => channel === 'email')
  t.is(waiting!.next_attempt_at, '2027-03-11T06:00:00.000Z')
  t.is(mails().length, 0)
  clock.set('2027-03-11T06:00:00Z')
  await work()
  t.is(mails().length, 1)
  t.is(slack.received.length, 1)
  // One that is over by the morning is told once.
  await wrong()
  clock.advance(5 * minuteMs)
  await work()
  mail.received.length = 0
  clock.set('2027-03-11T22:00:00Z')
  await wrong(failing('gemini-2.5-flash', 'gemini'))
  clock.advance(30 * secondMs)
  await work()
  await wrong()
  clock.set('2027-03-12T06:00:00Z')
  await work()
  t.deepEqual(
    mails().map(({ subject }) => subject),
    ['Resolved: gemini-2.5-flash failed at gemini'],
  )
})

test.serial('what operators did themselves, and topics that are not chosen, are not told', async t => {
  const paused: Condition = { kind: 'paused', subject: 'openai', provider: 'openai', message: 'Paused by Op' }
  const endpoint: Condition = { kind: 'webhook', subject: 'org_1|whe_1', message: '5 attempts failed' }
  const lost: Condition = { kind: 'instance', subject: 'web-1', message: 'No heartbeat' }
  await wrong(paused, endpoint, lost)
  clock.advance(minuteMs)
  await work()
  t.deepEqual(
    mails().map(({ subject }) => subject),
    ['Incident: A process stopped responding'],
  )
  await change({ topics: ['webhooks'] })
  await wrong(paused, endpoint, lost, failing('gpt-5'), { ...endpoint, subject: 'org_2|whe_2' })
  clock.advance(minuteMs)
  await work()
  t.deepEqual(
    mails().map(({ subject }) => subject),
    ['Incident: A process stopped responding', 'Incident: Deliveries to a webhook endpoint fail'],
  )
})

test.serial('a test of each channel arrives, in quiet hours too; one that leads nowhere is refused', async t => {
  const send = (channel: string) => operator.visitor.fetch(`${path}/test`, { body: { channel } })
  t.is((await send('webhook')).status, 400)
  t.is((await send('slack')).status, 400)
  t.is((await send('fax')).status, 400)
  await change({
    webhook_url: receiver.url,
    slack_url: slack.url,
    emails: ['oncall@example.com'],
    quiet_from: '00:00',
    quiet_to: '23:59',
  })
  const { secret } = await get<{ secret: string }>(`${path}/secret`)
  for (const channel of ['email', 'webhook', 'slack']) {
    const response = await send(channel)
    t.is(response.status, 200)
    t.like(((await response.json()) as { data: IncidentMessage[] }).data[0], { channel, event: 'test' })
  }
  await work()
  t.deepEqual(
    mails()
      .flatMap(({ to }) => to)
      .sort(),
    [operator.visitor.email, 'oncall@example.com'].sort(),
  )
  t.true(signedBy(receiver.received[0]!, secret))
  t.is(slack.received.length, 1)
  t.true((await messages()).every(({ status }) => status === 'delivered'))
})

test.serial('settings are checked and audited, without secrets; others than operators see nothing', async t => {
  const { db } = gateway.services
  for (const [body, param] of [
    [{ quiet_from: '22:00' }, 'quiet_to'],
    [{ quiet_from: '22:00', quiet_to: '22:00' }, 'quiet_to'],
    [{ quiet_from: '25:00', quiet_to: '07:00' }, 'quiet_from'],
    [{ time_zone: 'Mars/Olympus' }, 'time_zone'],
    [{ emails: ['nobody'] }, 'emails'],
    [{ webhook_url: 'ftp://example.com' }, 'webhook_url'],
    [{ topics: ['weather'] }, 'topics'],
  ] as const) {
    const response = await operator.visitor.fetch(path, { method: 'PATCH', body })
    t.is(response.status, 400, param)
    t.regex(((await response.json()) as { error: { param: string } }).error.param, new RegExp(`^${param}`))
  }
  const url = `${slack.url}/T0/s3cret-part`
  const shown = await change({ slack_url: url, webhook_url: `${receiver.url}?token=hush` })
  t.is(shown.settings.slack_end, 'part')
  const events = await db.auditEvent.findMany({ where: { action: { startsWith: 'operator_notifications' } } })
  t.true(events.length > 0)
  t.false(/s3cret|hush/.test(JSON.stringify(events)))
  const row = await db.operatorNotifications.findFirstOrThrow()
  t.false(JSON.stringify([row.slackUrl, row.webhookSecret]).includes('s3cret'))
  const stranger = await signUp(gateway)
  t.not((await stranger.visitor.fetch(path)).status, 200)
})

test.serial('a rolled secret signs beside the new one for 24 hours', async t => {
  await change({ webhook_url: receiver.url, email_operators: false })
  const first = await get<NotificationsSecret>(`${path}/secret`)
  t.is(first.previous_valid_until, null)
  const rolled = await operator.visitor.json<NotificationsSecret>(`${path}/secret`, { method: 'POST' })
  t.not(rolled.secret, first.secret)
  t.is(rolled.previous_valid_until, '2027-03-11T12:00:00.000Z')
  t.deepEqual(await get(`${path}/secret`), rolled)
  const signersOf = async () => {
    receiver.received.length = 0
    await operator.visitor.json(`${path}/test`, { body: { channel: 'webhook' } })
    await work()
    return [first, rolled].map(({ secret }) => signedBy(receiver.received[0]!, secret))
  }
  t.deepEqual(await signersOf(), [true, true])
  clock.set('2027-03-11T12:00:01Z')
  t.deepEqual(await signersOf(), [false, true])
  t.is((await get<NotificationsSecret>(`${path}/secret`)).previous_valid_until, null)
  const where = { action: 'operator_notifications.secret_rolled' }
  t.is(await gateway.services.db.auditEvent.count({ where }), 1)
})

test.serial('records of a previous release are grouped: history is not told, what lasts is', async t => {
  const { db } = gateway.services
  const at = (iso: string) => new Date(iso)
  const row = { kind: 'circuit', provider: 'openai', seenAt: at(noon) }
  await db.incident.createMany({
    data: [
      {
        ...row,
        id: 'inc_old',
        subject: 'openai|a',
        model: 'a',
        openedAt: at('2027-03-09T10:00:00Z'),
        closedAt: at('2027-03-09T11:00:00Z'),
      },
      { ...row, id: 'inc_new', subject: 'openai|b', model: 'b', openedAt: at('2027-03-10T11:59:00Z') },
    ],
  })
  await groupIncidents(gateway.services)
  clock.advance(5 * minuteMs)
  await work()
  t.deepEqual(
    mails().map(({ subject }) => subject),
    ['Incident: b fails at openai'],
  )
  t.is((await get<IncidentsPage>('/dashboard/api/operator/incidents')).data.length, 2)
})
