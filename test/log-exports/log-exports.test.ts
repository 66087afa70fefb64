// Exports of the logs: what arrives at real destinations, in which order, and what failures, crashes and time do to it.

import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join as joinPath } from 'node:path'
import { Webhook } from 'standardwebhooks'
import type { ShownExport, ShownReplay } from '../../api/routes/present-log-export.ts'
import { generation } from '../../api/schemas/core.ts'
import { newId } from '../../shared/base/ids.ts'
import { dayMs } from '../../shared/base/time.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { LogExportDeliveries } from '../../shared/log-exports/deliveries.ts'
import { watchLogExports } from '../../shared/log-exports/pause.ts'
import { fieldNames, streams } from '../../shared/log-exports/rows.ts'
import type { NewExport } from '../../shared/log-exports/settings.ts'
import { bookUsage } from '../../shared/wallet/booking.ts'
import { provisioningKey } from '../support/api/edge.ts'
import { signUp } from '../support/dashboard/dashboard.ts'
import { eventually } from '../support/gateway.ts'
import { Destination, linesOf, untilDeliverable } from '../support/log-exports/destination.ts'
import { inherited } from '../support/stack.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useGateway, useStores } from '../support/use.ts'
import { usageEventOf } from '../support/wallet/usage-event.ts'

const encryptionKey = 'an operator’s key '.repeat(3)
let offsetMs = 0
const now = () => Date.now() + offsetMs
const advance = (ms: number) => {
  offsetMs += ms
}

const stores = useStores(test)
const gateway = useGateway(
  test,
  { ALLOW_PRIVATE_URLS: 'true', ENCRYPTION_KEY: encryptionKey },
  { stores, clock: { now } },
)
const deliveries = use(test, () => new LogExportDeliveries(gateway.services))

type Created = { data: ShownExport; secret: string | null }

/** An organisation with a destination and a provisioning key. */
async function world(t: ExecutionContext) {
  const { organisationId, visitor, base } = await signUp(gateway)
  const [destination, key] = await Promise.all([Destination.start(), provisioningKey(gateway, organisationId)])
  t.teardown(() => destination.close())
  const call = async <T>(method: string, path = '', body?: unknown) => {
    const response = await gateway.fetch(`/api/v1/log-exports${path}`, { key, method, body })
    return { status: response.status, body: (await response.json()) as T }
  }
  const create = async (settings: object = {}) => {
    const body = {
      name: 'SIEM',
      kind: 'https',
      url: destination.url,
      streams: ['requests'],
      interval_s: 1,
      ...settings,
    }
    await untilDeliverable(gateway)
    const answer = await call<Created>('POST', '', body)
    t.is(answer.status, 201, JSON.stringify(answer.body))
    t.teardown(() => gateway.services.db.logExport.deleteMany({ where: { id: answer.body.data.id } }))
    return answer.body
  }
  const show = async (id: string) => (await call<{ data: ShownExport }>('GET', `/${id}`)).body.data
  return { organisationId, visitor, base, destination, call, create, show }
}

/**
 * Books finished requests in one transaction. Returns their ids when they can be delivered: older transactions of other databases
 * of the server hold them back, and would split what a test expects in one batch. With `held` the transaction waits for it before
 * it commits, and the ids are returned at once.
 */
async function book(organisationId: string, count = 1, fields: object = {}, held: Promise<void> | null = null) {
  const at = now()
  const events = Array.from({ length: count }, () => {
    const common = { org: organisationId, key: 'key_none', month: '2026-11', requestId: newId('req'), cost: 0 }
    return usageEventOf({ id: newId('chatcmpl'), at, ...common, ...fields })
  })
  await gateway.services.rawPool.transaction(async run => {
    await bookUsage(run, events, at)
    await held
  })
  const ids = events.map(({ id }) => id)
  if (held === null) await untilDeliverable(gateway)
  return ids
}

/** Gives exports their turns until something is true. */
async function deliverUntil(is: () => boolean | Promise<boolean>, what: string): Promise<void> {
  await eventually(async () => {
    advance(1_500)
    await deliveries.claim()
    await deliveries.settle()
    return is()
  }, what)
}

const operatorSettings = (url: string): NewExport => {
  return { name: 'All', kind: 'https', url, streams: ['requests'], interval_s: 1 }
}
const idsOf = (rows: Record<string, unknown>[]) => rows.map(({ id }) => id)

test.serial('rows are posted once each, signed, in order, with the chosen fields', async t => {
  const { organisationId, destination, create, show, call } = await world(t)
  const { data, secret } = await create({
    streams: ['requests', 'audit'],
    fields: { requests: ['model', 'cost_usd'] },
    headers: { authorization: 'Bearer of-the-receiver' },
  })
  t.like(data, { status: 'active', headers: ['authorization'], format: 'ndjson', gzip: true, interval_s: 1 })
  const other = await signUp(gateway)
  await book(other.organisationId)
  const first = await book(organisationId, 3)
  await deliverUntil(() => destination.rows('requests').length === 3, 'the first rows are delivered')
  const second = await book(organisationId, 2)
  await deliverUntil(() => destination.rows('requests').length === 5, 'the next rows are delivered')
  t.deepEqual(idsOf(destination.rows('requests')), [...first.sort(), ...second.sort()])
  t.deepEqual(Object.keys(destination.rows('requests')[0]!), [
    ...['object', 'schema_version', 'id', 'created_at', 'model', 'cost_usd'],
  ])
  const batches = destination.batches('requests')
  t.deepEqual(
    batches.map(({ headers }) => headers['headgate-export-sequence']),
    ['1', '2'],
  )
  t.is(new Set(batches.map(({ headers }) => headers['webhook-id'])).size, 2)
  for (const { headers, body } of batches) {
    const at = new Date(Number(headers['webhook-timestamp']) * 1_000)
    t.is(headers['webhook-signature'], new Webhook(secret!).sign(headers['webhook-id']!, at, body))
    t.is(headers.authorization, 'Bearer of-the-receiver')
    t.is(headers['content-type'], 'application/x-ndjson')
  }
  const audited = destination.rows('audit')
  t.deepEqual(
    audited.map(({ action }) => action),
    ['log_export.created'],
  )
  t.deepEqual(Object.keys(audited[0]!).slice(4), fieldNames.audit)
  const state = await show(data.id)
  t.like(state.state[0], { stream: 'requests', rows: 5, batches: 2, attempts: 0, gaps: [] })
  const everything = JSON.stringify([state, audited, await gateway.services.db.logExport.findMany()])
  t.false(everything.includes('of-the-receiver') || everything.includes(secret!))
  t.is((await call('DELETE', `/${data.id}`)).status, 200)
})

test.serial('a row of a transaction that commits after later ones is delivered, before them', async t => {
  const { organisationId, destination } = await world(t)
  const { logExports, db } = gateway.services
  const settings = operatorSettings(destination.url)
  const { row } = await logExports.create(null, settings, operatorActor)
  t.teardown(() => db.logExport.deleteMany({ where: { id: row.id } }))
  const other = await signUp(gateway)
  const hold = Promise.withResolvers<void>()
  t.teardown(() => hold.resolve())
  const begun = book(organisationId, 1, {}, hold.promise)
  await eventually(async () => {
    const [{ count }] = await db.$queryRaw<[{ count: number }]>`
      SELECT count(*)::int AS count FROM pg_stat_activity
      WHERE datname = current_database() AND state = 'idle in transaction' AND backend_xid IS NOT NULL`
    return count > 0
  }, 'the first transaction has written')
  const [later] = await book(other.organisationId, 1, {}, Promise.resolve())
  for (let i = 0; i < 3; i++) {
    advance(1_500)
    await deliveries.claim()
    await deliveries.settle()
  }
  t.deepEqual(destination.received, [])
  hold.resolve()
  const [earlier] = await begun
  await deliverUntil(() => destination.rows('requests').length === 2, 'both are delivered')
  t.deepEqual(idsOf(destination.rows('requests')), [earlier, later])
})

test.serial('a request that is written again is delivered again, with what it has become', async t => {
  const { organisationId, destination, create } = await world(t)
  await create()
  const [id] = await book(organisationId)
  await deliverUntil(() => destination.received.length === 1, 'it is delivered')
  await gateway.services.db.generation.updateMany({ where: { id: id! }, data: { status: 503 } })
  await deliverUntil(() => destination.received.length === 2, 'it is delivered again')
  t.deepEqual(
    destination.rows('requests').map(row => [row.id, row.status]),
    [
      [id, 200],
      [id, 503],
    ],
  )
})

test.serial(
  'a batch that is not accepted is sent again as it was, and holds up neither other streams nor other exports',
  async t => {
    const { organisationId, destination, create, show } = await world(t)
    const { data } = await create({ streams: ['requests', 'audit'] })
    const second = await Destination.start()
    t.teardown(() => second.close())
    const ids = await book(organisationId, 2)
    destination.once(
      (response, { headers }) =>
        void response.writeHead(headers['headgate-export-stream'] === 'requests' ? 503 : 200).end('down'),
      (response, { headers }) =>
        void response.writeHead(headers['headgate-export-stream'] === 'requests' ? 503 : 200).end('down'),
    )
    await create({ url: second.url })
    await deliverUntil(() => destination.received.length >= 2, 'both streams are sent')
    t.is(destination.rows('audit')[0]!.action, 'log_export.created')
    t.like((await show(data.id)).state[0], { attempts: 1, last_error: 'HTTP 503: down' })
    t.is((await show(data.id)).status, 'failing')
    const more = await book(organisationId)
    await deliverUntil(() => second.rows('requests').length === 1, 'the other export is delivered')
    t.deepEqual(idsOf(second.rows('requests')), more)
    advance(60_000)
    await deliverUntil(() => destination.batches('requests').length === 3, 'it is sent again')
    const [failed, again, next] = destination.batches('requests')
    t.is(again!.headers['webhook-id'], failed!.headers['webhook-id'])
    t.is(again!.body, failed!.body)
    t.deepEqual(idsOf(linesOf(again!)), ids.sort())
    t.deepEqual(idsOf(linesOf(next!)), more)
    t.like((await show(data.id)).state[0], { attempts: 0, rows: 3, batches: 2, failing_since: null })
  },
)

test.serial('413: the batch is formed anew with half of the rows, at once', async t => {
  const { organisationId, destination, create } = await world(t)
  await create()
  const ids = await book(organisationId, 4)
  destination.refuse(413)
  await deliverUntil(() => destination.received.length === 3, 'it is sent in parts')
  t.deepEqual(
    destination.received.map(linesOf).map(rows => rows.length),
    [4, 2, 2],
  )
  t.deepEqual(
    destination.received
      .slice(1)
      .flatMap(linesOf)
      .map(({ id }) => id),
    ids.sort(),
  )
})

test.serial('a worker killed between sending and storing it repeats the batch, and loses nothing', async t => {
  const { organisationId, destination, create } = await world(t)
  await create()
  const ids = await book(organisationId, 2)
  const script = joinPath(import.meta.dirname, '../support/log-exports/deliver-once.ts')
  const env = { ...inherited, DATABASE_URL: stores.databaseUrl, REDIS_URL: stores.redisUrl, LOG_LEVEL: 'silent' }
  const child = spawn(process.execPath, [script], {
    env: { ...env, ALLOW_PRIVATE_URLS: 'true', ENCRYPTION_KEY: encryptionKey, STORAGE_URL: 'file:/tmp/headgate-none' },
    stdio: 'ignore',
  })
  t.teardown(() => child.kill('SIGKILL'))
  // The clock of the tests is ahead of that of the process.
  await gateway.services.db.logExport.updateMany({ data: { dueAt: new Date(0) } })
  await gateway.services.db.logExportCursor.updateMany({ data: { nextAttemptAt: new Date(0) } })
  destination.once(() => child.kill('SIGKILL'))
  await eventually(
    () => destination.received.length === 1 && child.killed,
    'it was killed with the batch sent',
    120_000,
  )
  await deliverUntil(() => destination.received.length === 2, 'another worker takes over')
  const [lost, repeated] = destination.received
  t.is(repeated!.headers['webhook-id'], lost!.headers['webhook-id'])
  t.deepEqual(idsOf(linesOf(repeated!)), ids.sort())
})

test.serial('only one worker delivers an export, and a lost lease writes nothing', async t => {
  const { organisationId, destination, create, show } = await world(t)
  const { data } = await create()
  await book(organisationId)
  const answer = Promise.withResolvers<void>()
  destination.once(response => void answer.promise.then(() => response.end()))
  const slow = new LogExportDeliveries(gateway.services)
  t.teardown(() => slow.close())
  await eventually(async () => {
    advance(1_500)
    await slow.claim()
    return destination.received.length === 1
  }, 'one worker sends')
  t.is(await deliveries.claim(), 0)
  await gateway.services.db.logExport.update({ where: { id: data.id }, data: { leaseUntil: new Date(0) } })
  await deliverUntil(() => destination.received.length === 2, 'another worker takes over')
  t.is((await show(data.id)).state[0]!.batches, 1)
  answer.resolve()
  await slow.settle()
  t.is((await show(data.id)).state[0]!.batches, 1)
  t.is(destination.received[0]!.headers['webhook-id'], destination.received[1]!.headers['webhook-id'])
})

test.serial('a replay delivers a window once more beside the live stream, and ends', async t => {
  const { organisationId, destination, create, show, call } = await world(t)
  const before = await book(organisationId, 3)
  advance(60_000)
  const to = new Date(now()).toISOString()
  advance(1_000)
  const { data } = await create()
  const live = await book(organisationId, 2)
  await deliverUntil(() => destination.received.length === 1, 'what is new is delivered')
  const from = new Date(now() - dayMs).toISOString()
  const path = `/${data.id}/replays`
  const started = await call<{ data: ShownReplay[] }>('POST', path, { from, to })
  t.is(started.status, 201)
  t.like(started.body.data, [{ stream: 'requests', status: 'running', progress: 0, rows: 0 }])
  await deliverUntil(async () => (await show(data.id)).replays[0]!.status === 'completed', 'the replay ends')
  t.like((await show(data.id)).replays, [{ progress: 1, rows: 3, batches: 1, attempts: 0 }])
  t.like((await show(data.id)).state, [{ rows: 2, batches: 1 }])
  const [first, replayed] = destination.received
  t.deepEqual(idsOf(linesOf(first!)), live.sort())
  t.deepEqual(idsOf(linesOf(replayed!)), before.sort())
  t.is(replayed!.headers['headgate-export-replay'], started.body.data[0]!.id)
  for (const [window, param] of [
    [{ from: to, to: from }, 'to'],
    [{ from, to: new Date(now() + dayMs).toISOString() }, 'to'],
    [{ from: 'yesterday', to }, 'from'],
    [{ from: '0000-01-01T00:00:00Z', to }, 'from'],
    [{ from: '0001-01-01T00:00:00+14:00', to }, 'from'],
  ] as const) {
    const { status, body } = await call<{ error: { param: string } }>('POST', path, window)
    t.deepEqual([status, body.error.param], [400, param])
  }
  await gateway.services.db.logExport.update({ where: { id: data.id }, data: { enabled: false } })
  const waiting = await call<{ data: ShownReplay[] }>('POST', path, { from, to })
  const cancelled = await call<{ data: ShownReplay }>('POST', `${path}/${waiting.body.data[0]!.id}/cancel`)
  t.like(cancelled.body.data, { status: 'cancelled', rows: 0 })
  t.is((await call('POST', `${path}/replay_none/cancel`)).status, 404)
})

test.serial('paused after five days of failures, with an alert; enabled again it continues where it was', async t => {
  const { organisationId, destination, create, show, call } = await world(t)
  const { data } = await create()
  const ids = await book(organisationId)
  destination.refuse(500)
  await deliverUntil(() => destination.received.length === 1, 'it fails')
  advance(5 * dayMs)
  destination.refuse(500)
  await deliverUntil(async () => !(await show(data.id)).enabled, 'it is paused')
  t.like(await show(data.id), { status: 'paused', enabled: false })
  const alert = await gateway.services.db.alert.findFirst({ where: { organisationId, type: 'log_export.paused' } })
  t.like(alert!.data, { id: data.id, name: 'SIEM', error: 'HTTP 500: no' })
  t.is((await call('PATCH', `/${data.id}`, { enabled: true })).status, 200)
  await deliverUntil(() => destination.received.length === 3, 'it continues')
  t.deepEqual(idsOf(linesOf(destination.received.at(-1)!)), ids)
  t.is((await show(data.id)).status, 'active')
})

test.serial('a gap is noted and alerted when rows are deleted by their age before they were delivered', async t => {
  const { organisationId, destination, create, show } = await world(t)
  const { data } = await create()
  const { db } = gateway.services
  const through = new Date(now() - 500 * dayMs)
  await db.logExportCursor.updateMany({ where: { exportId: data.id }, data: { deliveredThrough: through } })
  const ids = await book(organisationId)
  await deliverUntil(() => destination.received.length === 1, 'what is left is delivered')
  t.deepEqual(idsOf(destination.rows('requests')), ids)
  const [gap] = (await show(data.id)).state[0]!.gaps
  t.like(gap, { from: through.toISOString(), reason: 'retention' })
  t.is(await db.alert.count({ where: { organisationId, type: 'log_export.gap' } }), 1)
  await book(organisationId)
  await deliverUntil(() => destination.received.length === 2, 'the next batch is delivered')
  t.is((await show(data.id)).state[0]!.gaps.length, 1)
})

test.serial('a database whose transactions are counted anew is read from there, with the gap noted', async t => {
  const { organisationId, destination, create, show } = await world(t)
  const { data } = await create()
  await gateway.services.db.logExportCursor.updateMany({ where: { exportId: data.id }, data: { position: 10n ** 15n } })
  const ids = await book(organisationId)
  await deliverUntil(() => destination.rows('requests').some(({ id }) => id === ids[0]), 'it is delivered')
  t.is((await show(data.id)).state[0]!.gaps[0]!.reason, 'transactions_restarted')
})

test.serial(
  'an export of the operator has all organisations, is no other’s to see, and is an incident when it fails',
  async t => {
    const { organisationId, destination, call } = await world(t)
    const { logExports, db } = gateway.services
    const settings = operatorSettings(destination.url)
    const { row } = await logExports.create(null, settings, operatorActor)
    t.teardown(() => db.logExport.deleteMany({ where: { id: row.id } }))
    const other = await signUp(gateway)
    const ids = [...(await book(organisationId)), ...(await book(other.organisationId))]
    await deliverUntil(() => destination.rows('requests').length === 2, 'both are delivered')
    t.deepEqual(idsOf(destination.rows('requests')), ids)
    t.is((await call('GET', `/${row.id}`)).status, 404)
    await book(organisationId)
    for (let i = 0; i < 5; i++) destination.refuse(500)
    await deliverUntil(() => destination.received.length === 2, 'it fails')
    advance(20 * 60_000)
    await watchLogExports(gateway.services)
    t.is(await db.incident.count({ where: { kind: 'log_export', subject: row.id, closedAt: null } }), 1)
    const window = { from: new Date(now() - dayMs).toISOString(), to: new Date(now()).toISOString() }
    const [replay] = await logExports.replay(null, row.id, window, operatorActor)
    await deliverUntil(
      async () => (await db.logExportCursor.findUniqueOrThrow({ where: { id: replay!.id } })).status === 'completed',
      'a replay of all organisations ends',
    )
  },
)

test.serial('400 for settings that cannot work, naming the field; secrets do not follow a new address', async t => {
  const { destination, call, create } = await world(t)
  const base = { name: 'x', kind: 'https', url: destination.url, streams: ['requests'] }
  const s3 = { name: 'x', kind: 's3', streams: ['audit'], bucket: 'logs', access_key_id: 'a', secret_access_key: 'b' }
  for (const [settings, param] of [
    [{ ...base, url: undefined }, 'url'],
    [{ ...base, url: 'ftp://example.com' }, 'url'],
    [{ ...base, streams: [] }, 'streams'],
    [{ ...base, streams: ['prompts'] }, 'streams.0'],
    [{ ...base, format: 'protobuf' }, 'format'],
    [{ ...base, bucket: 'logs' }, 'bucket'],
    [{ ...base, fields: { requests: ['secret'] } }, 'fields.requests.0'],
    [{ ...base, interval_s: 0 }, 'interval_s'],
    [{ ...base, kind: 'otlp', format: 'ndjson' }, 'format'],
    [{ ...base, kind: 'otlp', fields: { audit: ['action'] } }, 'fields'],
    [{ ...s3, bucket: undefined }, 'bucket'],
    [{ ...s3, secret_access_key: undefined }, 'secret_access_key'],
    [{ ...s3, headers: { 'x-a': 'b' } }, 'headers'],
  ] as const) {
    const { status, body } = await call<{ error: { param: string } }>('POST', '', settings)
    t.deepEqual([status, body.error?.param], [400, param], JSON.stringify(body))
  }
  for (const name of ['host', 'Content-Length', 'webhook-id', 'headgate-export'])
    t.is((await call('POST', '', { ...base, headers: { [name]: 'x' } })).status, 400, name)
  const { data } = await create({ headers: { 'x-api-key': 'hidden' } })
  const moved = { url: `${destination.url}/else` }
  t.is((await call('PATCH', `/${data.id}`, moved)).status, 400)
  t.is((await call('PATCH', `/${data.id}`, { ...moved, headers: { 'x-api-key': 'new' } })).status, 200)
})

test.serial('a test sends a sample and tells what the destination answered', async t => {
  const { destination, create, call } = await world(t)
  const { data } = await create()
  destination.refuse(401)
  t.like((await call('POST', `/${data.id}/test`)).body, { delivered: false, status: 401, response: 'no' })
  t.like((await call('POST', `/${data.id}/test`)).body, { delivered: true, status: 200, error: null })
  t.is(destination.rows('test')[1]!.object, 'test')
})

test('exported requests have every field of GET /v1/generation', t => {
  const { object: _, usage, ...shape } = generation.shape
  const exported = new Set<string>(['id', 'created_at', ...fieldNames.requests])
  t.deepEqual(
    [...Object.keys(shape), ...Object.keys(usage.shape)].filter(name => !exported.has(name)),
    [],
  )
})

test('the documentation has every field of every stream', async t => {
  const page = await readFile(joinPath(import.meta.dirname, '../../docs/log-exports.md'), 'utf8')
  for (const stream of streams) {
    const [, section] = page.split(`### \`${stream}\``)
    for (const name of fieldNames[stream])
      t.true(section!.split('###')[0]!.includes(`\`${name}\``), `${stream}: ${name}`)
  }
})
