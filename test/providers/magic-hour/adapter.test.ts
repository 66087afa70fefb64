import magicHourSdk from 'magic-hour'
import { magicHour } from '../../../shared/providers/adapters/magic-hour/protocol.ts'
import { magicHourError, realRate, startMagicHour } from '../../emulators/magic-hour.ts'
import { callOf, queuedConformance } from '../../support/jobs/queued-adapter.ts'
import { assertFailures, assertReports, bench } from '../../support/jobs/slow-work.ts'
import { imageSource, videoSource } from '../../support/jobs/sources.ts'
import { test } from '../../support/test.ts'

const input = { seconds: 10.5, maxSeconds: 60, sourceFaceConsent: true } as const
const call = (seconds = 10.5) =>
  callOf<'face_swap'>(
    'magic_hour',
    'magic-hour-face-swap',
    { ...input, seconds },
    { video_url: videoSource, face_image_url: imageSource },
  )
const { adapter, using, started, shown, refused } = bench('magic_hour', magicHour, 'face_swap', startMagicHour)

queuedConformance(test, {
  name: 'magic_hour',
  provider: 'magic_hour',
  protocol: magicHour,
  kind: 'face_swap',
  start: startMagicHour,
  call,
  replies: {
    invalid: magicHourError(422, 'end_seconds is past the end of the video'),
    rateLimited: magicHourError(429, 'Too many requests'),
    quota: magicHourError(402, 'Payment required'),
  },
})

test('started at Magic Hour: the exact request', async t => {
  const { path, headers, body } = await started(call())
  t.is(path, '/v1/face-swap')
  t.is(headers.authorization, 'Bearer secret-key-of-the-gateway:and-its-other-half')
  t.deepEqual(body, {
    name: 'job_conformance0',
    start_seconds: 0,
    end_seconds: 10.5,
    assets: {
      video_source: 'file',
      video_file_path: 'https://files.example/clip.mp4',
      image_file_path: 'https://files.example/face.png',
      face_swap_mode: 'all-faces',
    },
    style: { version: 'default' },
  })
})

test('started: the version that the deployment names', async t => {
  const whole = call()
  const deployment = { ...whole.target.deployment, traits: { version: 'v2' } }
  const { body } = await started({ ...whole, target: { ...whole.target, deployment } })
  t.deepEqual(body.style, { version: 'v2' })
})

test('400 for a video that is too short, before anything is sent', async t => {
  t.is(await refused(t, call(0.1)), 'video_url')
})

test('completed: the invoice is what the completed project says, not the estimate', async t => {
  await using(async ({ finish }, connection) => {
    const operation = await adapter.start(call(), connection, null)
    finish()
    const report = await adapter.check(operation, connection)
    t.like(report, { status: 'completed', invoice: { seconds: null, credits: 10.5 * realRate } })
  })
})

test('reported by Magic Hour: every status', async t => {
  const done = { status: 'complete', credits_charged: 252, downloads: [{ url: 'https://d.example/a.mp4' }] }
  const error = (code: string, message: string) => ({ status: 'error', credits_charged: 0, error: { code, message } })
  await assertReports(t, answer => shown(answer, { id: 'a' }), [
    [{ status: 'draft' }, 'pending'],
    [{ status: 'queued', credits_charged: 315 }, 'pending'],
    [{ status: 'rendering' }, 'pending'],
    [done, 'completed'],
    [{ ...done, downloads: [] }, 'failed: invalid_response'],
    [{ ...done, credits_charged: -1 }, 'failed: invalid_response'],
    [error('no_source_face', 'Please use another image'), 'failed: invalid_request'],
    [error('unknown_error', 'Please try again later'), 'failed: server_error'],
    [error('moderation', 'The video was refused'), 'failed: content_filter'],
    [{ status: 'error', error: null }, 'failed: server_error'],
    [{ status: 'canceled', credits_charged: 0 }, 'failed: server_error'],
    [{ status: 'archived' }, 'throws invalid_response'],
    [null, 'throws invalid_response'],
  ])
  t.deepEqual(await shown(done, { id: 'a' }), {
    status: 'completed',
    output: { files: [{ role: 'video', url: 'https://d.example/a.mp4' }], durationS: null },
    invoice: { seconds: null, credits: 252 },
  })
  t.like(await shown({ ...done, credits_charged: undefined }, { id: 'a' }), {
    status: 'completed',
    invoice: { credits: null },
  })
})

test('refused: every error of the documentation', t => {
  assertFailures(t, magicHour, [
    [400, { message: 'start_seconds is required' }, 'invalid_request', 'start_seconds is required'],
    [
      401,
      { message: 'Unauthorized' },
      'auth',
      "The provider refused the gateway's credentials. Tell the operator of this service.",
    ],
    [
      402,
      { message: 'Payment' },
      'quota',
      "The gateway's account at the provider has no credit left. Tell the operator of this service.",
    ],
    [404, { message: 'Not Found' }, 'model_unavailable'],
    [422, { message: 'You do not have enough credits to perform this action' }, 'quota'],
    [422, { message: 'Video is too long' }, 'invalid_request', 'Video is too long'],
    [429, { message: 'Slow down' }, 'rate_limited'],
    [500, '', 'server_error', 'The provider answered with status 500.'],
    [503, { message: '' }, 'overloaded'],
  ])
})

test('the official SDK works with the emulator', async t => {
  const { url, finish, fail, close } = await startMagicHour()
  t.teardown(close)
  const client = new magicHourSdk.default({ token: 'mhk_1', baseUrl: url })
  const asked = {
    startSeconds: 0,
    endSeconds: 10,
    assets: {
      videoSource: 'file' as const,
      videoFilePath: 'https://v.example/a.mp4',
      imageFilePath: 'https://i.example/a.png',
      faceSwapMode: 'all-faces' as const,
    },
    style: { version: 'v1' as const },
  }
  const { id, creditsCharged } = await client.v1.faceSwap.create(asked)
  t.is(creditsCharged, 300)
  t.is((await client.v1.videoProjects.get({ id })).status, 'queued')
  finish(id)
  const done = await client.v1.videoProjects.get({ id })
  t.deepEqual([done.status, done.creditsCharged, done.error], ['complete', 10 * realRate, null])
  const file = await fetch(done.downloads[0]!.url)
  t.is(file.headers.get('content-type'), 'video/mp4')
  const other = await client.v1.faceSwap.create(asked)
  fail(other.id)
  const failed = await client.v1.videoProjects.get({ id: other.id })
  t.deepEqual([failed.status, failed.creditsCharged, failed.error?.code], ['error', 0, 'no_source_face'])
  await client.v1.videoProjects.delete({ id })
  await t.throwsAsync(client.v1.videoProjects.get({ id }), { message: /404/ })
  await t.throwsAsync(client.v1.faceSwap.create({ ...asked, endSeconds: 0 }), { message: /400/ })
  const stranger = new magicHourSdk.default({ token: 'invalid', baseUrl: url })
  await t.throwsAsync(stranger.v1.faceSwap.create(asked), { message: /401/ })
})
