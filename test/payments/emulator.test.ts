import Stripe from 'stripe'
import { StripeEmulator, secretKey } from '../emulators/stripe.ts'
import { test } from '../support/test.ts'

test('the emulator is what the official library takes for Stripe', async t => {
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
