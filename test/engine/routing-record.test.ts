import { newId } from '../../shared/base/ids.ts'
import { logJob, logJobEnd } from '../../shared/wallet/jobs.ts'
import type { RoutingRecord } from '../../shared/wallet/routing-record.ts'
import { json } from '../emulators/emulator.ts'
import { startFal } from '../emulators/fal.ts'
import { klingError, startKling } from '../emulators/kling.ts'
import { failure, serverError } from '../emulators/openai.ts'
import { startReplicate } from '../emulators/replicate.ts'
import { chatLine, ended, resultsOf } from '../support/batches/gateway.ts'
import { generationOf, saying, startWorld, upstreamSecret } from '../support/chat/gateway.ts'
import { eventually } from '../support/gateway.ts'
import { answerOf, over, running, submit } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

const kling = use(test, () => startKling({ accounts: { access: upstreamSecret } }))
const fal = use(test, startFal)
const replicate = use(test, startReplicate)
const world = use(test, () =>
  startWorld({
    KLING_API_KEY: `access:${upstreamSecret}`,
    KLING_BASE_URL: `${kling.url}/v1`,
    FAL_API_KEY: `key:${upstreamSecret}`,
    FAL_BASE_URL: fal.url,
    REPLICATE_API_TOKEN: upstreamSecret,
    REPLICATE_API_KEY: upstreamSecret,
    REPLICATE_BASE_URL: `${replicate.url}/v1`,
  }),
)
use(test, () => startWorkers(world.gateway.services))
const account = use(test, () => world.gateway.account())
test.beforeEach(() => {
  for (const emulator of [world.openai, world.openrouter]) emulator.reset()
})

/** What the log keeps of a request's routing; nothing that only we and the providers know. */
async function recordOf(id: string): Promise<RoutingRecord | null> {
  const { routing } = await generationOf(world, id)
  const text = JSON.stringify(routing)
  if (text.includes(upstreamSecret) || text.includes('127.0.0.1')) throw new Error(`a secret is told: ${text}`)
  return routing as RoutingRecord | null
}

async function ask(path: string, body: object): Promise<{ id: string; status: number; headers: Headers }> {
  const response = await world.gateway.fetch(path, { key: account.live, body })
  await response.text()
  const { status, headers } = response
  return { id: headers.get('x-generation-id')!, status, headers }
}

const chat = '/v1/chat/completions'

test.serial('nothing is kept of one call to a model that was named, nor of an embedding', async t => {
  for (const [path, body] of [
    [chat, saying('gpt-5')],
    [chat, saying('gpt-5', 'Hello', { stream: true })],
    ['/v1/embeddings', { model: 'text-embedding-3-small', input: 'Hello' }],
  ] as const) {
    const { id, status } = await ask(path, body)
    t.is(status, 200)
    t.is(await recordOf(id), null)
  }
})

test.serial('the decision is kept of `auto`: what /v1/route says, its first candidates', async t => {
  const body = { ...saying('auto', 'Prove it step by step.'), mode: 'balanced' }
  const decision = await answerOf(await world.gateway.fetch('/v1/route', { key: account.live, body }))
  const { id, headers } = await ask(chat, body)
  const { reason, candidates, ...rest } = (await recordOf(id))!
  t.deepEqual(rest, {})
  t.is(reason, decision.reason)
  t.is(candidates!.length, 8)
  t.like(candidates![0], { model: headers.get('x-gateway-model')!, provider: headers.get('x-gateway-provider')! })
  const shown = (
    all: readonly { model: string; provider: string | null; score: number | null; excluded: string | null }[],
  ) => all.map(({ model, provider, score, excluded }) => ({ model, provider, score, excluded }))
  t.deepEqual(shown(candidates!), shown(decision.candidates.slice(0, 8)))
})

test.serial('every call is kept where one failed: who answered, and who did not', async t => {
  world.openai.next(serverError)
  const answered = await ask(chat, saying('gpt-5-mini', 'Hello', { stream: true }))
  t.is(answered.status, 200)
  const { attempts, ...rest } = (await recordOf(answered.id))!
  t.deepEqual(rest, {})
  t.like(attempts, [
    { provider: 'openai', model: 'gpt-5-mini', status: 500, fault: 'server_error' },
    { provider: 'openrouter', model: 'gpt-5-mini', status: 200, fault: null },
  ])
  t.true(attempts!.every(({ durationMs }) => durationMs >= 0))

  const refusal = failure(401, `Wrong key: ${upstreamSecret}`, 'authentication_error', null)
  world.openai.next(refusal)
  world.openrouter.next(refusal)
  const failed = await ask(chat, saying('gpt-5-nano'))
  t.is(failed.status, 502)
  t.like((await recordOf(failed.id))!.attempts, [
    { provider: 'openai', status: 401, fault: 'auth' },
    { provider: 'openrouter', status: 401, fault: 'auth' },
  ])
})

test.serial('the calls of an image are kept as those of a chat', async t => {
  for (const { emulator } of [fal, replicate]) emulator.next(json(401, { detail: `Wrong key: ${upstreamSecret}` }))
  const { id, status } = await ask('/v1/images', { model: 'flux-schnell', prompt: 'A heron' })
  t.is(status, 502)
  const attempts = [...(await recordOf(id))!.attempts!].sort((a, b) => (a.provider < b.provider ? -1 : 1))
  t.like(attempts, [
    { provider: 'fal', model: 'flux-schnell', status: 401, fault: 'auth' },
    { provider: 'replicate', model: 'flux-schnell', status: 401, fault: 'auth' },
  ])
})

test.serial('the starts of a job are kept once one failed', async t => {
  const body = { model: 'kling-v3-pro', prompt: 'A lighthouse at dusk', seconds: 5 }
  kling.emulator.next(klingError(429, 1102, 'Account balance not enough'))
  const job = await submit(world.gateway, '/v1/videos', account.live, body)
  await running(world.gateway, job.id)
  // The note of a start that went well follows the start.
  await eventually(async () => (await recordOf(job.id))?.attempts?.length === 2, 'both starts are noted')
  t.like((await recordOf(job.id))!.attempts, [
    { provider: 'kling', model: 'kling-v3-pro', status: 429, fault: 'quota' },
    { provider: 'fal', model: 'kling-v3-pro', status: null, fault: null },
  ])
  fal.finish()
  await over(world.gateway, account.live, '/v1/videos', job.id)
  t.is((await recordOf(job.id))!.attempts!.length, 2)

  const plain = await submit(world.gateway, '/v1/videos', account.test, body)
  await over(world.gateway, account.test, '/v1/videos', plain.id)
  t.is(await recordOf(plain.id), null)
})

test.serial('a delayed job has the calls of its run, a line of a batch the batch it is of', async t => {
  world.openai.next(serverError)
  const inOrder = { provider: { order: ['openai', 'openrouter'] } }
  const delayed = { body: saying('gpt-5', 'Hello', inOrder), completion_window: '1h' }
  const job = await submit(world.gateway, '/v1/jobs', account.live, delayed)
  await over(world.gateway, account.live, '/v1/jobs', job.id)
  t.like((await recordOf(job.id))!.attempts, [
    { provider: 'openai', status: 500 },
    { provider: 'openrouter', status: 200 },
  ])

  const door = { url: world.gateway.url, key: account.test }
  const requests = [chatLine('named', 'gpt-5', 'Hello'), chatLine('auto', 'auto', 'Hello')]
  const body = { requests, endpoint: '/v1/chat/completions', completion_window: '24h' }
  const created = await answerOf(await world.gateway.fetch('/v1/batches', { key: account.test, body }))
  const batch = await ended(door, created.id)
  const { output } = await resultsOf(door, batch)
  for (const { custom_id, response } of output) {
    const row = await world.gateway.services.db.generation.findFirstOrThrow({
      where: { requestId: response!.request_id },
    })
    const { batch: of, reason, attempts } = row.routing as RoutingRecord
    t.is(of, batch.id)
    t.is(reason !== undefined, custom_id === 'auto')
    t.is(attempts, undefined)
  }
  t.is(output.length, 2)
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial(
  'a job keeps estimated costs as they are, however high, and counts of tokens that fit their columns',
  async t => {
    const { db } = world.gateway.services
    const { organisationId } = account
    const of = { organisationId, keyId: 'key_x', month: '2026-11', capNano: null, requestId: newId('req') }
    const job = {
      ...of,
      id: newId('ajob'),
      kind: 'async',
      environment: 'live',
      model: 'gpt-5',
      createdAt: new Date(),
    } as const
    const candidate = { model: 'gpt-5', provider: 'openai', score: 1, quality: 90, latencyMs: null, excluded: null }
    const counts = { promptTokens: 2 ** 40, completionTokens: 1, cachedTokens: 0, reasoningTokens: 0, estimated: false }
    const call = {
      model: 'gpt-5',
      provider: 'openai',
      mode: null,
      upstreamId: null,
      finishReason: 'stop',
      attempts: 1,
      ...counts,
      firstByteMs: null,
      routing: { reason: 'auto', candidates: [{ ...candidate, estimatedCostNano: 5_000_000_000 }] },
    }
    await logJob(db, job, 0n, 0n)
    const end = {
      provider: 'openai',
      status: 200,
      errorCode: null,
      errorMessage: null,
      costNano: 0n,
      nowMs: Date.now(),
      attempts: 1,
      call,
    }
    await logJobEnd(db, job, end)
    const row = await db.generation.findFirstOrThrow({ where: { id: job.id } })
    t.is(row.promptTokens, 2 ** 31 - 1)
    t.is((row.routing as RoutingRecord).candidates![0]!.estimatedCostNano, 5_000_000_000)
  },
)
