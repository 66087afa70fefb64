import { join } from 'node:path'
import { migrate } from '../../../dev/migrate.ts'
import type { ErrorCode } from '../../../shared/base/errors.ts'
import { isOutage } from '../../../shared/io/outage.ts'
import { startOpenAiEmulator } from '../../emulators/openai.ts'
import { answersError, provisioningKey, validBodies } from '../../support/api/edge.ts'
import { password, signUp } from '../../support/dashboard/dashboard.ts'
import { eventually, type Gateway, startGateway } from '../../support/gateway.ts'
import {
  closedPostgres,
  frozenPostgres,
  frozenRedis,
  fullFolder,
  readOnlyPostgres,
  redisFaults,
  type StoreFault,
  sql,
} from '../../support/io/store-faults.ts'
import { png } from '../../support/media/media-files.ts'
import { privatePostgres, privateRedis } from '../../support/stack.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use, useFolder } from '../../support/use.ts'

let provisioning: string
const storage = useFolder(test)

const postgres = use(test, privatePostgres)
const redis = use(test, privateRedis)
const upstream = use(test, startOpenAiEmulator)
test.before(async () => {
  await migrate(postgres.url)
})
const gateway = use(test, () =>
  startGateway(
    { databaseUrl: postgres.url, redisUrl: redis.url, drop: async () => {} },
    {
      STORAGE_URL: `file:${join(storage, 'files')}`,
      OPENAI_API_KEY: 'sk-emulated',
      OPENAI_BASE_URL: `${upstream.url}/v1`,
      RUNWAY_API_KEY: 'key_1',
    },
  ),
)
const account = use(test, () => gateway.account())
test.before(async () => {
  provisioning = await provisioningKey(gateway, account.organisationId)
})
const person = use(test, () => signUp(gateway))

const chat = '/v1/chat/completions'
const ready = async () => (await gateway.fetch('/readyz')).status === 200

type Call = [path: string, options: Parameters<Gateway['fetch']>[1]]

/** Requests that must be refused while a store is away, never answered for free and never with 401. */
async function refused(t: Parameters<typeof answersError>[0], calls: Call[]): Promise<void> {
  for (const [path, options] of [['/readyz', {}] as Call, ...calls]) {
    const response = await gateway.fetch(path, options)
    await answersError(t, response, 'service_unavailable' satisfies ErrorCode, null, path)
    t.regex(response.headers.get('retry-after') ?? '', /^[1-9]\d*$/, path)
  }
  const alive = await gateway.fetch('/healthz')
  t.deepEqual(await alive.json(), { status: 'ok' })
}

test.serial('200 of healthz and readyz while both stores are there', async t => {
  for (const path of ['/healthz', '/readyz']) {
    const response = await gateway.fetch(path)
    t.is(response.status, 200)
    t.deepEqual(await response.json(), { status: 'ok' })
  }
})

test.serial('503 for what needs Postgres while it is away, 200 once it is back', async t => {
  const { live, test: sandbox } = account
  const stranger = `svc_sk_live_${'a'.repeat(40)}`
  const body = validBodies[chat]
  // Known keys are served without Postgres.
  t.is((await gateway.fetch(chat, { key: sandbox, body })).status, 200)
  await postgres.kill()
  await refused(t, [
    ['/api/v1/keys', { key: provisioning }],
    ['/api/v1/keys', { key: provisioning, body: { name: 'x' } }],
    ['/v1/generation?id=x', { key: sandbox }],
    [chat, { key: stranger, body }],
    [chat, { key: live, body, headers: { 'idempotency-key': 'a' } }],
  ])
  t.is((await gateway.fetch(chat, { key: sandbox, body })).status, 200)
  const auth = '/dashboard/api/auth'
  const visits: Call[] = [
    ['/dashboard/api/me', {}],
    [`${person.base}/keys`, { body: {} }],
    [`${auth}/get-session`, {}],
    [`${auth}/update-user`, { body: { name: 'x' } }],
    [`${auth}/organization/list-members?organizationId=${person.organisationId}`, {}],
    [`${auth}/sign-in/email`, { body: { email: person.visitor.email, password } }],
  ]
  // It signs no user out.
  for (const [path, options] of visits)
    await answersError(t, await person.visitor.fetch(path, options), 'service_unavailable', null, path)
  await postgres.restart()
  await eventually(ready, 'Postgres is back')
  t.is((await gateway.fetch('/api/v1/keys', { key: provisioning })).status, 200)
  t.truthy(await person.visitor.person())
})

test.serial('503 for everything served while Redis is away, 200 once it is back', async t => {
  const { live, test: sandbox } = account
  const body = validBodies[chat]
  const { hash } = await gateway.services.db.apiKey.findFirstOrThrow({ where: { environment: 'live' } })
  await redis.kill()
  await refused(t, [
    [chat, { key: sandbox, body }],
    ['/v1/embeddings', { key: sandbox, body: validBodies['/v1/embeddings'] }],
    ['/v1/models', { key: live }],
    ['/v1/balance', { key: live }],
    ['/v1/route', { key: sandbox, body }],
    // A change of a key needs Redis to be in force everywhere.
    [`/api/v1/keys/${hash}`, { method: 'PATCH', key: provisioning, body: { name: 'x' } }],
  ])
  await redis.restart()
  await eventually(ready, 'Redis is back')
  t.is((await gateway.fetch(chat, { key: sandbox, body })).status, 200)
})

type Attempt = () => Promise<Response>

function form(fields: Record<string, string>): FormData {
  const sent = new FormData()
  for (const [name, value] of Object.entries(fields)) sent.append(name, value)
  sent.append('file', new Blob([new Uint8Array(png(300_000))], { type: 'image/png' }), 'a.png')
  return sent
}

/** One call of every sort of route: what it needs of the stores differs. */
function attempts(): Record<string, Attempt> {
  const { live, test: sandbox } = account
  const body = validBodies[chat]
  const prompt = { model: 'runway-gen4.5', prompt: 'A lighthouse', seconds: 5 }
  const job = { body, completion_window: '1h' }
  const upload = (path: string, fields: Record<string, string> = {}) =>
    fetch(gateway.url + path, { method: 'POST', headers: { authorization: `Bearer ${live}` }, body: form(fields) })
  const { visitor, base } = person
  const credentials = { email: visitor.email, password }
  return {
    readyz: () => gateway.fetch('/readyz'),
    chat: () => gateway.fetch(chat, { key: live, body }),
    'sandbox chat': () => gateway.fetch(chat, { key: sandbox, body }),
    stream: () => gateway.fetch(chat, { key: live, body: { ...body, stream: true } }),
    'idempotent chat': () =>
      gateway.fetch(chat, { key: live, body, headers: { 'idempotency-key': crypto.randomUUID() } }),
    embeddings: () => gateway.fetch('/v1/embeddings', { key: live, body: validBodies['/v1/embeddings'] }),
    jobs: () => gateway.fetch('/v1/jobs', { key: live, body: job }),
    'sandbox jobs': () => gateway.fetch('/v1/jobs', { key: sandbox, body: job }),
    videos: () => gateway.fetch('/v1/videos', { key: live, body: prompt }),
    'sandbox videos': () => gateway.fetch('/v1/videos', { key: sandbox, body: prompt }),
    batches: () =>
      gateway.fetch('/v1/batches', { key: live, body: { endpoint: chat, requests: [{ custom_id: 'a', body }] } }),
    balance: () => gateway.fetch('/v1/balance', { key: live }),
    files: () => gateway.fetch('/v1/files', { key: live }),
    uploads: () => upload('/v1/uploads'),
    'client secrets': () => gateway.fetch('/v1/realtime/client_secrets', { key: live, body: {} }),
    'key list': () => gateway.fetch('/api/v1/keys', { key: provisioning }),
    'key creation': () => gateway.fetch('/api/v1/keys', { key: provisioning, body: { name: 'x' } }),
    'sign-in': () => visitor.fetch('/dashboard/api/auth/sign-in/email', { body: credentials }),
    'session look': () => visitor.fetch('/dashboard/api/me'),
    'dashboard key': () => visitor.fetch(`${base}/keys`, { body: { name: 'x', environment: 'test' } }),
    'name change': () => visitor.fetch('/dashboard/api/auth/update-user', { body: { name: 'x' } }),
  }
}

const answerWithinMs = 10_000

/**
 * Makes every call while a store is in trouble: each is served or refused with 503 within ten seconds, never a fault of ours. Of
 * `needed` all are refused. Afterwards everything works again by itself.
 */
async function endure(t: ExecutionContext, what: string, trouble: StoreFault, needed: string[]): Promise<void> {
  await trouble.begin()
  try {
    const outcomes = await Promise.all(
      Object.entries(attempts()).map(async ([name, attempt]) => {
        const startMs = performance.now()
        const response = await attempt()
        return { name, response, tookMs: performance.now() - startMs }
      }),
    )
    for (const { name, response, tookMs } of outcomes) {
      const shown = `${name} while ${what}`
      t.true(tookMs < answerWithinMs, `${shown}: ${Math.round(tookMs)} ms`)
      if (response.status < 500 && !needed.includes(name)) await response.body?.cancel()
      else {
        t.regex(response.headers.get('retry-after') ?? '', /^[1-9]\d*$/, shown)
        await answersError(t, response, 'service_unavailable', null, shown)
      }
    }
  } finally {
    await trouble.end()
  }
  await eventually(ready, `the gateway is ready after ${what}`)
}

const writes = ['chat', 'stream', 'embeddings', 'jobs', 'videos', 'client secrets', 'sign-in']

for (const word of Object.keys(redisFaults('')))
  test.serial(`503 and never 500 while Redis says ${word}`, async t => {
    await endure(t, word, redisFaults(redis.url)[word]!, ['readyz', ...writes])
  })

const rows = ['jobs', 'sandbox jobs', 'videos', 'uploads', 'key creation', 'sign-in', 'dashboard key', 'name change']

test.serial('503 and never 500 while PostgreSQL is read-only', async t => {
  await endure(t, 'read-only', readOnlyPostgres(postgres.url), ['readyz', 'idempotent chat', ...rows])
})

test.serial('503 within ten seconds while Redis is frozen', async t => {
  t.timeout(60_000)
  await endure(t, 'frozen', frozenRedis(redis.url), ['readyz', ...writes])
})

test.serial('503 within ten seconds while PostgreSQL is frozen', async t => {
  t.timeout(60_000)
  await endure(t, 'frozen', frozenPostgres(postgres.url), ['readyz', 'key list', 'session look', ...rows])
})

test.serial('never 500 while PostgreSQL ends its connections under way', async t => {
  const others = 'pid <> pg_backend_pid() AND backend_type = $$client backend$$'
  for (let round = 0; round < 3; round++) {
    const answers = Object.entries(attempts()).map(async ([name, attempt]) => ({ name, response: await attempt() }))
    for (let time = 0; time < 3; time++)
      await sql(postgres.url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${others}`)
    for (const { name, response } of await Promise.all(answers))
      if (response.status < 500) await response.body?.cancel()
      else await answersError(t, response, 'service_unavailable', null, name)
  }
  await eventually(ready, 'it has connections again')
})

test.serial('503 and never 500 while PostgreSQL takes no connections', async t => {
  await endure(t, 'closed', closedPostgres(postgres.url), ['readyz', 'key list', 'session look', ...rows])
})

const states: [says: object, away: boolean][] = [
  [{ code: 'P2010', meta: { driverAdapterError: { cause: { originalCode: '53100' } } } }, true],
  [{ code: 'P2039', meta: { driverAdapterError: { cause: { originalCode: '08006' } } } }, true],
  [{ code: 'P2039', meta: { driverAdapterError: { cause: { originalCode: '42601' } } } }, false],
  [{ name: 'DriverAdapterError', cause: { originalCode: '57P01', kind: 'postgres' } }, true],
  [{ name: 'DriverAdapterError', cause: { kind: 'ConnectionClosed' } }, true],
  [{ name: 'DriverAdapterError', cause: { originalCode: '23505', kind: 'UniqueConstraintViolation' } }, false],
  [{ name: 'DriverAdapterError', cause: { originalCode: 'XX000', kind: 'postgres', severity: 'FATAL' } }, true],
  [{ name: 'DriverAdapterError', cause: { originalCode: '42601', kind: 'postgres', severity: 'ERROR' } }, false],
  [{ code: 'P2039', meta: { driverAdapterError: { cause: { originalCode: '55000', severity: 'FATAL' } } } }, true],
  [{ code: '55000', severity: 'FATAL' }, true],
  [{ code: '55000', severity: 'ERROR' }, false],
  [{ code: 'P2002' }, false],
  [{ code: 'P2024' }, true],
  [{ code: '57P03' }, true],
  [{ code: '23505' }, false],
  [{ code: 'ENOSPC' }, true],
  [{ code: 'ENOENT' }, false],
  [{ message: 'BUSY Redis is busy running a script.' }, true],
  [{ message: 'BUSYGROUP Consumer Group name already exists' }, false],
  [{ message: 'CLUSTERDOWN Hash slot not served' }, true],
  [{ message: 'ERR Error running script: @user_script:1: @user_script: 1: -OOM command not allowed' }, true],
  [{ message: 'ERR value is not an integer or out of range' }, false],
  [{ message: 'Client has encountered a connection error and is not queryable' }, true],
]

test('isOutage for each error of a store that is away, not for one of a statement', t => {
  for (const [says, away] of states) t.is(isOutage(Object.assign(new Error(''), says)), away, JSON.stringify(says))
})

test.serial('503 while the disk for files is full', async t => {
  await endure(t, 'full', fullFolder(join(storage, 'files')), ['uploads'])
})

test.serial('503 of readyz alone while a migration is missing', async t => {
  const newest = 'migration_name = (SELECT max(migration_name) FROM _prisma_migrations)'
  await sql(postgres.url, `UPDATE _prisma_migrations SET finished_at = NULL WHERE ${newest}`)
  const { metadata } = await answersError(t, await gateway.fetch('/readyz'), 'service_unavailable')
  t.deepEqual(metadata, { failing: ['postgres'] })
  t.is((await gateway.fetch(chat, { key: account.test, body: validBodies[chat] })).status, 200)
  await sql(postgres.url, `UPDATE _prisma_migrations SET finished_at = now() WHERE ${newest}`)
  t.true(await ready())
})
