// Redis has reached its memory limit by the backlog of usage events: only a worker that books them makes room.

import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { migrate } from '../../../../dev/migrate.ts'
import { monthOf } from '../../../../shared/base/time.ts'
import type { Services } from '../../../../shared/open-services.ts'
import { lostSettlement } from '../../../../shared/wallet/admission.ts'
import { countEvents } from '../../../../shared/wallet/ledger.ts'
import { breaches, observe } from '../../../support/chaos.ts'
import { createAccount, eventually, startProcess } from '../../../support/gateway.ts'
import { privatePostgres, privateRedis } from '../../../support/stack.ts'
import { test } from '../../../support/test.ts'
import { use } from '../../../support/use.ts'
import { usageEventOf } from '../../../support/wallet/usage-event.ts'

const postgres = use(test, privatePostgres)
const redis = use(test, privateRedis)
test.before(() => migrate(postgres.url))

const calls = 20
const perCall = 500
/** What Redis is above its limit by; the backlog takes some times as much. */
const excessBytes = 2_000_000
const bookedWithinMs = 60_000

/** Settles requests that no worker books. */
async function fall(services: Services): Promise<void> {
  const { organisationId } = await createAccount(services)
  const { id: keyId } = await services.db.apiKey.findFirstOrThrow({ where: { organisationId, environment: 'live' } })
  const at = Date.now()
  await services.wallets.install(organisationId, keyId, monthOf(at))
  for (let call = 0; call < calls; call++) {
    const settlements = Array.from({ length: perCall }, () => {
      const own = { id: `chatcmpl-${randomUUID()}`, at, org: organisationId, key: keyId, requestId: randomUUID() }
      const event = usageEventOf({ ...own, month: monthOf(at) })
      return { ...lostSettlement(event), reservedNano: 0, event: JSON.stringify(event) }
    })
    await services.scripts.settle({ instance: 'a-web-process', settlements })
  }
}

test.serial('booked by a worker that starts while Redis is full of usage events, which makes room', async t => {
  t.timeout(120_000)
  const stores = { databaseUrl: postgres.url, redisUrl: redis.url }
  const services = await observe(stores)
  t.teardown(() => services.close())
  await fall(services)
  t.is((await countEvents(services.redis)).waiting, calls * perCall)
  const operator = new Redis(redis.url)
  t.teardown(() => operator.disconnect())
  const used = Number(/used_memory:(\d+)/.exec(await operator.info('memory'))![1])
  await operator.config('SET', 'maxmemory', used - excessBytes)
  await t.throwsAsync(operator.set('refused', 'OOM'), { message: /^OOM/ })
  const worker = await startProcess('worker', stores)
  t.teardown(() => worker.kill())
  await eventually(
    async () => (await countEvents(services.redis)).waiting === 0,
    'everything is booked',
    bookedWithinMs,
  )
  t.deepEqual(await breaches(services), [])
})
