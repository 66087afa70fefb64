import Stripe from 'stripe'
import { StripeEmulator, secretKey } from '../emulators/stripe.ts'
import { test } from '../support/test.ts'

test('idempotent, refused and read as Stripe’s: the emulator by the official package', async t => {
  const stripe = await StripeEmulator.start()
  t.teardown(() => stripe.close())
  const { hostname, port } = new URL(stripe.url)
  const settings = { host: hostname, port, protocol: 'http', telemetry: false, maxNetworkRetries: 0 } as const
  const client = new Stripe(secretKey, settings)
  const product_data = { name: 'Credits' }
  const create = (unit_amount: number) =>
    client.checkout.sessions.create(
      {
        mode: 'payment',
        line_items: [{ quantity: 1, price_data: { currency: 'usd', unit_amount, product_data } }],
        payment_intent_data: { metadata: { top_up: 'top_1' } },
        success_url: 'https://example.com',
      },
      { idempotencyKey: 'one' },
    )
  const session = await create(500)
  t.is((await create(500)).id, session.id)
  await t.throwsAsync(create(501), { instanceOf: Stripe.errors.StripeIdempotencyError })
  t.is((await client.checkout.sessions.retrieve(session.id)).amount_total, 500)
  const { paymentId } = stripe.sessions.get(session.id)!
  t.is((await client.paymentIntents.retrieve(paymentId)).metadata.top_up, 'top_1')
  await t.throwsAsync(client.paymentIntents.retrieve('pi_none'), { message: /No such/ })
  const denied = new Stripe('sk_other', settings).paymentIntents.retrieve(paymentId)
  await t.throwsAsync(denied, { instanceOf: Stripe.errors.StripeAuthenticationError })
})

test('saved cards: the official library gets what Stripe answers, and what it refuses', async t => {
  const stripe = await StripeEmulator.start()
  t.teardown(() => stripe.close())
  const { hostname, port } = new URL(stripe.url)
  const settings = { host: hostname, port, protocol: 'http', telemetry: false, maxNetworkRetries: 0 } as const
  const client = new Stripe(secretKey, settings)
  const { id: customer } = await client.customers.create({ name: 'Acme', metadata: { organisation: 'org_1' } })
  const metadata = { card_of: 'org_1' }
  const page = await client.checkout.sessions.create({
    mode: 'setup',
    currency: 'usd',
    customer,
    metadata,
    success_url: 'https://example.com',
  })
  t.is((await client.checkout.sessions.retrieve(page.id)).status, 'open')
  stripe.saveCard('org_1', 'succeeds')
  const expand = ['setup_intent.payment_method']
  const saved = await client.checkout.sessions.retrieve(page.id, { expand })
  const { id: payment_method, card } = (saved.setup_intent as Stripe.SetupIntent).payment_method as Stripe.PaymentMethod
  t.like(card, { brand: 'visa', last4: '4242' })

  const base = { amount: 500, currency: 'usd', customer, payment_method, off_session: true, confirm: true } as const
  const paid = await client.paymentIntents.create({ ...base, metadata: { top_up: 'top_1' } }, { idempotencyKey: 'one' })
  t.like(paid, { status: 'succeeded', amount_received: 500 })
  const again = await client.paymentIntents.create(
    { ...base, metadata: { top_up: 'top_1' } },
    { idempotencyKey: 'one' },
  )
  t.is(again.id, paid.id)
  const other = client.paymentIntents.create({ ...base, amount: 501 }, { idempotencyKey: 'one' })
  await t.throwsAsync(other, { instanceOf: Stripe.errors.StripeIdempotencyError })
  t.is((await client.paymentIntents.list({ customer, created: { gte: 0 } })).data[0]!.id, paid.id)
  await t.throwsAsync(client.paymentIntents.cancel(paid.id), { code: 'payment_intent_unexpected_state' })

  const refused: [changed: object, code: string][] = [
    [{ amount: 49 }, 'amount_too_small'],
    [{ amount: 100_000_000 }, 'amount_too_large'],
    [{ payment_method: undefined }, 'parameter_missing'],
    [{ payment_method: 'pm_other' }, 'resource_missing'],
    [{ customer: 'cus_other' }, 'resource_missing'],
    [{ confirm: false }, 'parameter_missing'],
    [{ colour: 'red' }, 'parameter_unknown'],
  ]
  for (const [changed, code] of refused) {
    const attempt = client.paymentIntents.create({ ...base, ...changed } as Stripe.PaymentIntentCreateParams)
    await t.throwsAsync(attempt, { instanceOf: Stripe.errors.StripeInvalidRequestError, code })
  }
  const { id: declined } = stripe.cards.save(customer, 'declined')
  const error = await t.throwsAsync(client.paymentIntents.create({ ...base, payment_method: declined }), {
    instanceOf: Stripe.errors.StripeCardError,
  })
  t.is((error as Stripe.errors.StripeCardError).payment_intent?.status, 'requires_payment_method')
  await client.paymentMethods.detach(payment_method)
  await t.throwsAsync(client.paymentIntents.create(base), { code: 'resource_missing' })
  stripe.cards.customers.get(customer)!.deleted = true
  await t.throwsAsync(client.paymentIntents.create({ ...base, payment_method: declined }), { code: 'resource_missing' })
})
