import test from 'ava'
import { type Account, freshStores, type Gateway, type Stores, startGateway } from './support/gateway.ts'
import { startWorkers, type Workers } from './support/workers.ts'

let stores: Stores
let gateway: Gateway
let workers: Workers
let account: Account

test.before(async () => {
  stores = await freshStores()
  gateway = await startGateway(stores)
  workers = startWorkers(gateway.services)
  account = await gateway.account()
})
test.after.always(async () => {
  await workers?.stop()
  await gateway?.close()
  await stores?.drop()
})

test('202, then completed: a video of a test key', async t => {
  const key = account.test
  const created = await gateway.fetch('/v1/videos', { key, body: { prompt: 'A lighthouse at dusk', seconds: 4 } })
  const job = await created.json()
  t.is(created.status, 202, JSON.stringify(job))
  t.like(job, { object: 'video.job', status: 'queued', cost_usd: 0, url: null, error: null })
  const done = await gateway.fetch(`/v1/videos/${job.id}`, { key, headers: { prefer: 'wait=30' } })
  const over = await done.json()
  t.is(over.status, 'completed', JSON.stringify(over))
  t.log(over)
  const file = await fetch(over.url)
  t.is(file.status, 200)

})
