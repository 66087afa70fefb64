import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { Worker } from 'bullmq'
import { examine, type Finding } from '../../../api/operator/doctor.ts'
import { devStackFile } from '../../../shared/base/dev-stack.ts'
import { systemClock } from '../../../shared/base/time.ts'
import { noteUnknown } from '../../../shared/base/unknown-names.ts'
import { openDatabase } from '../../../shared/io/db.ts'
import { queueAddress, queuePrefix } from '../../../shared/queues/queues.ts'
import { MailServer } from '../../support/io/mail-server.ts'
import { runOperator, storesEnv } from '../../support/operator.ts'
import { freshDatabase, inherited, privateRedis } from '../../support/stack.ts'
import { test } from '../../support/test.ts'
import { use, useGateway, useStores } from '../../support/use.ts'

let providersUrl: string
const requests: IncomingMessage[] = []
const secret = 'sk-doctor-secret'

const stores = useStores(test)
/** Redis lists the workers of all its databases: those of other tests have other names. */
const ownQueues = { REDIS_KEY_PREFIX: 'doctor:' }
const gateway = useGateway(test, ownQueues, { stores })
const providers = use(test, () =>
  createServer((request, response) => {
    requests.push(request)
    const isRefused = JSON.stringify(request.headers).includes('refused')
    const body = isRefused ? { error: { message: `Incorrect API key: ${secret}-refused`, type: 'auth' } } : { data: [] }
    response.writeHead(isRefused ? 401 : 200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }).listen(0, '127.0.0.1'),
)
test.before(async () => {
  await once(providers, 'listening')
  providersUrl = `http://127.0.0.1:${(providers.address() as AddressInfo).port}`
})

const env = (more: Record<string, string> = {}) => ({
  ...storesEnv(stores),
  ...ownQueues,
  ENCRYPTION_KEY: 'x'.repeat(32),
  ALLOW_PRIVATE_URLS: 'true',
  PUBLIC_URL: gateway.url,
  ...more,
})

/** The findings of one check. */
async function findings(check: string, more: Record<string, string> = {}, clock = systemClock): Promise<Finding[]> {
  return (await examine(env(more), clock)).filter(finding => finding.check === check)
}

test('stores, storage and the public address of a working gateway are ok, and a worker is missed until one runs', async t => {
  const found = await examine(env())
  const states = Object.fromEntries(found.map(({ check, state }) => [check, state]))
  t.like(states, { postgresql: 'ok', redis: 'ok', clocks: 'ok', storage: 'ok', webhooks: 'ok', 'public address': 'ok' })
  t.like(
    found.find(({ check }) => check === 'workers'),
    { state: 'failed' },
  )
  t.like(
    found.find(({ check }) => check === 'providers'),
    { state: 'failed' },
  )

  const url = new URL(queueAddress(gateway.services.config).redisUrl)
  const connection = { host: url.hostname, port: Number(url.port), db: Number(url.pathname.slice(1)) }
  const prefix = queuePrefix('maintenance', gateway.services.config)
  const worker = new Worker('maintenance', async () => {}, { connection, prefix })
  t.teardown(() => worker.close())
  await worker.waitUntilReady()
  const [workers] = await findings('workers')
  t.deepEqual(workers, { state: 'ok', check: 'workers', detail: '1 running, 0 usage events are waiting to be booked' })
})

test('every key of every provider is asked about in one free request, and no key is shown', async t => {
  const names = ['openai', 'openrouter', 'anthropic', 'gemini', 'elevenlabs', 'replicate', 'runway', 'heygen', 'meshy', 'sync', 'deepgram', 'fal'] // biome-ignore format: a list
  const variables = names.flatMap(name => [
    [`${name.toUpperCase()}_API_KEY`, name === 'openai' ? `${secret},${secret}-refused` : secret],
    [`${name.toUpperCase()}_BASE_URL`, `${providersUrl}/${name}`],
  ])
  const found = await examine(env(Object.fromEntries(variables)))
  const about = (name: string) => found.filter(({ check }) => check === `provider ${name}`)
  t.deepEqual(
    about('openai').map(({ state }) => state),
    ['ok', 'failed'],
  )
  t.regex(about('openai')[1]!.detail, /^key 2 of 2, ….{4} of OPENAI_API_KEY \(2 of 2\): HTTP 401: /)
  for (const name of names.slice(1, -1))
    t.deepEqual(
      about(name).map(({ state }) => state),
      ['ok'],
      name,
    )
  t.regex(about('fal')[0]!.detail, /no free request/)
  t.false(JSON.stringify(found).includes(secret))

  const paths = requests.map(({ method, url }) => `${method} ${url}`).sort()
  t.deepEqual(paths, [
    'GET /anthropic/v1/models?limit=1',
    'GET /deepgram/v1/projects',
    'GET /elevenlabs/v1/models',
    'GET /gemini/v1beta/models?pageSize=1',
    'GET /heygen/v3/users/me',
    'GET /meshy/v1/balance',
    'GET /openai/models',
    'GET /openai/models',
    'GET /openrouter/key',
    'GET /replicate/account',
    'GET /runway/organization',
    'GET /sync/v2/models',
  ])
  const headersOf = (name: string) => requests.find(({ url }) => url!.startsWith(`/${name}/`))!.headers
  t.is(headersOf('anthropic')['x-api-key'], secret)
  t.truthy(headersOf('anthropic')['anthropic-version'])
  t.truthy(headersOf('runway')['x-runway-version'])
  t.is(headersOf('deepgram').authorization, `Token ${secret}`)
})

test('a clock that is off, pending migrations, and an address that leads elsewhere', async t => {
  const ahead = { ...systemClock, now: () => systemClock.now() + 60_000 }
  const clocks = await findings('clocks', {}, ahead)
  t.deepEqual(
    clocks.map(({ state }) => state),
    ['warning', 'warning'],
  )
  t.regex(clocks[0]!.detail, /^[1-6]\d{4} ms between this machine and postgresql: synchronise/)

  const database = await freshDatabase()
  t.teardown(database.drop)
  const behind = { ...env(), DATABASE_URL: database.url }
  const db = openDatabase(database.url, { connections: 1, statementTimeoutMs: 5_000 })
  await db.$executeRaw`DELETE FROM _prisma_migrations WHERE migration_name = (SELECT max(migration_name) FROM _prisma_migrations)`
  await db.$disconnect()
  const postgres = (await examine(behind)).filter(({ check }) => check === 'postgresql')
  t.like(postgres, [{ state: 'failed' }])
  t.regex(postgres[0]!.detail, /^1 of \d+ migrations are pending/)

  t.like(await findings('public address', { PUBLIC_URL: providersUrl }), [{ state: 'failed' }])
})

test('settings of development at a public address are failed, not a crash; what is only unsafe is a warning', async t => {
  const open = { PUBLIC_URL: 'https://gw.example.com', ENCRYPTION_KEY: randomBytes(24).toString('base64') }
  const failed = await findings('configuration', { ...open, DEV_OUTBOX: 'true', SIGNING_SECRET: 'a'.repeat(34) })
  t.deepEqual(
    failed.map(({ state, detail }) => [state, detail.split(':')[0]]),
    [
      ['failed', 'DEV_OUTBOX'],
      ['failed', 'SIGNING_SECRET'],
    ],
  )
  const warned = await findings('configuration', open)
  t.true(warned.some(({ state, detail }) => state === 'warning' && detail.startsWith('ALLOW_PRIVATE_URLS is on')))
})

test('1 at the start of a web and a worker process with settings of development at a public address', async t => {
  const env = { ...storesEnv(stores), PUBLIC_URL: 'https://gw.example.com', DEV_OUTBOX: 'true', NODE_ENV: 'production' }
  for (const file of ['api/server.ts', 'workers/main.ts']) {
    const child = spawn(process.execPath, [file], {
      env: { ...inherited, ...env },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const [output, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')])
    t.is(code, 1)
    t.regex(output, /^configuration: DEV_OUTBOX: shows everyone the links of emails/m)
  }
})

test('a Redis that evicts, and stores that are not there: one line each, and exit code 1', async t => {
  const evicting = await privateRedis(['--maxmemory-policy', 'allkeys-lru'])
  t.teardown(evicting.stop)
  t.like(await findings('redis', { REDIS_URL: evicting.url }), [{ state: 'warning' }])

  const away = { DATABASE_URL: 'postgresql://u:hunter2@127.0.0.1:9/x', REDIS_URL: 'redis://127.0.0.1:9' }
  const { exitCode, stdout, stderr } = await runOperator({ ...env(), ...away }, 'doctor')
  t.deepEqual({ exitCode, stderr }, { exitCode: 1, stderr: '' })
  t.regex(stdout, /^failed +postgresql +/m)
  t.regex(stdout, /^failed +redis +/m)
  t.regex(stdout, /^ok +storage +/m)
  t.false(stdout.includes('hunter2'))

  const wrong = await runOperator({ ...env(), PORT: 'x' }, 'doctor', '--json')
  t.is(wrong.exitCode, 1)
  t.like(JSON.parse(wrong.stdout), { ok: false, findings: [{ state: 'failed', check: 'configuration' }] })
})

test.serial('beside a development stack, what it was started with and the command was not is named', async t => {
  const dataDir = await mkdtemp(join(tmpdir(), 'headgate-doctor-'))
  t.teardown(() => rm(dataDir, { recursive: true, force: true }))
  const { databaseUrl, redisUrl } = stores
  const stack = { databaseUrl, redisUrl, address: 'http://localhost:3000', variables: ['OPENAI_API_KEY', 'DATA_DIR'] }
  await writeFile(join(dataDir, devStackFile), JSON.stringify(stack))
  const own = { DATA_DIR: dataDir, ENCRYPTION_KEY: 'x'.repeat(32) }
  const found = await examine(own)
  t.true(
    found.some(
      ({ state, detail }) =>
        state === 'warning' && detail.startsWith('the gateway at http://localhost:3000 has OPENAI_API_KEY, and'),
    ),
    JSON.stringify(found),
  )
  const providers = ({ check }: Finding) => check === 'providers'
  t.like(found.find(providers), { state: 'warning' })
  const elsewhere = await examine({ ...own, ...storesEnv(stores) })
  t.like(elsewhere.find(providers), { state: 'failed' })
})

test('a mail server is signed in to, and no email is sent', async t => {
  const server = await MailServer.start()
  t.teardown(() => server.close())
  t.like(await findings('email', { SMTP_URL: server.url }), [{ state: 'ok' }])
  t.deepEqual(server.received, [])
  t.like(await findings('email', { SMTP_URL: 'smtp://127.0.0.1:9' }), [{ state: 'failed' }])
})

test('names that requests have and the gateway does not know are listed: those that are not sent as a warning', async t => {
  noteUnknown('field', 'messages.thread_v2')
  noteUnknown('beta', 'brand-new-2027-01-01')
  noteUnknown('beta', 'brand-new-2027-01-01')
  await gateway.services.unknownNames.flush()
  t.deepEqual(await findings('unknown fields'), [
    {
      state: 'warning',
      check: 'unknown fields',
      detail: 'not sent to providers: messages.thread_v2 (1); see PASS_UNKNOWN_FIELDS',
    },
    { state: 'ok', check: 'unknown fields', detail: 'sent to providers as they are: brand-new-2027-01-01 (2)' },
  ])
})
