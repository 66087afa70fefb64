import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startHeygen } from '../emulators/heygen.ts'
import { realRate, startMagicHour } from '../emulators/magic-hour.ts'
import { startMeshy } from '../emulators/meshy.ts'
import { startRunway } from '../emulators/runway.ts'
import { startSync } from '../emulators/sync.ts'
import { eventually, freshStores, type Gateway, type Stores, startGateway } from '../support/gateway.ts'
import {
  answerOf,
  audio,
  booked,
  clip,
  dataUri,
  ended,
  image,
  over,
  rowOf,
  running,
  submit,
  wallet,
} from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { startWorkers, type Workers } from '../support/workers.ts'

let stores: Stores
let gateway: Gateway
let workers: Workers
const providers = new Map<string, Awaited<ReturnType<typeof startSync>>>()

test.before(async () => {
  stores = await freshStores()
  providers.set('sync', await startSync())
  providers.set('heygen', await startHeygen())
  providers.set('magic_hour', await startMagicHour())
  providers.set('meshy', await startMeshy())
  providers.set('runway', await startRunway())
  const env: Record<string, string> = {}
  for (const [name, { url }] of providers) {
    env[`${name.toUpperCase()}_API_KEY`] = 'key_1'
    env[`${name.toUpperCase()}_BASE_URL`] = url + (name === 'meshy' ? '/openapi' : '')
  }
  gateway = await startGateway(stores, env)
  workers = startWorkers(gateway.services)
})
test.after.always(async () => {
  await workers?.stop()
  await gateway?.close()
  for (const provider of providers.values()) await provider.close()
  await stores?.drop()
})

test('lip sync: charged once, by the longer of audio and video', async t => {
  const account = await gateway.account()
  const body = { model: 'lipsync-2', video_url: await clip(4), audio_url: audio(6) }
  const job = await submit(gateway, '/v1/lipsync', account.live, body)
  // 0.05 USD a second, 5 % margin, 6 s.
  t.like(job, { object: 'lipsync.job', cost_usd: 0.315 })
  await running(gateway, job.id)
  providers.get('sync')!.finish()
  t.like(await over(gateway, account.live, '/v1/lipsync', job.id), { status: 'completed', cost_usd: 0.315 })
  t.deepEqual(await booked(gateway, job.id), [-0.315])
  t.deepEqual(await gateway.settled(), [])
})

/** Its editor shows 3.516 s of the six that are in the file. */
const shortened = dataUri('video/quicktime', readFileSync(join(import.meta.dirname, '../fixtures/media/shortened.mov')))
const shownS = 3.516

const shortenedJobs: [kind: string, path: string, body: object, usdPerSecond: number][] = [
  ['lip sync', '/v1/lipsync', { model: 'lipsync-2', video_url: shortened, audio_url: audio(1) }, 0.05],
  ['motion', '/v1/videos', { model: 'runway-act-two', start_image_url: image, input_video_url: shortened }, 0.05],
]
for (const [kind, path, body, usdPerSecond] of shortenedJobs) {
  test(`${kind}: a clip that was shortened in an editor is charged by what it shows`, async t => {
    const account = await gateway.account()
    const { cost_usd: costUsd } = await submit(gateway, path, account.live, body)
    t.true(Math.abs(costUsd - usdPerSecond * 1.05 * shownS) < 1e-9, `${costUsd} USD`)
  })
}

test('face swap: the provider is sent the range that a clip shows, and its invoice is of that', async t => {
  const account = await gateway.account()
  const body = { video_url: shortened, face_image_url: image, source_face_consent: true }
  const job = await submit(gateway, '/v1/face-swap', account.live, body)
  await running(gateway, job.id)
  const provider = providers.get('magic_hour')!
  const work = [...provider.works.values()].find(({ body }) => body.name === job.id)!
  t.like(work.body, { start_seconds: 0, end_seconds: shownS })
  provider.finish(work.id)
  const done = await over(gateway, account.live, '/v1/face-swap', job.id)
  t.is(done.cost_usd, Number((Math.ceil(shownS * realRate) * 0.000945).toFixed(9)))
})

test('face swap: held, then settled by the provider’s invoice', async t => {
  const account = await gateway.account()
  const body = { video_url: await clip(10), face_image_url: image, source_face_consent: true }
  const job = await submit(gateway, '/v1/face-swap', account.live, body)
  t.like(job, { object: 'face_swap.job', model: 'magic-hour-face-swap', cost_usd: null })
  // At most 3,600 credits for 60 s at 0.0009 USD, so 600 for these 10 s; 5 % margin.
  const heldUsd = 0.567
  t.like(await wallet(gateway, account), { balance_usd: 25, available_usd: 25 - heldUsd, reserved_usd: heldUsd })
  t.deepEqual(await gateway.settled(), [])
  await running(gateway, job.id)
  providers.get('magic_hour')!.finish()
  const done = await over(gateway, account.live, '/v1/face-swap', job.id)
  const costUsd = Number((10 * realRate * 0.000945).toFixed(9))
  t.like(done, { status: 'completed', cost_usd: costUsd })
  t.deepEqual(await booked(gateway, job.id), [-costUsd])
  t.like(await wallet(gateway, account), { balance_usd: 25 - costUsd, reserved_usd: 0 })
  t.deepEqual(await gateway.settled(), [])
})

test('face swap: nothing is charged when it fails, the hold when it is cancelled late, nothing when early', async t => {
  const account = await gateway.account()
  const provider = providers.get('magic_hour')!
  const body = { video_url: await clip(10), face_image_url: image, source_face_consent: true }
  const first = await submit(gateway, '/v1/face-swap', account.live, body)
  await running(gateway, first.id)
  provider.fail([...provider.works.values()].find(({ body }) => body.name === first.id)?.id)
  t.like(await over(gateway, account.live, '/v1/face-swap', first.id), { status: 'failed', cost_usd: 0 })
  const second = await submit(gateway, '/v1/face-swap', account.live, body)
  await running(gateway, second.id)
  const cancelled = await gateway.fetch(`/v1/face-swap/${second.id}/cancel`, { key: account.live, method: 'POST' })
  t.like(await answerOf(cancelled), { status: 'cancelled', cost_usd: 0.567 })
  t.like(await wallet(gateway, account), { balance_usd: 25 - 0.567, reserved_usd: 0 })
  t.deepEqual(await gateway.settled(), [])
})

test('talking avatar: held by its script, settled by the length of the video', async t => {
  const account = await gateway.account()
  const body = { avatar_id: 'look_0', script: 'Good morning to everybody out there. '.repeat(20), voice_id: 'voice_0' }
  const job = await submit(gateway, '/v1/avatars/videos', account.live, { ...body, resolution: '1080p' })
  t.like(job, { object: 'avatar_video.job', model: 'heygen-avatar-iv', cost_usd: null })
  const { reserved_usd: heldUsd } = await wallet(gateway, account)
  t.true(heldUsd > 0)
  await running(gateway, job.id)
  providers.get('heygen')!.finish()
  const done = await over(gateway, account.live, '/v1/avatars/videos', job.id)
  const [{ duration_s: seconds }] = done.outputs
  t.true(seconds > 0)
  t.is(done.cost_usd, Number((seconds * 0.0667 * 1.05).toFixed(9)))
  t.true(done.cost_usd < heldUsd)
  t.deepEqual(await booked(gateway, job.id), [-done.cost_usd])
  t.like(await wallet(gateway, account), { reserved_usd: 0 })
  t.deepEqual(await gateway.settled(), [])
})

test('400 consent_required where a face is used without it', async t => {
  const account = await gateway.account()
  const bodies: [string, object][] = [
    ['/v1/face-swap', { video_url: image, face_image_url: image }],
    ['/v1/face-swap', { video_url: image, face_image_url: image, source_face_consent: false }],
    ['/v1/face-swap', { video_url: image, face_image_url: image, source_face_consent: 'true' }],
    ['/v1/avatars/videos', { image_url: image, audio_url: audio(2) }],
    ['/v1/avatars/videos', { image_url: image, audio_url: audio(2), source_face_consent: false }],
  ]
  for (const [path, body] of bodies) {
    for (const key of [account.live, account.test]) {
      const response = await gateway.fetch(path, { key, body })
      t.is(response.status, 400)
      t.like((await answerOf(response)).error, { code: 'consent_required', param: 'source_face_consent' })
    }
  }
})

test('mesh: a flat price once, for both parts of the work', async t => {
  const account = await gateway.account()
  const meshy = providers.get('meshy')!
  const job = await submit(gateway, '/v1/meshes', account.live, { model: 'meshy-6', prompt: 'A wooden chest' })
  t.regex(job.id, /^mesh_/)
  t.like(job, { object: 'mesh.job', cost_usd: 0.525, mesh: null })
  await running(gateway, job.id)
  meshy.finish()
  const parts = () => meshy.emulator.requests.filter(({ method }) => method === 'POST').map(({ body }) => body.mode)
  await eventually(async () => {
    await gateway.services.pollSchedule.wake(job.id, 0)
    return parts().length === 2 && (await rowOf(gateway, job.id)).stage === 'running'
  }, 'the second part runs')
  const completed = await ended(gateway, account.live, '/v1/meshes', job.id, () => meshy.finish())
  t.like(completed, { status: 'completed', cost_usd: 0.525 })
  t.regex(completed.mesh.glb, /^http/)
  t.true(completed.mesh.textures.length > 0)
  t.is(completed.url, completed.mesh.glb)
  t.deepEqual(parts(), ['preview', 'refine'])
  t.deepEqual(await booked(gateway, job.id), [-0.525])
  t.deepEqual(await gateway.settled(), [])
})
