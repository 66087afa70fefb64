import { setTimeout as sleep } from 'node:timers/promises'
import { migrate } from '../../../dev/migrate.ts'
import { billingFaults, count, Load, ledgerCheck, observe, quiet, startSlowUpstream } from '../../support/chaos.ts'
import { createAccount, eventually, startProcess } from '../../support/gateway.ts'
import { startSentinels } from '../../support/io/sentinel.ts'
import { runOperator } from '../../support/operator.ts'
import { privatePostgres } from '../../support/stack.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'
import { moneyEnvironment } from '../../support/wallet/money.ts'

/** Replication is asynchronous: what the primary acknowledged last may be lost with it. */
const unreplicatedMs = 1_000
const failoverWithinMs = 60_000
/** Long enough for clients to be refused, with the primary gone and none in its place. */
const awayMs = 500

const stores = () => ({ databaseUrl: postgres.url, redisUrl: redis.url })

const postgres = use(test, privatePostgres)
const redis = use(test, startSentinels)
const upstream = use(test, () => startSlowUpstream(10, 5))
test.before(async () => {
  await migrate(postgres.url)
})
const env = use(test, async () => ({
  ...(await moneyEnvironment(upstream.url)),
  REDIS_SENTINEL_PASSWORD: redis.sentinelPassword,
}))
const services = use(test, () => observe(stores(), env))

test.serial(
  '503 during a failover of the sentinels under load, none free, and the ledger is right afterwards',
  async t => {
    t.timeout(240_000)
    const processes = await Promise.all([
      startProcess('web', stores(), env),
      startProcess('web', stores(), env),
      startProcess('worker', stores(), env),
    ])
    t.teardown(() => Promise.all(processes.map(process => process.kill())))
    const [first, second, worker] = processes
    const account = await createAccount(services)
    const load = new Load(() => [first!.url, second!.url], account.live, 16)
    await load.more(200)

    const before = await redis.primaryPort()
    await redis.killPrimary()
    const killedMs = Date.now()
    await sleep(awayMs)
    const refused = () => load.shots.filter(({ status }) => status === 503)
    await eventually(() => refused().length > 0, 'requests are refused')
    t.true(refused().every(({ code, retryAfter }) => code === 'service_unavailable' && Number(retryAfter) >= 1))
    await eventually(async () => (await redis.primaryPort()) !== before, 'the replica took over', failoverWithinMs)
    await load.more(200)
    await load.stop()
    t.log(count(load.shots))
    t.deepEqual(
      load.shots.filter(({ status }) => ![0, 200, 503].includes(status)),
      [],
    )
    t.is(worker!.child.exitCode, null)

    // Ends with their processes: reservations whose release was lost with the primary.
    await Promise.all([first!.kill('SIGTERM'), second!.kill('SIGTERM')])
    await quiet(services, failoverWithinMs)
    const isExcused = ({ endedMs }: { endedMs: number }) => Math.abs(endedMs - killedMs) < unreplicatedMs
    t.deepEqual(await billingFaults(services, { ...account, shots: load.shots }, isExcused), [])
    const { exitCode, report } = await ledgerCheck(stores(), env)
    t.is(exitCode, 0, JSON.stringify(report))
  },
)

test.serial('doctor works through sentinels, and names the password that they refuse', async t => {
  const urls = { DATABASE_URL: postgres.url, REDIS_URL: redis.url }
  const found = await runOperator({ ...urls, REDIS_SENTINEL_PASSWORD: redis.sentinelPassword }, 'doctor')
  t.regex(found.stdout, /^ok +redis +version/m)
  const refused = await runOperator({ ...urls, REDIS_SENTINEL_PASSWORD: 'hunter2' }, 'doctor')
  t.regex(refused.stdout, /^failed +redis +.*REDIS_SENTINEL_PASSWORD/m)
  t.false(refused.stdout.includes('hunter2'))
})
