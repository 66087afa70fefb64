// The backlog of usage events is booked although Redis has no room, or the locks of another worker are in the way.

import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import pg from 'pg'
import { migrate } from '../../../../dev/migrate.ts'
import { monthOf } from '../../../../shared/base/time.ts'
import type { Services } from '../../../../shared/open-services.ts'
import { lostSettlement } from '../../../../shared/wallet/admission.ts'
import { countEvents } from '../../../../shared/wallet/ledger.ts'
import { breaches, observe } from '../../../support/chaos.ts'
import { createAccount, eventually, startProcess } from '../../../support/gateway.ts'
import { sql } from '../../../support/io/store-faults.ts'
import { privatePostgres, privateRedis } from '../../../support/stack.ts'
import { type ExecutionContext, test } from '../../../support/test.ts'
import { use } from '../../../support/use.ts'
import { usageEventOf } from '../../../support/wallet/usage-event.ts'

const postgres = use(test, privatePostgres)
const redis = use(test, privateRedis)
test.before(() => migrate(postgres.url))
const services = use(test, () => observe({ databaseUrl: postgres.url, redisUrl: redis.url }))

const perCall = 500
/** What Redis is above its limit by; the backlog takes some times as much. */
const excessBytes = 2_000_000
/** Longer than PostgreSQL keeps an idle transaction, and than a worker waits for the entries of another one. */
const bookedWithinMs = 60_000

/** A key that has spent nothing. Its requests are settled at once, whether a worker books them or not. */
async function openAccount({ db, wallets, scripts }: Services) {
  const { organisationId } = await createAccount(services)
  const { id: keyId } = await db.apiKey.findFirstOrThrow({ where: { organisationId, environment: 'live' } })
  const at = Date.now()
  await wallets.install(organisationId, keyId, monthOf(at))
  return {
    async settle(requests: number): Promise<void> {
      for (let left = requests; left > 0; left -= perCall) {
        const settlements = Array.from({ length: Math.min(left, perCall) }, () => {
          const own = { id: `chatcmpl-${randomUUID()}`, at, org: organisationId, key: keyId, requestId: randomUUID() }
          const event = usageEventOf({ ...own, month: monthOf(at) })
          return { ...lostSettlement(event), reservedNano: 0, event: JSON.stringify(event) }
        })
        await scripts.settle({ instance: 'a-web-process', settlements })
      }
    },
  }
}

async function startWorker(t: ExecutionContext) {
  const worker = await startProcess('worker', { databaseUrl: postgres.url, redisUrl: redis.url })
  t.teardown(() => worker.kill())
  return worker
}

async function booked(t: ExecutionContext): Promise<void> {
  const isBooked = async () => (await countEvents(services.redis)).waiting === 0
  await eventually(isBooked, 'everything is booked', bookedWithinMs)
  t.deepEqual(await breaches(services), [])
}

test.serial('booked by a worker that starts while Redis is full of usage events, which makes room', async t => {
  t.timeout(120_000)
  const account = await openAccount(services)
  await account.settle(20 * perCall)
  const operator = new Redis(redis.url)
  t.teardown(() => operator.disconnect())
  const used = Number(/used_memory:(\d+)/.exec(await operator.info('memory'))![1])
  await operator.config('SET', 'maxmemory', used - excessBytes)
  await t.throwsAsync(operator.set('refused', 'OOM'), { message: /^OOM/ })
  // What was delivered without a reservation is charged as well.
  await account.settle(1)
  await startWorker(t)
  await booked(t)
  await operator.config('SET', 'maxmemory', 0)
})

test.serial('booked although a worker vanished in the middle of a booking, whose locks its session keeps', async t => {
  t.timeout(180_000)
  const isBooking = (state: string) => async () => {
    const condition = `state = '${state}' AND query LIKE '%WITH event AS%' AND pid <> pg_backend_pid()`
    return (await sql(postgres.url, `SELECT 1 FROM pg_stat_activity WHERE ${condition}`)).length > 0
  }
  const account = await openAccount(services)
  await account.settle(10)
  const operator = new pg.Client({ connectionString: postgres.url })
  await operator.connect()
  t.teardown(() => operator.end())
  await operator.query('BEGIN; LOCK TABLE ledger_entries IN EXCLUSIVE MODE')
  const vanishing = await startWorker(t)
  await eventually(isBooking('active'), 'the worker waits in its transaction, with the wallet locked')
  vanishing.child.kill('SIGSTOP')
  await operator.query('COMMIT')
  await eventually(isBooking('idle in transaction'), 'its transaction is idle')
  await startWorker(t)
  await booked(t)
  vanishing.child.kill('SIGCONT')
  await account.settle(10)
  await booked(t)
})
