import { newId } from '../../shared/base/ids.ts'
import { nanoFromUsd } from '../../shared/base/money.ts'
import { dayMs } from '../../shared/base/time.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { keyPatch } from '../../shared/keys/key-requests.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { getWebhookSecrets } from '../../shared/webhooks/secrets.ts'
import { sendEmails } from '../../workers/emails.ts'
import { runMaintenance } from '../../workers/maintenance.ts'
import { WebhookDeliveries } from '../../workers/webhooks/deliveries.ts'
import { Emulator } from '../emulators/emulator.ts'
import { join, signUp } from '../support/dashboard/dashboard.ts'
import { MailServer } from '../support/io/mail-server.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useGateway, useStores } from '../support/use.ts'
import { moneyEnvironment, nanoPerOutputToken, testClock } from '../support/wallet/money.ts'
import { Receiver, signedBy } from '../support/webhooks/receiver.ts'
import { webhookServices } from '../support/webhooks/webhooks.ts'

const now = '2027-03-10T12:00:00Z'
const minuteMs = 60_000
const clock = testClock(now)
/** Another worker process. */

const stores = useStores(test)
const mail = use(test, () => MailServer.start())
const receiver = use(test, () => Receiver.start())
const upstream = use(test, () =>
  Emulator.start(({ body }, response) => {
    const message = { role: 'assistant', content: 'Spent.' }
    // Two tokens of the prompt cost what one of the output does.
    const usage = { prompt_tokens: 2, completion_tokens: body.max_completion_tokens - 1, total_tokens: 0 }
    const choices = [{ index: 0, message, finish_reason: 'stop' }]
    response.setHeader('content-type', 'application/json')
    response.end(
      JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'm', choices, usage }),
    )
  }),
)
const gateway = useGateway(
  test,
  async () => ({ ...(await moneyEnvironment(upstream.url)), SMTP_URL: mail.url, ALLOW_PRIVATE_URLS: 'true' }),
  { stores, clock },
)
const other = use(test, () => webhookServices(stores, clock, { SMTP_URL: mail.url }))
const people = use(test, async () => {
  const [owner, admin, member] = await Promise.all([signUp(gateway), signUp(gateway), signUp(gateway)])
  return { owner, admin, member, unverified: await signUp(gateway, { verified: false }) }
})
test.beforeEach(() => {
  clock.set(now)
  mail.received.length = 0
  receiver.received.length = 0
})

/** An organisation with credits, a live key with a cap, and an owner. */
async function world({ cap = 0.1, usd = '100' } = {}) {
  const { organisationId, live: key } = await gateway.account({ usd, name: 'Robot', monthly_spend_cap_usd: cap })
  await join(gateway, people.owner.userId, organisationId, 'owner')
  const data = { alertWebhookUrl: receiver.url }
  await gateway.services.db.organisation.update({ where: { id: organisationId }, data })
  return { organisationId, key }
}

/** One request that costs so much, or what is left of the cap. Answers its status. */
async function spend(key: string, usd: number): Promise<number> {
  const body = {
    model: 'coin',
    messages: [{ role: 'user', content: 'Spend' }],
    max_tokens: Math.round((usd * 1e9) / nanoPerOutputToken),
  }
  const response = await gateway.fetch('/v1/chat/completions', { key, body })
  await response.arrayBuffer()
  return response.status
}

/** What the worker does every 15 s. Gives the alerts of an organisation so far, oldest first. */
async function look(organisationId: string) {
  const { services } = gateway
  await gateway.settled()
  await runMaintenance('alerts', null, services)
  await sendEmails('alerts', null, services)
  const alerts = await services.db.alert.findMany({ where: { organisationId }, orderBy: { id: 'asc' } })
  clock.advance(15_000)
  return alerts
}

const percents = async (organisationId: string) =>
  (await look(organisationId)).map(({ data }) => (data as { percent: number }).percent)

const setCap = (key: string, usd: number) =>
  gateway.services.keys.patch(null, hashSecret(key), keyPatch.parse({ monthly_spend_cap_usd: usd }), operatorActor)

const alertMails = () => mail.received.filter(({ subject }) => subject !== 'Confirm your email address')

test.serial('the name of a key leads nowhere in an email: members choose it, and owners get the email', async t => {
  const { organisationId, key } = await world()
  // Keys of earlier releases may have a line break in their name.
  const data = { name: 'Pay\n\nat https://evil.example or www.evil.example' }
  await gateway.services.db.apiKey.update({ where: { hash: hashSecret(key) }, data })
  t.is(await spend(key, 0.06), 200)
  t.deepEqual(await percents(organisationId), [50])
  const [{ subject, raw } = { subject: '', raw: '' }] = alertMails()
  t.is(subject, '50% of the monthly cap of “Pay at https: / / evil. example or www. evil. example” is spent')
  // Long lines of an email are broken.
  t.false(raw.replace(/=\r\n/g, '').includes('evil.example'))
})

test.serial('told at 50, 80 and 100 % of a cap, each once: owners and admins by email, and the webhook', async t => {
  const { organisationId, key } = await world()
  const { owner, admin, member, unverified } = people
  await join(gateway, admin.userId, organisationId, 'admin')
  await join(gateway, member.userId, organisationId, 'member')
  await join(gateway, unverified.userId, organisationId, 'owner')
  t.is(await spend(key, 0.04), 200)
  t.deepEqual(await percents(organisationId), [])
  t.is(await spend(key, 0.01), 200)
  t.deepEqual(await percents(organisationId), [50])
  t.deepEqual(await percents(organisationId), [50])
  t.is(await spend(key, 0.032), 200)
  t.deepEqual(await percents(organisationId), [50, 80])
  t.is(await spend(key, 0.03), 200, 'clamped to what is left')
  t.is(await spend(key, 0.03), 402)
  t.deepEqual(await percents(organisationId), [50, 80, 100])
  t.is(await spend(key, 0.03), 402)
  t.deepEqual(await percents(organisationId), [50, 80, 100])
  t.is(await gateway.services.redis.scard('alerts:capped'), 0)

  t.deepEqual(
    alertMails().map(({ to, subject }) => [...to, subject]),
    [
      '50% of the monthly cap of “Robot” is spent',
      '80% of the monthly cap of “Robot” is spent',
      'The monthly cap of “Robot” is reached',
    ].flatMap(subject => [owner, admin].map(({ visitor }) => [visitor.email, subject])),
  )
  await assertPosted(t, organisationId)
})

/** Each of the three alerts has a delivery of its own, signed, with the figures. */
async function assertPosted(t: ExecutionContext, organisationId: string) {
  const { services } = gateway
  const { secret } = await getWebhookSecrets(services, organisationId, clock.now())
  const deliveries = new WebhookDeliveries(services)
  t.teardown(() => deliveries.close())
  const rows = await services.webhooks.list(organisationId, { limit: 10 })
  for (const { id } of rows.reverse()) await deliveries.attempt(id)
  const events = receiver.received.map(({ body }) => JSON.parse(body))
  t.deepEqual(
    events.map(({ type, data }) => [type, data.percent, data.spent_usd]),
    [
      ['key.spend_alert', 50, 0.05],
      ['key.spend_alert', 80, 0.082],
      ['key.spend_alert', 100, events[2].data.spent_usd],
    ],
  )
  t.like(events[0].data, {
    object: 'key.spend_alert',
    cap_usd: 0.1,
    month: '2027-03',
    resets_at: '2027-04-01T00:00:00.000Z',
  })
  t.is(events[0].data.key.name, 'Robot')
  t.true(receiver.received.every(got => signedBy(got, secret)))
  const { log } = await services.webhooks.show(organisationId, rows[0]!.id)
  t.is(log[0]!.body, receiver.received[0]!.body)
  const posted = receiver.received[0]!.headers['webhook-signature']!
  t.is((log[0]!.headers as Record<string, string>)['webhook-signature'], `${posted.slice(0, 9)}…`)
}

test.serial('sent: one alert of the highest level after a jump, and again in the next month', async t => {
  const { organisationId, key } = await world()
  await spend(key, 0.085)
  t.deepEqual(await percents(organisationId), [80])
  clock.set('2027-04-01T00:00:00Z')
  t.deepEqual(await percents(organisationId), [80])
  await spend(key, 0.05)
  t.deepEqual(await percents(organisationId), [80, 50])
})

test.serial('told again under a raised cap of levels that it put out of reach, and only of those', async t => {
  const { organisationId, key } = await world()
  await spend(key, 0.085)
  t.deepEqual(await percents(organisationId), [80])
  await setCap(key, 0.106)
  t.deepEqual(await percents(organisationId), [80], '80 % is still reached')
  await setCap(key, 0.2)
  t.deepEqual(await percents(organisationId), [80], '50 % is not reached')
  await spend(key, 0.02)
  t.deepEqual(await percents(organisationId), [80, 50])
  await setCap(key, 0.105)
  t.deepEqual(await percents(organisationId), [80, 50, 100], 'a lowered cap reaches a higher level')
})

test.serial('not told: a request too large for the cap, a test key, a revoked key, no cap', async t => {
  const { organisationId, key } = await world({ cap: 0.0003 })
  const body = { model: 'coin', messages: [{ role: 'user', content: 'x'.repeat(1_000) }] }
  t.is((await gateway.fetch('/v1/chat/completions', { key, body })).status, 402)
  t.is(await gateway.services.redis.scard('alerts:capped'), 0)
  const tested = await gateway.key(organisationId, 'test', { monthly_spend_cap_usd: 0.000001 })
  t.is(await spend(tested, 0.01), 200)
  const uncapped = await gateway.key(organisationId, 'live')
  t.is(await spend(uncapped, 0.1), 200)
  const revoked = await gateway.key(organisationId, 'live', { monthly_spend_cap_usd: 0.1 })
  t.is(await spend(revoked, 0.09), 200)
  await gateway.services.keys.revoke(null, hashSecret(revoked), operatorActor)
  t.deepEqual(await look(organisationId), [])
})

test.serial('told of a low balance once, and again after it was above; held deposits do not count', async t => {
  const { organisationId, key } = await world({ cap: 1, usd: '5.1' })
  const { wallets, db } = gateway.services
  const deposit = (usd: string, availableAt?: Date) =>
    wallets.deposit({
      organisationId,
      amountNano: nanoFromUsd(usd),
      method: 'ach',
      ...(availableAt && { availableAt }),
    })
  t.deepEqual(await look(organisationId), [])
  await spend(key, 0.15)
  const [first, ...more] = await look(organisationId)
  t.deepEqual(more, [])
  t.like(first, { type: 'wallet.low_balance', keyId: null })
  t.like(first!.data, { balance_usd: 4.95, held_usd: 0, low_balance_usd: 5 })
  await deposit('10', new Date(clock.now() + dayMs))
  t.is((await look(organisationId)).length, 1, 'what is held cannot be spent')
  clock.advance(dayMs)
  t.is((await look(organisationId)).length, 1, 'released: above again')
  await db.organisation.update({ where: { id: organisationId }, data: { lowBalanceNano: 15_000_000_000n } })
  t.is((await look(organisationId)).length, 2)
  await db.organisation.update({ where: { id: organisationId }, data: { lowBalanceNano: null } })
  t.is((await look(organisationId)).length, 2)
  t.like(await db.organisation.findUnique({ where: { id: organisationId } }), { lowBalanceSince: null })
  t.is(alertMails().length, 2)
  const { organisationId: empty } = await world({ usd: '0' })
  t.deepEqual(await look(empty), [], 'a wallet that never had money does not run low')
})

test.serial('told of a low balance where a held deposit went back twice: it holds nothing, and no less', async t => {
  const { organisationId } = await world({ usd: '6' })
  const { wallets } = gateway.services
  const availableAt = new Date(clock.now() + dayMs)
  for (const usd of ['10', '-10', '-10'])
    await wallets.deposit({ organisationId, amountNano: nanoFromUsd(usd), method: 'ach', availableAt })
  const [alert] = await look(organisationId)
  t.like(alert?.data, { balance_usd: -4, held_usd: 0 })
})

test.serial('told once by two workers that look at the same moment', async t => {
  const { organisationId, key } = await world({ usd: '5.05' })
  await spend(key, 0.09)
  await gateway.settled()
  const workers = [gateway.services, other, gateway.services, other]
  await Promise.all(workers.map(services => runMaintenance('alerts', null, services)))
  await Promise.all(workers.map(services => sendEmails('alerts', null, services)))
  const { db, webhooks } = gateway.services
  const alerts = await db.alert.findMany({ where: { organisationId } })
  t.deepEqual(alerts.map(({ type }) => type).sort(), ['key.spend_alert', 'wallet.low_balance'])
  t.is((await webhooks.list(organisationId, { limit: 10 })).length, 2)
  t.is(alertMails().length, 2)
})

test.serial('each person gets a message of their own, which shows no other address; operators too', async t => {
  const { organisationId, key } = await world()
  const { owner, admin } = people
  await join(gateway, admin.userId, organisationId, 'admin')
  const operator = await signUp(gateway)
  const { db } = gateway.services
  await db.user.update({ where: { id: operator.userId }, data: { operator: true } })
  t.teardown(() => db.user.update({ where: { id: operator.userId }, data: { operator: false } }))
  mail.received.length = 0
  const { id: keyId } = await db.apiKey.findUniqueOrThrow({ where: { hash: hashSecret(key) } })
  const data = { key: { id: keyId, name: 'Robot', prefix: 'svc_sk_live_' }, cost_usd: 2, reserved_usd: 1 }
  const alert = { id: newId('alr'), organisationId, cause: `blocked:${keyId}`, type: 'key.blocked', keyId, data }
  await db.alert.create({ data: { ...alert, createdAt: new Date(clock.now()), nextEmailAt: new Date(clock.now()) } })
  mail.refusedAddress = admin.visitor.email
  await sendEmails('alerts', null, gateway.services)
  const addresses = [owner, admin, operator].map(({ visitor }) => visitor.email)
  const reached = () => alertMails().flatMap(({ to }) => to)
  t.deepEqual(reached(), [addresses[0], addresses[2]], 'a refused address holds up no other')
  mail.refusedAddress = null
  clock.advance(minuteMs)
  await sendEmails('alerts', null, gateway.services)
  t.deepEqual(reached(), [addresses[0], addresses[2], addresses[1]], 'and a retry repeats none')
  for (const { to, raw } of alertMails())
    t.deepEqual(
      addresses.filter(address => raw.includes(address!)),
      to,
    )
  t.like(await db.alert.findUnique({ where: { id: alert.id } }), { emailedTo: [], emailAttempts: 2 })
})

test.serial(
  'emailed later while the mail server refuses, with growing pauses, and given up after ten attempts',
  async t => {
    const { organisationId, key } = await world()
    const { db } = gateway.services
    mail.refusing = true
    t.teardown(() => {
      mail.refusing = false
    })
    const before = mail.asked
    await spend(key, 0.06)
    const [alert] = await look(organisationId)
    t.like(alert, { emailedAt: null, emailAttempts: 1 })
    await look(organisationId)
    t.is(mail.asked - before, 1, 'not before its time')
    const pauses = []
    for (let attempt = 2; attempt <= 10; attempt++) {
      const { nextEmailAt } = await db.alert.findUniqueOrThrow({ where: { id: alert!.id } })
      pauses.push(Math.round((nextEmailAt.getTime() - clock.now()) / minuteMs))
      clock.set(nextEmailAt.toISOString())
      await sendEmails('alerts', null, gateway.services)
    }
    t.deepEqual(
      pauses,
      [...pauses].sort((a, b) => a - b),
    )
    t.is(mail.asked - before, 10)
    clock.advance(30 * dayMs)
    await sendEmails('alerts', null, gateway.services)
    t.is(mail.asked - before, 10)

    clock.set(now)
    const next = await world()
    await spend(next.key, 0.06)
    await look(next.organisationId)
    mail.refusing = false
    clock.advance(minuteMs)
    const [emailed] = await look(next.organisationId)
    t.like(emailed, { emailAttempts: 2 })
    t.truthy(emailed!.emailedAt)
    t.deepEqual(
      alertMails().map(({ to }) => to),
      [[people.owner.visitor.email]],
    )
  },
)
