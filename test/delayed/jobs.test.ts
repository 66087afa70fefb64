import { delayedJob } from '../../api/schemas/delayed.ts'
import { getWebhookSecrets } from '../../shared/webhooks/secrets.ts'
import { failure } from '../emulators/openai.ts'
import { answersError } from '../support/api/edge.ts'
import { delayed, expectedNano, path, startDelayedWorld, submitDelayed } from '../support/delayed/jobs.ts'
import { eventually } from '../support/gateway.ts'
import { answerOf, booked, over, rowOf, type Shown, submit, wallet } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { inputBoundNano, nanoPerOutputToken } from '../support/wallet/money.ts'
import { Receiver, verified } from '../support/webhooks/receiver.ts'
import { startWorkers, type Workers } from '../support/workers.ts'

let workers: Workers

const world = use(test, startDelayedWorld)
test.before(() => {
  workers = startWorkers(world.gateway.services)
})
test.afterEach.always(async () => {
  const { db } = world.gateway.services
  await eventually(async () => (await db.job.count({ where: { stage: { not: 'over' } } })) === 0, 'all jobs are over')
  world.upstream.reset()
})
test.after.always(async () => {
  await workers?.stop()
})

const ended = (key: string, id: string) => over(world.gateway, key, path, id)
const get = async (key: string, at: string): Promise<Shown> => answerOf(await world.gateway.fetch(at, { key }))

test.serial(
  'completed: held at creation, charged the discounted price at the end, the result is the answer',
  async t => {
    const { gateway } = world
    const account = await gateway.account()
    const request = { ...delayed(), metadata: { order: '7' } }
    const response = await gateway.fetch(path, { key: account.live, body: request })
    t.is(response.status, 202)
    const job = await answerOf(response)
    t.like(job, { object: 'job', status: 'queued', completion_window: '1h', result: null, error: null, cost_usd: null })
    t.like(job, { started_at: null, completed_at: null, metadata: { order: '7' }, webhook: null })
    t.regex(job.id, /^ajob_/)
    t.is(job.expires_at - job.created_at, 3_600)
    t.is(response.headers.get('x-generation-id'), job.id)
    t.is(response.headers.get('x-gateway-model'), 'coin')
    t.is(response.headers.get('x-gateway-provider'), 'openai')
    const done = await ended(account.live, job.id)
    delayedJob.parse(done)
    t.like(done, { status: 'completed', error: null })
    t.like(done.result, { object: 'chat.completion', model: 'coin', provider: 'openai' })
    const cost = expectedNano(done.result.usage) / 1e9
    t.is(done.cost_usd, cost)
    t.is(done.result.usage.cost, cost)
    t.deepEqual(await booked(gateway, job.id), [-cost])
    t.like(await wallet(gateway, account), { balance_usd: 25 - cost, available_usd: 25 - cost, reserved_usd: 0 })
    // Counted from when the answer is stored, between the start and the end.
    const week = 7 * 86_400
    t.true(done.expires_at >= done.started_at + week && done.expires_at <= done.completed_at + week)
    t.deepEqual((await rowOf(gateway, job.id)).input, {}, 'the request is forgotten')
    t.deepEqual(await gateway.settled(), [])
  },
)

test.serial('completed: the request log finds it by its own id and by its answer’s', async t => {
  const { gateway } = world
  const account = await gateway.account()
  const job = await submitDelayed(world, account.live)
  const { result, cost_usd } = await ended(account.live, job.id)
  const usage = { prompt_tokens: result.usage.prompt_tokens, completion_tokens: result.usage.completion_tokens }
  for (const id of [job.id, result.id]) {
    const generation = await get(account.live, `/v1/generation?id=${id}`)
    t.like(generation, { id: job.id, upstream_id: result.id, status: 200, type: 'async', finish_reason: 'stop' })
    t.like(generation, { model: 'coin', provider: 'openai', mode: 'balanced', attempts: 1, cost_usd })
    t.like(generation.usage, usage)
  }
})

test.serial('completed without what costs extra; 400 for a search', async t => {
  const { live } = await world.gateway.account()
  const job = await submitDelayed(world, live, delayed('Hurry', { service_tier: 'priority', store: true, invented: 1 }))
  const { status, result, cost_usd } = await ended(live, job.id)
  t.is(status, 'completed')
  t.is(cost_usd, expectedNano(result.usage) / 1e9)
  const { service_tier, store, invented } = world.upstream.requests.at(-1)!.body
  t.deepEqual([service_tier, store, invented], ['default', false, undefined])
  const refused = await world.gateway.fetch(path, { key: live, body: delayed('Find', { search: { mode: 'on' } }) })
  t.is(refused.status, 400)
  const { error } = (await refused.json()) as { error: { param: string } }
  t.is(error.param, 'body.search')
})

test.serial('completed in six hours: at half the price', async t => {
  const account = await world.gateway.account()
  const job = await submitDelayed(world, account.live, delayed('Cheaper', {}, '6h'))
  t.like(job, { completion_window: '6h' })
  t.is(job.expires_at - job.created_at, 6 * 3_600)
  const done = await ended(account.live, job.id)
  t.is(done.cost_usd, expectedNano(done.result.usage, 50) / 1e9)
  t.is(done.completion_window, '6h')
})

test.serial('queued: what it can cost at most is reserved, at the window’s price', async t => {
  const { gateway } = world
  await workers.stop()
  const account = await gateway.account()
  const request = delayed()
  const job = await submitDelayed(world, account.live, request)
  const boundNano = ((inputBoundNano(request.body) + 50 * nanoPerOutputToken) * 105 * 75) / 10_000
  const { reserved_usd, available_usd } = await wallet(gateway, account)
  t.true(Math.abs(reserved_usd * 1e9 - boundNano) < 10, `${reserved_usd}`)
  t.is(available_usd, Number((25 - reserved_usd).toFixed(9)))
  t.deepEqual(await gateway.settled(), [])
  workers = startWorkers(gateway.services)
  await ended(account.live, job.id)
  t.is((await wallet(gateway, account)).reserved_usd, 0)
})

test.serial('completed for a test key: the sandbox answers, nothing is charged', async t => {
  const { gateway, upstream } = world
  const account = await gateway.account()
  const response = await gateway.fetch(path, {
    key: account.test,
    body: delayed('Echo me'),
    headers: { prefer: 'wait=30' },
  })
  t.is(response.headers.get('x-sandbox'), 'true')
  t.is(response.headers.get('preference-applied'), 'wait=30')
  const job = await answerOf(response)
  t.like(job, { status: 'completed', cost_usd: 0 })
  t.true(job.result.choices[0].message.content.includes('Echo me'))
  t.is(upstream.requests.length, 0)
  t.deepEqual(await booked(gateway, job.id), [])
  t.is((await gateway.fetch(`${path}/${job.id}`, { key: account.live })).status, 404)
  for (const [magic, code] of [
    ['sandbox:fail', 'upstream_error'],
    ['sandbox:rate_limit', 'upstream_error'],
  ] as const) {
    const failed = await submitDelayed(world, account.test, delayed(magic))
    t.like(await ended(account.test, failed.id), { status: 'failed', error: { code }, cost_usd: 0 })
  }
})

test.serial('listed by age, without results, in pages; no other organisation’s', async t => {
  const { gateway } = world
  const [mine, theirs] = [await gateway.account(), await gateway.account()]
  const ids: string[] = []
  for (let i = 0; i < 3; i++) ids.push((await submitDelayed(world, mine.live, delayed(`Job ${i}`))).id)
  for (const id of ids) await ended(mine.live, id)
  const first = await get(mine.live, `${path}?limit=2`)
  t.like(first, { object: 'list', has_more: true, first_id: ids[2], last_id: ids[1] })
  t.deepEqual(
    first.data.map(({ result, status }: Shown) => [result, status]),
    Array(2).fill([null, 'completed']),
  )
  const second = await get(mine.live, `${path}?limit=2&after=${first.last_id}`)
  t.like(second, { has_more: false, first_id: ids[0], last_id: ids[0] })
  const upward = await get(mine.live, `${path}?order=asc`)
  t.deepEqual(
    upward.data.map(({ id }: Shown) => id),
    ids,
  )
  for (const key of [theirs.live, mine.test]) t.like(await get(key, path), { data: [], first_id: null })
  t.is((await gateway.fetch(`${path}/${ids[0]}`, { key: theirs.live })).status, 404)
  t.is((await gateway.fetch(`${path}/${ids[0]}/cancel`, { key: theirs.live, method: 'POST' })).status, 404)
  t.is((await gateway.fetch(`/v1/videos/${ids[0]}`, { key: mine.live })).status, 404)
  await answersError(t, await gateway.fetch(`${path}?after=ajob_none`, { key: mine.live }), 'not_found', 'after')
})

test.serial('202 once: the same Idempotency-Key gives the same job', async t => {
  const { gateway } = world
  const account = await gateway.account()
  const call = { key: account.live, body: delayed(), headers: { 'idempotency-key': 'one-job' } }
  const first = await answerOf(await gateway.fetch(path, call))
  const second = await gateway.fetch(path, call)
  t.is(second.status, 202)
  t.is(second.headers.get('idempotent-replayed'), 'true')
  t.is((await answerOf(second)).id, first.id)
  const other = await gateway.fetch(path, { ...call, body: delayed('Another') })
  await answersError(t, other, 'idempotency_key_reused')
  t.is(await gateway.services.db.job.count({ where: { organisationId: account.organisationId } }), 1)
})

test.serial('402 and nothing written when money or cap do not suffice; a cap cuts the answer short', async t => {
  const { gateway } = world
  const poor = await gateway.account({ usd: '0.00001' })
  await answersError(t, await gateway.fetch(path, { key: poor.live, body: delayed() }), 'insufficient_credits')
  const capped = await gateway.account({ monthly_spend_cap_usd: 0.00001 })
  await answersError(t, await gateway.fetch(path, { key: capped.live, body: delayed() }), 'monthly_spend_cap_reached')
  const { db } = gateway.services
  for (const { organisationId } of [poor, capped]) t.is(await db.job.count({ where: { organisationId } }), 0)
  const tight = await gateway.account({ monthly_spend_cap_usd: 0.0002 })
  const response = await gateway.fetch(path, { key: tight.live, body: delayed('Short', { max_tokens: 5_000 }) })
  const granted = Number(response.headers.get('x-gateway-max-tokens-clamped'))
  t.true(granted > 0 && granted < 5_000)
  const { id } = await answerOf(response)
  t.is((await ended(tight.live, id)).status, 'completed')
  t.is(world.upstream.requests[0]!.body.max_tokens ?? world.upstream.requests[0]!.body.max_completion_tokens, granted)
  t.deepEqual(await gateway.settled(), [])
})

test.serial('counted once against the key’s requests per minute', async t => {
  const { gateway } = world
  const account = await gateway.account({ rpm_limit: 2 })
  const job = await submitDelayed(world, account.live)
  await eventually(async () => (await rowOf(gateway, job.id)).stage === 'over', 'it is over')
  t.is((await gateway.fetch(path, { key: account.live, body: delayed() })).status, 202)
  await answersError(t, await gateway.fetch(path, { key: account.live, body: delayed() }), 'rate_limit_exceeded')
})

test.serial('failed: a fault of the request is passed on, and nothing is charged', async t => {
  const { gateway, upstream } = world
  const account = await gateway.account()
  upstream.next(failure(400, 'The word \0 is not allowed.', 'invalid_request_error', null))
  const job = await submitDelayed(world, account.live, delayed('Bad \0 word'))
  const done = await ended(account.live, job.id)
  t.like(done, { status: 'failed', result: null, cost_usd: 0, error: { code: 'invalid_request' } })
  t.regex(done.error.message, /not allowed/)
  t.is(upstream.requests.length, 1)
  t.like(await get(account.live, `/v1/generation?id=${job.id}`), { status: 400, error_code: 'invalid_request' })
  t.deepEqual(await gateway.settled(), [])
})

test.serial('told by webhook, with the job as its GET returns it', async t => {
  const { gateway } = world
  const receiver = await Receiver.start()
  t.teardown(() => receiver.close())
  const account = await gateway.account()
  const { secret } = await getWebhookSecrets(gateway.services, account.organisationId, Date.now())
  const { id } = await submit(gateway, path, account.live, { ...delayed(), webhook_url: receiver.url })
  await eventually(() => receiver.received.length > 0, 'the webhook is delivered')
  const event = verified(receiver.last(), secret) as { type: string; data: Shown }
  t.is(event.type, 'job.completed')
  await eventually(async () => (await get(account.live, `${path}/${id}`)).webhook.status === 'delivered', 'it is noted')
  const shown = await get(account.live, `${path}/${id}`)
  t.deepEqual(event.data, { ...shown, webhook: { url: receiver.url, status: 'pending' } })
  t.is(event.data.result.object, 'chat.completion')
})

const refused: [what: string, body: unknown, code: Parameters<typeof answersError>[2], param: string | null][] = [
  ['no body', { completion_window: '1h' }, 'missing_field', 'body'],
  ['no window', { body: delayed().body }, 'missing_field', 'completion_window'],
  ['another window', { ...delayed(), completion_window: '24h' }, 'invalid_request', 'completion_window'],
  ['an unknown field', { ...delayed(), colour: 1 }, 'unknown_field', 'colour'],
  ['a stream', delayed('x', { stream: true }), 'invalid_request', 'body.stream'],
  ['no messages', { ...delayed(), body: { model: 'coin' } }, 'missing_field', 'body.messages'],
  [
    'a bad message',
    delayed('x', { messages: [{ role: 'user', content: 5 }] }),
    'invalid_request',
    'body.messages.0.content',
  ],
  ['a bad number', delayed('x', { temperature: 3 }), 'invalid_request', 'body.temperature'],
  ['an unknown model', delayed('x', { model: 'nope' }), 'model_not_found', 'body.model'],
  ['a model of another kind', delayed('x', { model: 'coin-embedding' }), 'model_not_found', 'body.model'],
  ['too much', delayed('x'.repeat(4_100_000)), 'context_length_exceeded', 'body.messages'],
  [
    'an image for a model of text',
    delayed('x', {
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a.example/b.png' } }] }],
    }),
    'unsupported_capability',
    'body.messages',
  ],
  ['a webhook that is no address', { ...delayed(), webhook_url: 'ftp://a.example' }, 'url_not_allowed', 'webhook_url'],
  ['a NUL in the metadata', { ...delayed(), metadata: { a: '\0' } }, 'invalid_request', 'metadata.a'],
  ['metadata of numbers', { ...delayed(), metadata: { a: 1 } }, 'invalid_request', 'metadata.a'],
  ['no object', [], 'invalid_request', null],
]
for (const [what, body, code, param] of refused) {
  test.serial(`refused, and nothing is written: ${what}`, async t => {
    const account = await world.gateway.account()
    await answersError(t, await world.gateway.fetch(path, { key: account.live, body }), code, param)
    const where = { organisationId: account.organisationId }
    t.is(await world.gateway.services.db.job.count({ where }), 0)
    t.like(await wallet(world.gateway, account), { reserved_usd: 0, balance_usd: 25 })
  })
}

test.serial('refused: keys that may not', async t => {
  const { gateway } = world
  const account = await gateway.account()
  const chatOnly = await gateway.key(account.organisationId, 'live', { scopes: 'chat' })
  await answersError(t, await gateway.fetch(path, { key: chatOnly, body: delayed() }), 'insufficient_scope')
  const elsewhere = await gateway.key(account.organisationId, 'live', { model_allowlist: ['coin-embedding'] })
  await answersError(
    t,
    await gateway.fetch(path, { key: elsewhere, body: delayed() }),
    'model_not_allowed',
    'body.model',
  )
  const before = await gateway.services.db.job.count()
  const impatient = { key: account.live, body: delayed(), headers: { prefer: 'wait=61' } }
  await answersError(t, await gateway.fetch(path, impatient), 'invalid_request', 'Prefer')
  t.is(await gateway.services.db.job.count(), before)
})

test.serial('429 beyond 10,000 unfinished jobs of one organisation', async t => {
  const { gateway } = world
  const { db } = gateway.services
  const account = await gateway.account()
  const { id: sample } = await submitDelayed(world, account.live)
  await ended(account.live, sample)
  const change = { stage: 'waiting', claimed_until: new Date(Date.now() + 3_600_000).toISOString(), input: {} }
  for (let copied = 0; copied < 10_000; copied += 1000) {
    await db.$executeRaw`
      INSERT INTO jobs SELECT (copy).* FROM (
        SELECT jsonb_populate_record(j, ${JSON.stringify(change)}::jsonb || jsonb_build_object('id', j.id || i)) AS copy
        FROM jobs j, generate_series(${copied}::int + 1, ${copied}::int + 1000) i WHERE j.id = ${sample} OFFSET 0
      ) copies`
  }
  await answersError(t, await gateway.fetch(path, { key: account.live, body: delayed() }), 'rate_limit_exceeded')
  await db.$executeRaw`DELETE FROM jobs WHERE organisation_id = ${account.organisationId} AND id <> ${sample}`
  t.deepEqual(await gateway.settled(), [])
  t.is((await wallet(gateway, account)).reserved_usd, 0, 'nothing of the refused one')
  t.is((await gateway.fetch(path, { key: account.live, body: delayed() })).status, 202)
})
