// Exports of logged content, to an OpenTelemetry collector and to a bucket.

import { gunzipSync } from 'node:zlib'
import { GetObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { newId } from '../../shared/base/ids.ts'
import { dayMs } from '../../shared/base/time.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { LogExportDeliveries } from '../../shared/log-exports/deliveries.ts'
import { inputMessages, outputMessages } from '../../shared/log-exports/genai-messages.ts'
import type { NewExport } from '../../shared/log-exports/settings.ts'
import { bookUsage } from '../../shared/wallet/booking.ts'
import { signUp } from '../support/dashboard/dashboard.ts'
import { eventually } from '../support/gateway.ts'
import { startS3 } from '../support/io/s3.ts'
import { Destination, linesOf, untilDeliverable } from '../support/log-exports/destination.ts'
import { test } from '../support/test.ts'
import { Collector } from '../support/traces/collector.ts'
import { use, useGateway } from '../support/use.ts'
import { usageEventOf } from '../support/wallet/usage-event.ts'

let offsetMs = 0
const now = () => Date.now() + offsetMs
const advance = (ms: number) => {
  offsetMs += ms
}
const gateway = useGateway(test, { ALLOW_PRIVATE_URLS: 'true' }, { clock: { now } })
const deliveries = use(test, () => new LogExportDeliveries(gateway.services))
const collector = use(test, () => Collector.start())
const s3 = use(test, () => startS3('logs'))

async function create(organisationId: string, settings: Omit<NewExport, 'name'>) {
  const { row } = await gateway.services.logExports.create(
    organisationId,
    { name: 'x', interval_s: 1, ...settings },
    operatorActor,
  )
  return row
}

async function deliverUntil(is: () => boolean | Promise<boolean>, what: string): Promise<void> {
  await eventually(async () => {
    advance(1_500)
    await deliveries.claim()
    await deliveries.settle()
    return is()
  }, what)
}

async function book(org: string, fields: object = {}): Promise<string> {
  const id = newId('chatcmpl')
  const common = { id, at: now(), org, key: 'key_none', month: '2026-11', requestId: newId('req'), cost: 0 }
  const event = usageEventOf({ ...common, ...fields })
  await gateway.services.rawPool.transaction(run => bookUsage(run, [event], now()))
  await untilDeliverable(gateway)
  return id
}

/** A test key whose input and output is logged. */
async function loggingKey({ organisationId, visitor, base }: Awaited<ReturnType<typeof signUp>>): Promise<string> {
  const key = await gateway.key(organisationId, 'test')
  const body = { content_logging: { mode: 'all', until: new Date(now() + dayMs).toISOString() } }
  await visitor.json(`${base}/keys/${hashSecret(key)}/content-logging`, { method: 'PATCH', body })
  return key
}

async function ask(key: string, content: string): Promise<string> {
  const body = {
    model: 'gpt-5',
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content },
    ],
  }
  const answer = await gateway.fetch('/v1/chat/completions', { key, body })
  await answer.text()
  await gateway.services.contentLog.flush()
  return answer.headers.get('x-generation-id')!
}

test.serial('content arrives with the facts of its request; deleted content says so', async t => {
  const owner = await signUp(gateway)
  const destination = await Destination.start()
  t.teardown(() => destination.close())
  const { organisationId } = owner
  await create(organisationId, { kind: 'https', url: destination.url, streams: ['content'], environment: 'test' })
  const key = await loggingKey(owner)
  const id = await ask(key, 'Who are you?')
  await deliverUntil(() => destination.rows('content').length === 1, 'the content is delivered')
  const [row] = destination.rows('content')
  t.like(row, { object: 'request_content', id, model: 'gpt-5', type: 'chat', environment: 'test', deleted: false })
  t.like(row!.input, { messages: { 1: { content: 'Who are you?' } } })
  t.truthy((row!.output as { choices: object[] }).choices)
  const stored = await gateway.services.contents.find(organisationId, id, now())
  await gateway.services.contents.delete(stored!, operatorActor)
  const [one] = await gateway.services.logExports.list(organisationId)
  await gateway.services.logExports.update(organisationId, one!.id, { environment: null }, operatorActor)
  const window = { from: new Date(now() - dayMs).toISOString(), to: new Date(now()).toISOString() }
  await gateway.services.logExports.replay(organisationId, one!.id, window, operatorActor)
  await deliverUntil(() => destination.rows('content').length === 2, 'it is delivered again')
  t.like(destination.rows('content')[1], { id, deleted: true, input: null, output: null })
})

for (const format of ['protobuf', 'json'] as const)
  test.serial(`a collector gets spans and log records of the GenAI conventions as ${format}`, async t => {
    const owner = await signUp(gateway)
    const { organisationId } = owner
    collector.clear()
    const streams = ['requests', 'content', 'audit'] as const
    await create(organisationId, { kind: 'otlp', url: collector.url, format, streams: [...streams] })
    const key = await loggingKey(owner)
    const id = await ask(key, 'Hello')
    const failed = await book(organisationId, {
      kind: 'messages',
      model: 'claude-opus',
      provider: 'bedrock',
      status: 500,
      errorCode: 'internal_error',
      durationMs: 1_500,
      metadata: { team: 'blue' },
      parameters: { temperature: 0.5 },
      session: 'sess-1',
    })
    const isAllDelivered = () =>
      collector.spans.length === 2 &&
      collector.logs.some(({ event }) => event === 'gen_ai.client.inference.operation.details') &&
      collector.logs.some(({ attributes }) => attributes['headgate.audit.action'] === 'log_export.created')
    await deliverUntil(isAllDelivered, 'everything is delivered')
    const spans = new Map(collector.spans.map(span => [span.attributes['headgate.generation.id'], span]))
    const chat = spans.get(id)!
    t.is(chat.name, 'chat gpt-5')
    t.is(chat.resource['service.name'], 'headgate')
    t.like(chat.attributes, { 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'gpt-5' })
    t.true((chat.attributes['gen_ai.usage.input_tokens'] as number) > 0)
    const error = spans.get(failed)!
    t.like(error, { name: 'chat claude-opus', status: 2 })
    // Times in nanoseconds since 1970 exceed what the numbers of JavaScript hold exactly.
    t.is(Math.round(error.endMs - error.startMs), 1_500)
    t.like(error.attributes, {
      'gen_ai.provider.name': 'aws.bedrock',
      'gen_ai.request.temperature': 0.5,
      'gen_ai.conversation.id': 'sess-1',
      'headgate.metadata.team': 'blue',
      'error.type': 'internal_error',
    })
    const content = collector.logs.find(({ event }) => event === 'gen_ai.client.inference.operation.details')!
    t.is(content.traceId, chat.traceId)
    t.deepEqual(content.attributes['gen_ai.input.messages'], [
      { role: 'system', parts: [{ type: 'text', content: 'Be brief.' }] },
      { role: 'user', parts: [{ type: 'text', content: 'Hello' }] },
    ])
    t.like(content.attributes['gen_ai.output.messages'], { 0: { role: 'assistant', finish_reason: 'stop' } })
    const audited = collector.logs.filter(({ event }) => event === 'headgate.audit')
    t.true(audited.some(({ attributes }) => attributes['headgate.audit.action'] === 'log_export.created'))
  })

test.serial('a bucket gets one object per batch, which a repeated replay overwrites', async t => {
  const { organisationId } = await signUp(gateway)
  const ids = [await book(organisationId), await book(organisationId)]
  advance(1_000)
  const storage = new URL(s3.storageUrl('x'))
  const endpoint = storage.searchParams.get('endpoint')!
  const credentials = { accessKeyId: storage.username, secretAccessKey: storage.password }
  const row = await create(organisationId, {
    kind: 's3',
    url: endpoint,
    path_style: true,
    bucket: 'logs',
    prefix: 'gateway/',
    access_key_id: credentials.accessKeyId,
    secret_access_key: credentials.secretAccessKey,
    streams: ['requests'],
  })
  const client = new S3Client({ endpoint, forcePathStyle: true, region: 'us-east-1', credentials })
  t.teardown(() => client.destroy())
  const read = async (key: string) => {
    const { Body } = await client.send(new GetObjectCommand({ Bucket: 'logs', Key: key }))
    return linesOf({ body: gunzipSync(await Body!.transformToByteArray()).toString() })
  }
  const live = await book(organisationId)
  await deliverUntil(async () => (await s3.keys()).length === 1, 'the object is written')
  const [key] = await s3.keys()
  t.regex(key!, /^gateway\/requests\/\d{4}\/\d\d\/\d\d\/expc_\w+-000000001\.ndjson\.gz$/)
  // An export begins at the oldest transaction that is under way on the server: what was written since may come with it.
  const first = (await read(key!)).map(({ id }) => id as string)
  t.is(first.at(-1), live)
  t.true(first.slice(0, -1).every(id => ids.includes(id)))
  const window = { from: new Date(now() - dayMs).toISOString(), to: new Date(now() - 500).toISOString() }
  for (let run = 1; run <= 2; run++) {
    await gateway.services.logExports.replay(organisationId, row.id, window, operatorActor)
    await deliverUntil(async () => {
      const { cursors } = await gateway.services.logExports.get(organisationId, row.id)
      return cursors.filter(({ status }) => status === 'completed').length === run
    }, 'the replay ends')
    t.is((await s3.keys()).length, 2)
  }
  const replayed = (await s3.keys()).find(name => name.includes('replay-'))!
  const found = (await read(replayed)).map(({ id }) => id as string)
  t.true(ids.every(id => found.includes(id)))
})

test('nothing is contacted but by the checked request, whatever kind of bucket its name says it is', async t => {
  const destination = await Destination.start()
  t.teardown(() => destination.close())
  const { organisationId, visitor, base } = await signUp(gateway)
  for (const bucket of ['logs', 'logs--usw2-az1--x-s3']) {
    const { id } = await create(organisationId, {
      kind: 's3',
      url: new URL(destination.url).origin,
      path_style: true,
      bucket,
      access_key_id: 'key',
      secret_access_key: 'secret',
      streams: ['requests'],
    })
    const { delivered } = await visitor.json<{ delivered: boolean }>(`${base}/log-exports/${id}/test`, { body: {} })
    t.true(delivered)
    t.regex(destination.received.at(-1)!.path, new RegExp(`^/${bucket}/+headgate-test\\.ndjson\\.gz\\?`))
  }
  t.is(destination.received.length, 2)
})

test('inputs and outputs of every dialect become messages of the conventions', t => {
  const text = (content: string) => ({ type: 'text', content })
  const call = { type: 'tool_call', id: 'c1', name: 'now', arguments: { zone: 'UTC' } }
  t.deepEqual(
    inputMessages({
      system: 'Short.',
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'now', input: { zone: 'UTC' } }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: 'noon' }] },
      ],
    }),
    {
      instructions: [text('Short.')],
      messages: [
        { role: 'user', parts: [text('Hi')] },
        { role: 'assistant', parts: [call] },
        { role: 'user', parts: [{ type: 'tool_call_response', id: 'c1', response: 'noon' }] },
      ],
    },
  )
  t.deepEqual(
    inputMessages({
      instructions: 'Short.',
      input: [
        { role: 'user', content: 'Hi' },
        { type: 'function_call_output', call_id: 'c1', output: 'noon' },
      ],
    }),
    {
      instructions: [text('Short.')],
      messages: [
        { role: 'user', parts: [text('Hi')] },
        { role: 'tool', parts: [{ type: 'tool_call_response', id: 'c1', response: 'noon' }] },
      ],
    },
  )
  t.deepEqual(
    inputMessages({
      systemInstruction: { parts: [{ text: 'Short.' }] },
      contents: [{ role: 'model', parts: [{ text: 'Hi' }] }],
    }),
    { instructions: [text('Short.')], messages: [{ role: 'assistant', parts: [text('Hi')] }] },
  )
  const reply = (parts: object[], finish_reason: string) => [{ role: 'assistant', parts, finish_reason }]
  const tools = [{ id: 'c1', type: 'function', function: { name: 'now', arguments: '{"zone":"UTC"}' } }]
  t.deepEqual(
    outputMessages({
      choices: [{ message: { role: 'assistant', content: null, tool_calls: tools }, finish_reason: 'tool_calls' }],
    }),
    reply([call], 'tool_call') as never,
  )
  t.deepEqual(
    outputMessages({
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'Hm' },
        { type: 'text', text: 'Hi' },
      ],
      stop_reason: 'end_turn',
    }),
    reply([{ type: 'reasoning', content: 'Hm' }, text('Hi')], 'stop') as never,
  )
  t.deepEqual(
    outputMessages({
      status: 'completed',
      output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Hi' }] }],
    }),
    reply([text('Hi')], 'stop') as never,
  )
  t.deepEqual(
    outputMessages({
      candidates: [{ content: { role: 'model', parts: [{ text: 'Hi' }] }, finishReason: 'MAX_TOKENS' }],
    }),
    reply([text('Hi')], 'length') as never,
  )
  t.deepEqual(inputMessages('{"cut'), { instructions: [], messages: [{ role: 'user', parts: [text('{"cut')] }] })
})
