import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'bullmq'
import { openWorkerRedis } from '../../../shared/io/redis.ts'
import { Emulator, type Recorded, type Reply } from '../../emulators/emulator.ts'
import { reply as chatAnswer } from '../../emulators/openai.ts'
import { startRunway } from '../../emulators/runway.ts'
import {
  chatLine,
  createBatch,
  ended,
  jsonLines,
  lineFaults,
  resultsOf,
  uploadInput,
} from '../../support/batches/gateway.ts'
import { delayed, delayedEnvironment } from '../../support/delayed/jobs.ts'
import { eventually, type Gateway, type Process, startGateway, startProcess } from '../../support/gateway.ts'
import { startSentinels } from '../../support/io/sentinel.ts'
import { answerOf, submit } from '../../support/jobs/gateway.ts'
import { freshDatabase, type PrivateServer, privateRedis } from '../../support/stack.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { Receiver } from '../../support/webhooks/receiver.ts'

/** Work of every kind is under way when the queue loses what it knows of it: all of it ends once, asked for once. */

const workQueues = ['async', 'batches', 'media', 'webhooks'] as const
const lines = Array.from({ length: 4 }, (_, i) => chatLine(`line-${i}`, 'coin', `held line ${i}`, { max_tokens: 50 }))

/** What was asked of providers and receivers, each with how often; answers to what is held come after `release`. */
class Outside {
  readonly asked = new Map<string, number>()
  readonly #open = Promise.withResolvers<void>()
  readonly chat: Emulator
  readonly video: Emulator
  readonly receiver: Receiver
  readonly #runway: Awaited<ReturnType<typeof startRunway>>

  private constructor(
    receiver: Receiver,
    runway: Awaited<ReturnType<typeof startRunway>>,
    chat: Emulator,
    video: Emulator,
  ) {
    this.receiver = receiver
    this.#runway = runway
    this.chat = chat
    this.video = video
  }

  static async start(): Promise<Outside> {
    const [receiver, runway] = await Promise.all([Receiver.start(), startRunway({ autoFinish: 1 })])
    const replies = { chat: null as Reply | null, video: null as Reply | null }
    const [chat, video] = await Promise.all([
      Emulator.start((request, response) => replies.chat!(request, response)),
      Emulator.start((request, response) => replies.video!(request, response)),
    ])
    const outside = new Outside(receiver, runway, chat, video)
    replies.chat = async (request, response) => {
      const { content } = request.body.messages[0]
      await outside.#ask(content, content.startsWith('held'))
      await chatAnswer(request, response)
    }
    replies.video = (request, response) => outside.#relay(request, response).catch(() => void response.destroy())
    receiver.always = async (request, response) => {
      // Of each event the first attempt only: after a second failure the third comes five minutes later.
      if (receiver.count(String(request.headers['webhook-id'])) === 1) await outside.#open.promise
      response.writeHead(200).end()
    }
    return outside
  }

  release(): void {
    this.#open.resolve()
  }

  close() {
    this.release()
    return Promise.all([this.receiver.close(), this.#runway.close(), this.chat.close(), this.video.close()])
  }

  async #ask(what: string, isHeld: boolean): Promise<void> {
    this.asked.set(what, (this.asked.get(what) ?? 0) + 1)
    if (isHeld) await this.#open.promise
  }

  /** Passes a request on to the provider of videos. Starts and files are counted, held ones wait. */
  async #relay({ method, path, headers, raw, body }: Recorded, response: Parameters<Reply>[1]): Promise<void> {
    if (method === 'POST') await this.#ask(body.promptText, body.promptText === 'a held start')
    if (path.startsWith('/files/')) await this.#ask(path, true)
    const { authorization = '', 'x-runway-version': version } = headers
    const answer = await fetch(this.#runway.url + path, {
      method,
      headers: { authorization, 'content-type': 'application/json', 'x-runway-version': String(version) },
      ...(raw.length > 0 && { body: new Uint8Array(raw) }),
    })
    const type = answer.headers.get('content-type') ?? 'application/json'
    const bytes = Buffer.from(await answer.arrayBuffer())
    const own = type.includes('json') ? bytes.toString().replaceAll(this.#runway.url, this.video.url) : bytes
    response.writeHead(answer.status, { 'content-type': type }).end(own)
  }
}

type World = { gateway: Gateway; workers: Process[]; redis: Gateway['services']['redis']; outside: Outside }
type Ids = { batch: string; held: string; quick: string; started: string; finished: string }
type Loss = (world: World, ids: Ids) => Promise<void>

async function open(t: ExecutionContext, redisUrl: string, workerCount: number, more = {}): Promise<World> {
  const outside = await Outside.start()
  t.teardown(() => outside.close())
  const database = await freshDatabase()
  t.teardown(() => database.drop())
  const storage = await mkdtemp(join(tmpdir(), 'headgate-locks-'))
  t.teardown(() => rm(storage, { recursive: true, force: true }))
  const env = {
    ...(await delayedEnvironment(outside.chat)),
    RUNWAY_API_KEY: 'key_1',
    RUNWAY_BASE_URL: `${outside.video.url}/v1`,
    STORAGE_URL: `file:${storage}`,
    ...more,
  }
  const stores = { databaseUrl: database.url, redisUrl, drop: async () => {} }
  const gateway = await startGateway(stores, env)
  t.teardown(() => gateway.close())
  const workers = await Promise.all(Array.from({ length: workerCount }, () => startProcess('worker', stores, env)))
  t.teardown(() => Promise.all(workers.map(worker => worker.kill())))
  return { gateway, workers, redis: gateway.services.redis, outside }
}

/** Loses what Redis knows while work of every kind is under way, then lets it end. */
async function survives(t: ExecutionContext, world: World, lose: Loss): Promise<void> {
  const { gateway, outside } = world
  const { services } = gateway
  const { organisationId, live } = await gateway.account()
  const door = { url: gateway.url, key: live }
  const hook = { webhook_url: outside.receiver.url }
  const video = async (prompt: string) =>
    (await submit(gateway, '/v1/videos', live, { model: 'runway-gen4.5', prompt, seconds: 5, ...hook })).id as string
  const chat = async (content: string) =>
    (await submit(gateway, '/v1/jobs', live, { ...delayed(content), ...hook })).id as string
  const input = await uploadInput(door, jsonLines(lines))
  const [batch, held, started, finished] = await Promise.all([
    createBatch(door, input, { batch_routing: 'gateway', ...hook }).then(({ id }) => id),
    ...[chat('held job'), video('a held start'), video('a held file')],
  ])
  await eventually(() => outside.asked.size === lines.length + 4, 'a call of every kind is under way')
  // Last, because an attempt of a delivery ends after 15 s.
  const quick = await chat('quick job')
  await eventually(() => outside.receiver.received.length === 1, 'an event is being delivered')
  await lose(world, { batch: batch!, held: held!, started: started!, finished: finished!, quick })
  outside.release()

  const done = await ended(door, batch!)
  t.like(done, { status: 'completed', request_counts: { total: lines.length, completed: lines.length, failed: 0 } })
  t.deepEqual(
    lineFaults(
      lines.map(line => line.custom_id),
      await resultsOf(door, done),
    ),
    [],
  )
  const jobs = [held, started, finished, quick] as string[]
  const where = { id: { in: jobs } }
  const areOver = async () => (await services.db.job.count({ where: { ...where, stage: 'over' } })) === jobs.length
  await eventually(areOver, 'all jobs are over', 90_000)
  for (const id of [started, finished])
    t.like(await answerOf(await gateway.fetch(`/v1/videos/${id}`, { key: live })), { status: 'completed' })
  for (const id of [held, quick])
    t.like(await answerOf(await gateway.fetch(`/v1/jobs/${id}`, { key: live })), { status: 'completed' })
  const pending = () => services.db.webhookDelivery.count({ where: { organisationId, status: 'pending' } })
  await eventually(async () => (await pending()) === 0, 'every event is delivered', 90_000)

  t.deepEqual(
    [...outside.asked].filter(([, times]) => times !== 1),
    [],
    'everything was asked for once',
  )
  await toldOnce(t, world, organisationId, [...jobs, batch!])
  const rows = await services.db.job.findMany({ where, select: { attempts: true } })
  t.deepEqual([...new Set(rows.map(({ attempts }) => attempts))], [1])
  const [{ strikes }] = await services.db.$queryRaw<[{ strikes: number }]>`
    SELECT count(*)::int AS strikes FROM batch_starts WHERE batch_id = ${batch}`
  t.is(strikes, 0)
  t.deepEqual(await gateway.settled(), [])
}

/** Every event was sent once, and again only after an attempt that had no answer in its 15 s: the receiver holds them. */
async function toldOnce(t: ExecutionContext, { gateway, outside }: World, organisationId: string, subjects: string[]) {
  const deliveries = await gateway.services.db.webhookDelivery.findMany({
    where: { organisationId },
    include: { log: true },
  })
  t.deepEqual(deliveries.map(({ jobId, batchId }) => jobId ?? batchId).toSorted(), subjects.toSorted())
  for (const { id, log } of deliveries) {
    const answers = log.filter(({ error }) => error !== 'no answer within 15 s').map(({ status }) => status)
    t.deepEqual(answers, [200], 'one attempt was answered')
    t.is(outside.receiver.count(id), log.length, 'every attempt is in the log')
  }
}

/** Takes the locks of all entries under way, and lets BullMQ find these stalled: as when a lock was not renewed in time. */
async function loseLocks({ gateway }: World): Promise<void> {
  const redis = openWorkerRedis(gateway.services.config)
  for (const name of workQueues) {
    const checker = new Worker(name, null, { connection: redis, autorun: false, maxStalledCount: 50 })
    const active = await redis.lrange(`bull:${name}:active`, 0, -1)
    // The first check marks the entries, the second moves those that are without a lock still.
    for (let check = 1; check <= 2; check++) {
      await redis.del(`bull:${name}:stalled-check`, ...active.map(id => `bull:${name}:${id}:lock`))
      // biome-ignore lint/complexity/useLiteralKeys: it is private in TypeScript
      await checker['moveStalledJobsToWait']()
    }
    await checker.close()
  }
  redis.disconnect()
}

/** Waits until the entries that were delivered again have been put off. */
async function putOff({ redis }: World, queue: (typeof workQueues)[number], ...ids: string[]): Promise<void> {
  const isPutOff = async (id: string) => (await redis.zscore(`bull:${queue}:delayed`, id)) !== null
  for (const id of ids)
    await eventually(() => isPutOff(id).catch(() => false), `entry ${id} was delivered again and waits`, 60_000)
}

/** Waits until the sweep of jobs has run. */
async function swept({ gateway: { services } }: World): Promise<void> {
  const sinceMs = Date.now()
  const recent = () => services.queues.maintenance.getCompleted(0, 50)
  const isDone = async () => (await recent()).some(job => job?.name === 'jobs' && (job.processedOn ?? 0) > sinceMs)
  await eventually(() => isDone().catch(() => false), 'the housekeeping of jobs has run', 60_000)
}

const everyEntry = async (world: World, { batch, held, started, finished }: Ids) => {
  await putOff(world, 'batches', batch)
  await putOff(world, 'async', `run-${held}`)
  await putOff(world, 'media', `start-${started}`, `finish-${finished}`)
}

async function ownRedis(t: ExecutionContext): Promise<PrivateServer> {
  t.timeout(240_000)
  const server = await privateRedis()
  t.teardown(() => server.stop())
  return server
}

test.serial('completed, everything asked for and told once: Redis was away for longer than locks last', async t => {
  const server = await ownRedis(t)
  // One of two workers gets what the other runs.
  await survives(t, await open(t, server.url, 2), async (world, { batch, finished }) => {
    await server.kill()
    await server.restart()
    await loseLocks(world)
    await putOff(world, 'batches', batch)
    await putOff(world, 'media', `finish-${finished}`)
  })
})

test.serial('completed, everything asked for and told once: Redis was emptied', async t => {
  const server = await ownRedis(t)
  await survives(t, await open(t, server.url, 1), async (world, { batch, finished }) => {
    await world.redis.flushall()
    // What the housekeeping queues again finds its run alive.
    await putOff(world, 'batches', batch)
    await putOff(world, 'media', `finish-${finished}`)
  })
})

test.serial(
  'completed, everything asked for and told once: a worker stood still for longer than its leases last',
  async t => {
    const server = await ownRedis(t)
    await survives(t, await open(t, server.url, 1), async (world, ids) => {
      const [worker] = world.workers
      const { db } = world.gateway.services
      worker!.child.kill('SIGSTOP')
      await db.$executeRaw`UPDATE jobs SET claimed_until = now() - interval '1 minute' WHERE claimed_until IS NOT NULL`
      await db.$executeRaw`UPDATE jobs SET lease_until = now() - interval '1 minute' WHERE lease_until IS NOT NULL`
      await db.$executeRaw`UPDATE batches SET lease_until = now() - interval '1 minute' WHERE lease_until IS NOT NULL`
      await db.$executeRaw`UPDATE webhook_deliveries SET next_attempt_at = now() - interval '1 minute'`
      await loseLocks(world)
      worker!.child.kill('SIGCONT')
      await everyEntry(world, ids)
      await swept(world)
    })
  },
)

test.serial('completed, everything asked for and told once: a replica took over from the primary', async t => {
  t.timeout(240_000)
  const sentinels = await startSentinels()
  t.teardown(() => sentinels.stop())
  const world = await open(t, sentinels.url, 1, { REDIS_SENTINEL_PASSWORD: sentinels.sentinelPassword })
  await survives(t, world, async () => {
    const before = await sentinels.primaryPort()
    await sentinels.killPrimary()
    await eventually(async () => (await sentinels.primaryPort()) !== before, 'the replica took over', 60_000)
    await swept(world)
  })
})
