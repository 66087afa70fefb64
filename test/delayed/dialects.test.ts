import { delayedJob } from '../../api/schemas/delayed.ts'
import type { ErrorCode } from '../../shared/base/errors.ts'
import type { DelayedInput } from '../../shared/delayed/delayed-row.ts'
import { overloaded } from '../emulators/anthropic.ts'
import { hang, json } from '../emulators/emulator.ts'
import { serverError } from '../emulators/openai.ts'
import { answersError } from '../support/api/edge.ts'
import { asking, type Dialect, dialects, foreignModel, nativeModel, readAnswer } from '../support/chat/dialects.ts'
import { chargedNano, expectedNano, startWorld } from '../support/chat/gateway.ts'
import { path } from '../support/delayed/jobs.ts'
import { eventually } from '../support/gateway.ts'
import { over, rowOf, type Shown, submit, wallet } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { startWorkers, type Workers } from '../support/workers.ts'

let workers: Workers | null = null

const world = use(test, () =>
  startWorld({ OPENROUTER_API_KEY: '', ALLOW_PRIVATE_URLS: 'true', UPSTREAM_MAX_ATTEMPTS: '1' }),
)
test.beforeEach(() => {
  workers = startWorkers(world.gateway.services)
})
test.afterEach.always(async () => {
  await workers?.stop()
  workers = null
  for (const emulator of [world.openai, world.anthropic]) emulator.reset()
})

const emulatorOf = (dialect: Dialect) => (dialect === '/v1/responses' ? world.openai : world.anthropic)
const delayed = (endpoint: Dialect, model: string, more: object = {}) => ({
  endpoint,
  body: asking(endpoint, model, 'Hello', more),
  completion_window: '1h',
})
/** 5 % margin, less 25 %. */
const percent = 1.05 * 75 - 100

async function ended(key: string, id: string): Promise<Shown> {
  return over(world.gateway, key, path, id)
}

type Fault = [more: object, param: string, code?: ErrorCode]
const commonFaults: Fault[] = [
  [{ stream: true }, 'body.stream'],
  [{ model: 'no-such-model' }, 'body.model', 'model_not_found'],
  [{ temperature: 'hot' }, 'body.temperature'],
]
const faultsOf: Record<Dialect, Fault[]> = {
  '/v1/messages': [
    [{ max_tokens: undefined }, 'body.max_tokens', 'missing_field'],
    [{ messages: [] }, 'body.messages'],
  ],
  '/v1/responses': [
    [{ store: true }, 'body.store', 'unsupported_capability'],
    [{ previous_response_id: 'resp_1' }, 'body.previous_response_id', 'unsupported_capability'],
    [{ conversation: 'conv_1' }, 'body.conversation', 'unsupported_capability'],
    [{ background: true }, 'body.background', 'unsupported_capability'],
  ],
}

for (const dialect of dialects) {
  for (const [how, model] of [
    ['as the provider gave it', nativeModel[dialect]],
    ['translated', foreignModel[dialect]],
  ] as const)
    test.serial(
      `${dialect}: the result is the answer in its format, ${how}, charged at the window's price`,
      async t => {
        const account = await world.gateway.account()
        const { id } = await submit(world.gateway, path, account.live, delayed(dialect, model))
        const job = await ended(account.live, id)
        t.like(job, { status: 'completed', error: null })
        t.deepEqual(delayedJob.parse(job), job)
        const { text, usage } = readAnswer(job.result)
        t.is(text, 'Echo: Hello')
        t.is(Math.round(job.cost_usd * 1e9), expectedNano(model, usage, { percent }))
        t.is(await chargedNano(world, account), Math.round(job.cost_usd * 1e9))
        const generation = await world.gateway.fetch(`/v1/generation?id=${job.result.id}`, { key: account.live })
        t.like(await generation.json(), { id, type: 'async', upstream_id: job.result.id, finish_reason: 'stop' })
        t.deepEqual((await rowOf(world.gateway, id)).input, {}, 'the request is forgotten')
      },
    )

  test.serial(`${dialect}: sent to a provider of the format as it was submitted`, async t => {
    const account = await world.gateway.account()
    const more = dialect === '/v1/responses' ? { metadata: { a: 'b' } } : { metadata: { user_id: 'b' }, top_k: 3 }
    const { id } = await submit(world.gateway, path, account.live, delayed(dialect, nativeModel[dialect], more))
    await ended(account.live, id)
    t.like(emulatorOf(dialect).requests[0]!, { path: dialect })
    t.like(emulatorOf(dialect).requests[0]!.body, more)
  })

  test.serial(`${dialect}: a test key's job is answered by the sandbox, free`, async t => {
    const account = await world.gateway.account()
    const { id } = await submit(world.gateway, path, account.test, delayed(dialect, nativeModel[dialect]))
    const job = await ended(account.test, id)
    t.like(job, { status: 'completed', cost_usd: 0 })
    t.true(readAnswer(job.result).text.length > 0)
    t.is(world.openai.requests.length + world.anthropic.requests.length, 0)
  })

  test.serial(`${dialect}: a refusal by the provider fails the job, and nothing is charged`, async t => {
    const account = await world.gateway.account()
    const error = { type: 'invalid_request_error', message: 'this is not a request', code: null, param: null }
    emulatorOf(dialect).next(json(400, { type: 'error', error }))
    const { id } = await submit(world.gateway, path, account.live, delayed(dialect, nativeModel[dialect]))
    t.like(await ended(account.live, id), { status: 'failed', cost_usd: 0, result: null })
    t.is(await chargedNano(world, account), 0)
  })

  test.serial(`${dialect}: run again after a failure of the provider, and charged once`, async t => {
    const account = await world.gateway.account()
    emulatorOf(dialect).next(dialect === '/v1/responses' ? serverError : overloaded)
    const { id } = await submit(world.gateway, path, account.live, delayed(dialect, nativeModel[dialect]))
    const { db, delayedTasks } = world.gateway.services
    await eventually(async () => {
      await db.job.updateMany({ where: { id, stage: 'waiting' }, data: { claimedUntil: null } })
      await delayedTasks.add('again', id)
      return (await rowOf(world.gateway, id)).stage === 'over'
    }, 'it is over')
    const job = await ended(account.live, id)
    t.is(job.status, 'completed')
    t.is(emulatorOf(dialect).requests.length, 2)
    t.is(await chargedNano(world, account), Math.round(job.cost_usd * 1e9))
  })

  test.serial(`${dialect}: cancelled in the middle of its call, what was used is charged, within the hold`, async t => {
    const account = await world.gateway.account()
    emulatorOf(dialect).next(hang)
    const { id } = await submit(world.gateway, path, account.live, delayed(dialect, nativeModel[dialect]))
    await eventually(() => emulatorOf(dialect).requests.length === 1, 'it is asked')
    const held = (await rowOf(world.gateway, id)).holdNano
    await world.gateway.fetch(`${path}/${id}/cancel`, { key: account.live, method: 'POST' })
    const job = await ended(account.live, id)
    t.is(job.status, 'cancelled')
    const chargedBy = BigInt(await chargedNano(world, account))
    t.true(chargedBy > 0n && chargedBy <= held, `${chargedBy} of ${held}`)
    t.like(await wallet(world.gateway, account), { reserved_usd: 0 })
  })

  test.serial(`${dialect}: refused, naming the field, and nothing is written`, async t => {
    const { live } = await world.gateway.account()
    for (const [more, param, code = 'invalid_request'] of [...commonFaults, ...faultsOf[dialect]]) {
      const response = await world.gateway.fetch(path, {
        key: live,
        body: delayed(dialect, nativeModel[dialect], more),
      })
      await answersError(t, response, code, param)
    }
    t.is(await world.gateway.services.db.job.count({ where: { stage: { not: 'over' } } }), 0)
  })
}

test.serial('another endpoint is refused', async t => {
  const { live } = await world.gateway.account()
  for (const endpoint of ['/v1/embeddings', 'chat', 1]) {
    const body = { ...delayed('/v1/messages', 'gpt-4o-mini'), endpoint }
    await answersError(t, await world.gateway.fetch(path, { key: live, body }), 'invalid_request', 'endpoint')
  }
})

test.serial('a job of an earlier release, whose row names no kind, is run as a chat completion', async t => {
  await workers?.stop()
  const account = await world.gateway.account()
  const body = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }] }
  const job = await submit(world.gateway, path, account.live, { body, completion_window: '1h' })
  const { kind, ...input } = (await rowOf(world.gateway, job.id)).input as DelayedInput
  t.is(kind, 'chat')
  await world.gateway.services.db.job.update({ where: { id: job.id }, data: { input } })
  workers = startWorkers(world.gateway.services)
  const done = await ended(account.live, job.id)
  t.like(done, { status: 'completed', result: { object: 'chat.completion' } })
  t.is(await chargedNano(world, account), Math.round(done.cost_usd * 1e9))
})
