import { setTimeout as sleep } from 'node:timers/promises'
import { Emulator, json } from '../emulators/emulator.ts'
import { startKling } from '../emulators/kling.ts'
import { startRunway } from '../emulators/runway.ts'
import { ledgerCheck } from '../support/chaos.ts'
import { eventually, type Process, startGateway, startProcess } from '../support/gateway.ts'
import { freshDatabase, privateRedis } from '../support/stack.ts'
import { test } from '../support/test.ts'
import { use, useFolder } from '../support/use.ts'

/** `CHAOS_JOBS=2000 node test/run.ts test/slow/chaos-media.test.ts` for a long run. */
const count = Number(process.env.CHAOS_JOBS ?? 500)
const submittedAtOnce = 20
/** A worker is killed after about so many requests to the providers: any part of any job may be under way. */
const requestsPerKill = 100
const minKills = 5

const storage = useFolder(test)
const database = use(test, freshDatabase)
const redis = use(test, privateRedis)
const runway = use(test, () => startRunway({ autoFinish: 1 }))
const kling = use(test, () => startKling({ autoFinish: 1, accounts: { access: 'secret' } }))
const receiver = use(test, () => Emulator.start(json(200, {})))
const workers: Process[] = []

const env = use(test, () => ({
  RUNWAY_API_KEY: 'key_1',
  RUNWAY_BASE_URL: `${runway.url}/v1`,
  KLING_API_KEY: 'access:secret',
  KLING_BASE_URL: `${kling.url}/v1`,
  ALLOW_PRIVATE_URLS: 'true',
  STORAGE_URL: `file:${storage}`,
  // A start whose worker died is taken up when no answer can come any more.
  UPSTREAM_CONNECT_TIMEOUT_MS: '1000',
  UPSTREAM_FIRST_BYTE_TIMEOUT_MS: '5000',
  UPSTREAM_IDLE_TIMEOUT_MS: '2000',
}))
const gateway = use(test, () => startGateway(stores(), env))
test.before(() => {
  // As many as have to be emulated: their bodies are not looked at.
  for (const { emulator } of [runway, kling, { emulator: receiver }]) emulator.requests.length = 0
})
test.after.always(async () => {
  await Promise.all(workers.map(({ kill }) => kill()))
})

const stores = () => ({ databaseUrl: database.url, redisUrl: redis.url, drop: async () => {} })

const requests = () => runway.emulator.requests.length + kling.emulator.requests.length

/** Keeps two workers alive, killing one after the other at random moments, until stopped. */
function killer(): { kills: () => number; stop(): Promise<void> } {
  let stopped = false
  let kills = 0
  const live = async () => {
    const pair = await Promise.all([startProcess('worker', stores(), env), startProcess('worker', stores(), env)])
    workers.push(...pair)
    for (let turn = 0; !stopped; turn++) {
      const goal = requests() + requestsPerKill * (0.5 + Math.random())
      while (!stopped && requests() < goal) await sleep(20)
      if (stopped) break
      await pair[turn % 2]!.kill()
      kills++
      // It may start while Redis is away: a supervisor starts it again.
      for (let started = false; !started; ) {
        try {
          pair[turn % 2] = await startProcess('worker', stores(), env)
          workers.push(pair[turn % 2]!)
          started = true
        } catch {
          await sleep(500)
        }
      }
    }
  }
  const running = live()
  return {
    kills: () => kills,
    async stop() {
      stopped = true
      await running
    },
  }
}

/** One job, submitted until it is taken, as a client that knows its Idempotency-Key does. */
async function submit(key: string, index: number): Promise<string> {
  const model = index % 2 === 0 ? 'runway-gen4.5' : 'kling-v3-standard'
  const body = { model, prompt: `job ${index}`, seconds: 5, webhook_url: `${receiver.url}/hook/${index}` }
  for (let tries = 0; tries < 200; tries++) {
    const headers = { 'idempotency-key': `job-${index}` }
    const response = await gateway.fetch('/v1/videos', { key, body, headers })
    const answer = (await response.json()) as { id: string }
    if (response.status === 202) return answer.id
    await sleep(200)
  }
  throw new Error(`job ${index} was never taken`)
}

test.serial('every job ends once, whatever is killed', async t => {
  t.timeout(400_000)
  const account = await gateway.account({ usd: '5000' })
  const chaos = killer()
  t.teardown(() => chaos.stop())
  const ids: string[] = []
  const indexes = Array.from({ length: count }, (_, i) => i)[Symbol.iterator]()
  await Promise.all(
    Array.from({ length: submittedAtOnce }, async () => {
      for (const index of indexes) ids[index] = await submit(account.live, index)
    }),
  )
  t.is(new Set(ids).size, count)
  await redis.kill()
  await sleep(1_000)
  await redis.restart()
  const { db } = gateway.services
  const open = () => db.job.count({ where: { stage: { not: 'over' } } })
  await eventually(async () => (await open()) < count / 4, 'most jobs are over', 180_000)
  await eventually(() => chaos.kills() >= minKills, 'enough workers were killed', 60_000)
  await chaos.stop()
  await eventually(async () => (await open()) === 0, 'every job is over', 180_000)
  await eventually(
    async () => (await db.webhookDelivery.count({ where: { status: 'pending' } })) === 0,
    'every webhook is delivered',
    120_000,
  )

  const byStatus = await db.job.groupBy({ by: ['status'], _count: true })
  t.log(`${chaos.kills()} kills; ${byStatus.map(row => `${row._count} ${row.status}`).join(', ')}`)
  const completed = byStatus.find(({ status }) => status === 'completed')?._count ?? 0
  t.true(completed > count * 0.9, 'only starts that were cut off may fail')

  const starts = new Map<string, number>()
  for (const { method, body } of runway.emulator.requests)
    if (method === 'POST') starts.set(body.promptText, (starts.get(body.promptText) ?? 0) + 1)
  t.deepEqual(
    [...starts].filter(([, times]) => times > 1),
    [],
  )
  const works = [...kling.works.values()].map(({ body }) => body.external_task_id)
  t.is(new Set(works).size, works.length)

  const delivered = new Map<string, Set<string>>()
  for (const { path, headers } of receiver.requests) {
    const seen = delivered.get(path) ?? new Set()
    delivered.set(path, seen.add(String(headers['webhook-id'])))
  }
  t.is(delivered.size, count)
  t.deepEqual(
    [...delivered].filter(([, ids]) => ids.size !== 1),
    [],
  )

  t.deepEqual(await gateway.settled(), [])
  const { exitCode, report } = await ledgerCheck(stores())
  t.is(exitCode, 0, JSON.stringify(report))
})
