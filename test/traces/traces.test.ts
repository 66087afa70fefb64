// One gateway sends traces to a collector while it serves each kind of request; the tests read what arrived.

import { chatLine, ended, jsonLines, uploadInput } from '../support/batches/gateway.ts'
import { startWorld, type World } from '../support/chat/gateway.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { mediaBodies } from '../support/jobs/calls.ts'
import { over } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { Collector, kinds, type ReceivedSpan } from '../support/traces/collector.ts'
import { Receiver } from '../support/webhooks/receiver.ts'
import { startWorkers } from '../support/workers.ts'

const model = 'gpt-5-mini'
const traceIds = Array.from({ length: 6 }, (_, i) => String(i + 1).repeat(32))
const [answered, failedOver, refused, unsampled, queued, batched] = traceIds as [
  string,
  string,
  string,
  string,
  string,
  string,
]
/** A request of each dialect, and OpenTelemetry's name of its operation. */
const dialects = [
  { path: '/v1/chat/completions', operation: 'chat', body: { model, messages: [{ role: 'user', content: 'Hello' }] } },
  { path: '/v1/completions', operation: 'text_completion', body: { model, prompt: 'Hello' } },
  {
    path: '/v1/messages',
    operation: 'chat',
    body: { model, max_tokens: 50, messages: [{ role: 'user', content: 'Hello' }] },
  },
  { path: '/v1/responses', operation: 'chat', body: { model, input: 'Hello' } },
  { path: '/v1/embeddings', operation: 'embeddings', body: { model: 'text-embedding-3-small', input: 'Hello' } },
].map((dialect, i) => ({ ...dialect, traceId: `d${i}`.repeat(16) }))
const callerSpan = 'a'.repeat(16)
const parentOf = (traceId: string, flags = '01') => ({ traceparent: `00-${traceId}-${callerSpan}-${flags}` })
const hello = { model, messages: [{ role: 'user', content: 'A secret prompt' }], max_tokens: 50 }

let collector: Collector
let receiver: Receiver
let account: Account
/** Traces of requests without a caller's. */
let own: string[]
let requestId: string
let jobId: string
let toProviders: unknown[]
let toReceiver: unknown[]

async function ask(world: World, headers: Record<string, string>, body: object = hello): Promise<Response> {
  const response = await world.gateway.fetch('/v1/chat/completions', { key: account.live, body, headers })
  await response.text()
  return response
}

test.before(async () => {
  ;[collector, receiver] = await Promise.all([Collector.start(), Receiver.start()])
  const world = await startWorld({
    OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`,
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Basic%20abc,x-tenant=one',
    ALLOW_PRIVATE_URLS: 'true',
  })
  const workers = startWorkers(world.gateway.services)
  account = await world.gateway.account()
  requestId = (await ask(world, parentOf(answered))).headers.get('x-request-id')!
  world.openai.next((_request, response) => void response.writeHead(500).end())
  await ask(world, parentOf(failedOver), { ...hello, stream: true })
  await ask(world, parentOf(refused), { ...hello, model: 'no-such-model' })
  await ask(world, parentOf(unsampled, '00'))
  await ask(world, { traceparent: 'nonsense' })
  for (const { path, body, traceId } of dialects) {
    const response = await world.gateway.fetch(path, { key: account.live, body, headers: parentOf(traceId) })
    await response.text()
  }
  const job = { ...(await mediaBodies['/v1/videos']()), webhook_url: receiver.url }
  const submitted = await world.gateway.fetch('/v1/videos', { key: account.test, body: job, headers: parentOf(queued) })
  jobId = ((await submitted.json()) as { id: string }).id
  await over(world.gateway, account.test, '/v1/videos', jobId)
  const door = { url: world.gateway.url, key: account.test }
  const input = await uploadInput(door, jsonLines([chatLine('one', model, 'Hello')]))
  const batch = { input_file_id: input, endpoint: '/v1/chat/completions', completion_window: '24h' }
  const created = await world.gateway.fetch('/v1/batches', {
    key: account.test,
    body: batch,
    headers: parentOf(batched),
  })
  await ended(door, ((await created.json()) as { id: string }).id)
  await eventually(() => receiver.received.length > 0, 'the webhook has arrived')
  toProviders = world.openai.requests.map(({ headers }) => headers.traceparent)
  toReceiver = receiver.received.map(({ headers }) => headers.traceparent)
  await workers.stop()
  await world.close()
  const known = [...traceIds, ...dialects.map(({ traceId }) => traceId)]
  own = [...new Set(collector.spans.map(({ traceId }) => traceId))].filter(id => !known.includes(id))
})
test.after.always(async () => {
  await receiver?.close()
  await collector?.close()
})

const shape = (spans: ReceivedSpan[]) => spans.map(({ name, kind }) => [name, kind])

function isWithin(inner: ReceivedSpan, outer: ReceivedSpan): boolean {
  return inner.startMs >= outer.startMs && inner.endMs <= outer.endMs && inner.startMs <= inner.endMs
}

test('a request continues its caller’s trace, with the call to the provider below it', t => {
  const spans = collector.trace(answered)
  t.deepEqual(shape(spans), [
    ['POST /v1/chat/completions', kinds.server],
    [`chat ${model}`, kinds.client],
  ])
  const [server, call] = spans as [ReceivedSpan, ReceivedSpan]
  t.is(server.parentId, callerSpan)
  t.is(call.parentId, server.spanId)
  t.true(isWithin(call, server))
  t.like(server.attributes, {
    'http.request.method': 'POST',
    'http.route': '/v1/chat/completions',
    'http.response.status_code': 200,
    'headgate.request.id': requestId,
    'headgate.organisation.id': account.organisationId,
    'headgate.model': model,
    'headgate.attempts': 1,
  })
  t.true((server.attributes['headgate.cost_usd'] as number) > 0)
  t.like(call.attributes, {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'openai',
    'gen_ai.request.model': model,
  })
  t.true((call.attributes['gen_ai.usage.input_tokens'] as number) > 0)
  t.true((call.attributes['gen_ai.usage.output_tokens'] as number) > 0)
  t.deepEqual(call.attributes['gen_ai.response.finish_reasons'], ['stop'])
  t.like(server.resource, { 'service.name': 'headgate' })
})

for (const { path, operation, body, traceId } of dialects)
  test(`200 from ${path}: the call has the operation ${operation} of the conventions`, t => {
    const [server, call, ...others] = collector.trace(traceId) as [ReceivedSpan, ReceivedSpan]
    t.deepEqual(others, [])
    t.is(server.attributes['http.response.status_code'], 200)
    t.is(call.name, `${operation} ${body.model}`)
    t.is(call.attributes['gen_ai.operation.name'], operation)
  })

test('each attempt is a span; the one that failed says why', t => {
  const [server, first, second] = collector.trace(failedOver) as [ReceivedSpan, ReceivedSpan, ReceivedSpan]
  t.is(server.status, 0)
  t.deepEqual([first.status, first.attributes['error.type']], [2, 'server_error'])
  t.deepEqual([second.status, second.attributes['error.type']], [0, undefined])
  t.true(second.startMs >= first.endMs)
  t.true((second.attributes['gen_ai.response.time_to_first_chunk'] as number) >= 0)
})

test('a refused request has a span without calls; its fault is not the server’s', t => {
  const [server, ...others] = collector.trace(refused) as [ReceivedSpan]
  t.deepEqual(others, [])
  t.like(server.attributes, { 'http.response.status_code': 404, 'error.type': 'model_not_found' })
  t.is(server.status, 0)
})

test('a trace that its caller does not sample is not sent; an invalid header begins another', t => {
  t.deepEqual(collector.trace(unsampled), [])
  t.is(own.length > 0, true)
  t.true(own.every(id => /^[0-9a-f]{32}$/.test(id)))
})

test('a job is one trace from the request through queue, worker, provider and webhook', t => {
  const spans = collector.trace(queued)
  t.deepEqual(shape(spans), [
    ['POST /v1/videos', kinds.server],
    ['send video', kinds.producer],
    ['process video', kinds.consumer],
    [shape(spans)[3]![0]!, kinds.client],
    ['import video', kinds.consumer],
    ['POST job.completed', kinds.client],
  ])
  const [, send, process, call, imported, delivery] = spans as ReceivedSpan[]
  t.is(send!.attributes['messaging.message.id'], jobId)
  t.deepEqual(
    [process, imported, delivery].map(span => span!.parentId),
    Array(3).fill(send!.spanId),
  )
  t.is(call!.parentId, process!.spanId)
  t.like(delivery!.attributes, { 'http.response.status_code': 200, 'headgate.webhook.type': 'job.completed' })
  t.true(toReceiver.includes(`00-${queued}-${delivery!.spanId}-01`))
})

test('a batch is one trace, without a span per line', t => {
  const spans = collector.trace(batched)
  t.deepEqual(shape(spans).slice(0, 2), [
    ['POST /v1/batches', kinds.server],
    ['send batch', kinds.producer],
  ])
  t.true(spans.slice(2).every(({ name, kind }) => name === 'process batch' && kind === kinds.consumer))
  t.true(spans.length > 2)
})

test('providers get no trace context, the collector its headers, and nobody a prompt', t => {
  t.true(toProviders.length > 3)
  t.true(toProviders.every(header => header === undefined))
  t.true(collector.headers.every(headers => headers.authorization === 'Basic abc' && headers['x-tenant'] === 'one'))
  t.false(JSON.stringify(collector.spans).includes('secret'))
})
