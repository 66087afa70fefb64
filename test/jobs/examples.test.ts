import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { getWebhookSecrets } from '../../shared/webhooks/secrets.ts'
import { startHeygen } from '../emulators/heygen.ts'
import { startKling } from '../emulators/kling.ts'
import { startMagicHour } from '../emulators/magic-hour.ts'
import { startMeshy } from '../emulators/meshy.ts'
import { startSync } from '../emulators/sync.ts'
import { type Account, freshStores, type Gateway, type Stores, startGateway } from '../support/gateway.ts'
import { secret as providerSecret } from '../support/jobs/queued-adapter.ts'
import { inherited } from '../support/stack.ts'
import { test } from '../support/test.ts'
import { startWorkers, type Workers } from '../support/workers.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')

let stores: Stores
let gateway: Gateway
let workers: Workers
let account: Account
let secret: string
const closing: (() => Promise<void>)[] = []

test.before(async () => {
  stores = await freshStores()
  const starters = {
    kling: startKling,
    sync: startSync,
    magic_hour: startMagicHour,
    heygen: startHeygen,
    meshy: startMeshy,
  }
  const { providers } = loadCatalog()
  const env: Record<string, string> = { ALLOW_PRIVATE_URLS: 'true' }
  for (const [name, start] of Object.entries(starters)) {
    const { url, close } = await start({ autoFinish: 2 })
    closing.push(close)
    env[`${name.toUpperCase()}_API_KEY`] = providerSecret
    env[`${name.toUpperCase()}_BASE_URL`] = url + new URL(providers.get(name)!.base_url).pathname
  }
  gateway = await startGateway(stores, env)
  workers = startWorkers(gateway.services)
  account = await gateway.account({ usd: '100' })
  const { secret: signing } = await getWebhookSecrets(gateway.services, account.organisationId, Date.now())
  secret = signing
})
test.after.always(async () => {
  await workers?.stop()
  await gateway?.close()
  await Promise.all(closing.map(close => close()))
  await stores?.drop()
})

/** What an example prints. Rejects when it fails. */
async function printed(example: string, env: Record<string, string>): Promise<string> {
  const running = run(process.execPath, [join(root, 'examples', `${example}.ts`)], {
    env: { ...inherited, HEADGATE_URL: gateway.url, HEADGATE_WEBHOOK_SECRET: secret, ...env },
    timeout: 60_000,
  })
  const looking = lookAllTheTime(running)
  const { stdout } = await running
  await looking
  return stdout
}

/** Has jobs looked at before their time, as providers want to be left alone for longer than a test wants to wait. */
async function lookAllTheTime(running: Promise<unknown>): Promise<void> {
  let over = false
  const ended = () => {
    over = true
  }
  running.then(ended, ended)
  while (!over) {
    const jobs = await gateway.services.db.job.findMany({ where: { stage: 'running' }, select: { id: true } })
    for (const { id } of jobs) await gateway.services.pollSchedule.wake(id, 0)
    await sleep(50)
  }
}

const expected = {
  video: { sandbox: /^a video of 5\.\d\d s, 1280x720$/m, provider: 'kling' },
  'lip-sync': { sandbox: /^a video of 3\.00 s, 1280x720$/m, provider: 'sync' },
  'face-swap': { sandbox: /^a video of 3\.00 s, 1280x720$/m, provider: 'magic_hour' },
  avatar: { sandbox: /^a video of 3\.40 s, 1280x720$/m, provider: 'heygen' },
  mesh: { sandbox: /^a valid mesh of 12 triangles, textured$/m, provider: 'meshy' },
}

for (const [example, { sandbox, provider }] of Object.entries(expected)) {
  test(`completed: examples/${example}.ts with a test key, free of charge`, async t => {
    const output = await printed(example, { HEADGATE_KEY: account.test })
    t.regex(output, sandbox)
    t.regex(output, /^job\.completed: \w+, \$0$/m)
  })

  test(`completed: examples/${example}.ts with a live key at ${provider}, paid`, async t => {
    const output = await printed(example, { HEADGATE_KEY: account.live })
    t.regex(output, example === 'mesh' ? /^a valid mesh of 12 triangles/m : /^a video of \d+\.\d\d s/m)
    const [, cost] = new RegExp(`^job\\.completed: ${provider}, \\$([\\d.]+)$`, 'm').exec(output) ?? []
    t.true(Number(cost) > 0, output)
  })
}

test('failed: an example says which variable it misses, and what the gateway refuses', async t => {
  await t.throwsAsync(printed('video', {}), { message: /set HEADGATE_KEY/ })
  await t.throwsAsync(printed('video', { HEADGATE_KEY: 'svc_sk_test_none' }), { message: /invalid_api_key/ })
})
