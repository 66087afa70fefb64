import type { Emulator } from '../../emulators/emulator.ts'
import { startOpenAiEmulator } from '../../emulators/openai.ts'
import { billingFaults, breaches, quiet, type Shot, shoot } from '../../support/chaos.ts'
import {
  freshStores,
  type Gateway,
  type Process,
  type Stores,
  startGateway,
  startProcess,
} from '../../support/gateway.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { moneyEnvironment } from '../../support/wallet/money.ts'

let stores: Stores
let upstream: Emulator
let gateway: Gateway
let webs: Process[]

test.before(async () => {
  stores = await freshStores()
  upstream = await startOpenAiEmulator()
  const env = await moneyEnvironment(upstream.url)
  gateway = await startGateway(stores, env)
  webs = await Promise.all([1, 2].map(() => startProcess('web', stores, { ...env, LOG_LEVEL: 'warn' })))
})
test.after.always(async () => {
  await Promise.all(webs?.map(web => web.kill()) ?? [])
  await gateway?.close()
  await upstream?.close()
  await stores?.drop()
})

/** 500 requests at once on a key whose cap pays for 100 answers; then one after the other until the cap is reached. */
async function storm(t: ExecutionContext, urls: string[]): Promise<void> {
  const { services } = gateway
  const probe = await gateway.account()
  const price = (await shoot(gateway.url, probe.live, false)).costNano
  t.true(price > 0)
  const capNano = 100 * price
  const { live, organisationId } = await gateway.account({ monthly_spend_cap_usd: capNano / 1e9 })
  const shots: Shot[] = await Promise.all(
    Array.from({ length: 500 }, (_, i) => shoot(urls[i % urls.length]!, live, i % 2 === 0)),
  )
  const isNextPaid = async () => {
    // Each process settles shortly after its answers, and its reservations count against the cap until then.
    await quiet(services)
    const shot = await shoot(urls[0]!, live, false)
    shots.push(shot)
    return shot.status === 200
  }
  for (let i = 0; i < 200 && (await isNextPaid()); i++);
  await quiet(services)

  t.deepEqual([...new Set(shots.map(({ status }) => status))].sort(), [200, 402])
  const answered = shots.filter(({ status }) => status === 200)
  t.true(answered.every(({ whole }) => whole))
  t.true(shots.every(({ status, code }) => status === 200 || code === 'monthly_spend_cap_reached'))
  t.deepEqual(await billingFaults(services, { organisationId, shots }), [])
  const costs = answered.reduce((sum, { costNano }) => sum + costNano, 0)
  const { keyId, spentNano } = await services.db.keySpend.findFirstOrThrow({
    where: { key: { organisationId }, spentNano: { gt: 0 } },
  })
  t.is(Number(spentNano), costs)
  t.true(costs <= capNano, `${costs} spent of ${capNano}`)
  t.true(costs > capNano * 0.9, `only ${costs} spent of ${capNano}`)
  const view = await services.wallets.view(organisationId)
  t.is(Number(view.balanceNano), 25e9 - costs)
  t.is(view.reservedNano, 0n)
  t.is((await services.wallets.monthSpend([{ id: keyId, organisationId }])).get(keyId), spentNano)
  t.deepEqual(await breaches(services), [])
}

test.serial('402 or 200 for 500 concurrent requests on a cap that fits 100, in one process', async t => {
  await storm(t, [gateway.url])
})

test.serial('402 or 200 for 500 concurrent requests on a cap that fits 100, over two web processes', async t => {
  await storm(
    t,
    webs.map(web => web.url),
  )
})

test.serial('200 for exactly the requests that a wallet can pay, the others 402', async t => {
  const { services } = gateway
  const { live, organisationId } = await gateway.account({ usd: '0.01' })
  const shots = await Promise.all(Array.from({ length: 200 }, (_, i) => shoot(webs[i % 2]!.url, live, i % 2 === 0)))
  await quiet(services)
  t.deepEqual([...new Set(shots.map(({ status }) => status))].sort(), [200, 402])
  t.true(shots.every(({ status, code }) => status === 200 || code === 'insufficient_credits'))
  t.deepEqual(await billingFaults(services, { organisationId, shots }), [])
  t.true((await services.wallets.view(organisationId)).availableNano >= 0n)
  t.deepEqual(await breaches(services), [])
})
