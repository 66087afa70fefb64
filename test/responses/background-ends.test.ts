import { maxOpenStarts } from '../../shared/queues/crash-suspect-limiter.ts'
import { hang } from '../emulators/emulator.ts'
import { contextLength, serverError } from '../emulators/openai.ts'
import { responsesReply } from '../emulators/openai-responses.ts'
import { chargedNano } from '../support/chat/gateway.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { rowOf } from '../support/jobs/gateway.ts'
import { collect, type Event, stalling, untilOver, untilStatus } from '../support/responses/background.ts'
import { keepingAccount, startWorld } from '../support/responses/world.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { runJobHousekeeping, startWorkers, type Workers } from '../support/workers.ts'

let workers: Workers | null = null
let account: Account

const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '', UPSTREAM_MAX_ATTEMPTS: '1', LOG_LEVEL: 'fatal' }))
test.beforeEach(async () => {
  account = await keepingAccount(world)
})
test.afterEach.always(async () => {
  await stopWorkers()
  world.openai.reset()
})

const background = { model: 'gpt-4o-mini', input: 'Hello', background: true } as const
const client = () => world.sdk(account.live)
const startWorking = () => {
  workers = startWorkers(world.gateway.services)
}
async function stopWorkers(): Promise<void> {
  await workers?.stop()
  workers = null
}

/** Creates a streamed one, and returns its id with the events to come. */
async function createStreamed(): Promise<{ id: string; events: Promise<Event[]>; seen: Event[] }> {
  const stream = await client().responses.create({ ...background, stream: true })
  const seen: Event[] = []
  const collecting = (async () => {
    for await (const event of stream) seen.push(event as Event)
    return seen
  })()
  await eventually(() => seen.length >= 2, 'it is queued')
  return { id: seen[0]!.response!.id, events: collecting, seen }
}

test.serial('cancelled before it was begun: nothing is charged, and its stream ends', async t => {
  const { id, events } = await createStreamed()
  t.is((await client().responses.retrieve(id)).status, 'queued')
  const cancelled = await client().responses.cancel(id)
  t.like(cancelled, { id, status: 'cancelled', output: [], background: true })
  t.deepEqual(await client().responses.cancel(id), cancelled)
  t.like((await events).at(-1), { type: 'response.incomplete', sequence_number: 2, response: { status: 'cancelled' } })
  t.is(await chargedNano(world, account), 0)
  startWorking()
  t.is((await client().responses.retrieve(id)).status, 'cancelled')
  await t.throwsAsync(client().responses.create({ ...background, previous_response_id: id }), {
    message: /not completed/,
  })
  t.is(world.openai.requests.length, 0)
})

for (const events of [0, 6])
  test.serial(`cancelled while it is made, after ${events} events: what was used is charged`, async t => {
    startWorking()
    const stalled = stalling(events)
    world.openai.next(events === 0 ? hang : stalled.reply)
    const streamed = await createStreamed()
    await untilStatus(client(), streamed.id, 'in_progress')
    await eventually(async () => (await rowOf(world.gateway, streamed.id)).operation !== null, 'it is called')
    if (events > 0) await eventually(() => streamed.seen.length > 3, 'events are seen')
    t.is((await client().responses.cancel(streamed.id)).status, 'cancelled')
    const last = (await streamed.events).at(-1)!
    t.like(last, { type: 'response.incomplete', response: { status: 'cancelled' } })
    await stopWorkers()
    t.is((await client().responses.retrieve(streamed.id)).status, 'cancelled')
    t.true((await chargedNano(world, account)) > 0)
  })

test.serial('one that is over cannot be cancelled, and stays as it is', async t => {
  startWorking()
  const { id } = await client().responses.create(background)
  const done = await untilOver(client(), id)
  t.deepEqual(JSON.parse(JSON.stringify(await client().responses.cancel(id))).output, done.output)
  t.is((await client().responses.retrieve(id)).status, 'completed')
})

test.serial('cancelled: a response that is deleted while it is made', async t => {
  startWorking()
  world.openai.next(hang)
  const { id, events } = await createStreamed()
  await untilStatus(client(), id, 'in_progress')
  await client().responses.delete(id)
  t.is((await rowOf(world.gateway, id)).status, 'cancelled')
  await t.throwsAsync(Promise.resolve(client().responses.retrieve(id)), { message: /not found/ })
  await events.catch(() => {})
  await stopWorkers()
  await chargedNano(world, account)
  t.is(await world.gateway.services.db.storedResponse.count({ where: { organisationId: account.organisationId } }), 0)
})

test.serial('made again after its provider failed, while nothing was shown', async t => {
  startWorking()
  world.openai.next(serverError)
  const { id, events } = await createStreamed()
  const { db, delayedTasks } = world.gateway.services
  await eventually(async () => {
    await db.job.updateMany({ where: { id, stage: 'waiting' }, data: { claimedUntil: null } })
    await delayedTasks.add('run', id)
    await delayedTasks.add('again', id)
    return (await rowOf(world.gateway, id)).stage === 'over'
  }, 'it is over')
  t.is((await events).at(-1)!.type, 'response.completed')
  t.is(world.openai.requests.length, 2)
  t.true((await chargedNano(world, account)) > 0)
})

test.serial('a fault of the request fails it at once', async t => {
  startWorking()
  world.openai.next(contextLength)
  const { id } = await client().responses.create(background)
  const { error } = await untilStatus(client(), id, 'failed')
  t.is(error!.code as string, 'context_length_exceeded')
  t.is(world.openai.requests.length, 1)
  t.is(await chargedNano(world, account), 0)
})

for (const fault of [{ cutAfter: 6 }, { failAfter: 6 }])
  test.serial(`a stream that breaks after events were shown is the end of it: ${JSON.stringify(fault)}`, async t => {
    startWorking()
    world.openai.next(responsesReply(fault))
    const { id, events } = await createStreamed()
    const all = await events
    t.deepEqual(
      all.map(({ sequence_number }) => sequence_number),
      [...all.keys()],
    )
    t.like(all.at(-1), { type: 'response.failed', response: { status: 'failed', background: true } })
    t.true(all.some(({ type }) => type === 'response.output_text.delta'))
    t.deepEqual((await client().responses.retrieve(id)).error, all.at(-1)!.response!.error)
    t.is(world.openai.requests.length, 1)
    t.is(await chargedNano(world, account), 0)
  })

test.serial('a worker that stops hands it back while nothing was shown', async t => {
  startWorking()
  world.openai.next(hang)
  const { id, events } = await createStreamed()
  await untilStatus(client(), id, 'in_progress')
  await eventually(() => world.openai.requests.length === 1, 'it is called')
  await stopWorkers()
  startWorking()
  t.is((await events).at(-1)!.type, 'response.completed')
  t.is((await client().responses.retrieve(id)).status, 'completed')
  t.true((await chargedNano(world, account)) > 0)
})

test.serial('a worker that stops after events were shown fails it, at no cost', async t => {
  startWorking()
  world.openai.next(stalling(6).reply)
  const { id, events, seen } = await createStreamed()
  await eventually(() => seen.length > 3, 'events are seen')
  await stopWorkers()
  t.like((await events).at(-1), { type: 'response.failed', response: { error: { code: 'server_error' } } })
  startWorking()
  t.is((await client().responses.retrieve(id)).status, 'failed')
  t.is(world.openai.requests.length, 1)
  t.is(await chargedNano(world, account), 0)
})

test.serial('failed: a response that is not made within an hour', async t => {
  const { id, events } = await createStreamed()
  const { db } = world.gateway.services
  await db.job.update({ where: { id }, data: { deadlineAt: new Date(Date.now() - 1) } })
  await runJobHousekeeping(world.gateway.services)
  t.like((await events).at(-1), { type: 'response.failed', response: { status: 'failed' } })
  t.is((await client().responses.retrieve(id)).error!.code, 'server_error')
  t.is(await chargedNano(world, account), 0)
})

test.serial('failed: a response whose workers died', async t => {
  const { id } = await client().responses.create(background)
  const { db } = world.gateway.services
  const lost = { stage: 'running', claimedUntil: new Date(0), openStarts: maxOpenStarts } as const
  await db.job.update({ where: { id }, data: lost })
  await runJobHousekeeping(world.gateway.services)
  t.is((await client().responses.retrieve(id)).error!.code, 'server_error')
  t.is(await chargedNano(world, account), 0)
})

test.serial('completed: a stream whose events are lost has the end of the response', async t => {
  startWorking()
  const { responseEvents } = world.gateway.services
  const stalled = stalling(6)
  world.openai.next(stalled.reply)
  const { id, seen, events } = await createStreamed()
  await eventually(() => seen.length > 3, 'events are seen')
  // What an append of other events leaves when Redis was restored from an older state.
  await responseEvents.close(id)
  stalled.go()
  const all = await events
  t.like(all.at(-1), { type: 'response.completed', sequence_number: all.length - 1 })
  t.is(all.at(-1)!.response!.status, 'completed')
  const again = await collect(await client().responses.retrieve(id, { stream: true, starting_after: 1 }))
  t.deepEqual(again, all.slice(2))
})

test.serial('the longest events are not kept', async t => {
  startWorking()
  const text = 'some words '.repeat(10_000)
  const item = (id: string) => ({
    type: 'message',
    id,
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text, annotations: [], logprobs: [] }],
  })
  world.openai.next(responsesReply({ output: [item('msg_1'), item('msg_2')] }))
  const { events } = await createStreamed()
  const all = await events
  const last = all.at(-1)!
  t.like(last, { type: 'response.completed', sequence_number: all.length - 1 })
  t.is(last.response!.output.length, 2)
  t.true(JSON.stringify(all.slice(0, -1)).length < 5 * 1024 * 1024)
})

test.serial(
  'completed: a stream of which no more is kept, as the test keys’ responses fill what they may of Redis',
  async t => {
    startWorking()
    const { responseEvents } = world.gateway.services
    const { organisationId } = account
    const create = async (key: string) =>
      collect(await world.sdk(key).responses.create({ ...background, stream: true, input: 'a '.repeat(100) }))
    t.true((await create(account.test)).length > 100)
    const other = 'resp_of_test_keys'
    const text = 'x'.repeat(4 * 1024 * 1024)
    const owner = { organisationId, environment: 'test' } as const
    const appended: boolean[] = []
    for (let number = 2; number < 19; number++)
      appended.push(await responseEvents.append(other, owner, [{ number, text }]))
    await responseEvents.remove(other)
    t.deepEqual([appended[0], appended.at(-1)], [true, false])
    const rest = await create(account.test)
    t.deepEqual(
      rest.map(({ type }) => type as string),
      ['response.created', 'response.queued', 'response.completed'],
    )
    t.true(rest.at(-1)!.response!.output.length > 0)
    t.true((await create(account.live)).length > 3, 'live keys have room of their own')
  },
)
