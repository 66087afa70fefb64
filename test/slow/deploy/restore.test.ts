import { cp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { migrate } from '../../../dev/migrate.ts'
import type { Services } from '../../../shared/open-services.ts'
import { startRunway } from '../../emulators/runway.ts'
import { type Providers, startProviders } from '../../prove/providers.ts'
import { seededRandom } from '../../prove/random.ts'
import { ArchivedPostgres } from '../../support/base-backup.ts'
import { ledgerCheck, observe, quiet } from '../../support/chaos.ts'
import { type Account, call, createAccount, eventually, type Process, startProcess } from '../../support/gateway.ts'
import { runOperator, storesEnv } from '../../support/operator.ts'
import { freshRedis } from '../../support/stack.ts'
import { test } from '../../support/test.ts'
import { use, useFolder } from '../../support/use.ts'

/** The steps of docs/deployment.md#back-up-and-restore, with a running gateway before and after. */

const folder = useFolder(test)
let postgres: ArchivedPostgres
let redis: Awaited<ReturnType<typeof freshRedis>>
let providers: Providers
let runway: Awaited<ReturnType<typeof startRunway>>
const processes: Process[] = []

test.before(async () => {
  ;[postgres, redis, providers, runway] = await Promise.all([
    ArchivedPostgres.start(folder),
    freshRedis(),
    startProviders(seededRandom(1)),
    startRunway({}),
  ])
})
const env = use(test, () => ({
  ...providers.env,
  RUNWAY_BASE_URL: `${runway.url}/v1`,
  ALLOW_PRIVATE_URLS: 'true',
  STORAGE_URL: `file:${join(folder, 'storage')}`,
  SIGNING_SECRET: 'a signing secret of the restored gateway',
  ENCRYPTION_KEY: 'an encryption key of the restored gateway',
}))
test.before(async () => {
  await migrate(postgres.server.url)
})
test.after.always(async () => {
  await Promise.all(processes.map(({ kill }) => kill()))
  await postgres?.server.stop()
  await Promise.all([redis?.release(), providers?.close(), runway?.close()])
})

const stores = () => ({ databaseUrl: postgres.server.url, redisUrl: redis.url })

async function startAll(): Promise<Process> {
  const [web, worker] = await Promise.all([startProcess('web', stores(), env), startProcess('worker', stores(), env)])
  processes.push(web!, worker!)
  return web!
}

async function withObserver<T>(use: (services: Services) => Promise<T>): Promise<T> {
  const services = await observe(stores(), env)
  try {
    return await use(services)
  } finally {
    await services.close()
  }
}

const chat = { model: 'gpt-oss-120b', max_tokens: 50, messages: [{ role: 'user', content: 'mark=restore' }] }
const line = '{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"auto","messages":[]}}\n'

async function ask(url: string, key: string, times: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    const response = await call(url, '/v1/chat/completions', { key, body: chat })
    if (response.status !== 200) throw new Error(`chat answered ${response.status}: ${await response.text()}`)
    await response.arrayBuffer()
  }
}

async function upload(url: string, key: string): Promise<string> {
  const form = new FormData()
  form.set('purpose', 'batch')
  form.set('file', new Blob([line]), 'lines.jsonl')
  const headers = { authorization: `Bearer ${key}` }
  const response = await fetch(`${url}/v1/files`, { method: 'POST', headers, body: form })
  return ((await response.json()) as { id: string }).id
}

async function json<T>(url: string, path: string, key: string): Promise<T> {
  return (await (await call(url, path, { key })).json()) as T
}

/** What must be the same after the restore. */
async function read({ organisationId }: Account) {
  const show = ['webhook-secret', 'show', '--org', organisationId, '--json']
  const { stdout } = await runOperator({ ...env, ...storesEnv(stores()) }, ...show)
  const { secret } = JSON.parse(stdout) as { secret: string }
  return withObserver(async ({ db }) => ({
    secret,
    balance: (await db.wallet.findUniqueOrThrow({ where: { organisationId } })).balanceNano,
    entries: await db.ledgerEntry.count(),
    requests: await db.generation.count(),
    keys: await db.apiKey.findMany({ orderBy: { id: 'asc' }, select: { id: true, hash: true } }),
  }))
}

test('restored from a base backup, the archived log and the copied storage, with an empty Redis', async t => {
  t.timeout(600_000)
  let web = await startAll()
  const account = await withObserver(services => createAccount(services))
  await read(account) // Creates the organisation’s webhook secret, which the backup has then.
  const key = account.live
  await ask(web.url, key, 5)
  const fileId = await upload(web.url, key)
  const video = { model: 'runway-gen4.5', prompt: 'mark=video', seconds: 2 }
  const job = (await (await call(web.url, '/v1/videos', { key, body: video })).json()) as { id: string }
  await eventually(() => runway.works.size === 1, 'the video is made')

  await postgres.takeBaseBackup()
  await ask(web.url, key, 5)
  await withObserver(quiet)
  await postgres.archiveAll()
  await cp(join(folder, 'storage'), join(folder, 'storage-backup'), { recursive: true })
  const before = await read(account)

  await Promise.all(processes.splice(0).map(({ kill }) => kill()))
  await postgres.lose()
  await redis.release()
  await rm(join(folder, 'storage'), { recursive: true })

  await postgres.restore()
  redis = await freshRedis()
  await cp(join(folder, 'storage-backup'), join(folder, 'storage'), { recursive: true })
  t.deepEqual(await read(account), before)
  web = await startAll()

  await ask(web.url, key, 3)
  const content = await call(web.url, `/v1/files/${fileId}/content`, { key })
  t.is(await content.text(), line)
  runway.finish()
  const isOver = async () =>
    (await json<{ status: string }>(web.url, `/v1/videos/${job.id}`, key)).status === 'completed'
  await eventually(isOver, 'the video that ran during the disaster is delivered', 120_000)
  t.is(runway.works.size, 1, 'it was started once')
  await withObserver(quiet)
  t.is((await read(account)).requests, before.requests + 3)
  const { exitCode, report } = await ledgerCheck(stores(), env)
  t.deepEqual(
    report.invariants.flatMap(({ breaches }) => breaches),
    [],
  )
  t.is(exitCode, 0)
})
