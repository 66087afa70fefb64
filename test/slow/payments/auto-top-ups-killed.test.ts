// A worker that is killed while Stripe charges a card: the charge is credited once, by whoever comes after.

import { usdFromNano } from '../../../shared/base/money.ts'
import { StripeEmulator } from '../../emulators/stripe.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { eventually, type Process, startProcess } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { use, useGateway, useStores } from '../../support/use.ts'
import { paymentEnvironment, take } from '../../support/wallet/payments.ts'

const maxWaitMs = 60_000
let aheadMs = 0

const stores = useStores(test)
const stripe = use(test, () => StripeEmulator.start())
const gateway = useGateway(test, () => paymentEnvironment(stripe), {
  stores,
  clock: { now: () => Date.now() + aheadMs },
})

for (const [when, isCharged] of [
  ['after Stripe charged and before the answer', true],
  ['before Stripe charged', false],
] as const)
  test.serial(`kill -9 ${when}: one charge, credited once`, async t => {
    aheadMs = 0
    const { visitor, base, organisationId } = await signUp(gateway)
    await visitor.json(`${base}/billing/card`, { method: 'POST' })
    await take(t, gateway, [stripe.saveCard(organisationId, 'succeeds')])
    const body = { enabled: true, threshold_usd: 10, amount_usd: 50, monthly_limit_usd: 500 }
    await visitor.json(`${base}/billing/auto-top-up`, { method: 'PUT', body })
    const worker: Process = await startProcess('worker', stores, paymentEnvironment(stripe))
    const killed = new Promise<void>(resolve =>
      stripe.next(async (request, response) => {
        if (isCharged) stripe.reply(request)
        await worker.kill()
        response.destroy()
        resolve()
      }),
    )
    await killed
    const { db, topUps, wallets } = gateway.services
    const row = await db.topUp.findFirstOrThrow({ where: { organisationId } })
    t.like(row, { status: 'open', paymentId: null })
    t.is((await wallets.view(organisationId)).balanceNano, 0n)
    const { customerId } = await db.autoTopUp.findUniqueOrThrow({ where: { organisationId } })
    t.is(stripe.cards.chargesOf(customerId!).length, isCharged ? 1 : 0)

    aheadMs = 2 * 60_000
    await topUps.charges!.run()
    await eventually(
      async () => (await db.topUp.findUniqueOrThrow({ where: { id: row.id } })).status === 'paid',
      'it is paid',
      maxWaitMs,
    )
    t.is(stripe.cards.chargesOf(customerId!).length, 1)
    t.is(usdFromNano((await wallets.view(organisationId)).balanceNano), 50)
    t.deepEqual(await gateway.settled(), [])
  })
