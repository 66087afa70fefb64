import { GatewayError } from '../../../shared/base/errors.ts'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import { openPool } from '../../../shared/io/http.ts'
import type { QueuedKind } from '../../../shared/kinds/index.ts'
import { authHeader } from '../../../shared/providers/connections.ts'
import type {
  Operation,
  Protocol,
  ProviderConnection,
  QueuedAdapter,
  QueuedCall,
  Source,
} from '../../../shared/providers/contract.ts'
import { openConnection } from '../../../shared/providers/open-connection.ts'
import { ProviderError } from '../../../shared/providers/provider-error.ts'
import { type Emulator, json, type Reply, reset, text } from '../../emulators/emulator.ts'
import type { ExecutionContext, Test } from '../test.ts'

export const secret = 'secret-key-of-the-gateway:and-its-other-half'
const timeouts = { connectTimeoutMs: 2_000, firstByteTimeoutMs: 5_000, idleTimeoutMs: 5_000, totalTimeoutMs: 10_000 }
const catalog = loadCatalog()

/** A connection to an emulator at `url`, as the gateway would open one to the provider of this catalog name. */
export function connectionTo(name: string, protocol: Protocol, url: string): ProviderConnection {
  const provider = catalog.providers.get(name)!
  // The path of the real base URL stays, so that paths are tested whole.
  const prefix = new URL(provider.base_url).pathname.replace(/\/+$/, '')
  const pool = openPool(url, timeouts, 16)
  const authorize = () => authHeader(provider.auth, secret, Date.now())
  return openConnection({ provider, protocol, pool, baseUrl: url + prefix, prefix, timeouts, authorize })
}

/** A call of a catalog model at one provider. */
export function callOf<K extends QueuedKind>(
  provider: string,
  model: string,
  input: QueuedCall<K>['input'],
  sources: Record<string, Source> = {},
  callbackUrl: string | null = null,
): QueuedCall<K> {
  const row = catalog.models.get(model)
  const target = row && catalog.targets(row).find(found => found.provider.name === provider)
  if (!row || !target) throw new Error(`the catalog has no ${model} at ${provider}`)
  return {
    target: { model: row, ...target },
    jobId: 'job_conformance0',
    attempt: 1,
    input,
    sources: new Map(Object.entries(sources)),
    callbackUrl,
  }
}

/** The ProviderError that work ends with. */
export async function providerFault(work: Promise<unknown>): Promise<ProviderError> {
  const error = await work.then(
    () => null,
    error => error,
  )
  if (!(error instanceof ProviderError)) throw new Error(`expected a ProviderError, got ${error}`)
  return error
}

/** The field that a start is refused for, before anything is sent. */
export async function refusedField(work: Promise<unknown>): Promise<string | null> {
  const error = await work.then(
    () => null,
    error => error,
  )
  if (!(error instanceof GatewayError) || error.code !== 'unsupported_capability' || error.status !== 400)
    throw new Error(`expected a refusal, got ${error}`)
  return error.param
}

type Subject<K extends QueuedKind> = {
  name: string
  provider: string
  protocol: Protocol
  kind: K
  /** Started for each test; `emulator` records and can be given one-off replies. */
  start(): Promise<{ emulator: Emulator; finish(): void; fail(): void; close(): Promise<void> }>
  call(): QueuedCall<K>
  /** How the provider says that our account has no money, that a request is wrong, and that it is too much. */
  replies: { invalid: Reply; rateLimited: Reply; quota?: Reply }
}

/** The conformance tests of every adapter of slow work. */
export function queuedConformance<K extends QueuedKind>(test: Test, subject: Subject<K>): void {
  const { name, protocol, provider } = subject
  const adapter = protocol.queued![subject.kind] as QueuedAdapter<K>
  type World = Awaited<ReturnType<typeof subject.start>>
  const run = (
    title: string,
    body: (t: ExecutionContext, world: World, connection: ProviderConnection) => Promise<void>,
  ) =>
    test(`${name}: ${title}`, async t => {
      const world = await subject.start()
      try {
        await body(t, world, connectionTo(provider, protocol, world.emulator.url))
      } finally {
        await world.close()
      }
    })

  run(
    'started: one create request, a handle that survives storage and holds no secret',
    async (t, { emulator }, connection) => {
      const operation = await adapter.start(subject.call(), connection, null)
      const creating = emulator.requests.filter(({ method }) => method === 'POST')
      t.is(creating.length, 1)
      t.deepEqual(JSON.parse(JSON.stringify(operation)), operation)
      t.false(JSON.stringify(operation).includes('secret-key'))
      t.true(JSON.stringify(operation).length < 2_000)
    },
  )
  run('pending until it is finished, then completed with files', async (t, { finish }, connection) => {
    let operation = await adapter.start(subject.call(), connection, null)
    const early = await adapter.check(operation, connection)
    t.is(early.status, 'pending')
    if (early.status === 'pending') t.true(early.progress === null || (early.progress >= 0 && early.progress < 100))
    finish()
    let report = await adapter.check(operation, connection)
    for (let part = 0; report.status === 'next' && part < 5; part++) {
      operation = await adapter.start(subject.call(), connection, report.operation)
      finish()
      report = await adapter.check(operation, connection)
    }
    if (report.status !== 'completed') return void t.fail(`expected completed, got ${report.status}`)
    t.true(report.output.files.length > 0)
    for (const file of report.output.files) t.true('bytes' in file || URL.canParse(file.url))
  })
  run('failed with the provider’s reason, without secrets', async (t, { fail }, connection) => {
    const operation = await adapter.start(subject.call(), connection, null)
    fail()
    const report = await adapter.check(operation, connection)
    if (report.status !== 'failed') return void t.fail(`expected failed, got ${report.status}`)
    t.true(report.error instanceof ProviderError)
    t.true(report.error.message.length > 0 && !report.error.message.includes('secret-key'))
  })
  run('a look that fails says nothing of the work', async (t, { emulator, finish }, connection) => {
    const operation = await adapter.start(subject.call(), connection, null)
    for (const reply of [json(500, { message: 'down' }), json(503, {}), reset]) {
      emulator.next(reply)
      t.true((await providerFault(adapter.check(operation, connection))) instanceof ProviderError)
    }
    finish()
    t.regex((await adapter.check(operation, connection)).status, /completed|next/)
  })

  const refusals: [string, Reply | undefined, string][] = [
    ['a wrong request', subject.replies.invalid, 'invalid_request'],
    ['too many requests', subject.replies.rateLimited, 'rate_limited'],
    ['no money left', subject.replies.quota, 'quota'],
    [
      'a refused key',
      json(401, { message: 'Invalid API key', detail: 'Invalid API key', error: 'Invalid API key' }),
      'auth',
    ],
    ['a fault', json(500, { message: 'Internal error' }), 'server_error'],
    ['an overload', json(503, { message: 'Overloaded' }), 'overloaded'],
    // It may have passed the request on, so it must not be classified as a refusal.
    ['the 503 of a proxy on the way', text(503, 'upstream connect error or disconnect/reset'), 'server_error'],
    ['a 503 that says when to come back', text(503, '', { 'retry-after': '7' }), 'overloaded'],
    ['an answer without a handle', json(200, { hello: 'world' }), 'invalid_response'],
    ['an answer that is no JSON', json(200, 'hello'), 'invalid_response'],
    ['a broken connection', reset, 'connection'],
  ]
  for (const [what, reply, reason] of refusals) {
    if (!reply) continue
    run(`a start answered with ${what} is ${reason}`, async (t, { emulator }, connection) => {
      emulator.next(reply)
      const error = await providerFault(adapter.start(subject.call(), connection, null))
      t.is(error.reason, reason as ProviderError['reason'])
      t.false(error.unsent)
      t.false(error.message.includes('secret-key'))
    })
  }
  run('a start that cannot connect is known to have had no effect', async (t, world) => {
    const gone = connectionTo(provider, protocol, 'http://127.0.0.1:1')
    const error = await providerFault(adapter.start(subject.call(), gone, null))
    t.is(error.reason, 'connection')
    t.true(error.unsent)
    t.is(world.emulator.requests.length, 0)
  })
  if (adapter.cancel)
    run('cancelled work is over', async (t, _world, connection) => {
      const operation = await adapter.start(subject.call(), connection, null)
      await adapter.cancel!(operation, connection)
      const report = await adapter.check(operation, connection).catch(error => ({ status: 'failed', error }))
      t.is(report.status, 'failed')
    })
  if (adapter.find)
    run('found by the job’s own id once it was started, not before', async (t, _world, connection) => {
      t.is(await adapter.find!(subject.call(), connection), null)
      const operation = (await adapter.start(subject.call(), connection, null)) as Operation
      t.deepEqual(await adapter.find!(subject.call(), connection), operation)
    })
}
