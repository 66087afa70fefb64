import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { openDatabase } from '../../../shared/io/db.ts'
import { Load } from '../../prove/load.ts'
import { startProviders } from '../../prove/providers.ts'
import { seededRandom } from '../../prove/random.ts'
import { findBreaches, rest, summarise } from '../../prove/verdict.ts'
import { openWorld } from '../../prove/world.ts'
import { createAccount } from '../../support/gateway.ts'
import { type Pooler, startPgBouncer } from '../../support/io/pgbouncer.ts'
import { runOperator } from '../../support/operator.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'
import { Receiver } from '../../support/webhooks/receiver.ts'

const loadMs = 8_000
const restWithinMs = 60_000
let pooler: Pooler

const providers = use(test, () => startProviders(seededRandom(1)))
const receiver = use(test, () => Receiver.start())
const world = use(test, async () => {
  const env = {
    ...providers.env,
    ALLOW_PRIVATE_URLS: 'true',
    SIGNING_SECRET: 'a signing secret of the pooler run, long enough',
    JOB_HOLD_BACK_1H_SECONDS: '0',
  }
  const startPooler = async (url: string) => {
    await setTimeZone(url)
    pooler = await startPgBouncer(url)
    return pooler
  }
  return openWorld(env, { startPooler })
})
test.before(async () => {
  await world.allUp()
})

test.serial('chat, streams, embeddings, images, videos, delayed jobs, batches and webhooks work', async t => {
  t.timeout(180_000)
  const account = await createAccount(world.services, { usd: '5000' })
  const agents = await createAccount(world.services, { usd: '5000' })
  const load = new Load(world.webUrls, { key: account.live, agentKey: agents.live }, receiver.url, seededRandom(2))
  await sleep(loadMs)
  await load.stop()
  const { left } = await rest(world.services, restWithinMs)
  t.deepEqual(left, { jobs: 0, batches: 0, webhooks: 0, reservations: 0, usageEvents: 0, charges: 0 })
  t.log(summarise(load))
  for (const kind of ['chat', 'stream', 'embedding', 'image'])
    t.true(load.directs.filter(direct => direct.kind === kind && direct.outcome === 'whole').length > 0, kind)
  t.deepEqual([...new Set(load.submissions.map(({ kind }) => kind))].sort(), ['batch', 'job', 'video'])
  t.deepEqual(await findBreaches(world, { account, agents }, load, receiver, providers), [])
})

test.serial('the sessions of every client are in UTC, whatever the time zone of the server is', async t => {
  const clients = Array.from({ length: 6 }, () =>
    openDatabase(pooler.url, { connections: 2, statementTimeoutMs: 10_000, pooler: true }),
  )
  const zones = await Promise.all(
    clients.flatMap(db =>
      Array.from({ length: 20 }, () => db.$queryRaw<[{ zone: string }]>`SELECT current_setting('TimeZone') AS zone`),
    ),
  )
  t.deepEqual([...new Set(zones.map(([{ zone }]) => zone))], ['UTC'])
  await Promise.all(clients.map(db => db.$disconnect()))
})

test.serial('the operator’s commands work through the pooler; without DATABASE_POOLER the reason is named', async t => {
  const env = { DATABASE_URL: pooler.url, REDIS_URL: world.redis.url }
  const checked = await runOperator({ ...env, DATABASE_POOLER: 'true' }, 'ledger', 'check')
  t.deepEqual({ exitCode: checked.exitCode, stderr: checked.stderr }, { exitCode: 0, stderr: '' })
  const doctor = await runOperator(env, 'doctor')
  t.regex(doctor.stdout, /^failed +postgresql +.*DATABASE_POOLER/m)
})

/** The time zone of every session that does not set its own. */
async function setTimeZone(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query("ALTER ROLE CURRENT_USER SET timezone TO 'America/Los_Angeles'")
  await client.end()
}
