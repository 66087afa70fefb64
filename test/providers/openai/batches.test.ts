import OpenAI, { toFile } from 'openai'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import { embeddingRequest } from '../../../shared/kinds/embedding.ts'
import { openai } from '../../../shared/providers/adapters/openai/protocol.ts'
import type { Call } from '../../../shared/providers/contract.ts'
import { json, type Reply, reset } from '../../emulators/emulator.ts'
import * as emulated from '../../emulators/openai.ts'
import { startOpenAiBatches } from '../../emulators/openai-batches.ts'
import { batchBench, batchConformance } from '../../support/batches/adapter.ts'
import { all } from '../../support/batches/streams.ts'
import { providerFault } from '../../support/jobs/queued-adapter.ts'
import { sourceOf } from '../../support/jobs/sources.ts'
import { test } from '../../support/test.ts'

const subject = {
  provider: 'openai',
  protocol: openai,
  model: 'gpt-4o-mini',
  start: startOpenAiBatches,
  refusals: {
    invalid: emulated.failure(400, 'Invalid input file.', 'invalid_request_error', null),
    rateLimited: emulated.rateLimited('7'),
    quota: emulated.insufficientQuota,
  },
  single: {
    invalid: emulated.failure(400, 'Bad value.', 'invalid_request_error', null),
    contextLength: emulated.contextLength,
    overloaded: emulated.failure(503, 'Busy.', 'server_error', null),
    telling: emulated.failure(
      400,
      'Project proj_abcdef12 of org-abcdef12 with sk-proj-abcdef12.',
      'invalid_request_error',
      null,
    ),
    secrets: /abcdef12/,
  },
}
batchConformance(test, subject)
const { adapter, call, fileOf, started, using, outcomes } = batchBench(subject)

test('marked by the quirk `batches` in the shipped catalog, at this provider alone of its protocol', t => {
  const rows = [...loadCatalog().providers.values()].filter(({ protocol }) => protocol === 'openai')
  t.deepEqual(
    rows.filter(({ quirks }) => quirks?.batches === true).map(({ name }) => name),
    ['openai'],
  )
})

test('started: the exact form of the file, and the exact batch of it', t =>
  using(async ({ emulator, files }, connection) => {
    await started(connection, 'one', 'two')
    const [upload, create] = emulator.requests
    t.deepEqual([upload!.path, create!.path], ['/v1/files', '/v1/batches'])
    const type = upload!.headers['content-type']!
    const form = await new Response(new Uint8Array(upload!.raw), { headers: { 'content-type': type } }).formData()
    const { file, ...fields } = Object.fromEntries(form)
    t.deepEqual(fields, { purpose: 'batch', 'expires_after[anchor]': 'created_at', 'expires_after[seconds]': '604800' })
    t.deepEqual([(file as File).name, (file as File).type], ['requests.jsonl', 'application/jsonl'])
    const lines = (await (file as File).text()).split('\n')
    t.deepEqual(
      lines.map(text => text && JSON.parse(text)),
      [
        ...['one', 'two'].map((content, index) => ({
          custom_id: `l${index + 1}`,
          method: 'POST',
          url: '/v1/chat/completions',
          body: { store: false, model: 'gpt-4o-mini', messages: [{ role: 'user', content }] },
        })),
        '',
      ],
    )
    t.deepEqual(create!.body, {
      input_file_id: [...files.keys()][0],
      endpoint: '/v1/chat/completions',
      completion_window: '24h',
      metadata: { headgate_batch: 'batch_1' },
      output_expires_after: { anchor: 'created_at', seconds: 604_800 },
    })
  }))

test('every kind: its entries are what is sent to its route one by one', t => {
  const { target } = call()
  const embedding: Call<'embedding'> = {
    target,
    raw: null,
    maxTokens: null,
    media: new Map(),
    body: embeddingRequest.parse({ model: 'x', input: ['a', 'b'] }),
  }
  const completion: Call<'completion'> = { ...embedding, maxTokens: 9, body: { model: 'x', prompt: 'a' } }
  const sent = [
    [adapter.entry('chat', 'a', call()), openai.direct.chat!.request(call())],
    [adapter.entry('embedding', 'a', embedding), openai.direct.embedding!.request(embedding)],
    [adapter.entry('completion', 'a', completion), openai.direct.completion!.request(completion)],
  ] as const
  for (const [entry, { path, body }] of sent) {
    // A batch has a tier of its own.
    const { service_tier: _tier, ...alone } = JSON.parse(String(body))
    t.deepEqual(JSON.parse(entry), { custom_id: 'a', method: 'POST', url: `/v1${path}`, body: alone })
  }
})

test('embeddings run, too', t =>
  using(
    async (_world, connection) => {
      const { target } = call()
      const body = embeddingRequest.parse({ model: 'gpt-4o-mini', input: 'abc', dimensions: 2 })
      const one: Call<'embedding'> = { target, body, raw: null, maxTokens: null, media: new Map() }
      const bytes = Buffer.from(adapter.entry('embedding', 'l1', one))
      const file = sourceOf('https://files.example/a.jsonl', adapter.file.contentType, null, bytes)
      const operation = await adapter.start(file, { kind: 'embedding', batchId: 'batch_1' }, connection)
      t.true((await adapter.check(operation, connection)).isOver)
      const [answer] = await all(adapter.results(operation, connection))
      if (!answer || 'error' in answer) return void t.fail('expected an answer')
      t.deepEqual(openai.direct.embedding!.answer(answer.json, one).data[0]!.embedding, emulated.vectorOf('abc', 2))
    },
    { polls: 1 },
  ))

const uploadFaults: [string, Reply, string][] = [
  ['too many requests', emulated.rateLimited('7'), 'rate_limited'],
  ['a fault', emulated.serverError, 'server_error'],
  ['an answer without a handle', json(200, {}), 'invalid_response'],
  ['a broken connection', reset, 'connection'],
]
for (const [what, reply, reason] of uploadFaults)
  test(`an upload answered with ${what} is ${reason}, and started nothing`, t =>
    using(async ({ emulator }, connection) => {
      emulator.next(reply)
      const error = await providerFault(started(connection, 'one'))
      t.deepEqual([error.reason as string, error.unsent], [reason, true])
      t.is(error.retryAfterMs, reason === 'rate_limited' ? 7_000 : null)
      t.is(emulator.requests.length, 1)
    }))

test('a file that OpenAI refuses is told from a look that failed', t =>
  using(async (world, connection) => {
    const twice = fileOf(['one', 'two'])
    const text = (await new Response(await collected(twice)).text()).replace('"l2"', '"l1"')
    const file = sourceOf('https://files.example/a.jsonl', twice.contentType, null, Buffer.from(text))
    const refused = await adapter.start(file, { kind: 'chat', batchId: 'batch_1' }, connection)
    const error = await providerFault(adapter.check(refused, connection))
    t.deepEqual([error.reason, error.status], ['invalid_request', null])
    t.regex(error.message, /custom_id 'l1' was used before/)

    const message = 'Enqueued token limit reached for gpt-4o-mini in organization org-abcdef12345. Limit: 90,000.'
    world.refuse({ code: 'token_limit_exceeded', line: null, message, param: null })
    const full = await started(connection, 'one')
    const limit = await providerFault(adapter.check(full, connection))
    t.is(limit.reason, 'invalid_request')
    t.regex(limit.message, /^Enqueued token limit reached .* organization \[redacted\]/)

    world.emulator.next(json(200, { id: 'batch_1', status: 'failed', errors: null }))
    const unexplained = await providerFault(adapter.check(full, connection))
    t.deepEqual([unexplained.reason, unexplained.status], ['invalid_request', null])

    world.emulator.next(emulated.failure(400, 'No.', 'invalid_request_error', null))
    t.is((await providerFault(adapter.check(full, connection))).status, 400)
  }))

async function collected(source: ReturnType<typeof fileOf>): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(Buffer.concat(await (await source.open()).toArray()))
}

test('known of OpenAI’s batches: whether each state is final', t =>
  using(async ({ emulator }, connection) => {
    for (const [status, over] of Object.entries({
      validating: false,
      in_progress: false,
      finalizing: false,
      cancelling: false,
      completed: true,
      expired: true,
      cancelled: true,
    })) {
      emulator.next(json(200, { id: 'batch_1', status }))
      t.deepEqual(await adapter.check({ id: 'batch_1' }, connection), { isOver: over, completed: 0, failed: 0 })
    }
    emulator.next(json(200, { id: 'batch_1', status: 'toString' }))
    t.is((await providerFault(adapter.check({ id: 'batch_1' }, connection))).reason, 'invalid_response')
  }))

test('results in neither file: no answers', t =>
  using(async ({ emulator }, connection) => {
    emulator.next(json(200, { id: 'batch_1', status: 'cancelled', output_file_id: null }))
    t.deepEqual(await outcomes({ id: 'batch_1' }, connection), {})
  }))

test('found by our own name of the batch alone, on whatever page, also when its answer was lost', t =>
  using(async ({ emulator, script, url }, connection) => {
    t.is(await adapter.find!('batch_1', connection), null)
    script.lost = 1
    t.is((await providerFault(started(connection, 'one'))).reason, 'connection')
    const found = await adapter.find!('batch_1', connection)
    t.true((await adapter.check(found!, connection)).completed >= 0)

    const sdk = new OpenAI({ apiKey: 'sk-test', baseURL: `${url}/v1`, maxRetries: 0 })
    const [lost] = await all(sdk.batches.list())
    const create = (metadata: Record<string, string> | null) =>
      sdk.batches.create({
        input_file_id: lost!.input_file_id,
        endpoint: '/v1/chat/completions',
        completion_window: '24h',
        metadata,
      })
    await create(null)
    await create({ headgate_batch: 'batch_10', other: 'batch_1' })
    for (let count = 0; count < 120; count++) await create({ other: 'batch_1' })
    emulator.reset()
    t.deepEqual(await adapter.find!('batch_1', connection), found)
    t.is(emulator.requests.length, 2)
    t.is(await adapter.find!('batch_2', connection), null)
  }))

test('a list without an end is not read for ever', t =>
  using(async ({ emulator }, connection) => {
    emulator.next(...Array.from({ length: 20 }, () => json(200, { data: [{ id: 'batch_9' }], has_more: true })))
    t.is(await adapter.find!('batch_1', connection), null)
    t.is(emulator.requests.length, 10)
  }))

// The official SDK is the judge of the emulator.
test('200 the SDK uploads, creates, looks, lists, cancels, downloads and deletes', async t => {
  const world = await startOpenAiBatches({
    polls: 3,
    instead: ({ id }) => (id === 'b' ? emulated.contextLength : null),
  })
  t.teardown(() => world.close())
  const sdk = new OpenAI({ apiKey: 'sk-test', baseURL: `${world.url}/v1`, maxRetries: 0 })
  const request = (custom_id: string, more: object = {}) => {
    const body = { model: 'gpt-test', messages: [{ role: 'user', content: custom_id }] }
    return JSON.stringify({ custom_id, method: 'POST', url: '/v1/chat/completions', body, ...more })
  }
  const upload = async (...lines: string[]) =>
    sdk.files.create({ file: await toFile(Buffer.from(lines.join('\n')), 'in.jsonl'), purpose: 'batch' })
  const create = (input_file_id: string) =>
    sdk.batches.create({ input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h' })

  const input = await upload(request('a'), request('b'))
  t.like(input, { object: 'file', purpose: 'batch', filename: 'in.jsonl', status: 'processed' })
  t.is((await sdk.files.retrieve(input.id)).bytes, input.bytes)
  const { id, status } = await create(input.id)
  t.is(status, 'validating')
  t.is((await sdk.batches.retrieve(id)).status, 'in_progress')
  t.is((await sdk.batches.retrieve(id)).status, 'finalizing')
  const done = await sdk.batches.retrieve(id)
  t.is(done.status, 'completed')
  t.deepEqual(done.request_counts, { total: 2, completed: 1, failed: 1 })
  const output = JSON.parse(await (await sdk.files.content(done.output_file_id!)).text())
  t.like(output, { custom_id: 'a', error: null })
  t.is(output.response.body.choices[0].message.content, 'Echo: a')
  t.is(output.response.body.usage.total_tokens, 1 + emulated.tokensIn('Echo: a'))
  const errors = JSON.parse(await (await sdk.files.content(done.error_file_id!)).text())
  t.is(errors.response.body.error.code, 'context_length_exceeded')

  const wrong = await create(
    (await upload(request('a'), 'no', request('a'), request('c', { url: '/v1/embeddings' }))).id,
  )
  const refused = await sdk.batches.retrieve(wrong.id)
  t.is(refused.status, 'failed')
  t.deepEqual(
    refused.errors!.data!.map(({ code, line }) => [code, line]),
    [
      ['invalid_json_line', 2],
      ['duplicate_custom_id', 3],
      ['url_mismatch', 4],
    ],
  )
  const stopped = await create((await upload(request('a'))).id)
  t.is((await sdk.batches.cancel(stopped.id)).status, 'cancelling')
  t.is((await sdk.batches.retrieve(stopped.id)).status, 'cancelled')
  await t.throwsAsync(sdk.batches.cancel(stopped.id), { instanceOf: OpenAI.ConflictError })
  const batches = await all(sdk.batches.list({ limit: 1 }))
  t.deepEqual(
    batches.map(batch => batch.id),
    [stopped.id, wrong.id, id],
  )
  t.true((await sdk.files.delete(input.id)).deleted)
  await t.throwsAsync(sdk.files.retrieve(input.id), { instanceOf: OpenAI.NotFoundError })
  await t.throwsAsync(create(input.id), { instanceOf: OpenAI.BadRequestError })
  const chat = await sdk.chat.completions.create({ model: 'gpt-test', messages: [{ role: 'user', content: 'hi' }] })
  t.is(chat.choices[0]!.message.content, 'Echo: hi')
})
