import type { TopUp } from '../../api/dashboard/wire/billing.ts'
import { usdFromNano } from '../../shared/base/money.ts'
import { dayMs } from '../../shared/base/time.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { event, type Session, StripeEmulator, type StripeEvent, signature } from '../emulators/stripe.ts'
import { answersError } from '../support/api/edge.ts'
import { signUp } from '../support/dashboard/dashboard.ts'
import { startGateway } from '../support/gateway.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useGateway, useStores } from '../support/use.ts'
import { deliver, payer, paymentEnvironment, standing, take } from '../support/wallet/payments.ts'

let nowMs = Date.now()

const stores = useStores(test)
const stripe = use(test, () => StripeEmulator.start())
const gateway = useGateway(test, () => paymentEnvironment(stripe), { stores, clock: { now: () => nowMs } })
test.after.always('the ledger holds together', async t => {
  t.deepEqual(await gateway.settled(), [])
})

test.serial('ACH is held, released by time, and reversed after that', async t => {
  const person = await payer(gateway, stripe)
  const { session } = person
  t.is(await standing(gateway, person), '0/0/0 open 0')
  await take(t, gateway, [stripe.sessionEvent(session, 'completed')])
  t.is(await standing(gateway, person), '100/0/100 processing 0')
  const { heldReleaseAt } = await gateway.services.wallets.view(person.organisationId)
  t.is(heldReleaseAt?.getTime(), nowMs + 7 * dayMs)
  nowMs += 6 * dayMs
  await take(t, gateway, [stripe.sessionEvent(session, 'async_payment_succeeded')])
  t.is(await standing(gateway, person), '100/0/100 paid 0')
  nowMs += dayMs
  t.is(await standing(gateway, person), '100/100/0 paid 0')

  const second = await payer(gateway, stripe, { ...person, usd: 40 })
  await take(t, gateway, [stripe.sessionEvent(second.session, 'completed')])
  nowMs += 8 * dayMs
  t.is(await standing(gateway, second), '140/140/0 processing 0')
  await take(t, gateway, [stripe.sessionEvent(second.session, 'async_payment_failed')])
  t.is(await standing(gateway, second), '100/100/0 failed 0')
})

test('ACH that fails or is refunded before its release gives up its hold as well', async t => {
  const person = await payer(gateway, stripe)
  const other = await payer(gateway, stripe, { ...person, usd: 50 })
  await take(t, gateway, [
    stripe.sessionEvent(person.session, 'completed'),
    stripe.sessionEvent(other.session, 'completed'),
    stripe.sessionEvent(other.session, 'async_payment_succeeded'),
    stripe.refundEvent('created', other.session.paymentId, { amount: 2_000, status: 'pending' }),
  ])
  t.is(await standing(gateway, person), '130/0/130 processing 0')
  await take(t, gateway, [stripe.sessionEvent(person.session, 'async_payment_failed')])
  t.is(await standing(gateway, person), '30/0/30 failed 0')
  await take(t, gateway, [stripe.refundEvent('failed', other.session.paymentId, { amount: 2_000, status: 'failed' })])
  t.is(await standing(gateway, other), '50/0/50 paid 0')
})

test('a card is credited at once, and once, however often and from how many sides its event comes', async t => {
  const person = await payer(gateway, stripe, { usd: 19.99 })
  const paid = stripe.sessionEvent(person.session, 'completed', 'card')
  const answers = await Promise.all(Array.from({ length: 8 }, () => deliver(gateway, paid)))
  t.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
  await take(t, gateway, [paid, stripe.sessionEvent(person.session, 'expired')])
  t.is(await standing(gateway, person), '19.99/19.99/0 paid 0')
  t.is(await gateway.services.db.ledgerEntry.count({ where: { organisationId: person.organisationId } }), 1)
})

test.serial(
  '201 with a page at Stripe that is told all it needs, whichever comes first, its answer or its event',
  async t => {
    const { visitor, base, organisationId, userId } = await signUp(gateway)
    stripe.next(async (request, response) => {
      const answer = stripe.reply(request)
      const session = [...stripe.sessions.values()].find(({ metadata }) => metadata.organisation === organisationId)!
      t.is((await deliver(gateway, stripe.sessionEvent(session, 'completed', 'card'))).status, 200)
      await answer(request, response)
    })
    const { id, url } = await visitor.json<{ id: string; url: string }>(`${base}/top-ups`, { body: { amount_usd: 5 } })
    const session = stripe.sessionOf(id)
    t.is(url, session.url)
    const metadata = { 'metadata[top_up]': id, 'metadata[organisation]': organisationId }
    const page = `${gateway.url}/dashboard/${organisationId}/billing?top_up=${id}`
    t.like(Object.fromEntries(session.form), {
      ...metadata,
      'payment_intent_data[metadata][top_up]': id,
      'allowed_payment_method_types[0]': 'card',
      'allowed_payment_method_types[1]': 'us_bank_account',
      'payment_method_options[us_bank_account][verification_method]': 'instant',
      'line_items[0][price_data][currency]': 'usd',
      'line_items[0][price_data][unit_amount]': '500',
      client_reference_id: id,
      customer_email: visitor.email,
      success_url: page,
      cancel_url: `${page}&cancelled=true`,
    })
    t.is(await standing(gateway, { organisationId, session, topUpId: id }), '5/5/0 paid 0')
    const wallet = { balance_usd: 5, available_usd: 5, reserved_usd: 0, held_usd: 0, held_release_at: null }
    const payments = { minimum_usd: 5, maximum_usd: 10_000, ach_hold_days: 7 }
    t.deepEqual(await visitor.json(`${base}/billing`), { wallet, payments })
    const { data } = await visitor.json<{ data: TopUp[] }>(`${base}/top-ups`)
    t.like(data[0], { id, status: 'paid', method: 'card', available_at: null, created_by: visitor.email })
    const audited = await gateway.services.db.auditEvent.findFirst({
      where: { organisationId, action: 'top_up.started' },
    })
    t.like(audited, { actorId: userId, targetId: id })
  },
)

type Fact = (session: Session) => StripeEvent
const card: Fact = session => stripe.sessionEvent(session, 'completed', 'card')
const debit: Fact = session => stripe.sessionEvent(session, 'completed')
const succeeded: Fact = session => stripe.sessionEvent(session, 'async_payment_succeeded')
const failed: Fact = session => stripe.sessionEvent(session, 'async_payment_failed')
const expired: Fact = session => stripe.sessionEvent(session, 'expired')
const refund =
  (type: 'created' | 'updated' | 'failed', id: string, amount: number, status = 'succeeded'): Fact =>
  session =>
    stripe.refundEvent(type, session.paymentId, { id, amount, status })
const dispute =
  (type: 'created' | 'funds_withdrawn' | 'closed', status: string): Fact =>
  session =>
    stripe.disputeEvent(type, session.paymentId, { amount: 10_000, status })

const histories: [what: string, facts: Fact[], end: string][] = [
  ['a debit fails', [debit, failed], '0 failed 0'],
  ['a debit succeeds', [debit, succeeded], '100 paid 0'],
  ['a page expires unpaid', [expired], '0 expired 0'],
  ['a page is paid as it expires', [card, expired], '100 paid 0'],
  [
    'two refunds in part, one of which fails',
    [
      card,
      refund('created', 're_1', 3_000),
      refund('updated', 're_2', 2_500),
      refund('failed', 're_2', 2_500, 'failed'),
    ],
    '70 paid 30',
  ],
  [
    'a refund in part that is cancelled',
    [card, refund('created', 're_1', 3_000, 'pending'), refund('updated', 're_1', 3_000, 'canceled')],
    '100 paid 0',
  ],
  ['all is refunded', [card, refund('created', 're_1', 4_000), refund('created', 're_2', 6_000)], '0 refunded 100'],
  ['a dispute is won', [card, dispute('created', 'needs_response'), dispute('closed', 'won')], '100 paid 0'],
  ['a dispute is lost', [card, dispute('created', 'under_review'), dispute('closed', 'lost')], '0 refunded 100'],
  [
    'an inquiry',
    [card, dispute('created', 'warning_needs_response'), dispute('closed', 'warning_closed')],
    '100 paid 0',
  ],
  ['an inquiry that has taken the money', [card, dispute('funds_withdrawn', 'warning_under_review')], '0 refunded 100'],
  [
    'an inquiry that takes the money after all',
    [card, dispute('created', 'warning_needs_response'), dispute('funds_withdrawn', 'needs_response')],
    '0 refunded 100',
  ],
]

for (const [what, facts, end] of histories) {
  test(`${end} after whatever order of events: ${what}`, async t => {
    const { organisationId } = await payer(gateway, stripe)
    const orders = [facts, facts.toReversed(), [...facts.slice(1), facts[0]!]]
    await Promise.all(orders.map(order => ends(t, organisationId, order, end)))
  })
}

async function ends(t: ExecutionContext, organisationId: string, facts: Fact[], end: string): Promise<void> {
  const { db } = gateway.services
  const { topUpId: id, session } = await payer(gateway, stripe, { organisationId })
  const events = facts.map(fact => fact(session))
  await take(t, gateway, [...events, events[0]!])
  const topUp = await db.topUp.findUniqueOrThrow({ where: { id } })
  const booked = await db.ledgerEntry.aggregate({
    where: { cause: { startsWith: `stripe:${id}:` } },
    _sum: { amountNano: true },
  })
  const found = `${usdFromNano(booked._sum.amountNano ?? 0n)} ${topUp.status} ${usdFromNano(topUp.returnedNano)}`
  t.is(found, end, events.map(({ type }) => type).join(', '))
}

test('400 for what Stripe did not sign, signed long ago, or signed about other money; nothing is credited', async t => {
  const person = await payer(gateway, stripe)
  const paid = stripe.sessionEvent(person.session, 'completed', 'card')
  const payload = JSON.stringify(paid)
  const signatures = [
    '',
    'nonsense',
    signature(payload, nowMs, 'whsec_other'),
    signature(payload, nowMs - 301_000),
    signature(`${payload} `, nowMs),
  ]
  for (const header of signatures) {
    const response = await deliver(gateway, paid, { 'stripe-signature': header })
    await answersError(t, response, 'invalid_request', 'stripe-signature', header)
  }
  const wrong: [changed: Record<string, unknown>, param: string][] = [
    [{ currency: 'eur' }, 'data.object.currency'],
    [{ amount_total: '10000' }, 'data.object.amount_total'],
    [{ amount_total: 0 }, 'data.object.amount_total'],
  ]
  for (const [changed, param] of wrong) {
    const response = await deliver(gateway, stripe.sessionEvent(person.session, 'completed', 'card', changed))
    await answersError(t, response, 'invalid_request', param)
  }
  t.is(await standing(gateway, person), '0/0/0 open 0')
  await take(t, gateway, [stripe.sessionEvent(person.session, 'completed', 'card', { amount_total: 4_200 })])
  t.is(await standing(gateway, person), '42/42/0 paid 0')
})

test('200 without a trace for events that are not about our payments', async t => {
  const person = await payer(gateway, stripe)
  const { session } = person
  const stranger = { ...session, id: 'cs_other', metadata: {} }
  await take(t, gateway, [
    event('customer.created', { id: 'cus_1' }),
    stripe.sessionEvent(stranger, 'completed', 'card', { client_reference_id: person.topUpId, currency: 'eur' }),
    stripe.sessionEvent({ ...session, id: 'cs_other' }, 'completed', 'card'),
    stripe.sessionEvent({ ...session, metadata: { top_up: 'top_other' } }, 'completed', 'card'),
    stripe.refundEvent('created', 'pi_unknown', { amount: 100 }),
    stripe.refundEvent('created', '', { amount: 100, payment_intent: null }),
    stripe.disputeEvent('created', 'pi_unknown', { amount: 100 }),
  ])
  const repeatable = await deliver(gateway, event('customer.created', {}), { 'idempotency-key': 'a' })
  t.is(repeatable.status, 200)
  t.is(await standing(gateway, person), '0/0/0 open 0')
})

test('500 leaves nothing half done, and the event that comes again is booked', async t => {
  const person = await payer(gateway, stripe)
  const { db } = gateway.services
  const paid = stripe.sessionEvent(person.session, 'completed', 'card')
  await db.$executeRawUnsafe(
    `ALTER TABLE top_ups ADD CONSTRAINT broken CHECK (id <> '${person.topUpId}' OR status = 'open')`,
  )
  await answersError(t, await deliver(gateway, paid), 'internal_error')
  t.is(await standing(gateway, person), '0/0/0 open 0')
  await db.$executeRawUnsafe('ALTER TABLE top_ups DROP CONSTRAINT broken')
  await take(t, gateway, [paid])
  t.is(await standing(gateway, person), '100/100/0 paid 0')
})

test.serial(
  'refused: amounts out of bounds, unverified owners, too many, a provider that is away, payments that are off',
  async t => {
    const { visitor, base, organisationId, userId } = await signUp(gateway)
    const path = `${base}/top-ups`
    const { db } = gateway.services
    for (const amount_usd of [4.99, 10_000.01, 7.005, '20', null])
      await answersError(t, await visitor.fetch(path, { body: { amount_usd } }), 'invalid_request', 'amount_usd')
    await answersError(t, await visitor.fetch(path, { body: { amount_usd: 5, currency: 'eur' } }), 'unknown_field')

    await db.user.update({ where: { id: userId }, data: { emailVerified: false } })
    await answersError(t, await visitor.fetch(path, { body: { amount_usd: 5 } }), 'email_not_verified')
    await db.user.update({ where: { id: userId }, data: { emailVerified: true } })

    stripe.next(
      (_request, response) => void response.writeHead(402).end('{"error":{"message":"no","type":"api_error"}}'),
    )
    const { message } = await answersError(t, await visitor.fetch(path, { body: { amount_usd: 5 } }), 'upstream_error')
    t.notRegex(message, /stripe|sk_test/i)
    t.deepEqual((await visitor.json<{ data: TopUp[] }>(path)).data, [])

    const rows = Array.from({ length: 30 }, (_, i) => ({
      id: `top_${organisationId}${i}`,
      organisationId,
      amountNano: 5n,
    }))
    await db.topUp.createMany({ data: rows.map(row => ({ ...row, createdAt: new Date(nowMs) })) })
    await answersError(t, await visitor.fetch(path, { body: { amount_usd: 5 } }), 'rate_limit_exceeded')

    const closed = await startGateway(stores)
    try {
      const body = JSON.stringify(event('customer.created', {}))
      const headers = { 'stripe-signature': signature(body, nowMs) }
      await answersError(t, await closed.fetch('/webhooks/stripe', { body, headers }), 'not_found')
      const began = closed.services.topUps.createCheckout({
        organisationId,
        actor: operatorActor,
        email: '',
        amountCents: 500,
      })
      await t.throwsAsync(began, { message: /operator/ })
    } finally {
      await closed.close()
    }
  },
)
