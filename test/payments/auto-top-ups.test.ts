// Automatic top-ups against an emulated Stripe: what is charged, credited and told, in whatever order and after whatever fault.

import type { AutoTopUp, TopUp } from '../../api/dashboard/wire/billing.ts'
import { raiseTopUpAlerts } from '../../shared/alerts/auto-top-ups.ts'
import { sendAlertEmails } from '../../shared/alerts/emails.ts'
import { nanoFromUsd, usdFromNano } from '../../shared/base/money.ts'
import { dayMs } from '../../shared/base/time.ts'
import type { Recorded, Reply } from '../emulators/emulator.ts'
import { StripeEmulator } from '../emulators/stripe.ts'
import type { CardBehaviour } from '../emulators/stripe-cards.ts'
import { answersError } from '../support/api/edge.ts'
import { join, signUp } from '../support/dashboard/dashboard.ts'
import { startGateway } from '../support/gateway.ts'
import { MailServer, type ReceivedMail } from '../support/io/mail-server.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useGateway, useStores } from '../support/use.ts'
import { operator } from '../support/wallet/money.ts'
import { deliver, paymentEnvironment, take } from '../support/wallet/payments.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const start = Date.parse('2027-03-10T12:00:00Z')
let nowMs = start

const stores = useStores(test)
const mail = use(test, () => MailServer.start())
const stripe = use(test, () => StripeEmulator.start(() => nowMs))
const environment = () => ({ ...paymentEnvironment(stripe), SMTP_URL: mail.url })
const clock = { now: () => nowMs }
const gateway = useGateway(test, environment, { stores, clock })
/** Another worker. */
const other = use(test, () => startGateway(stores, environment(), clock))
test.after.always('the ledger holds together', async t => {
  t.deepEqual(await gateway.settled(), [])
})

const settings = { enabled: true, threshold_usd: 10, amount_usd: 50, monthly_limit_usd: 120 }

/** An organisation with a saved card, whose balance is zero. */
async function saver(
  t: ExecutionContext,
  behaviour: CardBehaviour = 'succeeds',
  changed: Partial<typeof settings> = {},
) {
  const person = await signUp(gateway)
  const path = `${person.base}/billing`
  await person.visitor.json(`${path}/card`, { method: 'POST' })
  await take(t, gateway, [stripe.saveCard(person.organisationId, behaviour)])
  const view = await person.visitor.json<AutoTopUp>(`${path}/auto-top-up`, {
    method: 'PUT',
    body: { ...settings, ...changed },
  })
  t.like(view, { enabled: true, card: { brand: 'visa', last4: '4242', expires: '2031-03' }, saving_card: false })
  const { customerId } = await gateway.services.db.autoTopUp.findUniqueOrThrow({
    where: { organisationId: person.organisationId },
  })
  const read = () => person.visitor.json<AutoTopUp>(`${path}/auto-top-up`)
  return { ...person, path, read, customer: customerId! }
}

type Saver = Awaited<ReturnType<typeof saver>>

const run = () => gateway.services.topUps.charges!.run()
const charges = ({ customer }: Saver) => stripe.cards.chargesOf(customer)
const balance = async ({ organisationId }: Saver) =>
  usdFromNano((await gateway.services.wallets.view(organisationId)).balanceNano)
const topUps = ({ organisationId }: Saver) =>
  gateway.services.db.topUp.findMany({ where: { organisationId, automatic: true }, orderBy: { id: 'asc' } })
const spend = ({ organisationId }: Saver, usd: string) =>
  gateway.services.wallets.deposit({ organisationId, amountNano: -nanoFromUsd(usd), method: 'grant' })

/** Other emails ask for the confirmation of an address. */
const alertMails = () => mail.received.filter(({ subject }) => /top-up/.test(subject))
/** The parts of an email as text (quoted-printable, in ASCII). */
const textOf = ({ raw }: ReceivedMail) =>
  raw
    .replace(/=\r\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))

/** Whether a request is a charge. */
const isCharge = ({ method, path }: Recorded) => method === 'POST' && path === '/v1/payment_intents'
/** Stripe does what it is asked, and the answer is lost. */
const lost: Reply = (request, response) => {
  stripe.reply(request)
  response.destroy()
}
/** The request does not reach Stripe. */
const away: Reply = (_request, response) => void response.destroy()

test.beforeEach(async () => {
  nowMs = start
  // What earlier tests left is neither charged nor told of.
  await gateway.services.db.autoTopUp.updateMany({ data: { enabled: false } })
  await raiseTopUpAlerts(gateway.services)
  await sendAlertEmails(gateway.services)
  mail.received.length = 0
})

test.serial(
  'a balance below the threshold is topped up once, up to the month’s limit, and again in the next month',
  async t => {
    const person = await saver(t)
    t.is(await run(), 1)
    t.is(await run(), 0, 'it is above the threshold again')
    t.is(await balance(person), 50)
    const [charge] = charges(person)
    const [row] = await topUps(person)
    t.like(charge, { amount: 5_000, currency: 'usd', status: 'succeeded' })
    t.deepEqual(charge!.metadata, { top_up: row!.id, automatic: 'true', organisation: person.organisationId })
    const sent = stripe.requests.findLast(isCharge)!
    t.is(sent.headers['idempotency-key'], row!.id)
    const form = Object.fromEntries(new URLSearchParams(sent.raw.toString()))
    t.like(form, { off_session: 'true', confirm: 'true', customer: person.customer, amount: '5000' })
    const { data } = await person.visitor.json<{ data: TopUp[] }>(`${person.base}/top-ups`)
    t.like(data[0], { status: 'paid', method: 'card', automatic: true, created_by: null, amount_usd: 50 })

    await spend(person, '40')
    t.is(await run(), 0, 'it is the threshold, and not below')
    await spend(person, '5')
    t.is(await run(), 1)
    t.like(await person.read(), { spent_month_usd: 100, last: { status: 'paid', failure: null } })
    await spend(person, '50')
    t.is(await run(), 0, 'a third one would be 150 of 120')
    await take(t, gateway, [stripe.refundEvent('created', charge!.id, { id: 're_limit', amount: 5_000 })])
    t.like((await topUps(person))[0], { status: 'refunded' })
    t.is(await run(), 0, 'a refund gives no room back')
    t.is(await raiseTopUpAlerts(gateway.services), 1)
    t.is(await raiseTopUpAlerts(gateway.services), 0)
    await sendAlertEmails(gateway.services)
    t.regex(textOf(alertMails().at(-1)!), /\$100\.00 leave no room .* limit of \$120\.00 until 2027-04-01/)
    nowMs = Date.parse('2027-04-01T00:00:01Z')
    t.is(await run(), 1)
    t.is(charges(person).length, 3)
  },
)

test.serial('many workers at the same time charge once, and never more than the month’s limit', async t => {
  const person = await saver(t, 'succeeds', { amount_usd: 40, monthly_limit_usd: 100, threshold_usd: 1_000 })
  for (let round = 0; round < 5; round++) {
    const workers = [gateway, other, gateway, other]
    await Promise.all(workers.map(({ services }) => services.topUps.charges!.run()))
  }
  t.is(charges(person).length, 2)
  t.is(await balance(person), 80)
})

test.serial('the answer is lost, the worker dies or the key is forgotten: each charge is credited once', async t => {
  const faults: [name: string, prepare: () => void, then: (person: Saver) => Promise<void>][] = [
    ['by its event', () => stripe.next(lost, lost, lost), async person => {
      const [charge] = charges(person)
      await take(t, gateway, [stripe.chargeEvent('succeeded', charge!.id), stripe.chargeEvent('succeeded', charge!.id)])
    }],
    ['by the sweep', () => stripe.next(lost, lost, lost), async () => {}],
    ['never sent', () => stripe.next(away, away, away), async () => {}],
    ['the key is forgotten', () => stripe.next(lost, lost, lost), async () => stripe.forgetKeys()],
  ] // biome-ignore format: one fault per paragraph
  for (const [name, prepare, then] of faults) {
    const person = await saver(t)
    prepare()
    await run()
    t.like((await topUps(person))[0], { status: 'open' }, name)
    t.is(await balance(person), 0, `${name}: nothing is credited before Stripe says so`)
    await then(person)
    t.is(await run(), 0, `${name}: one is in flight or done`)
    nowMs += 2 * minuteMs
    await Promise.all([run(), other.services.topUps.charges!.run()])
    t.is(charges(person).length, 1, name)
    t.is(await balance(person), 50, name)
    t.like((await topUps(person))[0], { status: 'paid', paymentId: charges(person)[0]!.id }, name)
  }
})

test.serial('an attempt that never reached Stripe is given up after a day, and counts as failed', async t => {
  const person = await saver(t)
  stripe.next(away, away, away)
  await run()
  nowMs += dayMs
  stripe.forgetKeys()
  await run()
  t.like((await topUps(person))[0], { status: 'failed', failureCode: 'not_charged' })
  t.is(charges(person).length, 0)
  nowMs += hourMs
  t.is(await run(), 1)
  t.is(await balance(person), 50)
})

test.serial('declined three times: delayed, told to those who pay, turned off and audited', async t => {
  const person = await saver(t, 'declined')
  const [billing, admin] = [await signUp(gateway), await signUp(gateway)]
  await join(gateway, billing.userId, person.organisationId, 'billing')
  await join(gateway, admin.userId, person.organisationId, 'admin')
  t.is(await run(), 1)
  const { id, status } = charges(person)[0]!
  t.is(status, 'canceled')
  // What Stripe tells of it as well counts as the same failure.
  await take(t, gateway, [stripe.chargeEvent('payment_failed', id), stripe.chargeEvent('canceled', id)])
  t.is(await run(), 0)
  t.like(await person.read(), {
    enabled: true,
    retry_at: new Date(nowMs + hourMs).toISOString(),
    last: { status: 'failed', failure: 'insufficient_funds' },
    spent_month_usd: 0,
  })
  t.is(await raiseTopUpAlerts(gateway.services), 1)
  await sendAlertEmails(gateway.services)
  t.deepEqual(
    alertMails()
      .flatMap(({ to }) => to)
      .sort(),
    [billing.visitor.email, person.visitor.email].sort(),
  )
  t.regex(textOf(alertMails()[0]!), /insufficient funds/)
  nowMs += hourMs
  await run()
  nowMs += dayMs
  await run()
  t.like(await person.read(), { enabled: false, disabled_reason: 'insufficient_funds', retry_at: null })
  nowMs += 10 * dayMs
  t.is(await run(), 0)
  t.is(charges(person).length, 3)
  t.is(await balance(person), 0)
  const audited = await gateway.services.db.auditEvent.findFirstOrThrow({
    where: { organisationId: person.organisationId, action: 'auto_top_up.disabled' },
  })
  t.like(audited, { actorName: 'automatic top-up' })
  // A new card, and turned on again: it starts afresh.
  await billing.visitor.json(`${person.path}/card`, { method: 'POST' })
  await take(t, gateway, [stripe.saveCard(person.organisationId, 'succeeds', '0005')])
  await billing.visitor.json(`${person.path}/auto-top-up`, { method: 'PUT', body: settings })
  t.is(await run(), 1)
  t.is(await balance(person), 50)
})

test.serial(
  'a card that must be authenticated, was stolen or is gone, and a charge that is cancelled at Stripe',
  async t => {
    const authenticated = await saver(t, 'authentication')
    await run()
    await raiseTopUpAlerts(gateway.services)
    await sendAlertEmails(gateway.services)
    const text = textOf(alertMails()[0]!)
    t.regex(text, /authenticate/)
    t.true(text.includes(`/dashboard/${authenticated.organisationId}/billing?amount=50`))

    const cancelled = await saver(t, 'processing')
    await run()
    const { id } = charges(cancelled)[0]!
    stripe.endCharge(id, 'canceled')
    await take(t, gateway, [stripe.chargeEvent('canceled', id)])
    t.like(await cancelled.read(), { enabled: true, last: { status: 'failed', failure: 'canceled' } })

    const stolen = await saver(t, 'stolen')
    await run()
    t.like(await stolen.read(), { enabled: false, disabled_reason: 'stolen_card' })

    const gone = await saver(t)
    stripe.cards.customers.get(gone.customer)!.deleted = true
    await run()
    t.like(await gone.read(), { enabled: false, disabled_reason: 'resource_missing' })
    // A new card gets a new customer.
    await gone.visitor.json(`${gone.path}/card`, { method: 'POST' })
    await take(t, gateway, [stripe.saveCard(gone.organisationId, 'succeeds', '1881')])
    t.like(await gone.read(), { card: { last4: '1881' } })
  },
)

test.serial('whatever order events of a charge come in, what Stripe charged is credited once', async t => {
  const person = await saver(t, 'processing')
  await run()
  const [charge] = charges(person)
  t.like((await topUps(person))[0], { status: 'open' })
  const failed = { ...stripe.chargeEvent('payment_failed', charge!.id) }
  failed.data = {
    object: { ...failed.data.object, status: 'requires_payment_method', last_payment_error: { code: 'x' } },
  }
  stripe.endCharge(charge!.id, 'succeeded')
  const succeeded = stripe.chargeEvent('succeeded', charge!.id)
  await take(t, gateway, [failed, succeeded, failed, succeeded, stripe.chargeEvent('succeeded', charge!.id)])
  t.is(await balance(person), 50)
  t.like((await topUps(person))[0], { status: 'paid', failureCode: null })
  await take(t, gateway, [stripe.refundEvent('created', charge!.id, { id: 're_auto', amount: 2_000 })])
  t.is(await balance(person), 30)
  const dispute = { id: 'du_auto', amount: 3_000, status: 'needs_response' }
  await take(t, gateway, [stripe.disputeEvent('created', charge!.id, dispute)])
  t.is(await balance(person), 0)
  const foreign = { ...succeeded, data: { object: { ...succeeded.data.object, currency: 'eur' } } }
  await answersError(t, await deliver(gateway, foreign), 'invalid_request', 'data.object.currency')
})

test.serial('a lost event of a saved card, a card that is replaced, and one that is removed', async t => {
  const person = await saver(t)
  const first = (
    await gateway.services.db.autoTopUp.findUniqueOrThrow({ where: { organisationId: person.organisationId } })
  ).paymentMethodId!
  await person.visitor.json(`${person.path}/card`, { method: 'POST' })
  t.like(await person.read(), { saving_card: true })
  const late = stripe.saveCard(person.organisationId, 'succeeds', '0341')
  nowMs += 2 * minuteMs
  await gateway.services.topUps.automatic!.finishCardPages()
  t.like(await person.read(), { saving_card: false, card: { last4: '0341' } })
  t.is(stripe.cards.cards.get(first)!.customer, null, 'the replaced one is forgotten')
  await take(t, gateway, [late])
  const view = await person.visitor.json<AutoTopUp>(`${person.path}/card`, { method: 'DELETE' })
  t.like(view, { card: null, enabled: false })
  await take(t, gateway, [late])
  t.like(await person.read(), { card: null })
  const entries = await gateway.services.db.auditEvent.findMany({
    where: { organisationId: person.organisationId, action: { startsWith: 'auto_top_up.' } },
    orderBy: { id: 'asc' },
  })
  t.deepEqual(
    entries.map(({ action, actorName }) => [action.slice(12), actorName]),
    [
      ['card_requested', person.visitor.email],
      ['card_saved', 'payment provider'],
      ['changed', person.visitor.email],
      ['card_requested', person.visitor.email],
      ['card_saved', 'payment provider'],
      ['card_removed', person.visitor.email],
    ],
  )
  const refused = await person.visitor.fetch(`${person.path}/auto-top-up`, { method: 'PUT', body: settings })
  await answersError(t, refused, 'invalid_request', 'enabled')
  t.is(await run(), 0)
})

test.serial(
  'refused: amounts out of bounds, roles that do not pay, addresses that are not confirmed, payments that are off',
  async t => {
    const person = await saver(t)
    const put = (body: object) => person.visitor.fetch(`${person.path}/auto-top-up`, { method: 'PUT', body })
    const wrong: [changed: object, param: string][] = [
      [{ threshold_usd: 0 }, 'threshold_usd'],
      [{ threshold_usd: 10_001 }, 'threshold_usd'],
      [{ amount_usd: 4.99 }, 'amount_usd'],
      [{ amount_usd: 7.005 }, 'amount_usd'],
      [{ monthly_limit_usd: 49 }, 'monthly_limit_usd'],
      [{ monthly_limit_usd: 100_001 }, 'monthly_limit_usd'],
      [{ enabled: 'yes' }, 'enabled'],
    ]
    for (const [changed, param] of wrong)
      await answersError(t, await put({ ...settings, ...changed }), 'invalid_request', param)
    await gateway.services.db.user.update({ where: { id: person.userId }, data: { emailVerified: false } })
    await answersError(t, await put(settings), 'email_not_verified')
    const member = await signUp(gateway)
    await join(gateway, member.userId, person.organisationId, 'member')
    const byMember = await member.visitor.fetch(`${person.path}/auto-top-up`, { method: 'PUT', body: settings })
    await answersError(t, byMember, 'insufficient_role')

    const closed = await startGateway(stores)
    try {
      const owner = await signUp(closed)
      const path = `${owner.base}/billing`
      t.like(await owner.visitor.json<AutoTopUp>(`${path}/auto-top-up`), { limits: null, enabled: false, card: null })
      await answersError(t, await owner.visitor.fetch(`${path}/card`, { method: 'POST' }), 'not_found')
      const put = await owner.visitor.fetch(`${path}/auto-top-up`, { method: 'PUT', body: settings })
      await answersError(t, put, 'not_found')
    } finally {
      await closed.close()
    }
  },
)

test.serial('an operator sees automatic top-ups, and turns them off; the organisation sees who did', async t => {
  const person = await saver(t)
  const ask = (...words: string[]) => operator(gateway.services, ...words, '--org', person.organisationId)
  await run()
  const shown = await ask('auto-top-up', 'show')
  t.like(shown.data, {
    data: { enabled: true, card: { last4: '4242' }, last: { status: 'paid' }, spent_month_usd: 50 },
  })
  t.is(
    shown.text.replace(/ on \d{4}-\S+,/, ','),
    [
      'on: below $10.00, $50.00 are charged',
      'card: visa …4242, expires 2031-03',
      'charged this month: $50.00 of $120.00',
      'last attempt: $50.00, paid',
    ].join('\n'),
  )
  t.is((await ask('auto-top-up', 'off')).text, 'turned off')
  t.is((await ask('auto-top-up', 'off')).text, 'already off')
  t.like(await person.read(), { enabled: false, card: { last4: '4242' } })
  await spend(person, '45')
  t.is(await run(), 0)
  const [entry] = await gateway.services.db.auditEvent.findMany({
    where: { organisationId: person.organisationId, action: 'auto_top_up.changed' },
    orderBy: { id: 'desc' },
  })
  t.like(entry, { actorName: 'operator', changes: { enabled: [true, false] } })
  const nobody = await signUp(gateway)
  const unset = await operator(gateway.services, 'auto-top-up', 'show', '--org', nobody.organisationId)
  t.true(unset.text.startsWith('off\nno card is saved\n'))
  await t.throwsAsync(operator(gateway.services, 'auto-top-up', 'off', '--org', 'org_none'), { message: /org_none/ })
})

test.serial('suspended organisations, and those that turned it off, are not charged', async t => {
  const suspended = await saver(t)
  const off = await saver(t)
  await gateway.services.db.organisation.update({
    where: { id: suspended.organisationId },
    data: { suspendedAt: new Date(nowMs) },
  })
  await off.visitor.json(`${off.path}/auto-top-up`, { method: 'PUT', body: { ...settings, enabled: false } })
  t.is(await run(), 0)
})
