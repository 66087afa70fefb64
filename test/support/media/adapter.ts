import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import { InlineFiles } from '../../../shared/files/inline-files.ts'
import { ByteBudget } from '../../../shared/io/byte-budget.ts'
import type { SyncKind, WorkKinds } from '../../../shared/kinds/index.ts'
import type { SoundFormat } from '../../../shared/kinds/sound.ts'
import { authHeader } from '../../../shared/providers/connections.ts'
import type { Protocol, ProviderConnection, Source, SyncAdapter, SyncCall } from '../../../shared/providers/contract.ts'
import { type FailureReason, ProviderError } from '../../../shared/providers/provider-error.ts'
import { hang, json, type Recorded, type Reply, reset, text } from '../../emulators/emulator.ts'
import { connectionTo, providerFault, secret } from '../jobs/queued-adapter.ts'
import { mutants, withMore } from '../providers/answer-mutants.ts'
import { type Answer, halfOf, type Relay, startRelay } from '../providers/answer-relay.ts'
import type { ExecutionContext, Test } from '../test.ts'
import { type Taken, taken } from './output.ts'

const catalog = loadCatalog()
const memory = new ByteBudget(1e9, 'files')

/** What a call without a gateway has its files in. */
export function inlineFiles({ sources }: Pick<SyncCall<SyncKind>, 'sources'>): InlineFiles {
  return new InlineFiles(memory, 'org_alone', sources)
}

/** A synchronous call of a catalog model at one provider; `signal` aborts it. */
export function syncCallOf<K extends SyncKind>(
  provider: string,
  model: string,
  input: SyncCall<K>['input'],
  sources: Record<string, Source> = {},
  signal: AbortSignal = new AbortController().signal,
): SyncCall<K> {
  const row = catalog.models.get(model)
  const target = row && catalog.targets(row).find(found => found.provider.name === provider)
  if (!row || !target) throw new Error(`the catalog has no ${model} at ${provider}`)
  return {
    target: { model: row, ...target },
    jobId: 'img_conformance0',
    attempt: 1,
    input,
    sources: new Map(Object.entries(sources)),
    callbackUrl: null,
    signal,
  }
}

/** An emulated provider; `finish` ends work that is waited for, where its emulator does not do so by itself. */
type World = { url: string; close(): Promise<void>; finish?(): void }
type Subject<K extends SyncKind> = {
  name: string
  /** Its name in the catalog. */
  provider: string
  protocol: Protocol
  kind: K
  /** Started for each test. */
  start(): Promise<World>
  /** A call that succeeds. */
  call(): SyncCall<K>
  /** Further calls that succeed, by what is special about them. */
  others?: { [what: string]: () => SyncCall<K> }
  /** An error as the provider writes it, with these words. */
  error?(status: number, message: string): Reply
  /** Where a status means something else at this provider. */
  reasons?: { [status: number]: FailureReason }
}
type Bench<K extends SyncKind> = {
  subject: Subject<K>
  relay: Relay
  /** Has a call done and takes its output to the end; null = it is pending for ever. */
  run(call?: SyncCall<K>, connection?: ProviderConnection): Promise<Taken | null>
}
type State = (title: string, body: (t: ExecutionContext, bench: Bench<SyncKind>) => Promise<void>) => void

const meanings: [status: number, reason: FailureReason][] = [
  [400, 'invalid_request'],
  [401, 'auth'],
  [402, 'quota'],
  [403, 'auth'],
  [404, 'model_unavailable'],
  [405, 'model_unavailable'],
  [408, 'server_error'],
  [410, 'model_unavailable'],
  [413, 'invalid_request'],
  [422, 'invalid_request'],
  [429, 'rate_limited'],
  [451, 'model_unavailable'],
  [499, 'server_error'],
  [500, 'server_error'],
  [502, 'server_error'],
  [503, 'overloaded'],
  [529, 'overloaded'],
]
/** The error reasons of invalid answers. */
const senseless: readonly FailureReason[] = ['invalid_response', 'truncated', 'connection']
const nonsense: [what: string, reply: Reply][] = [
  ['a page', text(200, '<html>Welcome</html>')],
  ['empty', text(200, '')],
  ['one without content', (_request, response) => void response.writeHead(204).end()],
  ['JSON that is cut off', text(200, '{"data":[{"b64_json":"iVBO', { 'content-type': 'application/json' })],
  ...[{}, [], null, 'hello', 7].map((body): [string, Reply] => [JSON.stringify(body), json(200, body)]),
]
const maxLooks = 10
const maxMutants = 200
const maxWaitMs = 10_000
const signature = 'signature-of-an-address'

/** The conformance tests of every synchronous media adapter. */
export function conforms<K extends SyncKind>(test: Test, subject: Subject<K>): void {
  const { name, protocol, provider } = subject
  const adapter = protocol.synchronous![subject.kind] as SyncAdapter<K>
  const state = (title: string, body: (t: ExecutionContext, bench: Bench<K>) => Promise<void>) =>
    test(`${name}: ${title}`, async t => {
      const world = await subject.start()
      const relay = await startRelay(world.url)
      const through = connectionTo(provider, protocol, relay.url)
      const run: Bench<K>['run'] = async (call = subject.call(), connection = through) => {
        const output = await outputOf(adapter, call, connection, () => world.finish?.())
        return output && taken(output, formatOf(call.input))
      }
      try {
        await body(t, { subject, relay, run })
      } finally {
        await relay.close()
        await world.close()
      }
    })

  for (const [what, call] of Object.entries({ 'as it mostly is': subject.call, ...subject.others }))
    state(`200 with what was asked for, ${what}`, async (t, { relay, run }) => {
      const given = await run(call())
      t.true(given !== null && given.amount > 0)
      assertDiscreet(t, provider, relay.emulator.requests)
    })
  for (const states of [refusals, senselessAnswers, spoiltAnswers]) states(state as State)
  state('connection when it breaks; unsent when the connection is refused', async (t, { relay, run }) => {
    relay.emulator.next(reset)
    const broken = await providerFault(run())
    t.deepEqual([broken.reason, broken.unsent], ['connection', false])
    const nobody = await providerFault(run(subject.call(), connectionTo(provider, protocol, 'http://127.0.0.1:1')))
    t.deepEqual([nobody.reason, nobody.unsent], ['connection', true])
    assertQuiet(t, nobody)
  })
  if ('make' in adapter) abandonedCalls(state as State)
}

function refusals(state: State): void {
  for (const [status, usual] of meanings)
    state(`${status} is classified, and told without secrets`, async (t, { subject, relay, run }) => {
      const words = `No: https://files.example/a.png?token=${signature}${status === 401 ? ` ${secret}` : ''}`
      const reply = (subject.error ?? usualError)(status, words)
      relay.emulator.next((request, response) => {
        response.setHeader('retry-after', '7')
        return reply(request, response)
      })
      const error = await providerFault(run())
      t.is(error.reason, subject.reasons?.[status] ?? usual)
      t.deepEqual([error.status, error.retryAfterMs, error.unsent], [status, 7_000, false])
      assertQuiet(t, error)
    })
}

/** An error whose words are where most providers have them. */
function usualError(status: number, message: string): Reply {
  return json(status, { error: { message, type: 'error', param: null, code: null }, message, detail: message })
}

function senselessAnswers(state: State): void {
  for (const [what, reply] of nonsense)
    state(`invalid_response when the answer is ${what}`, async (t, { relay, run }) => {
      relay.emulator.next(reply)
      const error = await providerFault(run())
      t.true(senseless.includes(error.reason), error.reason)
      assertQuiet(t, error)
    })
}

/** Each answer of a call in turn: with more in it, broken off, or with one value changed. */
function spoiltAnswers(state: State): void {
  state('200 when the provider says more than is known', async (t, { relay, run }) => {
    const given = await run()
    relay.spoil(withMore)
    t.deepEqual(await run(), given)
  })
  state('truncated, connection or invalid_response when an answer breaks off', async (t, { relay, run }) => {
    for (const [step, whole] of await stepsOf(relay, run))
      for (const then of ['break', 'end'] as const) {
        // Half a file of sound is a shorter one, unless the connection says otherwise.
        if (then === 'end' && !isText(whole)) continue
        const from = relay.emulator.requests.length
        relay.spoil((answer, i) => (i === from + step ? halfOf(answer, then) : null))
        const error = await providerFault(run())
        t.true(senseless.includes(error.reason), `half of answer ${step}, then ${then}: ${error.reason}`)
        assertQuiet(t, error)
      }
  })
  state('an answer or a ProviderError when one value is not as it must be', async (t, { relay, run }) => {
    const steps = await stepsOf(relay, run)
    for (const [step, whole] of steps)
      for (const { what, answer } of mutants(whole, maxMutants / steps.length)) {
        const from = relay.emulator.requests.length
        const mutant = (index: number) => (index === from + step ? answer : null)
        // The emulator need not receive the last request: its answer is known, and nothing depends on it.
        if (step === steps.at(-1)![0]) relay.replace(mutant)
        else relay.spoil((_answer, index) => mutant(index))
        const error = await run().then(
          () => null,
          error => error,
        )
        if (error instanceof ProviderError) assertQuiet(t, error)
        else t.is(error, null, `answer ${step}, ${what}: ${error?.stack}`)
      }
    t.pass() // Bytes have no values.
  })
}

/** The answers to the adapter's own requests of one call, each with the number of its request. */
async function stepsOf(relay: Relay, run: () => Promise<unknown>): Promise<[step: number, answer: Answer][]> {
  await run()
  const { requests } = relay.emulator
  const own = [...requests.entries()].filter(([, { headers }]) => JSON.stringify(headers).includes(secret))
  return own.map(([step, request]) => [step, relay.answers.get(request)!])
}

/** Calls whose client has disconnected. */
function abandonedCalls(state: State): void {
  state('closed at the provider once the client has disconnected', async (t, { subject, relay, run }) => {
    for (const how of ['before it begins', 'in its middle'] as const) {
      const left = new AbortController()
      const { promise: sent, resolve } = Promise.withResolvers<Recorded>()
      if (how === 'in its middle') relay.spoil(answer => reported(halfOf(answer, 'hang'), resolve))
      else relay.emulator.next(reported(hang, resolve))
      const over = run({ ...subject.call(), signal: left.signal }).then(
        () => null,
        error => error,
      )
      const { aborted } = await within(sent, 'the request has come')
      left.abort()
      await within(aborted, `the request is closed, ${how}`)
      const error = await within(over, `the call is over, ${how}`)
      t.truthy(error)
      // It was not the time-out that closed it.
      t.not(error.reason, 'timeout')
    }
  })
}

function reported(reply: Reply, report: (request: Recorded) => void): Reply {
  return (request, response) => {
    void reply(request, response)
    report(request)
  }
}

async function within<T>(work: Promise<T>, what: string): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`waited in vain until ${what}`)), maxWaitMs)
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}

/** The output of a call, in one exchange or by work that is looked at until it ends; null = it is pending for ever. */
async function outputOf<K extends SyncKind>(
  adapter: SyncAdapter<K>,
  call: SyncCall<K>,
  connection: ProviderConnection,
  finish: () => void,
): Promise<WorkKinds[K]['output'] | null> {
  if ('make' in adapter) return adapter.make(call, connection)
  const operation = await adapter.start(call, connection, null)
  if (JSON.stringify(operation).includes(secret)) throw new Error('an operation has the secret')
  finish()
  for (let look = 0; look < maxLooks; look++) {
    const report = await adapter.check(JSON.parse(JSON.stringify(operation)), connection)
    if (report.status === 'completed') return report.output
    if (report.status === 'failed') throw report.error
  }
  return null
}

function formatOf(input: object): SoundFormat | null {
  return 'format' in input ? (input.format as SoundFormat) : null
}

function isText({ headers }: Answer): boolean {
  return /json|text/.test(headers['content-type'] ?? '')
}

/** The API key is in its own header, and nowhere else. */
function assertDiscreet(t: ExecutionContext, provider: string, requests: readonly Recorded[]): void {
  const [carrier] = Object.keys(authHeader(catalog.providers.get(provider)!.auth, secret, 0))
  t.true(requests.some(({ headers }) => String(headers[carrier!]).includes(secret)))
  for (const { path, query, headers, raw } of requests) {
    const others = { ...headers, [carrier!]: undefined }
    t.false(`${path} ${query} ${JSON.stringify(others)} ${raw}`.includes(secret))
  }
}

/** An error message reveals neither our key, nor a file's access token, nor the provider's URL. */
function assertQuiet(t: ExecutionContext, { message }: ProviderError): void {
  t.true(message.length > 0 && message.length <= 1_000)
  for (const hidden of [secret, signature, '127.0.0.1']) t.false(message.includes(hidden), message)
}
