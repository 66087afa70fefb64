import { setImmediate as turn } from 'node:timers/promises'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import { chatRequest } from '../../../shared/kinds/chat.ts'
import type {
  BatchAdapter,
  Call,
  Operation,
  Protocol,
  ProviderConnection,
  Source,
} from '../../../shared/providers/contract.ts'
import type { BatchEmulator, BatchScript } from '../../emulators/batches.ts'
import { json, type Reply, reset, text } from '../../emulators/emulator.ts'
import { connectionTo, providerFault, secret } from '../jobs/queued-adapter.ts'
import { sourceOf } from '../jobs/sources.ts'
import type { Test } from '../test.ts'
import { all, largeFile, resultLine, startStreamingProvider } from './streams.ts'

const catalog = loadCatalog()
const MiB = 1024 * 1024
/** How far a stream of 64 MiB may be ahead of its reader: what sockets and streams hold on the way is well below. */
const maxAheadBytes = 32 * MiB

/** A chat call of a catalog model at one provider. */
export function chatCall(provider: string, model: string, content = 'Hello', more: object = {}): Call<'chat'> {
  const row = catalog.models.get(model)!
  const target = { model: row, ...catalog.targets(row).find(found => found.provider.name === provider)! }
  const body = chatRequest.parse({ model, messages: [{ role: 'user', content }], ...more })
  return { target, body, raw: null, maxTokens: null, media: new Map() }
}

type Subject<World extends BatchEmulator> = {
  provider: string
  protocol: Protocol
  model: string
  start(script?: Partial<BatchScript>): Promise<World>
  /** How the provider refuses to create a batch. */
  refusals: { invalid: Reply; rateLimited: Reply; quota: Reply }
  /** How it refuses single requests, and what of that a caller may not read. */
  single: { invalid: Reply; contextLength: Reply; overloaded: Reply; telling: Reply; secrets: RegExp }
}

/** One adapter, its file format, and its emulator. */
export function batchBench<World extends BatchEmulator>({ provider, protocol, model, start }: Subject<World>) {
  const adapter = protocol.batch!
  const call = (content?: string, more?: object) => chatCall(provider, model, content, more)
  /** A file of chat requests `l1`, `l2`, … with these words. */
  const fileOf = (contents: string[]): Source => {
    const { contentType, before, between, after } = adapter.file
    const entries = contents.map((content, index) => adapter.entry('chat', `l${index + 1}`, call(content)))
    const bytes = Buffer.from(before + entries.join(between) + after)
    return sourceOf('https://files.example/requests.jsonl', contentType, null, bytes)
  }
  return {
    adapter,
    call,
    fileOf,
    connection: (url: string) => connectionTo(provider, protocol, url),
    started: (connection: ProviderConnection, ...contents: string[]) =>
      adapter.start(fileOf(contents), { kind: 'chat', batchId: 'batch_1' }, connection),
    /** Runs with an emulator whose batches are scripted. */
    using: async <T>(
      body: (world: World, connection: ProviderConnection) => Promise<T>,
      script?: Partial<BatchScript>,
    ) => {
      const world = await start(script)
      try {
        return await body(world, connectionTo(provider, protocol, world.url))
      } finally {
        await world.close()
      }
    },
    /** The outcome of each request by id: the text of its answer, or its error. */
    async outcomes(operation: Operation, connection: ProviderConnection): Promise<Record<string, string>> {
      const found: Record<string, string> = {}
      for (const answer of await all(adapter.results(operation, connection))) {
        if (answer.id in found) throw new Error(`two answers of ${answer.id}`)
        found[answer.id] = 'error' in answer ? answer.error.reason : textOf(answer.json)
      }
      return found
    },
  }
  function textOf(answer: unknown): string {
    return String(protocol.direct.chat!.answer(answer, call()).choices[0]!.message.content)
  }
}

/** Looks until a batch is over. */
async function ended(adapter: BatchAdapter, operation: Operation, connection: ProviderConnection) {
  for (let look = 0; look < 5; look++) {
    const report = await adapter.check(operation, connection)
    if (report.isOver) return report
  }
  throw new Error('the batch does not end')
}

/** The conformance tests of every adapter of providers' own batches. */
export function batchConformance(test: Test, subject: Subject<BatchEmulator>): void {
  const bench = batchBench(subject)
  const { adapter, started, outcomes, using } = bench

  test('started: a handle that survives storage; the key is in its header only', t =>
    using(async ({ emulator }, connection) => {
      const operation = await started(connection, 'one', 'two')
      t.deepEqual(JSON.parse(JSON.stringify(operation)), operation)
      t.true(JSON.stringify(operation).length < 2_000)
      for (const { path, raw } of emulator.requests)
        t.false(`${path} ${raw} ${JSON.stringify(operation)}`.includes(secret))
    }))

  test('running until it is over, then every request with its own answer in any order', t =>
    using(
      async (_world, connection) => {
        const operation = await started(connection, 'one', 'two', 'three')
        t.is((await adapter.check(operation, connection)).isOver, false)
        t.is((await adapter.check(operation, connection)).isOver, false)
        t.deepEqual(await adapter.check(operation, connection), { isOver: true, completed: 3, failed: 0 })
        t.deepEqual(await outcomes(operation, connection), { l1: 'Echo: one', l2: 'Echo: two', l3: 'Echo: three' })
      },
      { polls: 3 },
    ))

  test('over with failed requests: each has its own reason', t => {
    const { invalid, contextLength, overloaded } = subject.single
    const replies: Record<string, Reply> = { l1: invalid, l3: contextLength, l4: overloaded }
    return using(
      async (_world, connection) => {
        const operation = await started(connection, 'one', 'two', 'three', 'four')
        t.deepEqual(await ended(adapter, operation, connection), { isOver: true, completed: 1, failed: 3 })
        const expected = { l1: 'invalid_request', l2: 'Echo: two', l3: 'context_length', l4: 'overloaded' }
        t.deepEqual(await outcomes(operation, connection), expected)
      },
      { instead: ({ id }) => replies[id] ?? null },
    )
  })

  test('expired: finished answers stay, the other requests are known not to have been run', t =>
    using(
      async (_world, connection) => {
        const operation = await started(connection, 'one', 'two', 'three')
        t.deepEqual(await ended(adapter, operation, connection), { isOver: true, completed: 1, failed: 0 })
        t.deepEqual(await outcomes(operation, connection), { l1: 'Echo: one', l2: 'timeout', l3: 'timeout' })
        for (const answer of await all(adapter.results(operation, connection)))
          if ('error' in answer) t.true(answer.error.unsent)
      },
      { answers: 1 },
    ))

  test('cancelled: not over at once, then finished answers stay; a second cancel does nothing', t =>
    using(
      async (_world, connection) => {
        const operation = await started(connection, 'one', 'two')
        await adapter.cancel(operation, connection)
        const report = await ended(adapter, operation, connection)
        t.deepEqual(report, { isOver: true, completed: 1, failed: 0 })
        t.deepEqual(await outcomes(operation, connection), { l1: 'Echo: one', l2: 'server_error' })
        for (const answer of await all(adapter.results(operation, connection)))
          if ('error' in answer) t.true(answer.error.unsent)
        await adapter.cancel(operation, connection)
      },
      { polls: 9, answers: 1 },
    ))

  test('server_error, connection or invalid_response, and no end of the batch, when its status cannot be read', t =>
    using(async ({ emulator }, connection) => {
      const operation = await started(connection, 'one')
      for (const reply of [json(500, {}), text(503, 'busy'), reset, json(200, { hello: 'world' })]) {
        emulator.next(reply)
        const error = await providerFault(adapter.check(operation, connection))
        t.true(['server_error', 'connection', 'invalid_response'].includes(error.reason), error.reason)
      }
      t.true((await ended(adapter, operation, connection)).isOver)
    }))

  const refusals: [string, Reply, string][] = [
    ['a wrong request', subject.refusals.invalid, 'invalid_request'],
    ['too many requests', subject.refusals.rateLimited, 'rate_limited'],
    ['no money left', subject.refusals.quota, 'quota'],
    ['a refused key', json(401, { error: { message: 'Invalid key' } }), 'auth'],
    ['a fault', json(500, {}), 'server_error'],
    ['an answer without a handle', json(200, { hello: 'world' }), 'invalid_response'],
    ['a broken connection', reset, 'connection'],
  ]
  for (const [what, reply, reason] of refusals)
    test(`a create answered with ${what} is ${reason}, and was sent`, t =>
      using(
        async (_world, connection) => {
          const error = await providerFault(started(connection, 'one'))
          t.deepEqual([error.reason as string, error.unsent], [reason, false])
        },
        { refusals: [reply] },
      ))

  test('a start that cannot connect is known to have had no effect', async t => {
    const error = await providerFault(started(bench.connection('http://127.0.0.1:1'), 'one'))
    t.deepEqual([error.reason, error.unsent], ['connection', true])
  })

  test('the provider’s words about its account and keys do not come through', t =>
    using(
      async (_world, connection) => {
        const operation = await started(connection, 'one')
        await ended(adapter, operation, connection)
        const [answer] = await all(adapter.results(operation, connection))
        if (!answer || !('error' in answer)) return void t.fail('expected an error')
        t.notRegex(answer.error.message, subject.single.secrets)
        t.true(answer.error.message.length > 0)
      },
      { instead: () => subject.single.telling },
    ))

  test('an entry is one line without `stream`, whatever bytes the caller sent', t => {
    const call = bench.call('one', { stream: true })
    const raw = Buffer.from(JSON.stringify(call.body, null, 2))
    const entry = adapter.entry('chat', 'l"1', { ...call, raw })
    t.false(entry.includes('\n'))
    t.is(JSON.parse(entry).custom_id, 'l"1')
    t.notRegex(entry, /"stream/)
  })

  test('a large file is read as fast as it is sent, and no faster', async t => {
    const provider = await startStreamingProvider()
    const { file, made } = largeFile(adapter.file.contentType, 64)
    let ahead = 0
    const open = async () =>
      (await file.open()).on('data', () => {
        ahead = Math.max(ahead, made() - provider.receivedBytes())
      })
    await adapter.start({ ...file, open }, { kind: 'chat', batchId: 'batch_1' }, bench.connection(provider.url))
    t.true(provider.receivedBytes() >= 64 * MiB)
    t.true(ahead > 0 && ahead <= maxAheadBytes, `${ahead} bytes ahead`)
    await provider.close()
  })

  test('large results are received as fast as they are read, and no faster', async t => {
    const line = resultLine('l1', 'a'.repeat(MiB))
    let sent = 0
    let read = 0
    let ahead = 0
    const provider = await startStreamingProvider(async function* () {
      for (let count = 0; count < 64; count++) {
        sent += line.length
        ahead = Math.max(ahead, sent - read)
        yield line
      }
    })
    for await (const _answer of adapter.results({ id: 'b1' }, bench.connection(provider.url))) {
      read += line.length
      await turn()
    }
    t.is(read, 64 * line.length)
    t.true(ahead > 0 && ahead <= maxAheadBytes, `${ahead} bytes ahead`)
    await provider.close()
  })

  test('results that are left early let go of their connection', async t => {
    const provider = await startStreamingProvider(async function* () {
      yield resultLine('l1', 'one')
      await new Promise(() => {})
    })
    for await (const { id } of adapter.results({ id: 'b1' }, bench.connection(provider.url))) {
      t.is(id, 'l1')
      break
    }
    t.is(await provider.ended, 'left')
    await provider.close()
  })

  test('results that are cut off fail with the connection, after what came', async t => {
    const provider = await startStreamingProvider(async function* () {
      yield resultLine('l1', 'one')
      throw new Error('cut off')
    })
    const seen: string[] = []
    const reading = async () => {
      for await (const { id } of adapter.results({ id: 'b1' }, bench.connection(provider.url))) seen.push(id)
    }
    const error = await providerFault(reading())
    t.is(error.reason, 'connection')
    t.true(seen.length <= 1)
    await provider.close()
  })

  test('lines that make no sense: passed over without an id, else an answer that is not understood', async t => {
    const lines = ['', 'null', '[]', 'no json', '{"custom_id":7}', '{"custom_id":""}', '{"id":"x"}']
    const unclear = ['{"custom_id":"l1"}', '{"custom_id":"l2","response":null,"error":null,"result":{"type":"dreamt"}}']
    const provider = await startStreamingProvider(async function* () {
      const answered = [resultLine('l3', { text: 'three' }), resultLine('l4', 'four'), resultLine('l5', null)]
      yield [...lines, ...unclear, ...answered.map(line => line.trim()), resultLine('l6', undefined).trim()].join('\n')
    })
    const answers = await all(adapter.results({ id: 'b1' }, bench.connection(provider.url)))
    t.deepEqual(
      answers.map(answer => [answer.id, 'error' in answer ? answer.error.reason : answer.json]),
      [
        ['l1', 'invalid_response'],
        ['l2', 'invalid_response'],
        ['l3', { text: 'three' }],
        ['l4', 'invalid_response'],
        ['l5', 'invalid_response'],
        ['l6', 'invalid_response'],
      ],
    )
    await provider.close()
  })
}
