import { operatorActor } from '../../shared/io/audit.ts'
import type { Reply } from '../emulators/emulator.ts'
import { contextLength, failure, serverError } from '../emulators/openai.ts'
import {
  batchOf,
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
import { chargedNano, expectedNano, saying, startWorld } from '../support/chat/gateway.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { Receiver } from '../support/webhooks/receiver.ts'
import { startWorkers, type Workers } from '../support/workers.ts'

let workers: Workers
const world = use(test, () => startWorld({ ALLOW_PRIVATE_URLS: 'true' }))
test.before(() => {
  workers = startWorkers(world.gateway.services)
})
test.after.always(async () => {
  await workers?.stop()
})

const doorOf = ({ live }: Pick<Account, 'live'>): Door => ({ url: world.gateway.url, key: live })

/** Runs lines as a batch to its end. */
async function ran(door: Door, lines: object[], more: object = {}) {
  const order = { batch_routing: 'gateway', ...more }
  const { id } = await createBatch(door, await uploadInput(door, jsonLines(lines)), order)
  const batch = await ended(door, id)
  return { batch, results: await resultsOf(door, batch) }
}

const hello = (count: number, model = 'gpt-4o-mini') =>
  Array.from({ length: count }, (_, i) => chatLine(`line-${i}`, model, `Hello number ${i}`, { max_tokens: 50 }))

test.serial('completed: every line is answered once, at half the price', async t => {
  const account = await world.gateway.account()
  const lines = hello(300)
  const { batch, results } = await ran(doorOf(account), lines)
  t.is(batch.status, 'completed')
  t.deepEqual(batch.request_counts, { total: 300, completed: 300, failed: 0 })
  t.is(batch.error_file_id, null)
  t.deepEqual(
    lineFaults(
      lines.map(line => line.custom_id),
      results,
    ),
    [],
  )
  t.is(Math.round(batch.cost_usd! * 1e9), costNano(results))
  t.is(await chargedNano(world, account), costNano(results))
  const { usage } = results.output[0]!.response!.body
  // 5 % margin, half of it all: 1.05 × 0.5 = 1 − 47.5 %.
  t.is(Math.round(usage.cost * 1e9), expectedNano('gpt-4o-mini', usage, { percent: -47.5 }))
})

test.serial('completed: embeddings, completions, and a batch that came inline', async t => {
  const account = await world.gateway.account()
  const door = doorOf(account)
  const embedding = {
    custom_id: 'e',
    method: 'POST',
    url: '/v1/embeddings',
    body: { model: 'text-embedding-3-small', input: 'x' },
  }
  const embedded = await ran(door, [embedding], { endpoint: '/v1/embeddings' })
  t.is(embedded.results.output[0]!.response!.body.data.length, 1)
  const completion = {
    custom_id: 'c',
    method: 'POST',
    url: '/v1/completions',
    body: { model: 'gpt-4o-mini', prompt: 'Say x' },
  }
  const completed = await ran(door, [completion], { endpoint: '/v1/completions' })
  t.is(completed.results.output[0]!.response!.body.object, 'text_completion')
  const response = await world.gateway.fetch('/v1/batches', { key: account.live, body: { requests: hello(3) } })
  const inline = (await response.json()) as { id: string }
  const batch = await ended(door, inline.id)
  t.deepEqual(batch.request_counts, { total: 3, completed: 3, failed: 0 })
  await chargedNano(world, account)
})

test.serial('completed: a test key’s batch goes the whole way for nothing', async t => {
  const account = await world.gateway.account({ usd: '0' })
  const door = { url: world.gateway.url, key: account.test }
  const lines = [...hello(20), chatLine('bad', 'gpt-4o-mini', 'sandbox:fail')]
  const { batch, results } = await ran(door, lines)
  t.deepEqual(batch.request_counts, { total: 21, completed: 20, failed: 1 })
  t.is(results.errors[0]!.custom_id, 'bad')
  t.is(batch.cost_usd, 0)
  t.is((await world.gateway.fetch(`/v1/batches/${batch.id}`, { key: account.live })).status, 404)
})

test.serial('completed with an error file: what a provider refuses, and what the key may not use', async t => {
  const account = await world.gateway.account({ model_allowlist: ['gpt-4o-mini'] })
  world.openai.next(contextLength)
  const first = await ran(doorOf(account), [chatLine('long', 'gpt-4o-mini', 'a')])
  t.is(first.results.errors[0]!.response!.status_code, 400)
  t.is(first.results.errors[0]!.response!.body.error.code, 'context_length_exceeded')
  t.is(first.batch.output_file_id, null)
  const { batch, results } = await ran(doorOf(account), [...hello(2), chatLine('forbidden', 'gpt-4o', 'a')])
  t.deepEqual(batch.request_counts, { total: 3, completed: 2, failed: 1 })
  t.is(results.errors[0]!.custom_id, 'forbidden')
  t.is(results.errors[0]!.response!.status_code, 403)
  t.is(results.errors[0]!.response!.body.error.code, 'model_not_allowed')
  t.is(await chargedNano(world, account), costNano(results))
})

test.serial('tried again: a line whose providers fail for a while is answered in the end', async t => {
  const account = await world.gateway.account()
  world.openai.next(...Array.from({ length: 5 }, () => serverError))
  const { batch } = await ran(doorOf(account), [
    chatLine('one', 'gpt-4o-mini', 'a', { provider: { only: ['openai'] } }),
  ])
  t.deepEqual(batch.request_counts, { total: 1, completed: 1, failed: 0 })
})

test.serial('tried again: a provider that is overloaded for some calls delays those lines, and no others', async t => {
  const account = await world.gateway.account()
  const { redis } = world.gateway.services
  await redis.del('lane:openai')
  world.openai.reset()
  world.openai.next(...Array<Reply>(16).fill(failure(503, 'Overloaded.', 'server_error', null)))
  const { batch } = await ran(doorOf(account), hello(800))
  t.deepEqual(batch.request_counts, { total: 800, completed: 800, failed: 0 })
  t.is(world.openai.requests.length, 816)
  const lane = JSON.parse((await redis.get('lane:openai'))!)
  t.like(lane, { doubling: true, rest_until: 0, epoch: lane.cut_epoch })
  t.true(lane.limit > 16, `${lane.limit}`)
})

test.serial('402 in the error file once the funds end; what ran is kept', async t => {
  const account = await world.gateway.account({ usd: '0.00006' })
  const lines = hello(60)
  const { batch, results } = await ran(doorOf(account), lines)
  t.is(batch.status, 'completed')
  const { completed, failed } = batch.request_counts
  t.true(completed > 0 && failed > 0, JSON.stringify(batch.request_counts))
  t.is(completed + failed, 60)
  for (const { response } of results.errors) {
    t.is(response!.status_code, 402)
    t.is(response!.body.error.code, 'insufficient_credits')
  }
  t.deepEqual(
    lineFaults(
      lines.map(line => line.custom_id),
      results,
    ),
    [],
  )
  t.is(await chargedNano(world, account), costNano(results))
})

test.serial('402 in the error file once the key’s cap is reached', async t => {
  const account = await world.gateway.account({ monthly_spend_cap_usd: 0.00006 })
  const { batch, results } = await ran(doorOf(account), hello(60))
  t.true(batch.request_counts.completed > 0 && batch.request_counts.failed > 0, JSON.stringify(batch.request_counts))
  t.true(results.errors.every(({ response }) => response!.body.error.code === 'monthly_spend_cap_reached'))
  t.true((await chargedNano(world, account)) <= 60_000)
})

test.serial('401 in the error file once the key is revoked; a rolled key goes on', async t => {
  const account = await world.gateway.account()
  const { services } = world.gateway
  const door = doorOf(account)
  const fileId = await uploadInput(door, jsonLines(hello(5)))
  await workers.stop()
  const [revoked, rolled] = [await createBatch(door, fileId), await createBatch(door, fileId)]
  const other = { url: door.url, key: await world.gateway.key(account.organisationId, 'live') }
  const row = await services.db.apiKey.findFirstOrThrow({
    where: { id: (await services.batches.read(revoked.id))!.keyId },
  })
  const roll = await services.keys.roll(account.organisationId, row.hash, operatorActor)
  await services.db.batch.update({
    where: { id: revoked.id },
    data: {
      keyId: (
        await services.db.apiKey.findFirstOrThrow({
          where: { organisationId: account.organisationId, environment: 'live', id: { not: row.id } },
        })
      ).id,
    },
  })
  const doomed = await services.db.apiKey.findFirstOrThrow({
    where: { id: (await services.batches.read(revoked.id))!.keyId },
  })
  await services.keys.revoke(account.organisationId, doomed.hash, operatorActor)
  workers = startWorkers(services)
  const fresh = { url: door.url, key: roll.secret }
  const after = await ended(fresh, rolled.id)
  t.deepEqual(after.request_counts, { total: 5, completed: 5, failed: 0 })
  const lost = await ended(fresh, revoked.id)
  t.deepEqual(lost.request_counts, { total: 5, completed: 0, failed: 5 })
  const { errors } = await resultsOf(fresh, lost)
  t.is(errors[0]!.response!.body.error.code, 'revoked_api_key')
  t.truthy(other)
})

test.serial('a lane of their own: lines never use up the key’s own minute, and keep to its limit', async t => {
  const account = await world.gateway.account({ rpm_limit: 8 })
  const door = doorOf(account)
  const fileId = await uploadInput(door, jsonLines(hello(30)))
  const { id } = await createBatch(door, fileId)
  const counts = async () => (await world.gateway.services.batches.read(id))!.completed
  await eventually(async () => (await counts()) === 8, 'as many lines as the limit allows have run')
  const direct = await world.gateway.fetch('/v1/chat/completions', { key: account.live, body: saying('gpt-4o-mini') })
  t.is(direct.status, 200)
  t.true((await counts()) < 20)
  const watching = { url: door.url, key: await world.gateway.key(account.organisationId, 'live') }
  await cancelBatch(watching, id)
  t.is((await ended(watching, id)).status, 'cancelled')
})

test.serial('webhook: the batch as its GET returns it', async t => {
  const account = await world.gateway.account()
  const receiver = await Receiver.start()
  const { batch } = await ran(doorOf(account), hello(2), { webhook_url: `${receiver.url}/hook` })
  await eventually(() => receiver.received.length === 1, 'the webhook has come')
  const event = JSON.parse(receiver.received[0]!.body)
  t.is(event.type, 'batch.completed')
  t.is(event.data.id, batch.id)
  t.is(event.data.output_file_id, batch.output_file_id)
  await eventually(async () => {
    const now = (await batchOf(doorOf(account), batch.id)) as unknown as { webhook: { status: string } }
    return now.webhook.status === 'delivered'
  }, 'the webhook is delivered')
  await receiver.close()
})

test.serial('failed: what is wrong with the input, by line; nothing is run', async t => {
  const account = await world.gateway.account()
  const door = doorOf(account)
  const [good, same] = [chatLine('a', 'gpt-4o-mini', 'x'), chatLine('a', 'gpt-4o-mini', 'x')]
  const { id } = await createBatch(door, await uploadInput(door, jsonLines([good, same, { custom_id: 'b' }])))
  const batch = await ended(door, id)
  t.is(batch.status, 'failed')
  t.deepEqual(batch.request_counts, { total: 0, completed: 0, failed: 0 })
  t.deepEqual(
    batch.errors!.data.map(({ code, line, param }) => [code, line, param]),
    [
      ['invalid_request', 2, 'custom_id'],
      ['missing_field', 3, 'method'],
    ],
  )
  t.is(await chargedNano(world, account), 0)
})

test.serial('404, 409 and 400 for batches that do not exist, are over, or are invalid', async t => {
  const account = await world.gateway.account()
  const stranger = await world.gateway.account()
  const door = doorOf(account)
  const { batch } = await ran(door, hello(1))
  const refused = async (path: string, body: unknown, key = account.live) => {
    const response = await world.gateway.fetch(path, { key, body })
    const { error } = (await response.json()) as { error: { code: string; param: string | null } }
    return [response.status, error.code, error.param]
  }
  const create = { endpoint: '/v1/chat/completions', completion_window: '24h' }
  t.deepEqual(await refused(`/v1/batches/${batch.id}/cancel`, {}), [409, 'not_cancellable', null])
  t.deepEqual(await refused(`/v1/batches/${batch.id}/cancel`, {}, stranger.live), [404, 'not_found', 'id'])
  t.deepEqual(await refused('/v1/batches', { ...create, input_file_id: 'file-none' }), [
    404,
    'not_found',
    'input_file_id',
  ])
  t.deepEqual(await refused('/v1/batches', { ...create, input_file_id: batch.input_file_id }, stranger.live), [
    404,
    'not_found',
    'input_file_id',
  ])
  t.deepEqual(await refused('/v1/batches', create), [400, 'missing_field', 'input_file_id'])
  t.deepEqual(await refused('/v1/batches', { input_file_id: 'file-x' }), [400, 'missing_field', 'endpoint'])
  t.deepEqual(await refused('/v1/batches', { ...create, input_file_id: 'file-x', endpoint: '/v1/images' }), [
    400,
    'invalid_request',
    'endpoint',
  ])
  t.deepEqual(await refused('/v1/batches', { ...create, requests: [], input_file_id: 'x' }), [
    400,
    'invalid_request',
    'requests',
  ])
})
