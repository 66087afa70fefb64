import Replicate, { validateWebhook } from 'replicate'
import { accountSecret, replicateError, startReplicate } from '../../emulators/replicate.ts'
import { test } from '../../support/test.ts'

// The official SDK is the judge of the emulator.

async function world() {
  const started = await startReplicate()
  const sdk = new Replicate({ auth: 'r8_test', baseUrl: `${started.url}/v1`, useFileOutput: false })
  return { ...started, sdk }
}

test('201 created, then processing, then succeeded with its file', async t => {
  const { sdk, finish, close } = await world()
  const { id, status } = await sdk.predictions.create({ model: 'acme/films', input: { prompt: 'a fox' } })
  t.is(status, 'starting')
  await sdk.predictions.get(id)
  t.is((await sdk.predictions.get(id)).status, 'processing')
  finish()
  const done = await sdk.predictions.get(id)
  t.is(done.status, 'succeeded')
  t.is((await fetch(done.output)).headers.get('content-type'), 'video/mp4')
  t.is((await sdk.predictions.list()).results.length, 1)
  await close()
})

test('200 run waits for the output', async t => {
  const started = await startReplicate({ autoFinish: 2 })
  const sdk = new Replicate({ auth: 'r8_test', baseUrl: `${started.url}/v1`, useFileOutput: false })
  const output = await sdk.run('acme/films', { input: { prompt: 'a fox' }, wait: { mode: 'poll', interval: 10 } })
  t.regex(String(output), /video\.mp4$/)
  await started.close()
})

test('200 cancelled, 404 unknown, 422 without an input, 429 throttled', async t => {
  const { sdk, emulator, close } = await world()
  const { id } = await sdk.predictions.create({ version: 'a'.repeat(64), input: {} })
  t.is((await sdk.predictions.cancel(id)).status, 'canceled')
  t.is((await sdk.predictions.get(id)).status, 'canceled')
  await t.throwsAsync(sdk.predictions.get('none'), { message: /404/ })
  await t.throwsAsync(sdk.predictions.create({ version: 'short', input: {} }), { message: /422/ })
  emulator.next(replicateError(429, 'Request was throttled.'))
  const answer = await fetch(`${emulator.url}/v1/predictions/${id}`)
  t.is(answer.status, 429)
  await close()
})

test('verified by the SDK: the reports the emulator sends', async t => {
  const { sdk, finish, callback, emulator, close } = await world()
  const webhook = `${emulator.url}/receiver`
  const { id } = await sdk.predictions.create({
    model: 'acme/films',
    input: {},
    webhook,
    webhook_events_filter: ['completed'],
  })
  finish(id)
  const { key } = await sdk.webhooks.default.secret.get()
  t.is(key, accountSecret)
  const { body, headers } = callback(id)
  const request = new Request('https://gateway.example/', { method: 'POST', headers, body: new Uint8Array(body) })
  t.true(await validateWebhook(request, key))
  await close()
})
