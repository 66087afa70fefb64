import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { startFal } from '../emulators/fal.ts'
import { heygenEvent, startHeygen } from '../emulators/heygen.ts'
import { startOpenRouterVideos, workspaceSecret } from '../emulators/openrouter-videos.ts'
import { startReplicate } from '../emulators/replicate.ts'
import { eventually, freshStores, type Gateway, type Stores, startGateway } from '../support/gateway.ts'
import { answerOf, image, rowOf, running, submit } from '../support/jobs/gateway.ts'
import { operatorModels } from '../support/jobs/operator-models.ts'
import { test } from '../support/test.ts'
import { startWorkers, type Workers } from '../support/workers.ts'

let stores: Stores
let gateway: Gateway
let workers: Workers
let fal: Awaited<ReturnType<typeof startFal>>
let heygen: Awaited<ReturnType<typeof startHeygen>>
let replicate: Awaited<ReturnType<typeof startReplicate>>
let openrouter: Awaited<ReturnType<typeof startOpenRouterVideos>>

const secret = 'whsec-of-heygen'
const body = { model: 'kling-v3-pro', prompt: 'A lighthouse at dusk', seconds: 5 }

test.before(async () => {
  ;[stores, fal, heygen, replicate, openrouter] = await Promise.all([
    freshStores(),
    startFal(),
    startHeygen(),
    startReplicate(),
    startOpenRouterVideos(),
  ])
  const row = loadCatalog().providers.get('fal')!
  const keys = { ...row, quirks: { ...row.quirks, jwks_url: `${fal.url}/.well-known/jwks.json` } }
  const catalog = join(tmpdir(), `headgate-catalog-${process.pid}.json`)
  await writeFile(
    catalog,
    JSON.stringify({
      providers: [keys],
      models: operatorModels.filter(({ providers }) => providers[0]!.provider !== 'acme'),
    }),
  )
  gateway = await startGateway(stores, {
    MODEL_CATALOG: catalog,
    FAL_API_KEY: 'key:secret',
    FAL_BASE_URL: fal.url,
    HEYGEN_API_KEY: 'key_1',
    HEYGEN_BASE_URL: heygen.url,
    HEYGEN_WEBHOOK_SECRET: secret,
    REPLICATE_API_KEY: 'key_1',
    REPLICATE_BASE_URL: `${replicate.url}/v1`,
    OPENROUTER_API_KEY: 'key_1',
    OPENROUTER_BASE_URL: `${openrouter.url}/api/v1`,
    OPENROUTER_WEBHOOK_SECRET: workspaceSecret,
    // Providers are told to call back only where they can reach the gateway.
    ALLOW_PRIVATE_URLS: 'true',
  })
  workers = startWorkers(gateway.services)
})
test.after.always(async () => {
  await workers?.stop()
  await gateway?.close()
  await Promise.all([fal?.close(), heygen?.close(), replicate?.close(), openrouter?.close()])
  await stores?.drop()
})

const genuineOf = (id: string) => fal.callback(id, Date.now())

/** When a job is looked at next, in milliseconds. */
const due = async (id: string) => Number(await gateway.services.redis.zscore('jobs:watch', id))

test.serial('completed at once when the provider reports it with its signature', async t => {
  const account = await gateway.account()
  const job = await submit(gateway, '/v1/videos', account.live, body)
  await running(gateway, job.id)
  fal.finish()
  // Only the report triggers this poll: scheduled polls are half a minute apart.
  await eventually(async () => (await rowOf(gateway, job.id)).stage === 'over', 'it is over', 25_000)
  t.is((await rowOf(gateway, job.id)).status, 'completed')
  t.deepEqual(await gateway.settled(), [])
})

for (const name of ['replicate', 'openrouter'] as const) {
  test.serial(`completed at once when ${name} reports it; files go there as addresses`, async t => {
    const provider = { replicate, openrouter }[name]
    const account = await gateway.account()
    const film = { model: `${name}-video`, prompt: 'A lighthouse at dusk', start_image_url: image }
    const job = await submit(gateway, '/v1/videos', account.live, film)
    await running(gateway, job.id)
    const sent = JSON.stringify(provider.emulator.requests.find(({ method }) => method === 'POST')!.body)
    t.true(sent.includes(`${gateway.url}/callbacks/${job.id}/`))
    t.false(sent.includes('data:'))
    // Looks without a report are half a minute apart.
    await eventually(async () => (await due(job.id)) > Date.now() + 20_000, 'it was looked at and waits')
    provider.finish()
    await eventually(async () => (await rowOf(gateway, job.id)).stage === 'over', 'it is over', 18_000)
    t.is((await rowOf(gateway, job.id)).status, 'completed')
    t.deepEqual(await provider.delivered(), [200])
    t.deepEqual(await gateway.settled(), [])
  })
}

test.serial('404 for reports that are forged, old or sent to another job’s address: nothing is woken', async t => {
  const account = await gateway.account()
  const [job, other] = [
    await submit(gateway, '/v1/videos', account.live, body),
    await submit(gateway, '/v1/videos', account.live, body),
  ]
  await running(gateway, job.id)
  await running(gateway, other.id)
  const addresses = fal.emulator.requests.map(({ query }) => query.get('fal_webhook')).filter(url => url !== null)
  const address = addresses.find(url => url.includes(job.id))!
  t.true(address.startsWith(`${gateway.url}/callbacks/${job.id}/`))
  await eventually(async () => (await due(job.id)) > Date.now() + 10_000, 'it was looked at and waits')
  // However long the reports take, its turn does not come by itself meanwhile.
  await gateway.services.redis.zadd('jobs:watch', 'XX', Date.now() + 3_600_000, job.id)
  const before = await due(job.id)
  const id = [...fal.works.values()].find(({ id }) => genuineOf(id).url === address)!.id
  const genuine = genuineOf(id)
  const old = fal.callback(id, Date.now() - 600_000)
  const post = (url: string, { body, headers }: { body: Buffer; headers: Record<string, string> }) =>
    fetch(url, {
      method: 'POST',
      body: new Uint8Array(body),
      headers: { 'content-type': 'application/json', ...headers },
    })
  const forged = { body: Buffer.from(genuine.body.toString().replace('OK', 'ok')), headers: genuine.headers }
  const elsewhere = addresses.find(url => url.includes(other.id))!.replace(other.id, job.id)
  for (const [url, report] of [
    [address, forged],
    [address, old],
    [address, { body: genuine.body, headers: {} }],
    [elsewhere, genuine],
    [address.replace(job.id, 'job_nobody'), genuine],
  ] as const) {
    t.is((await post(url, report)).status, 404)
  }
  t.is(await due(job.id), before)
  t.is((await post(address, genuine)).status, 200)
})

test.serial('200 for a signed event of the account’s address: its job is looked at', async t => {
  const account = await gateway.account()
  const avatar = { avatar_id: 'look_0', script: 'Good morning.', voice_id: 'voice_0' }
  const job = await submit(gateway, '/v1/avatars/videos', account.live, avatar)
  await running(gateway, job.id)
  heygen.finish()
  const event = { event_type: 'avatar_video.success', event_data: { video_id: 'x', callback_id: job.id } }
  const post = async (signedWith: string) => {
    const { headers, raw } = heygenEvent(event, signedWith, Date.now())
    return fetch(`${gateway.url}/callbacks/heygen`, {
      method: 'POST',
      body: new Uint8Array(raw),
      headers: { 'content-type': 'application/json', ...headers },
    })
  }
  const refused = await post('another secret')
  t.is(refused.status, 404)
  t.is((await answerOf(refused)).error.code, 'not_found')
  t.is((await post(secret)).status, 200)
  await eventually(async () => (await rowOf(gateway, job.id)).stage === 'over', 'it is over')
  t.is((await rowOf(gateway, job.id)).status, 'completed')
})

test.serial('404 for an event of the account’s address whose job cannot exist', async t => {
  for (const id of ['job_nobody', 'job_\0', '', '..', 'x'.repeat(100_000)]) {
    const event = { event_type: 'avatar_video.success', event_data: { video_id: 'x', callback_id: id } }
    const { headers, raw } = heygenEvent(event, secret, Date.now())
    const refused = await fetch(`${gateway.url}/callbacks/heygen`, {
      method: 'POST',
      body: new Uint8Array(raw),
      headers: { 'content-type': 'application/json', ...headers },
    })
    t.is(refused.status, 404, JSON.stringify(id).slice(0, 40))
  }
})
