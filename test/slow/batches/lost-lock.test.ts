import { Redis } from 'ioredis'
import { json, type Reply } from '../../emulators/emulator.ts'
import {
  chatLine,
  createBatch,
  ended,
  jsonLines,
  lineFaults,
  resultsOf,
  uploadInput,
} from '../../support/batches/gateway.ts'
import { startWorld, type World } from '../../support/chat/gateway.ts'
import { eventually } from '../../support/gateway.ts'
import { type PrivateServer, privateRedis } from '../../support/stack.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { runJobHousekeeping, startWorkers } from '../../support/workers.ts'

const lines = Array.from({ length: 6 }, (_, i) => chatLine(`line-${i}`, 'gpt-4o-mini', `line-${i}`, { max_tokens: 50 }))
const ids = lines.map(line => line.custom_id)

/** Answers when the test says so; counts how often each line was asked for. */
function hold(world: World): { asked: string[]; release(): void } {
  const asked: string[] = []
  const open = Promise.withResolvers<void>()
  const reply: Reply = async (request, response) => {
    const { content } = request.body.messages[0]
    asked.push(content)
    await open.promise
    const choices = [
      { index: 0, message: { role: 'assistant', content, refusal: null }, finish_reason: 'stop', logprobs: null },
    ]
    const usage = { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 }
    const head = { id: 'chatcmpl-x', object: 'chat.completion', created: 1_795_132_800, model: 'gpt-4o-mini' }
    await json(200, { ...head, choices, usage })(request, response)
  }
  world.openai.next(...Array.from({ length: 4 * lines.length }, () => reply))
  return { asked, release: open.resolve }
}

/** How often BullMQ has begun to process the entry of a batch; null once it is gone. */
async function deliveries(redis: Redis, id: string): Promise<number> {
  return Number(await redis.hget(`bull:batches:${id}`, 'stc'))
}

type Loss = (options: { redis: Redis; server: PrivateServer; id: string; world: World }) => Promise<void>

/** Loses the lock of a batch's entry while its lines are under way, and lets them end after the entry was delivered again. */
async function survives(t: ExecutionContext, lose: Loss): Promise<void> {
  t.timeout(120_000)
  const server = await privateRedis()
  t.teardown(() => server.stop())
  const world = await startWorld({ REDIS_URL: server.url, BULK_CONCURRENCY: '8' })
  t.teardown(() => world.close())
  const redis = new Redis(server.url)
  redis.on('error', () => {}) // It reconnects automatically.
  t.teardown(() => redis.disconnect())
  const { services, url } = world.gateway
  // Two processes of workers, as one may get what the other was given.
  for (const workers of [startWorkers(services), startWorkers(services)]) t.teardown(() => workers.stop())
  const account = await world.gateway.account()
  const door = { url, key: account.live }
  const { asked, release } = hold(world)
  const { id } = await createBatch(door, await uploadInput(door, jsonLines(lines)), { batch_routing: 'gateway' })
  await eventually(() => asked.length === lines.length, 'all lines are under way')
  await lose({ redis, server, id, world })
  release()
  const batch = await ended(door, id)
  t.like(batch, { status: 'completed', request_counts: { total: 6, completed: 6, failed: 0 } })
  t.deepEqual(lineFaults(ids, await resultsOf(door, batch)), [])
  t.deepEqual(asked.toSorted(), ids)
  t.is((await services.batches.read(id))!.leaseRun, null)
  t.deepEqual(await world.gateway.settled(), [])
}

test.serial('completed, each line asked for once: the queue lost its lock and delivers the entry again', t =>
  survives(t, async ({ redis, id }) => {
    await redis.del(`bull:batches:${id}:lock`)
    await eventually(async () => (await deliveries(redis, id)) >= 1, 'the entry is delivered again')
    await eventually(async () => (await redis.zscore('bull:batches:delayed', id)) !== null, 'it waits')
  }),
)

test.serial('completed, each line asked for once: Redis was emptied and the entry is added again', t =>
  survives(t, async ({ redis, id, world }) => {
    await redis.flushall()
    await runJobHousekeeping(world.gateway.services)
    await world.gateway.services.batchWakes.add(id)
    await eventually(async () => (await redis.zscore('bull:batches:delayed', id)) !== null, 'the second entry waits')
  }),
)

test.serial('completed, each line asked for once: Redis was away for longer than a lock lasts', t =>
  survives(t, async ({ redis, server, id }) => {
    await server.kill()
    await new Promise(resolve => setTimeout(resolve, 7_000)) // A lock lasts six seconds.
    await server.restart()
    await eventually(async () => (await redis.zscore('bull:batches:delayed', id)) !== null, 'the entry waits', 60_000)
  }),
)
