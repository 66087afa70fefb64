import Anthropic from '@anthropic-ai/sdk'
import { GatewayError } from '../../../shared/base/errors.ts'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import { embeddingRequest } from '../../../shared/kinds/embedding.ts'
import { anthropic } from '../../../shared/providers/adapters/anthropic/protocol.ts'
import { failed, overloaded, rateLimited } from '../../emulators/anthropic.ts'
import { startAnthropicBatches } from '../../emulators/anthropic-batches.ts'
import { json } from '../../emulators/emulator.ts'
import { batchBench, batchConformance } from '../../support/batches/adapter.ts'
import { all } from '../../support/batches/streams.ts'
import { providerFault } from '../../support/jobs/queued-adapter.ts'
import { test } from '../../support/test.ts'

const subject = {
  provider: 'anthropic',
  protocol: anthropic,
  model: 'claude-haiku-4-5',
  start: startAnthropicBatches,
  refusals: {
    invalid: failed(400, 'invalid_request_error', 'requests: too many'),
    rateLimited: rateLimited(7),
    quota: failed(402, 'billing_error', 'Your credit balance is too low.'),
  },
  single: {
    invalid: failed(400, 'invalid_request_error', 'messages: wrong'),
    contextLength: failed(400, 'invalid_request_error', 'prompt is too long: 300000 tokens'),
    overloaded,
    telling: failed(400, 'invalid_request_error', 'Key sk-ant-api03-abcdef12 of org_abcdef12abcdef12.'),
    secrets: /abcdef12/,
  },
}
batchConformance(test, subject)
const { adapter, call, connection: connectionOf, started, using, outcomes } = batchBench(subject)

test('marked by the quirk `batches` in the shipped catalog', t => {
  t.is(loadCatalog().providers.get('anthropic')!.quirks!.batches, true)
})

test('started: the file is the body, each entry what is sent one by one', t =>
  using(async ({ emulator }, connection) => {
    await started(connection, 'one', 'two')
    t.is(emulator.requests.length, 1)
    const { method, path, headers, body, raw } = emulator.requests[0]!
    t.deepEqual([method, path], ['POST', '/v1/messages/batches'])
    t.deepEqual([headers['content-type'], headers['anthropic-version']], ['application/json', '2023-06-01'])
    t.is(headers['content-length'], String(raw.length))
    t.deepEqual(body, {
      requests: ['one', 'two'].map((content, index) => ({
        custom_id: `l${index + 1}`,
        params: JSON.parse(String(anthropic.direct.chat!.request(call(content)).body)),
      })),
    })
    t.is(body.requests[0].params.messages[0].content[0].text, 'one')
  }))

test('400 for other kinds, and for what the Messages API cannot express, naming the field', t => {
  const { target } = call()
  const body = embeddingRequest.parse({ model: 'x', input: 'a' })
  const embedding = { target, body, raw: null, maxTokens: null, media: new Map() }
  const kind = t.throws(() => adapter.entry('embedding', 'l1', embedding), { instanceOf: GatewayError })
  t.deepEqual([kind!.code, kind!.status], ['unsupported_capability', 400])
  const many = t.throws(() => adapter.entry('chat', 'l1', call('a', { n: 2 })), { instanceOf: GatewayError })
  t.is(many!.param, 'n')
})

test('wrong parameters are the answer of their request, not of the batch', t =>
  using(
    async ({ batches }, connection) => {
      const operation = await started(connection, 'one', 'two')
      batches.get(String(operation.id))!.requests[0]!.body.max_tokens = 0
      t.deepEqual(await adapter.check(operation, connection), { isOver: true, completed: 1, failed: 1 })
      t.deepEqual(await outcomes(operation, connection), { l1: 'invalid_request', l2: 'Echo: two' })
    },
    { polls: 1 },
  ))

test('known of Anthropic’s batches: whether each state is final', t =>
  using(async ({ emulator }, connection) => {
    for (const [processing_status, over] of Object.entries({ in_progress: false, canceling: false, ended: true })) {
      emulator.next(json(200, { id: 'msgbatch_1', processing_status }))
      t.deepEqual(await adapter.check({ id: 'msgbatch_1' }, connection), { isOver: over, completed: 0, failed: 0 })
    }
    emulator.next(json(200, { id: 'msgbatch_1', processing_status: 'toString' }))
    t.is((await providerFault(adapter.check({ id: 'msgbatch_1' }, connection))).reason, 'invalid_response')
  }))

test('results are asked for at the provider’s own address only, wherever their URL points', async t => {
  const other = await startAnthropicBatches()
  const cases: [resultsUrl: string, path: string][] = [
    [`${other.url}/v1/messages/batches/x/results`, '/v1/messages/batches/x/results'],
    ['https://user:word@elsewhere.example/moved/x?page=1#here', '/moved/x?page=1'],
    ['http://elsewhere.example', '/'],
  ]
  await using(async ({ emulator }, connection) => {
    for (const [results_url, path] of cases) {
      emulator.next(json(200, { id: 'x', processing_status: 'ended', results_url }), json(200, {}))
      t.deepEqual(await outcomes({ id: 'x' }, connection), {})
      const { path: asked, query, headers } = emulator.requests.at(-1)!
      t.is(query.size > 0 ? `${asked}?${query}` : asked, path)
      t.truthy(headers['anthropic-version'])
    }
    for (const results_url of [null, '', 'no url', 'data:text/plain,x']) {
      emulator.next(json(200, { id: 'x', processing_status: 'ended', results_url }))
      t.is((await providerFault(outcomes({ id: 'x' }, connection))).reason, 'invalid_response')
    }
  })
  t.is(other.emulator.requests.length, 0)
  await other.close()
})

test('results behind a base URL with a path of its own', t =>
  using(async ({ emulator, url }) => {
    const connection = connectionOf(url)
    const asked: string[] = []
    const stream: typeof connection.stream = request => {
      asked.push(request.path)
      return connection.stream(request)
    }
    const proxied = { ...connection, baseUrl: `${url}/proxy`, stream }
    for (const results_url of ['https://a.example/v1/b', `${url}/proxy/v1/b`, `${url}/proxyv1/b`]) {
      emulator.next(json(200, { processing_status: 'ended', results_url }), json(200, {}))
      await outcomes({ id: 'x' }, proxied)
    }
    t.deepEqual(asked, ['/v1/b', '/v1/b', '/proxyv1/b'])
  }))

test('results that are no longer kept are a failure', t =>
  using(async ({ emulator }, connection) => {
    const operation = await started(connection, 'one')
    emulator.next(
      json(200, { processing_status: 'ended', results_url: `${emulator.url}/v1/messages/batches/x/results` }),
    )
    t.is((await providerFault(outcomes(operation, connection))).reason, 'model_unavailable')
  }))

// The official SDK is the judge of the emulator.
test('200 the SDK creates, looks, lists, reads results, cancels and deletes', async t => {
  const world = await startAnthropicBatches({ answers: 2, instead: ({ id }) => (id === 'b' ? overloaded : null) })
  t.teardown(() => world.close())
  const sdk = new Anthropic({ apiKey: 'test', baseURL: world.url, maxRetries: 0 })
  const { batches } = sdk.messages
  const request = (custom_id: string) => ({
    custom_id,
    params: { model: 'claude-haiku-4-5', max_tokens: 100, messages: [{ role: 'user' as const, content: custom_id }] },
  })
  const { id, processing_status, results_url } = await batches.create({ requests: ['a', 'b', 'c'].map(request) })
  t.deepEqual([processing_status, results_url], ['in_progress', null])
  await t.throwsAsync(batches.results(id), { instanceOf: Anthropic.AnthropicError })
  const done = await batches.retrieve(id)
  t.is(done.processing_status, 'ended')
  t.deepEqual(done.request_counts, { processing: 0, succeeded: 1, errored: 1, canceled: 0, expired: 1 })
  const results = await all(await batches.results(id))
  t.deepEqual(
    results.map(({ custom_id, result }) => [custom_id, result.type]),
    [
      ['c', 'expired'],
      ['b', 'errored'],
      ['a', 'succeeded'],
    ],
  )
  const [, errored, succeeded] = results.map(({ result }) => result)
  if (errored?.type !== 'errored' || succeeded?.type !== 'succeeded') return void t.fail('unexpected results')
  t.is(errored.error.error.type, 'overloaded_error')
  t.deepEqual(succeeded.message.content as unknown, [{ type: 'text', text: 'Echo: a' }])
  t.is(succeeded.message.usage.output_tokens, 2)

  const stopped = await batches.create({ requests: [request('a')] })
  t.is((await batches.cancel(stopped.id)).processing_status, 'canceling')
  await t.throwsAsync(batches.delete(stopped.id), { instanceOf: Anthropic.BadRequestError })
  t.is((await batches.retrieve(stopped.id)).processing_status, 'ended')
  const listed = await all(batches.list({ limit: 1 }))
  t.deepEqual(
    listed.map(batch => batch.id),
    [stopped.id, id],
  )
  t.is((await batches.delete(stopped.id)).type, 'message_batch_deleted')
  await t.throwsAsync(batches.retrieve(stopped.id), { instanceOf: Anthropic.NotFoundError })
  t.is((await sdk.messages.create(request('hi').params)).stop_reason, 'end_turn')
})

test('400 the emulator refuses what the API would', async t => {
  const world = await startAnthropicBatches()
  t.teardown(() => world.close())
  const { batches } = new Anthropic({ apiKey: 'test', baseURL: world.url, maxRetries: 0 }).messages
  const params = { model: 'm', max_tokens: 1, messages: [] }
  const refused: [object, RegExp][] = [
    [{ requests: [] }, /at least 1 item/],
    [{ requests: [{ custom_id: 'a b', params }] }, /requests\.0\.custom_id: String should match/],
    [{ requests: [{ custom_id: 'a'.repeat(65), params }] }, /custom_id/],
    [{ requests: ['a', 'a'].map(custom_id => ({ custom_id, params })) }, /requests\.1\.custom_id: must be unique/],
    [{ requests: [{ custom_id: 'a' }] }, /params: Field required/],
    [{ requests: [{ custom_id: 'a', params: { ...params, stream: true } }] }, /stream/],
    [{ requests: [{ custom_id: 'a', params, url: 'x' }] }, /requests\.0\.url: Extra inputs/],
    [{ requests: [{ custom_id: 'a', params }], model: 'm' }, /model: Extra inputs/],
  ]
  for (const [body, message] of refused)
    await t.throwsAsync(batches.create(body as Anthropic.Messages.BatchCreateParams), { message })
  t.is(world.batches.size, 0)
})
