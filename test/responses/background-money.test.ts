import { countTokens } from '../../shared/chat/tokens.ts'
import type { NotedCall } from '../../shared/delayed/delayed-row.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { hang } from '../emulators/emulator.ts'
import { responsesReply } from '../emulators/openai-responses.ts'
import { chargedNano, expectedNano } from '../support/chat/gateway.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { rowOf } from '../support/jobs/gateway.ts'
import { collect, type Event, stalling, untilOver, untilStatus } from '../support/responses/background.ts'
import { keepingAccount, startWorld } from '../support/responses/world.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { runJobHousekeeping, startWorkers, type Workers } from '../support/workers.ts'

let workers: Workers | null = null
let account: Account

const world = use(test, () => {
  const env = { OPENROUTER_API_KEY: '', UPSTREAM_MAX_ATTEMPTS: '1', UPSTREAM_READ_ON_MS: '1500', LOG_LEVEL: 'fatal' }
  return startWorld(env)
})
test.beforeEach(async () => {
  account = await keepingAccount(world)
})
test.afterEach.always(async () => {
  await workers?.stop()
  workers = null
  world.openai.reset()
})

const client = () => world.sdk(account.live)
const startWorking = () => {
  workers = startWorkers(world.gateway.services)
}
const isOver = (id: string) => async () => (await rowOf(world.gateway, id)).stage === 'over'

const background = { input: 'Hello', background: true, max_output_tokens: 16_000 } as const
const words = 'delivered '.repeat(600)
const messageOf = (text: string) => ({
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text, annotations: [], logprobs: [] }],
})
const message = messageOf(words)
const shortMessage = messageOf('delivered '.repeat(40))
const usage = { input_tokens: 9, output_tokens: 20_000, output_tokens_details: { reasoning_tokens: 19_000 } }

/** Creates a streamed response, whose events are added to `seen`. */
async function createStreamed(model: string): Promise<{ id: string; seen: Event[]; events: Promise<unknown> }> {
  const stream = await client().responses.create({ ...background, model, stream: true })
  const seen: Event[] = []
  const events = (async () => {
    for await (const event of stream) seen.push(event as Event)
  })().catch(() => {})
  await eventually(() => seen.length >= 2, 'it is queued')
  return { id: seen[0]!.response!.id, seen, events }
}

const textOf = (seen: readonly Event[]) =>
  seen.map(event => (event.type === 'response.output_text.delta' ? event.delta : '')).join('')

async function loggedUsage(id: string) {
  const row = await world.gateway.services.db.generation.findFirstOrThrow({ where: { id } })
  const { promptTokens: prompt_tokens, completionTokens: completion_tokens } = row
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
}

for (const end of ['cancel', 'delete'] as const)
  test.serial(`${end} while it streams: what was delivered is charged, and no more than the whole answer`, async t => {
    startWorking()
    world.openai.next(stalling(590, { output: [message] }).reply)
    const { id, seen } = await createStreamed('gpt-4o-mini')
    await eventually(() => seen.length > 500, 'events are seen')
    await client().responses[end](id)
    await eventually(isOver(id), 'it is settled')
    const delivered = await countTokens(textOf(seen))
    const { prompt_tokens, completion_tokens, total_tokens } = await loggedUsage(id)
    t.true(completion_tokens >= delivered, `${completion_tokens} of ${delivered} delivered`)
    t.true(completion_tokens <= (await countTokens(words)))
    t.is(
      await chargedNano(world, account),
      expectedNano('gpt-4o-mini', { prompt_tokens, completion_tokens, total_tokens }),
    )
  })

test.serial('cancelled shortly before its end: charged as its provider counts it', async t => {
  startWorking()
  const stalled = stalling(20, { output: [shortMessage], details: { input_tokens: 9, output_tokens: 50 } })
  world.openai.next(stalled.reply)
  const { id, seen } = await createStreamed('gpt-4o-mini')
  await eventually(() => textOf(seen) !== '', 'events are seen')
  await client().responses.cancel(id)
  stalled.go()
  await eventually(isOver(id), 'it is settled')
  const exact = { prompt_tokens: 9, completion_tokens: 50, total_tokens: 59 }
  t.is(await chargedNano(world, account), expectedNano('gpt-4o-mini', exact))
})

for (const end of ['cancel', 'delete'] as const)
  test.serial(`${end} at its last visible word: hidden reasoning is charged as its provider counts it`, async t => {
    startWorking()
    const stalled = stalling(20, { output: [shortMessage], details: usage })
    world.openai.next(stalled.reply)
    const { id, seen, events } = await createStreamed('gpt-5-mini')
    await eventually(() => textOf(seen) !== '', 'events are seen')
    await client().responses[end](id)
    if (end === 'cancel') {
      t.is((await client().responses.retrieve(id)).status, 'cancelled')
      await events
      t.like(seen.at(-1), { type: 'response.incomplete', response: { status: 'cancelled' } })
      t.is((await client().responses.cancel(id)).status, 'cancelled')
    } else await t.throwsAsync(Promise.resolve(client().responses.retrieve(id)), { message: /not found/ })
    stalled.go()
    await eventually(isOver(id), 'it is settled')
    const exact = { prompt_tokens: 9, completion_tokens: 20_000, total_tokens: 20_009 }
    t.is(await chargedNano(world, account), expectedNano('gpt-5-mini', exact))
    if (end === 'cancel') t.is((await client().responses.retrieve(id)).status, 'cancelled')
    const { redis } = world.gateway.services
    if (end === 'delete') t.is(await redis.exists(`response-events:${id}`), 0, 'nothing of it stays')
  })

/** A response whose worker died in the middle of its call, after it had shown `text`. */
async function interrupted(call: Partial<NotedCall>, text: string): Promise<string> {
  const { services } = world.gateway
  const { id } = await client().responses.create({ ...background, model: 'gpt-4o-mini', stream: false })
  const event = { type: 'response.output_text.delta', sequence_number: 2, item_id: 'msg_1', delta: text }
  const owner = { organisationId: account.organisationId, environment: 'live' } as const
  await services.responseEvents.append(id, owner, [{ number: 2, text: `event: x\ndata: ${JSON.stringify(event)}\n\n` }])
  const noted = { model: 'gpt-4o-mini', provider: 'openai', atMs: Date.now() - 60_000, ...call }
  const claimed = { stage: 'running', status: 'in_progress', attempts: 1, claimedUntil: new Date(Date.now() + 10_000) }
  const operation = { failures: 0, call: noted }
  await services.db.job.update({ where: { id }, data: { ...claimed, operation } as never })
  return id
}

test.serial('cancelled, and its worker died: what it had shown is charged once, and no more', async t => {
  const { services } = world.gateway
  const id = await interrupted({ isStreamed: true, settles: true }, words)
  t.is((await client().responses.cancel(id)).status, 'cancelled')
  await runJobHousekeeping(services)
  t.is((await rowOf(world.gateway, id)).stage, 'running', 'its worker may still live')
  await services.db.job.update({ where: { id }, data: { claimedUntil: new Date(0), deadlineAt: new Date(1) } })
  await runJobHousekeeping(services)
  await runJobHousekeeping(services)
  t.like(await rowOf(world.gateway, id), { stage: 'over', status: 'cancelled' })
  const counted = await loggedUsage(id)
  t.is(counted.completion_tokens, await countTokens(words), 'a minute has passed')
  t.is(await chargedNano(world, account), expectedNano('gpt-4o-mini', counted))
  t.is((await client().responses.retrieve(id)).status, 'cancelled')
})

test.serial('cancelled, and claimed again: it is settled, not run', async t => {
  const id = await interrupted({ isStreamed: true, settles: true }, words)
  t.is((await client().responses.cancel(id)).status, 'cancelled')
  // As a process of the previous release requeues it.
  const { db, delayedTasks } = world.gateway.services
  await db.job.update({ where: { id }, data: { stage: 'waiting', claimedUntil: null } })
  startWorking()
  await delayedTasks.add('again', id)
  await eventually(isOver(id), 'it is settled')
  t.is(world.openai.requests.length, 0)
  t.true((await chargedNano(world, account)) > 0)
})

test.serial(
  'cancelled while a worker of the previous release runs it: charged at once, from what was shown',
  async t => {
    const id = await interrupted({}, words)
    t.is((await client().responses.cancel(id)).status, 'cancelled')
    t.is((await rowOf(world.gateway, id)).stage, 'over')
    const counted = await loggedUsage(id)
    t.is(counted.completion_tokens, await countTokens(words))
    t.is(await chargedNano(world, account), expectedNano('gpt-4o-mini', counted))
  },
)

test.serial('cancelled after its worker died: a call that is made again is not charged twice', async t => {
  const id = await interrupted({ isStreamed: true, settles: true }, '')
  const { db } = world.gateway.services
  await db.job.update({ where: { id }, data: { claimedUntil: new Date(0) } })
  await runJobHousekeeping(world.gateway.services)
  t.is((await client().responses.cancel(id)).status, 'cancelled')
  t.is(await chargedNano(world, account), 0)
})

test.serial('its key is revoked while it streams: it fails, and what was delivered is charged', async t => {
  startWorking()
  world.openai.next(stalling(590, { output: [message] }).reply)
  const { id, seen } = await createStreamed('gpt-4o-mini')
  await eventually(() => seen.length > 500, 'events are seen')
  const { keys } = world.gateway.services
  const other = world.sdk(await world.gateway.key(account.organisationId, 'live'))
  await keys.revoke(null, hashSecret(account.live), operatorActor)
  const ended = await untilOver(other, id)
  t.is(ended.status, 'failed')
  await eventually(isOver(id), 'it is settled')
  const counted = await loggedUsage(id)
  t.true(counted.completion_tokens >= (await countTokens(textOf(seen))))
  t.is(await chargedNano(world, account), expectedNano('gpt-4o-mini', counted))
})

test.serial('cancelled around the start of its call: each call that reached the provider is charged', async t => {
  startWorking()
  const ids: string[] = []
  const lane = async () => {
    for (let i = 0; i < 8; i++) {
      world.openai.next(hang)
      const { id } = await client().responses.create({ ...background, model: 'gpt-4o-mini' })
      ids.push(id)
      if (i % 2) await untilStatus(client(), id, 'in_progress')
      t.is((await client().responses.cancel(id)).status, 'cancelled')
    }
  }
  await Promise.all(Array.from({ length: 4 }, lane))
  await workers!.stop()
  workers = null
  const { db } = world.gateway.services
  const ended = await db.job.findMany({ where: { id: { in: ids } } })
  t.true(ended.every(({ stage, status }) => stage === 'over' && status === 'cancelled'))
  t.is(ended.filter(({ costNano }) => costNano! > 0n).length, world.openai.requests.length)
  await chargedNano(world, account)
})

test.serial('a cancel that was decided before a call began does not end it for free', async t => {
  const { services } = world.gateway
  const { id } = await client().responses.create({ ...background, model: 'gpt-4o-mini' })
  const job = await services.delayedJobs.claim()
  if (!job || job === 'blocked') throw new Error('not claimed')
  const uncharged = { status: 'cancelled', logStatus: 499, refund: true } as const
  const stale = await rowOf(world.gateway, id)
  const call = { model: 'gpt-4o-mini', provider: 'openai', isStreamed: false }
  t.true(await services.delayedJobs.noteCall(job, call))
  t.is(await services.jobs.end(id, uncharged, stale), null)
  t.is((await client().responses.cancel(id)).status, 'cancelled')
  t.false(await services.delayedJobs.noteCall(job, call), 'no further call begins')
  t.false(await services.delayedJobs.requeue(job, 0))
  t.is(await services.jobs.end(id, { status: 'expired', logStatus: 504, refund: true }), null)
  await services.db.job.update({ where: { id }, data: { claimedUntil: new Date(0) } })
  await runJobHousekeeping(services)
  t.true((await chargedNano(world, account)) > 0)
})

test.serial('honest: a whole answer is charged as its provider counts it', async t => {
  startWorking()
  const { reply, go } = stalling(20, { output: [shortMessage], details: usage })
  go()
  world.openai.next(reply)
  const events = await collect(await client().responses.create({ ...background, model: 'gpt-5-mini', stream: true }))
  t.is(events.at(-1)!.type, 'response.completed')
  const exact = { prompt_tokens: 9, completion_tokens: 20_000, total_tokens: 20_009 }
  t.is(await chargedNano(world, account), expectedNano('gpt-5-mini', exact))
})

for (const streamed of [false, true])
  test.serial(
    `completed and charged without room for a long answer${streamed ? ', streamed' : ''}: results are paid for`,
    async t => {
      startWorking()
      const { organisationId } = account
      const where = { organisationId_environment: { organisationId, environment: 'live' } } as const
      const { db } = world.gateway.services
      const conversation = await client().conversations.create()
      const long = messageOf('a word '.repeat(60_000))
      world.openai.next(async (request, response) => {
        const bytes = 1n << 50n
        const full = { organisationId, environment: 'live', files: 0n, bytes } as const
        await db.storageUsage.upsert({ where, create: full, update: { bytes: { increment: bytes } } })
        return responsesReply({ output: [long] })(request, response)
      })
      const asked = { ...background, model: 'gpt-4o-mini', conversation: conversation.id }
      const id = streamed
        ? (await collect(await client().responses.create({ ...asked, stream: true })))[0]!.response!.id
        : (await client().responses.create(asked)).id
      const done = await untilOver(client(), id)
      await db.storageUsage.update({ where, data: { bytes: { decrement: 1n << 50n } } })
      t.like(done, { status: 'completed', error: null })
      t.is(done.output_text.length, 420_000)
      t.is(await chargedNano(world, account), expectedNano('gpt-4o-mini', await loggedUsage(id)))
      const { data: items } = await client().conversations.items.list(conversation.id)
      t.is(items.length, 2)
    },
  )
