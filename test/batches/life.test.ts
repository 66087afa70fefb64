import { after, type Emulator, hang, json, type Reply } from '../emulators/emulator.ts'
import {
  cancelBatch,
  chatLine,
  costNano,
  createBatch,
  type Door,
  ended,
  jsonLines,
  lineFaults,
  resultsOf,
  uploadInput,
} from '../support/batches/gateway.ts'
import { chargedNano, startWorld, type World } from '../support/chat/gateway.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { testClock } from '../support/wallet/money.ts'
import { startWorkers, type Workers } from '../support/workers.ts'

const lines = (count: number) =>
  Array.from({ length: count }, (_, i) => chatLine(`line-${i}`, 'gpt-4o-mini', `line-${i}`, { max_tokens: 50 }))
const idsOf = (all: { custom_id: string }[]) => all.map(line => line.custom_id)
const doorOf = (world: World, { live }: Account): Door => ({ url: world.gateway.url, key: live })

async function beginWorld(t: ExecutionContext, ...options: Parameters<typeof startWorld>): Promise<World> {
  const world = await startWorld(...options)
  t.teardown(() => world.close())
  return world
}

/** Workers that stop before their world closes, if they have not by then. */
function beginWork(t: ExecutionContext, world: World): Workers {
  const workers = startWorkers(world.gateway.services)
  t.teardown(() => workers.stop())
  return workers
}

async function created(door: Door, all: object[]): Promise<string> {
  const { id } = await createBatch(door, await uploadInput(door, jsonLines(all)), { batch_routing: 'gateway' })
  return id
}

/** Whole answers; what was asked is what is answered. */
const answer =
  (content: (asked: string) => string = asked => asked): Reply =>
  (request, response) => {
    const message = { role: 'assistant', content: content(request.body.messages[0].content), refusal: null }
    const choices = [{ index: 0, message, finish_reason: 'stop', logprobs: null }]
    const usage = { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 }
    const head = { id: 'chatcmpl-x', object: 'chat.completion', created: 1_795_132_800, model: 'gpt-4o-mini' }
    return json(200, { ...head, choices, usage })(request, response)
  }

/** How often the upstream was asked each thing. */
function asked({ requests }: Emulator): Map<string, number> {
  const times = new Map<string, number>()
  for (const { body } of requests) {
    const content = body?.messages?.[0]?.content
    if (content) times.set(content, (times.get(content) ?? 0) + 1)
  }
  return times
}

/** Has the upstream answer each coming request when the test says so. */
function held(emulator: Emulator, count: number, reply = answer()): () => void {
  const open = Promise.withResolvers<void>()
  const later: Reply = async (request, response) => {
    await open.promise
    await reply(request, response)
  }
  emulator.next(...Array.from({ length: count }, () => later))
  return open.resolve
}

test('expired: what finished is kept and billed, every other line says so', async t => {
  const clock = testClock('2026-11-20T12:00:00Z')
  const world = await beginWorld(t, { BULK_CONCURRENCY: '4' }, clock)
  beginWork(t, world)
  const account = await world.gateway.account()
  const door = doorOf(world, account)
  world.openai.next(answer(), answer(), answer())
  const release = held(world.openai, 200)
  const id = await created(door, lines(50))
  const { batches } = world.gateway.services
  await eventually(async () => (await batches.read(id))!.completed === 3, 'three lines have their answer')
  clock.advance(24 * 3_600_000)
  const batch = await ended(door, id)
  release()
  t.is(batch.status, 'expired')
  t.deepEqual(batch.request_counts, { total: 50, completed: 3, failed: 47 })
  const results = await resultsOf(door, batch)
  t.deepEqual(lineFaults(idsOf(lines(50)), results), [])
  t.true(results.errors.every(({ response, error }) => response === null && error!.code === 'batch_expired'))
  t.is(await chargedNano(world, account), costNano(results))
})

test('cancelled: calls under way may still end, the rest is not begun', async t => {
  const world = await beginWorld(t, { BULK_CONCURRENCY: '4' })
  beginWork(t, world)
  const account = await world.gateway.account()
  const door = doorOf(world, account)
  const release = held(world.openai, 4)
  // Those that begin before the worker looks at the batch, which it does every second, are a few of all.
  world.openai.next(...lines(56).map(() => after(500, answer())))
  const id = await created(door, lines(60))
  await eventually(() => world.openai.requests.length === 4, 'as many calls as the lane allows are under way')
  t.is((await cancelBatch(door, id)).status, 'cancelling')
  release()
  const batch = await ended(door, id)
  t.is(batch.status, 'cancelled')
  const { completed, failed } = batch.request_counts
  t.true(completed >= 4 && failed > 0 && completed + failed === 60, JSON.stringify(batch.request_counts))
  const results = await resultsOf(door, batch)
  t.deepEqual(lineFaults(idsOf(lines(60)), results), [])
  t.is(results.errors[0]!.error!.code, 'batch_cancelled')
  t.is(await chargedNano(world, account), costNano(results))
})

test('cancelled: calls that do not end are cut off after a while, and charged what was used', async t => {
  const world = await beginWorld(t, { BULK_CONCURRENCY: '2' })
  beginWork(t, world)
  const account = await world.gateway.account()
  const door = doorOf(world, account)
  world.openai.next(hang, hang)
  const id = await created(door, lines(4))
  await eventually(() => world.openai.requests.length === 2, 'calls are under way')
  await cancelBatch(door, id)
  await Promise.all(world.openai.requests.map(({ aborted }) => aborted))
  const batch = await ended(door, id)
  t.is(batch.status, 'cancelled')
  const results = await resultsOf(door, batch)
  t.deepEqual(lineFaults(idsOf(lines(4)), results), [])
  const charged = results.errors.filter(({ error }) => (error as { request_id?: string }).request_id)
  t.is(charged.length, 2)
  const { db } = world.gateway.services
  const rows = await db.generation.findMany({ where: { organisationId: account.organisationId } })
  t.true(rows.length === 2 && rows.every(row => row.status === 499 && row.costNano > 0n && row.estimated))
  t.is(await chargedNano(world, account), Number(rows.reduce((sum, row) => sum + row.costNano, 0n)))
})

test('handed on when its worker stops: every line is asked for once', async t => {
  const world = await beginWorld(t, { BULK_CONCURRENCY: '8' })
  const { services } = world.gateway
  let workers = beginWork(t, world)
  const account = await world.gateway.account()
  const door = doorOf(world, account)
  const all = lines(400)
  world.openai.next(...all.map(() => after(5, answer())))
  const id = await created(door, all)
  for (const goal of [50, 150, 250]) {
    await eventually(async () => (await services.batches.read(id))!.completed >= goal, `${goal} lines are done`)
    await workers.stop()
    workers = beginWork(t, world)
  }
  const batch = await ended(door, id)
  t.deepEqual(batch.request_counts, { total: 400, completed: 400, failed: 0 })
  const results = await resultsOf(door, batch)
  t.deepEqual(lineFaults(idsOf(all), results), [])
  t.deepEqual(new Set(asked(world.openai).values()), new Set([1]))
  t.is(await chargedNano(world, account), costNano(results))
})

test('taken over by another worker: what the first still writes is refused', async t => {
  const world = await beginWorld(t, { BULK_CONCURRENCY: '8' })
  const { services } = world.gateway
  beginWork(t, world)
  const account = await world.gateway.account()
  const door = doorOf(world, account)
  const all = lines(300)
  world.openai.next(...all.map(() => after(5, answer())))
  const id = await created(door, all)
  await eventually(async () => (await services.batches.read(id))!.completed >= 50, '50 lines are done')
  // As another worker does that takes this one for dead.
  await services.batches.claim(id)
  await eventually(async () => {
    await services.batchWakes.add(id)
    return (await services.batches.read(id))!.status === 'completed'
  }, 'it is completed by the worker that holds it then')
  const batch = await ended(door, id)
  const results = await resultsOf(door, batch)
  t.deepEqual(lineFaults(idsOf(all), results), [])
  t.is(await chargedNano(world, account), costNano(results))
})

test('failed in the middle when its input is lost; what finished is kept and billed', async t => {
  const world = await beginWorld(t, { BULK_CONCURRENCY: '4' })
  const { services } = world.gateway
  let workers = beginWork(t, world)
  const account = await world.gateway.account()
  const door = doorOf(world, account)
  world.openai.next(answer(), answer())
  const release = held(world.openai, 200)
  const id = await created(door, lines(40))
  await eventually(async () => (await services.batches.read(id))!.completed === 2, 'two lines are done')
  const stopping = workers.stop()
  release()
  await stopping
  const { completed, inputKey } = (await services.batches.read(id))!
  await services.blobs.remove([inputKey])
  workers = beginWork(t, world)
  const batch = await ended(door, id)
  t.is(batch.status, 'failed')
  t.deepEqual([batch.errors!.data[0]!.code, batch.errors!.data[0]!.param], ['not_found', 'input_file_id'])
  t.is(batch.request_counts.completed, completed)
  const results = await resultsOf(door, batch)
  t.is(results.output.length, completed)
  t.is(await chargedNano(world, account), costNano(results))
})

test('a long output goes through parts in storage, and is whole', async t => {
  const world = await beginWorld(t, { BULK_CONCURRENCY: '4' })
  const { services } = world.gateway
  beginWork(t, world)
  const account = await world.gateway.account()
  const door = doorOf(world, account)
  const all = lines(80)
  const million = 'x'.repeat(1_000_000)
  const long = answer(asked => `${asked} ${million}`)
  world.openai.next(...all.slice(8).map(() => long))
  const release = held(world.openai, 8, long)
  const id = await created(door, all)
  await eventually(async () => (await services.db.batchPart.count({ where: { batchId: id } })) > 0, 'there is a part')
  release()
  const batch = await ended(door, id)
  const results = await resultsOf(door, batch)
  t.deepEqual(lineFaults(idsOf(all), results), [])
  for (const { custom_id, response } of results.output)
    t.is(response!.body.choices[0].message.content, `${custom_id} ${million}`)
  await eventually(
    async () => (await services.db.file.count({ where: { purpose: 'batch_part' } })) === 0,
    'no part is left',
  )
  t.is(await services.db.batchLine.count(), 0)
})
