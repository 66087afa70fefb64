import { loadConfig } from '../../../shared/base/config.ts'
import { createLog } from '../../../shared/io/log.ts'
import { shardsOf } from '../../../shared/io/redis-shards.ts'
import { openServices } from '../../../shared/open-services.ts'
import { billingFaults, count, Load, ledgerCheck, quiet, startSlowUpstream } from '../../support/chaos.ts'
import { openEverything, runEverything } from '../../support/deploy/everything.ts'
import { type Account, createAccount, startProcess } from '../../support/gateway.ts'
import { type ClusterSetup, threeNodeCluster } from '../../support/io/cluster.ts'
import { runOperator } from '../../support/operator.ts'
import { byMinute, chargesOf, nothingLeft, stretchNano, talk } from '../../support/realtime/sessions.ts'
import { withRedis } from '../../support/stack.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'
import { moneyEnvironment } from '../../support/wallet/money.ts'

const prefix = 'gate:'
/** Created at a time, and at most. */
const organisations = 12
const maxOrganisations = 60
/** Replication is asynchronous: what a primary acknowledged last may be lost with it. */
const unreplicatedMs = 1_000
const restWithinMs = 60_000

let cluster: ClusterSetup
const accounts: Account[] = []

const everything = use(test, async () =>
  openEverything({ REDIS_KEY_PREFIX: prefix }, async () => {
    cluster = await threeNodeCluster()
    return cluster
  }),
)

test.serial('chat, streams, embeddings, images, videos, delayed jobs, batches and webhooks work', async t => {
  t.timeout(240_000)
  await runEverything(t, everything)
})

test.serial('a realtime session is charged and releases its slot', async t => {
  const { world, sessions } = everything
  const account = await createAccount(world.services)
  const session = await talk({ gateway: { url: world.webUrls[0]! }, provider: sessions }, account.live, byMinute)
  await session.leave()
  const charges = await chargesOf(world.services, session, 1)
  t.true(charges[0]!.nano > 0 && charges[0]!.nano <= stretchNano[byMinute])
  await nothingLeft(world.services, account)
})

test.serial('doctor sees all shards; another number of them is refused', async t => {
  const { world } = everything
  const env = { DATABASE_URL: world.postgres.url, REDIS_URL: world.redis.url, REDIS_KEY_PREFIX: prefix }
  const found = await runOperator(env, 'doctor')
  t.regex(found.stdout, /^ok +redis +version .* 16 shards on 3 primaries$/m)
  t.regex(found.stdout, /^ok +workers +2 running, 0 usage events/m)
  const other = loadConfig({ ...env, REDIS_SHARDS: '8' })
  await t.throwsAsync(openServices(other, createLog('silent')), { message: /REDIS_SHARDS: is 8, .* into 16 shards/ })
})

test.serial('an organisation’s keys are in one slot, and organisations are spread over the nodes', async t => {
  const { services } = everything.world
  let keys: string[][] = []
  const isSpread = () => keys.length > 0 && keys.every(own => own.filter(key => key.includes('wallet:')).length >= 2)
  // Where an organisation is depends on its id, which is random.
  while (!isSpread() && accounts.length < maxOrganisations) {
    accounts.push(...(await Promise.all(Array.from({ length: organisations }, () => createAccount(services)))))
    keys = await Promise.all(cluster.primaries.map(({ url }) => withRedis(url, redis => redis.keys('*'))))
  }
  t.true(isSpread())
  const owners = await services.db.apiKey.findMany()
  const tagsOf = (part: string) =>
    new Set(keys.flat().flatMap(key => (key.includes(part) ? /\{[^}]+\}/.exec(key)![0] : [])))
  for (const { id, hash, organisationId } of owners) {
    const { tag } = shardsOf(services.redis).of(organisationId)
    const found = [`wallet:${organisationId}`, `spend:${id}:`, `window:${id}:`, hash].flatMap(part => [...tagsOf(part)])
    t.deepEqual([...new Set(found)], [tag.slice(0, -1)], organisationId)
  }
  t.deepEqual(
    keys.flat().filter(key => !key.startsWith(prefix)),
    [],
  )
})

test.serial(
  '503 for the organisations of a primary that fails, none free, and the ledger is right afterwards',
  async t => {
    t.timeout(300_000)
    const { services, webs, postgres, redis } = everything.world
    const upstream = await startSlowUpstream(10, 5)
    t.teardown(() => upstream.close())
    const stores = { databaseUrl: postgres.url, redisUrl: redis.url }
    const env = { ...(await moneyEnvironment(upstream.url)), REDIS_KEY_PREFIX: prefix }
    const web = await startProcess('web', stores, env)
    t.teardown(() => web.kill())
    const loads = accounts.map(({ live }) => new Load(() => [web.url], live, 2))
    await Promise.all(loads.map(load => load.more(6)))

    await cluster.kill()
    const killedMs = Date.now()
    await cluster.failedOver()
    await Promise.all(loads.map(load => load.more(6)))
    await Promise.all(loads.map(load => load.stop()))
    const shots = loads.flatMap(load => load.shots)
    t.log(count(shots))
    t.deepEqual(
      shots.filter(({ status }) => ![200, 503].includes(status)),
      [],
    )
    const refused = loads.filter(load => load.shots.some(({ status }) => status === 503))
    t.true(refused.length > 0)

    // With their processes end reservations whose release was lost. They settle what they answered last.
    await Promise.all([web, ...webs].map(process => process.kill('SIGTERM')))
    await quiet(services, restWithinMs)
    const isExcused = ({ endedMs }: { endedMs: number }) => Math.abs(endedMs - killedMs) < unreplicatedMs
    for (const [index, account] of accounts.entries())
      t.deepEqual(await billingFaults(services, { ...account, shots: loads[index]!.shots }, isExcused), [])
    const { exitCode, report } = await ledgerCheck(stores, env)
    t.is(exitCode, 0, JSON.stringify(report))
  },
)
