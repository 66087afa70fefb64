import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { type QueuedKind, queuedKinds } from '../../shared/kinds/index.ts'
import { protocols } from '../../shared/providers/protocols.ts'
import { startAkool } from '../emulators/akool.ts'
import { startFal } from '../emulators/fal.ts'
import { startHeygen } from '../emulators/heygen.ts'
import { startKling } from '../emulators/kling.ts'
import { startMagicHour } from '../emulators/magic-hour.ts'
import { startMeshy } from '../emulators/meshy.ts'
import { startOpenAiVideos } from '../emulators/openai-videos.ts'
import { startOpenRouterVideos } from '../emulators/openrouter-videos.ts'
import { startReplicate } from '../emulators/replicate.ts'
import { startRunway } from '../emulators/runway.ts'
import type { WorkEmulator } from '../emulators/slow-work.ts'
import { startSync } from '../emulators/sync.ts'
import { startVeo } from '../emulators/veo.ts'
import { type Account, freshStores, type Gateway, type Stores, startGateway } from '../support/gateway.ts'
import { filesIn } from '../support/jobs/forwarded-files.ts'
import { answerOf, booked, dataUri, ended, running, submit, upload } from '../support/jobs/gateway.ts'
import { acmeProvider, operatorModels } from '../support/jobs/operator-models.ts'
import { type Case, type File, mediaCases } from '../support/media/form-cases.ts'
import { test } from '../support/test.ts'
import { useFolder } from '../support/use.ts'
import { startWorkers, type Workers } from '../support/workers.ts'

/** Every provider and every kind it serves, through the whole engine: door, queue, worker, watch, storage, ledger. */

const starts: Record<string, () => Promise<WorkEmulator>> = {
  fal: startFal,
  replicate: () =>
    startReplicate({ output: at => ({ video: `${at}/video.mp4`, model_file: `${at}/model.glb`, textures: [] }) }),
  gemini: startVeo,
  runway: startRunway,
  kling: () => startKling({ accounts: { key: 'secret' } }),
  heygen: startHeygen,
  sync: startSync,
  magic_hour: startMagicHour,
  akool: startAkool,
  meshy: startMeshy,
  openrouter: startOpenRouterVideos,
  acme: startOpenAiVideos,
}

const folder = useFolder(test)
let stores: Stores
let gateway: Gateway
let workers: Workers
let account: Account
const providers = new Map<string, WorkEmulator>()

test.before(async () => {
  const catalog = join(folder, 'catalog.json')
  await writeFile(catalog, JSON.stringify({ providers: [acmeProvider], models: operatorModels }))
  const env: Record<string, string> = { MODEL_CATALOG: catalog }
  const rows = loadCatalog(catalog).providers
  for (const [name, start] of Object.entries(starts)) {
    const provider = await start()
    providers.set(name, provider)
    env[`${name.toUpperCase()}_API_KEY`] = 'key:secret'
    env[`${name.toUpperCase()}_BASE_URL`] = provider.url + new URL(rows.get(name)!.base_url).pathname
  }
  stores = await freshStores()
  gateway = await startGateway(stores, env)
  workers = startWorkers(gateway.services)
  account = await gateway.account({ usd: '100' })
})
test.after.always(async () => {
  await workers?.stop()
  await gateway?.close()
  for (const provider of providers.values()) await provider.close()
  await stores?.drop()
})

/** The body with its files: uploads and `data:` URIs in turn. */
async function bodyOf({ model, body, files = {} }: Case): Promise<object> {
  let turn = 0
  const refer = ({ bytes, type }: File) =>
    turn++ % 2 === 0 ? upload(gateway, account.live, bytes, type) : dataUri(type, bytes)
  const referred: Record<string, unknown> = {}
  for (const [field, given] of Object.entries(files))
    referred[field] = Array.isArray(given) ? await Promise.all(given.map(refer)) : await refer(given)
  return { model, ...body, ...referred }
}

const sorted = (files: Buffer[]) => files.map(bytes => bytes.toString('base64')).sort()

for (const [path, rows] of Object.entries(mediaCases)) {
  for (const row of rows) {
    test.serial(`completed: ${path} of ${row.what} at ${row.provider} (${row.model})`, async t => {
      const provider = providers.get(row.provider)!
      provider.emulator.reset()
      const job = await submit(gateway, path, account.live, await bodyOf(row))
      t.is(job.cost_usd, row.held ? null : row.usd)
      await running(gateway, job.id)
      const [creating] = provider.emulator.requests.filter(({ method }) => method === 'POST')
      t.deepEqual(
        sorted(await filesIn(creating!, gateway.url)),
        sorted(
          Object.values(row.files ?? {})
            .flat()
            .map(({ bytes }) => bytes),
        ),
      )
      const done = await ended(gateway, account.live, path, job.id, () => provider.finish())
      t.like(done, {
        status: 'completed',
        progress: 100,
        provider: row.provider,
        model: row.model,
        cost_usd: row.usd,
        error: null,
      })
      t.deepEqual(await booked(gateway, job.id), [-row.usd])
      t.deepEqual(
        done.outputs.map(({ type }: { type: string }) => type),
        row.roles ?? ['video'],
      )
      for (const { url, bytes } of done.outputs) {
        t.is(new URL(url).origin, gateway.url)
        t.is((await (await fetch(url)).bytes()).length, bytes)
      }
      t.is(provider.emulator.requests.filter(({ method }) => method === 'POST').length, row.parts ?? 1)
    })
  }
  for (const [name, row] of new Map(rows.map(row => [row.provider, row]))) {
    test.serial(`failed: ${path} at ${name} is refunded in full`, async t => {
      const provider = providers.get(name)!
      const before = await answerOf(await gateway.fetch('/v1/balance', { key: account.live }))
      const job = await submit(gateway, path, account.live, await bodyOf(row))
      await running(gateway, job.id)
      const failed = await ended(gateway, account.live, path, job.id, () => provider.fail())
      t.like(failed, { status: 'failed', provider: name, cost_usd: 0, url: null, outputs: [] })
      t.regex(failed.error.message, /\S/)
      t.notRegex(JSON.stringify(failed), /key:secret/)
      t.deepEqual(await booked(gateway, job.id), row.held ? [] : [-row.usd, row.usd])
      t.deepEqual(await answerOf(await gateway.fetch('/v1/balance', { key: account.live })), before)
    })
  }
}

test('covered: every kind that a protocol serves', t => {
  const rows = loadCatalog().providers
  for (const [path, cases] of Object.entries(mediaCases)) {
    const [kind] = (Object.keys(queuedKinds) as QueuedKind[]).filter(name => queuedKinds[name].path === path)
    // Vertex AI's is in test/providers/vertex/video.test.ts: clouds have no API key.
    const served = Object.keys(protocols).filter(name => name !== 'vertex' && protocols[name]!.queued?.[kind!])
    const covered = cases.map(({ provider }) => rows.get(provider)?.protocol ?? acmeProvider.protocol)
    t.deepEqual([...new Set(covered)].sort(), served.sort(), path)
  }
  t.is(Object.keys(mediaCases).length, Object.keys(queuedKinds).length)
})

test.serial('clean: the ledger after all of them', async t => {
  t.deepEqual(await gateway.settled(), [])
})
