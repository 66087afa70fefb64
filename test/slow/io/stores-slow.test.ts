import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { openDatabase } from '../../../shared/io/db.ts'
import { openRequestRedis, waitUntilReady } from '../../../shared/io/redis.ts'
import { openQueues } from '../../../shared/queues/queues.ts'
import {
  type Account,
  eventually,
  type Gateway,
  type Process,
  startGateway,
  startProcess,
} from '../../support/gateway.ts'
import { startProxy, type TcpProxy } from '../../support/io/proxy.ts'
import { frozenRedis } from '../../support/io/store-faults.ts'
import { privateRedis } from '../../support/stack.ts'
import { test } from '../../support/test.ts'
import { useStores } from '../../support/use.ts'
import { startWorkers, type Workers } from '../../support/workers.ts'

const proxies: TcpProxy[] = []
const processes: Process[] = []
const proxied = async (...args: Parameters<typeof startProxy>) => {
  const proxy = await startProxy(...args)
  proxies.push(proxy)
  return proxy
}

const stores = useStores(test)
test.after.always(async () => {
  await Promise.all(processes.map(process => process.kill()))
  await Promise.all(proxies.map(proxy => proxy.close()))
})

test('queued: by a process that opened its queues while Redis was frozen', async t => {
  const server = await privateRedis()
  t.teardown(server.stop)
  const timeoutMs = 2_000
  const redis = openRequestRedis({ redisUrl: server.url, redisTlsVerify: true }, timeoutMs)
  redis.on('error', () => {})
  await waitUntilReady(redis, 10_000)
  const trouble = frozenRedis(server.url)
  await trouble.begin()
  const queues = openQueues(redis)
  t.teardown(async () => {
    await Promise.all(Object.values(queues).map(queue => queue.close()))
    redis.disconnect()
  })
  for (const queue of Object.values(queues)) queue.on('error', () => {})
  await t.throwsAsync(redis.ping(), { message: 'Command timed out' })
  await sleep(timeoutMs)
  await trouble.end()
  await eventually(async () => (await redis.ping().catch(() => '')) === 'PONG', 'Redis answers again')
  const added = await queues.webhooks.addBulk([{ name: 'deliver', data: {}, opts: { jobId: 'a' } }])
  t.is(added.length, 1)
})

for (const what of ['web', 'worker'] as const)
  test(`started: a ${what} whose first heartbeat Redis leaves unanswered for longer than a command may take`, async t => {
    t.timeout(60_000)
    let held: Promise<void> | undefined
    // Its heartbeat is the first thing that names the host.
    const hold = async (part: Buffer) => {
      if (part.includes(hostname())) held ??= sleep(2_500)
      await held
    }
    const { url } = await proxied(stores.redisUrl, { fromClient: hold })
    processes.push(await startProcess(what, { databaseUrl: stores.databaseUrl, redisUrl: url }))
    t.truthy(held)
  })

/** PostgreSQL's last message before it closes a connection. */
function fatal(): Buffer {
  const fields = Buffer.from('SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0')
  const head = Buffer.from('E\0\0\0\0')
  head.writeInt32BE(fields.length + 4, 1)
  return Buffer.concat([head, fields])
}

test('survived: PostgreSQL ends a connection in the moment in which it changes hands', async t => {
  let armed = false
  const readyForQuery = Buffer.from('Z\0\0\0\u0005I')
  const append = (part: Buffer) => {
    if (!armed || !part.subarray(-readyForQuery.length).equals(readyForQuery)) return part
    armed = false
    return Buffer.concat([part, fatal()])
  }
  const asked = Promise.withResolvers<void>()
  const fromClient = (part: Buffer) => {
    if (part.includes('pg_sleep')) asked.resolve()
  }
  const { url } = await proxied(stores.databaseUrl, { fromClient, fromServer: append })
  const db = openDatabase(url, { connections: 1, statementTimeoutMs: 5_000 })
  t.teardown(() => db.$disconnect())
  await db.$queryRaw`SELECT 1`
  armed = true
  const first = db.$queryRaw`SELECT 2 FROM pg_sleep(0.5)`.then(() => 'answered')
  await asked.promise
  // Waits for the only connection, which breaks in the moment in which it gets it.
  await t.throwsAsync(db.$transaction(tx => tx.$queryRaw`SELECT 3`))
  t.is(await first, 'answered')
  t.false(armed)
  await db.$queryRaw`SELECT 4`
})

test.serial('replaced: connections to both stores that fell silent, those of the workers too', async t => {
  t.timeout(90_000)
  const [postgres, redis] = await Promise.all([proxied(stores.databaseUrl), proxied(stores.redisUrl)])
  const own = { databaseUrl: postgres.url, redisUrl: redis.url, drop: async () => {} }
  const gateway: Gateway = await startGateway(own)
  t.teardown(() => gateway.close())
  const workers: Workers = startWorkers(gateway.services)
  t.teardown(() => workers.stop())
  const account: Account = await gateway.account()
  const messages = [{ role: 'user', content: 'Hello' }]
  const job = { body: { model: 'gpt-5.6-luna', messages }, completion_window: '1h' }
  const submit = () => gateway.fetch('/v1/jobs', { key: account.test, body: job })
  const done = async (id: string) =>
    ((await (await gateway.fetch(`/v1/jobs/${id}`, { key: account.test })).json()) as { status: string }).status ===
    'completed'
  const { id } = (await (await submit()).json()) as { id: string }
  await eventually(() => done(id), 'the job is done')

  redis.mute()
  postgres.mute()
  let accepted: string | undefined
  await eventually(
    async () => {
      const response = await submit()
      t.true(response.status === 202 || response.status === 503, String(response.status))
      if (response.status === 202) accepted = ((await response.json()) as { id: string }).id
      return accepted !== undefined
    },
    'jobs are taken again',
    20_000,
  )
  await eventually(() => done(accepted!), 'a worker has taken the job', 25_000)
  t.is((await gateway.fetch('/readyz')).status, 200)
})
