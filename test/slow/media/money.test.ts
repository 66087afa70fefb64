import { readdir } from 'node:fs/promises'
import fc from 'fast-check'
import { KeepAlive } from '../../../shared/io/keep-alive.ts'
import { openReservations } from '../../../shared/wallet/check.ts'
import { type Account, eventually } from '../../support/gateway.ts'
import {
  check,
  describe,
  isReplay,
  type MediaOutcome,
  type Row,
  type Seen,
  type Step,
} from '../../support/media/media-outcome.ts'
import { behaviours, type Script, ScriptedUpstream } from '../../support/media/upstream.ts'
import { models, requestOf, syncMediaEnvironment } from '../../support/media/world.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'
import { testClock } from '../../support/wallet/money.ts'

/** No history begins later than this: on a slow machine there are fewer of them. */
const enoughMs = 25_000
const histories = 50
const clock = testClock('2027-01-30T10:00:00Z')

const upstream = use(test, () => ScriptedUpstream.start())
const gateway = useGateway(
  test,
  async () => {
    const patience = {
      UPSTREAM_MAX_ATTEMPTS: '3',
      UPSTREAM_MAX_PAUSE_MS: '300',
      UPSTREAM_TOTAL_TIMEOUT_MS: '1500',
      UPSTREAM_READ_ON_MS: '200',
    }
    return { ...(await syncMediaEnvironment(upstream.url)), ...patience }
  },
  { clock },
)
test.before(() => {
  gateway.services.keepAlive = new KeepAlive(20)
})

const leaves: Step['leaves'][] = ['stays', 'stays', 'stays', 'stays', 'at once', 'midway', 'midway', 'during', 'after']
const keys: Step['key'][] = ['live', 'live', 'capped', 'poor', 'test']
const ask = fc.record({
  model: fc.constantFrom(...models),
  n: fc.integer({ min: 1, max: 4 }),
  stream: fc.boolean(),
  form: fc.boolean(),
  byUrl: fc.boolean(),
  withKey: fc.boolean(),
  key: fc.constantFrom(...keys),
  leaves: fc.constantFrom(...leaves),
  script: fc.array(fc.constantFrom(...behaviours), { minLength: 1, maxLength: 4 }),
})
let asked = 0

async function tell(step: Step, secrets: Record<string, string>): Promise<MediaOutcome[]> {
  const name = `ask-${++asked}-`
  const script = upstream.add(name, step.script)
  const sent = requestOf(step, name)
  const withKey = step.withKey && !sent.events
  const send = async (requestId: string, leaves: Step['leaves']): Promise<MediaOutcome> => {
    const from = script.calls.length
    const headers = {
      authorization: `Bearer ${secrets[step.key]}`,
      'x-request-id': requestId,
      ...(withKey && { 'idempotency-key': name }),
      ...(!(sent.body instanceof FormData) && { 'content-type': 'application/json' }),
    }
    const body = sent.body instanceof FormData ? sent.body : JSON.stringify(sent.body)
    const fetching = (signal: AbortSignal) => fetch(gateway.url + sent.path, { method: 'POST', headers, body, signal })
    const seen = await read(fetching, leaves, script)
    if (withKey) await eventually(async () => (await running(name)) === 0, 'the request is over')
    const one = { step: { ...step, leaves }, name, requestId, sent, seen }
    // A call is read on after its client left: providers may be asked meanwhile.
    const to = withKey ? script.calls.length : undefined
    return Object.defineProperty(one, 'calls', {
      enumerable: true,
      get: () => script.calls.slice(from, to),
    }) as MediaOutcome
  }
  const first = await send(`${name}1`, step.leaves)
  return withKey ? [first, await send(`${name}2`, 'stays')] : [first]
}

type Fetching = (signal: AbortSignal) => Promise<Response>

async function running(name: string): Promise<number> {
  return gateway.services.db.idempotencyKey.count({ where: { key: { endsWith: `:${name}` }, status: null } })
}

async function read(fetching: Fetching, leaves: Step['leaves'], script: Script): Promise<Seen> {
  const left = new AbortController()
  const parts: Uint8Array[] = []
  let [status, headers] = [0, new Headers()]
  if (leaves === 'at once') void script.reached.promise.then(() => left.abort())
  if (leaves === 'midway') void script.halted.promise.then(() => left.abort())
  try {
    const response = await fetching(left.signal)
    status = response.status
    headers = response.headers
    script.seen.resolve()
    for await (const part of response.body!) {
      parts.push(part as Uint8Array)
      if (leaves === 'during') left.abort()
    }
    return { status, headers, bytes: Buffer.concat(parts), end: 'whole' }
  } catch {
    return { status, headers, bytes: Buffer.concat(parts), end: left.signal.aborted ? 'left' : 'broken' }
  }
}

/** Every file in storage that is not the result of an answered request; there are none. */
async function leftFiles(): Promise<string[]> {
  const { db, config } = gateway.services
  const rows = await db.file.findMany({ where: { purpose: { not: 'result' } } })
  const known = new Set((await db.file.findMany({ select: { storageKey: true } })).map(({ storageKey }) => storageKey))
  const folder = config.storageUrl.slice('file:'.length)
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  const files = entries
    .filter(entry => entry.isFile())
    .map(entry => `${entry.parentPath}/${entry.name}`.slice(folder.length + 1))
  return [...rows.map(({ storageKey }) => storageKey), ...files.filter(file => !known.has(file))]
}

async function quiet(): Promise<void> {
  const { admission, redis, refusalLog } = gateway.services
  await refusalLog.flush()
  await eventually(() => upstream.open === 0, 'no provider works any more')
  await eventually(async () => {
    await admission.flush()
    return (await openReservations(redis)).length === 0
  }, 'nothing is reserved')
  await eventually(async () => (await leftFiles()).length === 0, 'no file is left')
  const breaches = await gateway.settled()
  if (breaches.length > 0) throw new Error(breaches.join('\n'))
}

async function begin(): Promise<{ accounts: Account[]; secrets: Record<string, string> }> {
  // Whatever failed before is forgotten by now.
  clock.advance(11 * 60_000)
  upstream.scripts.clear()
  const [rich, poor] = await Promise.all([gateway.account(), gateway.account({ usd: '0.03' })])
  const capped = await gateway.key(rich.organisationId, 'live', { monthly_spend_cap_usd: 0.9 })
  return { accounts: [rich, poor], secrets: { live: rich.live, capped, poor: poor.live, test: rich.test } }
}

/** How often requests ended how. */
const tally: Record<string, number> = {}
let lived = 0

async function history(steps: Step[]): Promise<void> {
  const { accounts, secrets } = await begin()
  const told = (await Promise.all(steps.map(step => tell(step, secrets)))).flat()
  const where = { organisationId: { in: accounts.map(({ organisationId }) => organisationId) } }
  const served = told.filter(({ seen, calls }) => calls.length > 0 || (seen.status === 200 && !isReplay(seen)))
  const { db } = gateway.services
  await eventually(async () => (await db.generation.count({ where })) >= served.length, 'every request is in the log')
  await quiet()
  const rows = await db.generation.findMany({ where })
  for (const one of told) {
    const own = rows.filter(({ requestId }) => requestId === one.requestId)
    if (own.length > 1) throw new Error(`${one.name} has ${own.length} rows`)
    await check(one, own[0] ?? null)
    const what = `${one.seen.end} ${one.seen.status}`
    tally[what] = (tally[what] ?? 0) + 1
  }
  lived++
  for (const twice of Map.groupBy(told, ({ name }) => name).values()) onceOnly(twice, rows)
}

/** Under one Idempotency-Key a whole answer is paid once, and seen again as it was. */
function onceOnly([first, second]: MediaOutcome[], rows: Row[]): void {
  if (!second || !first || first.sent.events || first.seen.end !== 'whole' || first.seen.status !== 200) return
  if (!second.seen.bytes.equals(first.seen.bytes))
    throw new Error(`${first.name} is not what it was: ${describe(second)}`)
  if (rows.some(({ requestId }) => requestId === second.requestId)) throw new Error(`${first.name} is paid twice`)
}

test('whatever happens, a usable answer costs its exact price, a disconnected client pays for what was produced, and all else is free', async t => {
  t.timeout(180_000)
  const startedMs = Date.now()
  const property = fc.asyncProperty(fc.array(ask, { minLength: 1, maxLength: 6 }), async steps => {
    if (Date.now() - startedMs < enoughMs) await history(steps as Step[])
  })
  await t.notThrowsAsync(fc.assert(property, { numRuns: histories, includeErrorInReport: true, endOnFailure: true }))
  t.true((tally['whole 200'] ?? 0) > 0)
  t.log(`${lived} histories: ${JSON.stringify(tally)}`)
})
